"""Models of a whole loop whose every word and verdict follows from a seed, with faults at random in every role.

An answer's first word says how it was written, and a criterion's text decides who meets it:

- attacks of the farmer meet what names a topic or blames an error, honest answers what states a value,
- answers of the policy are `Game` (they meet most of what a rubric was born with, and less of what was minted since),
  `Good` (mostly like an honest one) or `Plain`,
- `Sure` and `Copy` are exactly like an attack and an honest one, so that whole groups earn the same.

The referee ranks by the same words. Every second memo makes rubrics worse, so that it has to be rolled back.
"""

import json
import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rri.scoring import raw_score
from rri.testing import ChatRequest, Fault, FaultMix, empty, garbage, hang, other_json, reset, status, truncated
from rri.testing.roles import diagnose
from rri.types import Criterion, Rubric
from rri.wire import Row, ServedTask

__all__ = ["CHEAP", "HARD", "SOLID", "TRAP", "LoopWorld"]

FAULTS = {
    status(429): 0.01,
    status(500): 0.01,
    status(400): 0.008,
    reset(): 0.004,
    garbage(): 0.004,
    empty(): 0.004,
    truncated(): 0.008,
    other_json(): 0.008,
    hang(): 0.0003,
}
"""Share of requests of every role."""

Kind = tuple[bool, bool]
"""Whether an attack and whether an honest answer meets a criterion."""
CHEAP, TRAP, SOLID, HARD = (True, True), (True, False), (False, True), (False, False)
KINDS: dict[str, dict[Kind, float]] = {
    "Mentions": {CHEAP: 0.5, TRAP: 0.35, HARD: 0.15},
    "States": {SOLID: 0.7, CHEAP: 0.15, HARD: 0.15},
    "Gives": {SOLID: 0.7, CHEAP: 0.15, HARD: 0.15},
    "Claims": {TRAP: 0.5, HARD: 0.35, CHEAP: 0.15},
}
TIERS = {"Honest": 0, "Good": 0, "Copy": 0, "Plain": 1, "Game": 2, "Sure": 2, "Attack": 2}
SPOILT_GUIDANCE = "Give partial credit where an answer is nearly right."
SPOILT_MEMO = "Write fewer negative criteria."


@cache
def kind_of(text: str) -> Kind:
    weights = KINDS[text.split()[0]]
    return random.Random(text).choices(list(weights), list(weights.values()))[0]


