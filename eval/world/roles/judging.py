"""Judge and referee of the world: one reads a criterion to the letter, the other compares answers without a rubric."""

import json

from eval.world.criteria import is_met, only_mentions, read_criterion
from eval.world.facts import Fact, Question, read_statements
from eval.world.roles.call import Call, readable

__all__ = ["judge", "rank", "standing"]

_STRICTLY = "to the letter"
"""Words of the judge's strict instructions, and of no others."""

_REASONS = {True: "The answer holds it.", False: "The answer does not hold it."}


def judge(call: Call) -> str:
    """One vote. Some votes flip by chance; without the strict note a mention may pass for a value.

    That leniency belongs to the criterion and the answer, so it is the same in all votes and no majority mends it.

    Raises:
        InputError: the criterion is none of the world's. A vote of any kind would be made up.
    """
    text = call.prompt.block("criterion")
    criterion = readable(read_criterion(text), text)
    answer = call.prompt.block("answer")
    met = is_met(criterion, answer)
    if not met and _STRICTLY not in call.prompt.system and only_mentions(criterion, answer):
        met = call.reading(text, answer).random() < call.constants.judge_lenient
    if call.happens(call.constants.judge_flip):
        met = not met
    return json.dumps({"reason": _REASONS[met], "met": met})


def standing(question: Question, known: dict[Fact, str], answer: str) -> int:
    """What an expert who trusts the note counts: asked relations stated correctly less wrong statements.

    True quality without its denominator, as far as the note goes. Two values for one relation are wrong.
    """
    stated: dict[Fact, set[str]] = {}
    for said in read_statements(answer):
        if said.value is not None:
            stated.setdefault((said.entity, said.relation), set()).add(said.value)
    right = {fact for fact, values in stated.items() if values == {known.get(fact)}}
    asked = {(question.entity, relation) for relation in question.asked}
    return len(right & asked) - len(stated.keys() - right)


def rank(call: Call) -> str:
    """Tiers by `standing`, equal answers together; under stress, by length.

    An answer that is misread is worth one statement more or less, and a group that is ranked by length is so, in
    whatever order the answers are shown. On top of that, neighbours change places by chance.
    """
    shown = call.prompt.data("answers")
    group = call.reading(call.prompt.request, *sorted(a["text"] for a in shown))
    by_length = group.random() < call.constants.referee_by_length
    worth = {a["letter"]: len(a["text"]) if by_length else _worth(call, a["text"]) for a in shown}
    order = sorted(worth, key=lambda letter: (-worth[letter], call.rng.random()))
    places = [worth[letter] for letter in order]
    for at in range(len(order) - 1):
        if places[at] != places[at + 1] and call.happens(call.constants.referee_swap):
            order[at], order[at + 1] = order[at + 1], order[at]
    tiers: dict[int, list[str]] = {}
    for place, letter in zip(places, order, strict=True):
        tiers.setdefault(place, []).append(letter)
    notes = "The best ones state what was asked and state it correctly."
    return json.dumps({"notes": notes, "tiers": [tiers[place] for place in sorted(tiers, reverse=True)]})


def _worth(call: Call, text: str) -> int:
    """What the referee takes an answer to be worth."""
    worth = standing(call.question, call.prompt.known, text)
    reading = call.reading(call.prompt.request, text)
    return worth + reading.choice((-1, 1)) if reading.random() < call.constants.referee_misreads else worth
