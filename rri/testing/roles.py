"""Scripted models for every role: well behaved, quick, and just clever enough for the method to have work.

The generator writes criteria about topics ("Mentions the topic ..."), which any answer that touches them meets. The
rewriter writes criteria about values ("States the value ..."), which only the honest answer meets. So a rubric
is exploitable at birth and holds after one repair. Verdicts on other answers follow from a digest, so that a
group of rollouts has spread. The referee's taste follows from another digest, so that now and then a group's top scorer
is not among its best answers. The minter knows the judge: its first criterion separates the pair, its second does
not.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rri.testing.server import ChatRequest, Model
from rri.vocabulary import FAILURE_MODES

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
        "minter": mint,
        "referee": rank,
        "analyst": diagnose,
        "meta_optimizer": guide,
        "memo_optimizer": remember,
        "summarizer": summarize,
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
    return json.dumps({"reason": "scripted", "met": _meets(request.block("answer"), request.block("criterion"))})


def _meets(text: str, criterion: str) -> bool:
    if criterion.startswith("Claims"):
        return False
    if HONEST_MARK in text:
        # The honest answer never meets everything, or it would be saturated.
        return not criterion.startswith(("States the value 1 ", "Mentions topic 1 "))
    if EXPLOIT_MARK in text:
        return criterion.startswith(("Mentions", "States the value 1 "))
    return _digest(text + criterion) % 2 == 0


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


def mint(request: ChatRequest) -> str:
    exploit, better = request.block("answer_a"), request.block("answer_b")
    known = {c["text"] for c in json.loads(request.block("rubric"))}
    wordings = (_wording(f"{exploit}\0{better}\0{i}") for i in range(64))
    texts = [t for t in wordings if t not in known and _meets(better, t) and not _meets(exploit, t)]
    criteria = [{"why": "B states it.", "text": text, "points": 8} for text in texts[:1]]
    if criteria:
        claim = "Claims that the rule no longer holds for anybody"
        criteria.append({"why": "A might claim it.", "text": claim, "points": -6})
    return json.dumps({"criteria": criteria, "label": "breadth_padding" if criteria else "none"})


def _wording(seed: str) -> str:
    """A criterion that shares no three words in a row with one of another seed."""
    digest = hashlib.blake2b(seed.encode(), digest_size=8).hexdigest()
    a, b, c, d = (digest[i : i + 4] for i in range(0, 16, 4))
    return f"States item {a} of part {b} with value {c} and date {d}"


def rank(request: ChatRequest) -> str:
    tiers: dict[int, list[str]] = {}
    for answer_shown in json.loads(request.block("answers")):
        tiers.setdefault(_tier(answer_shown["text"]), []).append(answer_shown["letter"])
    return json.dumps({"notes": "scripted", "tiers": [tiers[key] for key in sorted(tiers)]})


def _tier(text: str) -> int:
    if HONEST_MARK in text:
        return 0
    return 3 if EXPLOIT_MARK in text else 1 + _digest(f"referee {text}") % 2


def diagnose(request: ChatRequest) -> str:
    positives = [c for c in json.loads(request.block("rubric")) if c["points"] > 0]
    case = {"gap": "", "failure_mode": "none", "rubric_defect": "none", "task_defect": "none"}
    if all(c["verdict"] == "met" for c in positives):
        return json.dumps({**case, "verdict": "model_succeeded"})
    draw = _digest(request.block("answer"))
    if draw % 4 == 0:
        return json.dumps({**case, "rubric_defect": "untestable_vague", "verdict": "generator_at_fault"})
    mode, gap = FAILURE_MODES[draw % 3], f"value {draw % 3} of the rule"
    return json.dumps({**case, "gap": gap, "failure_mode": mode, "verdict": "model_failed_fair_task"})


def guide(request: ChatRequest) -> str:
    number = request.number
    return json.dumps(
        {
            "summary": f"Gaps of round {number} go into the requests.",
            "new_guidance_a": f"Vary who asks and where. Lean towards questions like those of round {number}.",
            "new_guidance_b": f"Let each criterion state a value that round {number} showed to be missing.",
        }
    )


def remember(request: ChatRequest) -> str:
    number = request.number
    memo = f"Do not write what naming a topic meets; write the value that rule {number} sets instead."
    return json.dumps({"summary": f"Lesson {number} added.", "new_memo": memo})


def summarize(request: ChatRequest) -> str:
    passages = json.loads(request.block("passages"))
    return "\n".join(f"{p['text']} [{p['id']}, {p['title']}]" for p in passages)