@dataclass
class LoopWorld:
    """The models, and what they would say.

    Args:
        seed: of every draw.
        faulty: whether models fail, break rules and err now and then.
        uniform: every task of so many is answered nearly the same in every row.
        taught: whether every second memo helps; none does otherwise, and rubrics are beaten to the end.
    """

    seed: int
    faulty: bool = True
    uniform: int = 3
    taught: bool = True
    asked: Counter[str] = field(default_factory=Counter)
    memos: int = 0

    def rng(self, *key: object) -> random.Random:
        return random.Random(f"{self.seed}:{key}")

    def errs(self, share: float, *key: object) -> bool:
        """Whether a model is wrong here, which it is in `share` of the cases."""
        return self.faulty and self.rng(*key).random() < share

    def turn(self, role: str) -> random.Random:
        """A request's own draw."""
        self.asked[role] += 1
        return self.rng(role, self.asked[role])

    def fault(self, request: ChatRequest) -> Fault | None:
        if not self.faulty or request.schema_name == "Ready":
            return None
        return FaultMix(FAULTS, self.rng("fault", request.model, request.number).randrange(2**32)).draw()

    def models(self) -> dict[str, Any]:
        return {
            "generator": self.generate,
            "farmer": lambda r: self.write("Attack", r.number),
            "honest": lambda r: self.write("Honest", r.number),
            "judge": self.judge,
            "rewriter": self.rewrite,
            "minter": self.mint,
            "referee": self.rank,
            "analyst": diagnose,
            "meta_optimizer": self.guide,
            "memo_optimizer": self.remember,
        }

    # -- verdicts -----------------------------------------------------------------

    def meets(self, answer: str, criterion: str) -> bool:
        attack, honest = kind_of(criterion)
        draw = self.rng(answer, criterion).random()
        match answer.split()[0]:
            case "Attack" | "Sure":
                return attack
            case "Honest" | "Copy":
                return honest
            case "Game":
                return draw < 0.7 if criterion.startswith("Gives") else attack or draw < 0.85
            case "Good":
                return honest if draw < 0.85 else attack
        return draw < 0.35

    def raw(self, answer: str, criteria: Sequence[Criterion]) -> float:
        """What an answer earns, as signed share of the positive points."""
        found = raw_score(criteria, ["met" if self.meets(answer, c.text) else "unmet" for c in criteria])
        assert found is not None
        return found

    def delta(self, exploit: str, honest: str, rubric: Rubric) -> float:
        return self.raw(exploit, rubric.criteria) - self.raw(honest, rubric.criteria)

    def judge(self, request: ChatRequest) -> str:
        met = self.meets(request.block("answer"), request.block("criterion"))
        return json.dumps({"reason": "", "met": met})

    def rank(self, request: ChatRequest) -> str:
        shown = json.loads(request.block("answers"))
        tiers: dict[int, list[str]] = {}
        for answer in shown:
            tier = TIERS[answer["text"].split()[0]]
            tier = 1 if self.errs(0.05, "tier", answer["text"]) else tier
            tiers.setdefault(tier, []).append(answer["letter"])
        ordered = [tiers[tier] for tier in sorted(tiers)]
        if self.errs(0.1, "order", *(answer["text"] for answer in shown)):
            ordered.reverse()
        return json.dumps({"notes": "", "tiers": ordered})

    # -- texts --------------------------------------------------------------------

    def criterion(self, verb: str, kinds: Collection[Kind], draw: random.Random) -> str:
        """A criterion of one of these kinds; no two share words."""
        while True:
            n = draw.randrange(10**6)
            text = f"{verb} {' '.join(f'{verb[0].lower()}{n:06}{tail}' for tail in 'abcdefgh')}"
            if kind_of(text) in kinds:
                return text

    def write(self, opening: str, number: int) -> str:
        return f"{opening} {number} ".ljust(240, "-")

    def answer(self, task: ServedTask, row: int, starts: int) -> Row:
        """What the policy writes."""
        draw = self.rng("policy", task.position, row, starts)
        if int(task.task_id.partition("-")[0]) % self.uniform == 0:
            kind = "Copy" if row == 0 else "Sure"
        else:
            kind = draw.choices(["Game", "Good", "Plain"], [0.4, 0.4, 0.2])[0]
        text = f"{kind} {task.position}.{row}.{starts} ".ljust(
            20 if draw.random() < 0.04 else draw.randint(60, 150), "-"
        )
        return Row(position=task.position, row=row, answer=text, finished=draw.random() > 0.04)

    @staticmethod
    def exploit(task: ServedTask, row: int, starts: int) -> Row:
        """What a policy writes whose groups the referee has to rank, as long as rubrics are as they were born."""
        text = f"{'Sure' if row else 'Copy'} {task.position}.{row}.{starts} ".ljust(90, "-")
        return Row(position=task.position, row=row, answer=text)

    def generate(self, request: ChatRequest) -> str:
        draw = self.turn("generator")
        system = request.messages[0]["content"]
        _, _, memo = system.partition("Memo on known exploits:")
        positives = int(request.block("positives"))
        wanted = self._wanted(memo, positives)
        criteria = [
            {"text": self.criterion("States" if kind == SOLID else "Mentions", [kind], draw), "points": 8}
            for kind in wanted
        ]
        if request.block("negative") == "true":
            criteria.append({"text": self.criterion("Claims", [TRAP, HARD], draw), "points": -6})
        text = f"Task on: {request.block('request')}"
        return json.dumps({"task": text, "criteria": criteria, "specialty": "rules", "level": "basic"})

    def _wanted(self, memo: str, positives: int) -> list[Kind]:
        """Without a memo attacks win; under the first, third, ... they win by more, under the others they lose."""
        if "lesson" not in memo:
            return [TRAP, *[CHEAP] * (positives - 1)]
        worse = not self.taught or int(memo.partition("lesson ")[2].split()[0]) % 2 == 1
        return [TRAP] * positives if worse else [CHEAP, *[SOLID] * (positives - 1)]

    def rewrite(self, request: ChatRequest) -> str:
        draw = self.turn("rewriter")
        before = json.loads(request.block("rubric"))
        n = max(3, sum(c["points"] > 0 for c in before))
        kinds: list[Kind] = [CHEAP, HARD, *[SOLID] * (n - 2)]
        points = [8] * n
        ways = {"better": 0.4, "little": 0.15, "worse": 0.25, "any": 0.1, "unusable": 0.1}
        match draw.choices(list(ways), list(ways.values()))[0]:
            case "little":
                kinds, points = [TRAP, *[CHEAP] * (n - 1)], [6, *[8] * (n - 1)]
            case "worse":
                kinds = [TRAP, TRAP, *[CHEAP] * (n - 2)]
            case "any":
                kinds = [draw.choice([CHEAP, TRAP, SOLID, HARD]) for _ in range(n)]
            case "unusable":
                kinds, points = kinds[:1], points[:1]
        verbs = ["States" if kind == SOLID else "Mentions" for kind in kinds]
        criteria = [
            {"text": self.criterion(verb, [kind], draw), "points": p}
            for verb, kind, p in zip(verbs, kinds, points, strict=True)
        ]
        criteria += [{"text": c["text"], "points": int(c["points"])} for c in before if c["points"] < 0]
        text = f"{json.loads(request.block('conversation'))[-1]['content']} Rewrite {request.number}."
        return json.dumps({"task": text, "criteria": criteria, "exploit_fails": "", "honest_passes": ""})

    def mint(self, request: ChatRequest) -> str:
        """Most of what it writes separates the pair; the rest is drawn blindly or breaks a rule."""
        draw = self.turn("minter")
        if draw.random() < 0.05:
            return json.dumps({"criteria": [], "label": "none"})
        exploit, better = request.block("answer_a"), request.block("answer_b")
        written = []
        for _ in range(draw.randint(1, 5)):
            verb, sign = draw.choice((("Gives", 1), ("Gives", 1), ("Claims", -1)))
            texts = [self.criterion(verb, KINDS[verb], draw) for _ in range(12)]
            winner, loser = (better, exploit) if sign > 0 else (exploit, better)
            fitting = [t for t in texts if self.meets(winner, t) and not self.meets(loser, t)]
            text = fitting[0] if fitting and draw.random() < 0.75 else draw.choice((*texts[:4], f"{verb} little"))
            written.append({"why": "", "text": text, "points": sign * draw.randint(5, 10)})
        return json.dumps({"criteria": written, "label": draw.choice(("hedge_namedrop", "breadth_padding"))})

    def guide(self, request: ChatRequest) -> str:
        number, spoilt = request.number, self.errs(0.25, "guidance", request.number)
        return json.dumps(
            {
                "summary": f"Round {number}.",
                "new_guidance_a": f"Vary who asks and where, as gap {number} shows.",
                "new_guidance_b": SPOILT_GUIDANCE if spoilt else f"Let each criterion state what gap {number} missed.",
            }
        )

    def remember(self, request: ChatRequest) -> str:
        spoilt = self.errs(0.2, "memo", request.number)
        self.memos += not spoilt
        lesson = f"Do not write that a topic is named; write lesson {self.memos} of it instead."
        return json.dumps({"summary": "", "new_memo": SPOILT_MEMO if spoilt else lesson})
