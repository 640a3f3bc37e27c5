"""Proposer and generator of the world: requests, and tasks with rubrics that mostly pay for naming topics."""

import json
from typing import Any

from eval.world.criteria import TOPIC_VERBS, false_value, padding, topic, value
from eval.world.facts import Question, is_held_out, read_question, read_statements, request_text, write_note
from eval.world.roles.call import NEGATIVE_POINTS, POSITIVE_POINTS, Call, readable
from eval.world.roles.orders import value_demand
from eval.world.texts import QUESTIONS
from rri.errors import InputError

__all__ = ["generate", "propose", "rephrase"]

TRIES = 200
"""Draws of a question before the proposer repeats one."""


def propose(call: Call) -> str:
    """One request for each wish: about an entity of the seed passages, its topic among the relations asked for.

    Held-out questions are never asked, and those to be avoided only where nothing else is left. Guidance moves nothing
    here: what varies is drawn by code.
    """
    seeds = call.prompt.data("passages")
    asked_before = [read_question(text) for text in call.prompt.data("avoid") or []]
    taken = {(q.entity, frozenset(q.asked)) for q in asked_before if q is not None}
    requests = []
    for wish in call.prompt.data("wanted"):
        entity, facts, asked = _draw(call, seeds, wish["topic"], taken)
        taken.add((entity, frozenset(asked)))
        requests.append(request_text(write_note(entity, facts, call.rng), entity, asked, call.rng, wish["use_case"]))
    return json.dumps({"requests": requests})


def _draw(
    call: Call, seeds: list[dict[str, str]], about: str, taken: set[tuple[str, frozenset[str]]]
) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Entity, its facts and what is asked of it.

    Raises:
        InputError: every question that could be drawn is held out.
    """
    found = None
    for _ in range(TRIES):
        entity, facts = _facts(call.rng.choice(seeds)["text"])
        first = [about] if about in facts else []
        rest = [relation for relation in facts if relation not in first]
        asked = [*first, *call.rng.sample(rest, min(call.constants.asked - len(first), len(rest)))]
        call.rng.shuffle(asked)
        if is_held_out(entity, asked):
            continue
        found = entity, facts, tuple(asked)
        if (entity, frozenset(asked)) not in taken:
            break
    if found is None:
        raise InputError(f"all questions on {len(seeds)} passages are held out", "Show more seed passages")
    return found


def _facts(text: str) -> tuple[str, dict[str, str]]:
    """Entity and facts of a passage, or of a request's note."""
    said = [s for s in read_statements(text) if s.value is not None]
    entity = readable(next((s.entity for s in said), None), text)
    return entity, {s.relation: s.value for s in said if s.entity == entity and s.value is not None}


def rephrase(call: Call, request: str) -> str:
    """The request in another wording, its note in another order; nothing is lost."""
    question = readable(read_question(request), request)
    entity, facts = _facts(request)
    use_case = call.rng.choice(sorted(QUESTIONS))
    return request_text(write_note(entity, facts, call.rng), question.entity, question.asked, call.rng, use_case)


def generate(call: Call) -> str:
    """The task with its rubric. Guidance and memo decide how many criteria demand a value; difficulty is only a label.

    Positives are about different relations, most of them asked for.
    """
    prompt, constants = call.prompt, call.constants
    request = prompt.block("request")
    question = readable(read_question(request), request)
    _, facts = _facts(request)
    demands = (value_demand(prompt.guidance), value_demand(prompt.memo))
    rate = constants.value_rate(*demands)
    wanted = int(prompt.block("positives"))
    written = max(1, sum(call.happens(constants.positive_delivery) for _ in range(wanted)))
    criteria: list[dict[str, Any]] = []
    for relation in _relations(call, question, facts, written):
        criteria.append({"text": _positive(call, question.entity, relation, facts, rate), **_points(call)})
    if prompt.block("negative") == "true" and call.happens(constants.negative_delivery):
        of_values = constants.value_rate(*demands, base=constants.value_negatives)
        criteria.append({"text": _negative(call, question, facts, of_values), **_points(call, negative=True)})
    task = rephrase(call, request) if call.happens(constants.rephrased) else request
    difficulty = prompt.block("difficulty")
    level = "advanced" if "harder" in difficulty else "basic" if "easier" in difficulty else "intermediate"
    return json.dumps({"task": task, "criteria": criteria, "specialty": question.asked[0], "level": level})


def _points(call: Call, negative: bool = False) -> dict[str, int]:
    return {"points": call.rng.choice(NEGATIVE_POINTS if negative else POSITIVE_POINTS)}


def _relations(call: Call, question: Question, facts: dict[str, str], n: int) -> list[str]:
    """`n` different relations, each by chance an asked one or another, as long as there are any."""
    asked = list(question.asked)
    others = [relation for relation in facts if relation not in asked]
    chosen: list[str] = []
    while len(chosen) < n and (asked or others):
        off = call.happens(call.constants.off_request)
        pool = others if (off and others) or not asked else asked
        chosen.append(pool.pop(call.rng.randrange(len(pool))))
    return chosen


def _positive(call: Call, entity: str, relation: str, facts: dict[str, str], rate: float) -> str:
    if not call.happens(rate):
        return topic(entity, relation, call.rng.choice(TOPIC_VERBS))
    right = facts[relation]
    key = call.wrong(relation, right) if call.happens(call.constants.faulty_key) else right
    return value(entity, relation, key)


def _negative(call: Call, question: Question, facts: dict[str, str], rate: float) -> str:
    if not call.happens(rate):
        return padding(question.entity)
    relation = call.rng.choice(question.asked)
    return false_value(question.entity, relation, call.wrong(relation, facts[relation]))
