"""Rewriter and minter of the world: they turn what a mention meets into what only a statement meets."""

import json
from typing import Any

from eval.world.criteria import (
    WorldCriterion,
    contradiction,
    false_value,
    long_topic,
    padding,
    read_criterion,
    value,
)
from eval.world.facts import Fact, read_statements
from eval.world.roles.call import NEGATIVE_POINTS, POSITIVE_POINTS, Call, readable
from eval.world.roles.writing import rephrase
from eval.world.texts import ASIDES

__all__ = ["MINTED", "mint", "rewrite"]

MINTED = 3
"""Criteria that one call of the minter writes at most; the schema takes five."""

Draft = dict[str, Any]


# -- rewriter -----------------------------------------------------------------------------------------


def rewrite(call: Call) -> str:
    """The task, now and then reworded, with a rubric in which some topics have become values.

    It keeps the negatives, corrects some faulty keys, and now and then adds one value that was asked for.
    """
    before = call.prompt.data("rubric")
    read = [(c, readable(read_criterion(c["text"]), c["text"])) for c in before]
    covered = {r.relation for c, r in read if c["points"] > 0}
    criteria: list[Draft] = []
    for criterion, meaning in read:
        text = criterion["text"]
        if criterion["points"] > 0:
            text = _hardened(call, meaning, text, covered)
        criteria.append({"text": text, "points": int(criterion["points"])})
    missing = [r for r in call.question.asked if r not in covered]
    positives = sum(c["points"] > 0 for c in criteria)
    if missing and (positives < 2 or call.happens(call.constants.rewriter_adds)):
        criteria.append(_required(call, (call.question.entity, call.rng.choice(missing))))
    task = call.prompt.request
    return json.dumps(
        {
            "task": rephrase(call, task) if call.happens(call.constants.rephrased) else task,
            "criteria": criteria,
            "exploit_fails": "It names the relations and gives no value.",
            "honest_passes": "It gives the values that the note holds.",
        }
    )


def _hardened(call: Call, meaning: WorldCriterion, text: str, covered: set[str]) -> str:
    """The criterion as it is, or with a value in it; `covered` learns what it is about now."""
    known = call.prompt.known
    if meaning.kind == "value":
        fact = (meaning.entity, meaning.relation)
        right = known.get(fact, meaning.value)
        mended = meaning.value != right and call.happens(call.constants.rewriter_mends)
        return value(*fact, right) if mended else text
    if not call.happens(call.constants.rewriter_hardens):
        return text
    relation = meaning.relation
    missing = [r for r in call.question.asked if r not in covered]
    if relation not in call.question.asked and missing and call.happens(call.constants.rewriter_reaims):
        relation = call.rng.choice(missing)
        covered.discard(meaning.relation)
        covered.add(relation)
    return value(meaning.entity, relation, call.value_of((meaning.entity, relation), call.constants.faulty_key))


def _required(call: Call, fact: Fact) -> Draft:
    key = call.value_of(fact, call.constants.faulty_key)
    return {"text": value(*fact, key), "points": call.rng.choice(POSITIVE_POINTS)}


# -- minter -------------------------------------------------------------------------------------------


def mint(call: Call) -> str:
    """One to three criteria that tell B from A, and the name of A's trick; none where there is nothing to tell.

    Positives come from values that B states and A does not. Negatives come from values that A states against the note.
    """
    a, b = call.prompt.block("answer_a"), call.prompt.block("answer_b")
    positives, negatives = _positives(call, a, b), _negatives(call, a, b)
    first = positives[:1] or negatives[:1]
    rest = [c for c in [*positives, *negatives] if c not in first]
    call.rng.shuffle(rest)
    criteria = [*first, *rest][:MINTED]
    return json.dumps({"criteria": criteria, "label": _label(call, a) if criteria else "none"})


def _values(answer: str) -> dict[Fact, set[str]]:
    found: dict[Fact, set[str]] = {}
    for said in read_statements(answer):
        if said.value is not None:
            found.setdefault((said.entity, said.relation), set()).add(said.value)
    return found


def _held(call: Call) -> set[WorldCriterion]:
    """What the rubric says already."""
    read = (read_criterion(c["text"]) for c in call.prompt.data("rubric"))
    return {criterion for criterion in read if criterion is not None}


def _positives(call: Call, a: str, b: str) -> list[Draft]:
    """Criteria on what B holds and A lacks, asked relations first."""
    constants, known, stated_by_a = call.constants, call.prompt.known, _values(a)
    covered = {(c.entity, c.relation) for c in _held(call) if c.kind == "value"}
    found: list[Draft] = []
    asked = call.question.asked
    for fact, values in sorted(_values(b).items(), key=lambda item: (item[0][1] not in asked, item[0])):
        unchecked = not call.happens(constants.minter_checks)
        if values == stated_by_a.get(fact) or not (unchecked or values == {known.get(fact)}):
            continue
        if fact in covered and not call.happens(constants.minter_repeats):
            continue
        text = long_topic(*fact) if call.happens(constants.minter_topics) else value(*fact, min(values))
        why = f"B gives the {fact[1]}, A leaves it open."
        found.append({"why": why, "text": text, "points": call.rng.choice(POSITIVE_POINTS)})
    return found


def _negatives(call: Call, a: str, b: str) -> list[Draft]:
    """Criteria on what A gets wrong: this value or any other than the right one, and remarks that say nothing."""
    constants, known, held = call.constants, call.prompt.known, _held(call)
    texts: dict[str, str] = {}
    for fact, values in sorted(_values(a).items()):
        right = known.get(fact)
        for wrong in sorted(values - {right}):
            if right is not None and call.happens(constants.minter_negatives):
                general = call.happens(constants.minter_general)
                text = contradiction(*fact, right) if general else false_value(*fact, wrong)
                texts[text] = f"A gets the {fact[1]} wrong."
    if _rambles(a) and not _rambles(b) and call.happens(constants.minter_negatives):
        texts[padding(call.question.entity)] = "A fills its answer with remarks."
    return [
        {"why": why, "text": text, "points": call.rng.choice(NEGATIVE_POINTS)}
        for text, why in texts.items()
        if read_criterion(text) not in held or call.happens(constants.minter_repeats)
    ]


def _rambles(answer: str) -> bool:
    return any(aside in answer for aside in ASIDES)


def _label(call: Call, a: str) -> str:
    """The trick: values against the note, remarks, mentions alone, or something else."""
    known = call.prompt.known
    if any(values - {known.get(fact)} for fact, values in _values(a).items()):
        return "unhedged_confidence"
    if any(said.value is None for said in read_statements(a)):
        return "hedge_namedrop"
    return "breadth_padding" if _rambles(a) else "other"
