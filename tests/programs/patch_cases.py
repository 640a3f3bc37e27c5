"""Exploit cases whose verdicts follow from the words of the answers: shared by the tests of patches.

An answer meets exactly the criteria whose text it holds. `fact(n)` is a criterion to be rewarded and `claim(n)` an
error to be penalised; no two of them share words.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from programs.farmer import Farmer
from programs.grader import Grader
from programs.honest import Honest
from programs.minter import Minter
from programs.patching import Patcher
from programs.probe import Prober
from rri.cases import Answered, ExploitCase, Patch, Ranking
from rri.config import RunConfig
from rri.lm import CallRecord, Gateway, RecentCalls, role_lm
from rri.scoring import raw_score
from rri.testing import ChatRequest, Fault, ScriptedServer
from rri.types import Criterion, Grade, Message, Outcome, Rubric, Task, Verdict
from tests.rigs import open_test_gateway, scripted_config

__all__ = [
    "BETTER",
    "CASE",
    "EXPLOIT",
    "HONEST",
    "LOSING",
    "TASK",
    "WINNING",
    "Bench",
    "Reply",
    "case_of",
    "claim",
    "fact",
    "holding",
    "judge",
    "minting",
    "outcomes",
    "patching",
    "task_of",
    "texts",
]

Reply = str | Fault
Pair = tuple[str, int]


def _words(letter: str, n: int) -> str:
    return " ".join(f"{letter}{n:02}{tail}" for tail in "abcdefgh")


def fact(n: int) -> str:
    return f"States {_words('f', n)}"


def claim(n: int) -> str:
    return f"Claims {_words('e', n)}"


def holding(*texts: str, mark: str = "", length: int = 300) -> str:
    """An answer that meets these criteria and no other."""
    return f"{mark}{'. '.join(texts)}".ljust(length - 1, "-") + "."


def judge(request: ChatRequest) -> str:
    met = request.block("criterion") in request.block("answer")
    return json.dumps({"reason": "Secret reason", "met": met})


def minting(*criteria: Pair, label: str = "hedge_namedrop") -> str:
    """A reply of the minter."""
    written = [{"why": f"why {text[:10]}", "text": text, "points": points} for text, points in criteria]
    return json.dumps({"criteria": written, "label": label})


def task_of(*criteria: tuple[str, float], task_id: str = "000001-abc", version: int = 3) -> Task:
    return Task(
        task_id=task_id,
        version=version,
        conversation=(Message(role="user", content="Explain rule one."),),
        rubric=Rubric(criteria=tuple(Criterion(text=text, points=points) for text, points in criteria)),
    )


def _answered(row: int, task: Task, answer: str) -> Answered:
    outcomes: list[Outcome] = ["met" if c.text in answer else "unmet" for c in task.rubric.criteria]
    raw = raw_score(task.rubric.criteria, outcomes)
    return Answered(
        row=row,
        answer=answer,
        grade=Grade(verdicts=tuple(Verdict(outcome=o) for o in outcomes), score=raw, raw=raw),
    )


def case_of(task: Task, exploit: str, better: str) -> ExploitCase:
    """A case whose grades follow from the answers."""
    a, b = _answered(0, task, exploit), _answered(1, task, better)
    assert a.grade.raw is not None and b.grade.raw is not None
    ranking = Ranking(cycle=0, position=0, task_id=task.task_id, version=task.version, outcome="case")
    gap = a.grade.raw - b.grade.raw
    return ExploitCase(cycle=0, position=0, task=task, exploit=a, better=b, gap=gap, ranking=ranking)


TASK = task_of((fact(90), 8), (fact(91), 8), (claim(92), -6))
EXPLOIT = holding(fact(90), fact(91), claim(0), claim(1), mark="Exploit. ")
BETTER = holding(fact(90), *(fact(n) for n in range(9)), mark="Better. ", length=700)
HONEST = holding(fact(90), fact(91), *(fact(n) for n in range(9)), mark="Honest. ", length=700)
CASE = case_of(TASK, EXPLOIT, BETTER)
"""The rubric pays the exploit 1.0 and the better answer 0.5. Only the better one states facts 0 to 8, and only the
exploit makes claims 0 and 1."""
LOSING = holding(fact(90), mark="Attack. ")
"""Earns half of what the rubric pays."""
WINNING = holding(fact(90), fact(91), fact(0), claim(7), mark="Attack. ")
"""Earns what the rubric pays even after fact 0 was accepted, and makes a claim of its own."""


def outcomes(patch: Patch) -> list[list[str]]:
    """Outcomes of the checks of each round."""
    return [[check.outcome for check in r.checks] for r in patch.rounds]


def texts(patch: Patch) -> list[str]:
    return [check.criterion.text for check in patch.accepted]


@dataclass
class Bench:
    """A patcher with what its models were asked."""

    patcher: Patcher
    server: ScriptedServer
    gateway: Gateway
    config: RunConfig
    kept: RecentCalls = field(default_factory=RecentCalls)

    def run(
        self,
        case: ExploitCase = CASE,
        *,
        task: Task | None = None,
        number: int = 5,
        before: int = 0,
        honest: str | None = HONEST,
    ) -> Patch:
        work = self.patcher.patch(number, case, task or case.task, before, honest)
        return self.gateway.loop.run(work)

    @property
    def records(self) -> list[CallRecord]:
        return list(self.kept.records)

    @property
    def counts(self) -> dict[str, int]:
        """Requests by role, without roles that were not asked."""
        counted = {role: self.server.count(role) for role in ("minter", "farmer", "honest", "judge")}
        return {role: n for role, n in counted.items() if n}


def _script(replies: Sequence[Reply] | Reply) -> Callable[[ChatRequest], Reply]:
    """The k-th reply to the k-th request, or one reply to all."""
    if isinstance(replies, str | Fault):
        return lambda _: replies
    return lambda request: replies[request.number]


@contextmanager
def patching(
    mints: Sequence[Reply] | Reply,
    *,
    farmer: Sequence[Reply] | Reply = LOSING,
    honest: Sequence[Reply] | Reply = HONEST,
    judge: Callable[[ChatRequest], Reply] = judge,
    **sections: Any,
) -> Iterator[Bench]:
    """One vote a criterion unless told otherwise."""
    sections["patches"] = {"votes": 1, **sections.get("patches", {})}
    sections["admission"] = {"votes": 1, **sections.get("admission", {})}
    models = {"minter": _script(mints), "farmer": _script(farmer), "honest": _script(honest), "judge": judge}
    kept = RecentCalls()
    with ScriptedServer(models) as server:
        config = scripted_config(server.url, **sections)
        with open_test_gateway(config, kept) as gateway:
            minter, attacker, writer = Minter(), Farmer(), Honest(config.domain.system_prompt)
            for name, module in (("minter", minter), ("farmer", attacker), ("honest", writer)):
                module.set_lm(role_lm(name, gateway))  # type: ignore[arg-type]
            grader = Grader(gateway, config.domain.score_rule, config.grading)
            prober = Prober(attacker, writer, grader, config.admission)
            patcher = Patcher(minter, prober, config.patches, config.generation.rubric)
            yield Bench(patcher, server, gateway, config, kept)
