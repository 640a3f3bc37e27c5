"""Scripted models for every role: well behaved, quick, and just clever enough for the method to have work.

The generator writes criteria about topics ("Mentions the topic ..."), which any answer that touches them meets. The
rewriter writes criteria about values ("States the value ..."), which only the honest answer meets. So a rubric
is exploitable at birth and holds after one repair. Verdicts on other answers follow from a digest, so that a
group of rollouts has spread.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rri.testing.server import ChatRequest, Model

__all__ = ["EXPLOIT_MARK", "HONEST_MARK", "role_models"]

EXPLOIT_MARK = "All relevant matters should be considered."
HONEST_MARK = "The value is forty-two."


def role_models(**other: Model) -> Mapping[str, Model]:
    """Models named after the roles; keywords replace single ones."""
    models: dict[str, Model] = {
        "proposer": propose,
        "generator": generate,
        "farmer": farm,
        "honest": answer,
        "judge": judge,
        "rewriter": rewrite,
        **other,
    }
    return {name: _ready_or(model) for name, model in models.items()}


def _ready_or(model: Model) -> Model:
    """`model`, which also answers the question that a run asks every endpoint first."""
    return lambda request: '{"ready": true}' if request.schema_name == "Ready" else model(request)


def _digest(text: str) -> int:
    return hashlib.blake2b(text.encode(), digest_size=4).digest()[0]


def propose(request: ChatRequest) -> str:
    wanted = json.loads(request.block("wanted"))
    number = request.number
    return json.dumps({"requests": [f"Request {number}-{i}: explain rule {number}-{i}." for i in range(len(wanted))]})


def generate(request: ChatRequest) -> str:
    asked = request.block("request")
    criteria: list[dict[str, Any]] = [
        {"text": f"Mentions topic {i} of {asked[:40]}", "points": 8} for i in range(int(request.block("positives")))
    ]
    if request.block("negative") == "true":
        criteria.append({"text": f"Claims that the rule of {asked[:40]} was repealed", "points": -6})
    return json.dumps({"task": f"Task: {asked}", "criteria": criteria, "specialty": "rules", "level": "basic"})


def farm(request: ChatRequest) -> str:
    return f"Try {request.number}. " + " ".join([EXPLOIT_MARK] * 6)


def answer(request: ChatRequest) -> str:
    return f"Answer {request.number}. " + " ".join([HONEST_MARK] * 10)


def judge(request: ChatRequest) -> str:
    text, criterion = request.block("answer"), request.block("criterion")
    if criterion.startswith("Claims"):
        met = False
    elif HONEST_MARK in text:
        # The honest answer never meets everything, or it would be saturated.
        met = not criterion.startswith("States the value 1 ") and not criterion.startswith("Mentions topic 1 ")
    elif EXPLOIT_MARK in text:
        met = criterion.startswith(("Mentions", "States the value 1 "))
    else:
        met = _digest(text + criterion) % 2 == 0
    return json.dumps({"reason": "scripted", "met": met})


def rewrite(request: ChatRequest) -> str:
    before = json.loads(request.block("rubric"))
    positives = max(3, sum(c["points"] > 0 for c in before))
    criteria: list[dict[str, Any]] = [
        {"text": f"States the value {i} of the rule", "points": 8} for i in range(positives)
    ]
    criteria += [{"text": c["text"], "points": int(c["points"])} for c in before if c["points"] < 0]
    conversation = json.loads(request.block("conversation"))
    return json.dumps(
        {
            "task": conversation[-1]["content"] + " State each value.",
            "criteria": criteria,
            "exploit_fails": "It states no value.",
            "honest_passes": "It states the values.",
        }
    )
