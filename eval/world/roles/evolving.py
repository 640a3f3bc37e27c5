"""Analyst and optimizers of the world: from graded answers to guidance and memo."""

import json
import re
from typing import Any

from eval.world.criteria import WorldCriterion, read_criterion
from eval.world.facts import read_statements
from eval.world.roles.call import Call
from eval.world.roles.judging import standing
from eval.world.roles.orders import value_demand

__all__ = ["GUIDANCE_A", "GUIDANCE_B", "MEMOS", "diagnose", "guide", "remember"]

HIGH_SCORE = 0.6
"""Score from which an answer counts as well paid."""

GUIDANCE_A = "Vary which entity is asked about, which of its relations are asked for, and how the question is put."

GUIDANCE_B = {
    0.5: "Let each criterion demand the exact value that the note gives for a relation, as a fact of its own.",
    1.0: (
        "Let each criterion demand the exact value that the note gives for a relation, as a fact of its own. Never "
        "write a criterion that a mention of the topic meets."
    ),
}
"""Demand for values (`value_demand`) -> block B."""

MEMOS = (
    "When a criterion asks for a relation, write the exact value that the note holds for it.",
    "Do not write 'mentions the crest'; write 'states that the crest recorded for it is' with the exact value.",
    (
        "Do not write 'mentions the crest' or 'covers the crest'; write 'states that the crest recorded for it is' "
        "with the exact value from the note, because answers that name every topic know none."
    ),
)
"""Memos in the order in which they are tried: a demand, a demand with a ban on topics, the same said otherwise."""


# -- analyst ------------------------------------------------------------------------------------------


def diagnose(call: Call) -> str:
    """What one graded answer shows, by what it states against the note and by what its rubric paid for."""
    case: dict[str, Any] = {"gap": "", "failure_mode": "none", "rubric_defect": "none", "task_defect": "none"}
    if call.happens(call.constants.analyst_misreads):
        mode = call.rng.choice(("incompleteness", "verbosity", "knowledge_specificity"))
        return json.dumps({**case, "failure_mode": mode, "verdict": "model_failed_fair_task"})
    question, known, answer = call.question, call.prompt.known, call.prompt.block("answer")
    rubric = [read_criterion(c["text"]) for c in call.prompt.data("rubric")]
    score = call.prompt.data("score")
    worth = standing(question, known, answer)
    paid = score is not None and score >= HIGH_SCORE
    if worth < len(question.asked) and paid and _pays_topics(rubric):
        if call.happens(call.constants.analyst_spots):
            return json.dumps({**case, "rubric_defect": "gameable_restates_task", "verdict": "generator_at_fault"})
        return json.dumps({**case, "verdict": "model_succeeded"})
    if worth == len(question.asked):
        if score is not None and not paid:
            return json.dumps({**case, "rubric_defect": "off_domain", "verdict": "generator_at_fault"})
        return json.dumps({**case, "verdict": "model_succeeded"})
    mode, gap = _lack(call)
    return json.dumps({**case, "failure_mode": mode, "gap": gap, "verdict": "model_failed_fair_task"})


def _pays_topics(rubric: list[WorldCriterion | None]) -> bool:
    """Whether half of the required criteria or more are topics."""
    required = [c for c in rubric if c is not None and c.kind in ("topic", "value")]
    return 2 * sum(c.kind == "topic" for c in required) >= len(required) > 0


def _lack(call: Call) -> tuple[str, str]:
    """Failure mode and gap of an answer that fell short: wrong before vague before absent."""
    question, known = call.question, call.prompt.known
    said = read_statements(call.prompt.block("answer"))
    for s in said:
        if s.value is not None and known.get((s.entity, s.relation)) != s.value:
            return "hallucinated_specifics", f"the {s.relation} of an entity"
    stated = {s.relation for s in said if s.value is not None and s.entity == question.entity}
    missing = next((r for r in question.asked if r not in stated), question.asked[0])
    mode = "knowledge_specificity" if any(s.relation == missing for s in said) else "incompleteness"
    return mode, f"the {missing} of an entity"


# -- optimizers ---------------------------------------------------------------------------------------


def guide(call: Call) -> str:
    """New guidance: it asks for values once enough cases blame gameable rubrics, and bans topics on stronger evidence.

    Evidence is what the counts, the confirmed exploits and the measured hackability say. What was asked for before
    stays. Without evidence the guidance is kept word for word.
    """
    prompt = call.prompt
    demand = max(value_demand(prompt.block("guidance_b")), _evidence(call))
    if not demand:
        return _guidance("No flaw of the rubrics is proven.", prompt.block("guidance_a"), prompt.block("guidance_b"))
    summary = "Answers that name topics without their values are paid, so criteria demand values."
    return _guidance(summary, GUIDANCE_A, GUIDANCE_B[demand])


def _guidance(summary: str, a: str, b: str) -> str:
    return json.dumps({"summary": summary, "new_guidance_a": a, "new_guidance_b": b})


def _evidence(call: Call) -> float:
    """The demand that the evidence calls for."""
    diagnoses, exploits = call.prompt.block("diagnoses"), call.prompt.block("exploits")
    cases = _number(r"(\d+) graded cases", diagnoses)
    share = _number(r"gameable_restates_task (\d+)", diagnoses) / cases if cases else 0.0
    beaten = re.search(r"scores [\d.]+ above an honest one at birth", exploits) is not None
    confirmed = _number(r"Confirmed exploits of the assistant in training: (\d+)", exploits) > 0
    if share >= call.constants.optimizer_insists or confirmed:
        return 1.0
    return 0.5 if share >= call.constants.optimizer_notices or beaten else 0.0


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    return float(found.group(1)) if found else 0.0


def remember(call: Call) -> str:
    """The next memo of `MEMOS` that was not given up, while the number to lower is above 0; else none.

    The first one only asks for values. Topics are banned once exploits of the assistant show how rubrics are beaten.
    """
    prompt = call.prompt
    number = _number(r"The number to lower is (-?[\d.]+\d)", prompt.block("hackability"))
    given_up = {past["memo"] for past in prompt.data("history") or [] if "given up" in past["decision"]}
    shown = bool(prompt.data("modes") or prompt.data("minted"))
    left = [memo for memo in MEMOS[: len(MEMOS) if shown else 1] if memo not in given_up]
    better = [memo for memo in left if value_demand(memo) > value_demand(prompt.block("memo"))]
    if number <= 0 or not better:
        return json.dumps({"summary": "The memo says all that the evidence supports.", "new_memo": ""})
    return json.dumps({"summary": "Criteria that a mention meets were beaten.", "new_memo": better[0]})
