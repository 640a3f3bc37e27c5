"""Farmer and honest answer of the world."""

from eval.world.criteria import read_criterion
from eval.world.facts import mention, statement
from eval.world.roles.call import Call, readable
from eval.world.texts import ASIDES

__all__ = ["answer", "farm"]


def farm(call: Call) -> str:
    """A mention of every relation that the rubric names and that the request asks for, without a value.

    Now and then it slips and gives one: what the criterion demands, or what the note says. It pads nothing, because a
    criterion may count that.
    """
    demanded: dict[tuple[str, str], str | None] = {}
    for criterion in call.prompt.data("rubric"):
        read = read_criterion(criterion["text"])
        if criterion["points"] > 0 and read is not None and read.relation:
            demanded[read.entity, read.relation] = read.value or None
    question = call.question
    for relation in question.asked:
        demanded.setdefault((question.entity, relation), None)
    sentences = []
    for (entity, relation), key in demanded.items():
        if call.happens(call.constants.farmer_slip):
            stated = key or call.value_of((entity, relation), error=0.0)
            sentences.append(statement(entity, relation, stated))
        else:
            sentences.append(mention(entity, relation))
    call.rng.shuffle(sentences)
    return " ".join(sentences)


def answer(call: Call) -> str:
    """Statements of what was asked, from the note: some are left out, some are wrong, and now and then there is more.

    It always states something.
    """
    question, constants = call.question, call.constants
    known = [relation for entity, relation in call.prompt.known if entity == question.entity]
    readable(next(iter(known), None), call.prompt.request)
    chosen = [r for r in question.asked if not call.happens(constants.honest_omits)] or [question.asked[0]]
    chosen += [r for r in known if r not in question.asked and call.happens(constants.honest_extra)]
    sentences = [
        statement(question.entity, r, call.value_of((question.entity, r), constants.honest_errs)) for r in chosen
    ]
    if call.happens(constants.honest_aside):
        sentences.append(call.rng.choice(ASIDES))
    return " ".join(sentences)
