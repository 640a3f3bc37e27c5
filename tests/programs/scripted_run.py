"""A whole run through the real programs, on models whose every outcome and length is scripted.

An answer says which items it holds ("Items: 0, 1."). A criterion is about one item and is met by the answers that hold
it. What becomes of a task follows from its number, which stands in its text.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from programs import Roles, TaskWriter
from programs.writing import Request
from rri.config import RunConfig
from rri.errors import ModelError
from rri.evidence import Admission
from rri.knowledge import load_corpus
from rri.lm import Gateway, check_endpoints
from rri.rubric_rules import addresses_judge, is_absence
from rri.store import GradeRow, Place, Store
from rri.testing import ChatRequest, Fault, Reply, ScriptedServer, role_models
from rri.types import Reference, Task
from tests.rigs import open_test_gateway, scripted_config

__all__ = [
    "FATES",
    "LENGTHS",
    "PASSAGES",
    "ScriptedRun",
    "World",
    "about",
    "held",
    "prose",
    "saying",
    "scripted_run",
    "task_number",
]

PASSAGES: list[Reference] = list(load_corpus("starter").passages[:12])
TEXT = " ".join(p.text for p in load_corpus("starter").passages)

FATES = ("holds",) * 2 + ("silent",) + ("once",) * 5 + ("again",) * 2 + ("twice",) * 10
"""holds: the first attack fails. silent: it earns nothing. The others are beaten: once, and its first rewrite holds;
again, and the attack on its first rewrite earns nothing at first; twice, and no rewrite holds."""

LENGTHS = {
    "request_chars": 220.0,
    "task_chars": 700.0,
    "criterion_chars": 130.0,
    "exploit_share": 0.5,
    "answer_chars": 1600.0,
    "reason_share": 0.5,
}
EXPLOIT_CHARS, REASON_CHARS = 1250, 180

Items = Sequence[int]
HONEST: Items = (0, 1, 2)
STRONG: Items = (0, 1, 2, 3)
WEAK: Items = (0,)


def prose(opening: str, chars: float, at: int = 0) -> str:
    """`opening` and running text behind it, `chars` characters in all."""
    start = (at * 977) % (len(TEXT) // 2)
    return f"{opening} {TEXT[start : start + int(chars)]}"[: int(chars)]


def saying(items: Items, chars: float, at: int) -> str:
    return prose(f"Items: {', '.join(map(str, items))}.", chars, at)


def about(item: int, positive: bool, chars: float = LENGTHS["criterion_chars"]) -> str:
    """A criterion on one item that breaks no rule of wording."""
    opening = f"States item {item}:" if positive else f"Claims item {item}:"
    texts = (prose(opening, chars, 31 * item + shift) for shift in range(100))
    return next(t for t in texts if not addresses_judge(t) and not is_absence(t))


def held(text: str) -> set[int]:
    found = re.search(r"Items: ([\d, ]*)\.", text)
    return {int(n) for n in found.group(1).split(", ") if n} if found else set()


def task_number(text: str) -> int:
    found = re.search(r"Task (\d+)\.", text)
    assert found, text[:200]
    return int(found.group(1))


@dataclass
class World:
    """The scripted models. `flips` is the share of single votes that are wrong."""

    flips: float = 0.0
    proposed: int = 0
    attacks: Counter[int] = field(default_factory=Counter)
    rng: random.Random = field(default_factory=lambda: random.Random(5))

    def models(self) -> dict[str, Callable[[ChatRequest], Reply | Fault | str]]:
        parts = (self.proposer, self.generator, self.farmer, self.honest, self.judge, self.rewriter)
        return {part.__name__: self._counted(part) for part in parts}

    @staticmethod
    def _counted(model: Callable[[ChatRequest], str]) -> Callable[[ChatRequest], Reply]:
        """Tokens are characters, so that they can be compared one by one."""

        def reply(request: ChatRequest) -> Reply:
            text = model(request)
            return Reply(text, sum(len(m["content"]) for m in request.messages), len(text))

        return reply

    def proposer(self, request: ChatRequest) -> str:
        wanted, first = json.loads(request.block("wanted")), self.proposed
        self.proposed += len(wanted)
        texts = [prose(f"Task {first + i}.", LENGTHS["request_chars"], first + i) for i in range(len(wanted))]
        return json.dumps({"requests": texts})

    def generator(self, request: ChatRequest) -> str:
        number = task_number(request.block("request"))
        criteria = [{"text": about(item, True), "points": 8} for item in range(int(request.block("positives")))]
        if request.block("negative") == "true":
            criteria.append({"text": about(9, False), "points": -6})
        text = prose(f"Task {number}.", LENGTHS["task_chars"], number)
        return json.dumps({"task": text, "criteria": criteria, "specialty": "medicine", "level": "advanced"})

    def farmer(self, request: ChatRequest) -> str:
        number = task_number(request.block("conversation"))
        attack, self.attacks[number] = self.attacks[number], self.attacks[number] + 1
        return saying(self._earned(FATES[number % len(FATES)], attack), EXPLOIT_CHARS, number + attack)

    @staticmethod
    def _earned(fate: str, attack: int) -> Items:
        if fate == "silent" or (fate == "again" and attack == 1):
            return ()
        return WEAK if fate == "holds" or (fate == "once" and attack) else STRONG

    def honest(self, request: ChatRequest) -> str:
        return saying(HONEST, LENGTHS["answer_chars"], request.number)

    def judge(self, request: ChatRequest) -> str:
        item = re.search(r"item (\d+):", request.block("criterion"))
        assert item
        met = int(item.group(1)) in held(request.block("answer"))
        flipped = self.rng.random() < self.flips
        return json.dumps({"reason": prose("", REASON_CHARS, request.number), "met": met != flipped})

    def rewriter(self, request: ChatRequest) -> str:
        before, number = json.loads(request.block("rubric")), task_number(request.block("conversation"))
        return json.dumps(
            {
                "task": prose(f"Task {number}.", LENGTHS["task_chars"], number + 1),
                "criteria": [{"text": c["text"], "points": int(c["points"])} for c in before],
                "exploit_fails": prose("", 120, number),
                "honest_passes": prose("", 120, number + 1),
            }
        )


class Shelf:
    """Finds the first passages."""

    async def asearch(self, query: str, k: int) -> list[Reference]:
        return PASSAGES[:k]


@dataclass
class ScriptedRun:
    """A run that is over: its config, what it asked, and what it kept."""

    config: RunConfig
    gateway: Gateway
    server: ScriptedServer
    admissions: list[Admission]
    rollouts: int

    def calls(self) -> dict[str, int]:
        return {role: totals.calls for role, totals in self.gateway.ledger.by_role.items()}

    def chars(self) -> dict[str, tuple[int, int]]:
        """Characters in and out by role."""
        return {role: (t.tokens_in, t.tokens_out) for role, t in self.gateway.ledger.by_role.items()}


async def admitted(config: RunConfig, roles: Roles, store: Store) -> list[Admission]:
    """Every task of the run, proposed, written, attacked and repaired as the service does it."""
    writer = TaskWriter(
        roles.proposer, roles.generator, Shelf(), PASSAGES, config.domain, config.generation, config.seed
    )
    asked: list[str] = []
    admissions: list[Admission] = []
    waiting: list[tuple[int, Request]] = []
    while len(admissions) < config.generation.tasks:
        try:
            if not waiting:
                recent = asked[::-1][: config.generation.recent_requests]
                requests = await writer.propose(config.generation.requests_per_call, len(asked), recent)
                waiting = [(len(asked) + i, request) for i, request in enumerate(requests)]
                asked += [r.text for r in requests]
            number, request = waiting.pop(0)
            task = await writer.write(request, number)
        except ModelError:
            continue  # its request is lost, and another one takes its place
        await store.add_draft(task)
        admission = await roles.admitter().admit(task)
        await store.add_admission(admission)
        admissions.append(admission)
    return admissions


async def graded(config: RunConfig, roles: Roles, store: Store, tasks: Sequence[Task]) -> int:
    """Every rollout of the run; how many there are."""
    solver, done = config.solver, 0
    for position in range(solver.cycles * solver.tasks_per_cycle):
        task, cycle = tasks[position % len(tasks)], position // solver.tasks_per_cycle
        for row in range(solver.rollouts_per_task):
            answer = saying(range(row % 5), LENGTHS["answer_chars"], 8 * position + row)
            grade = await roles.grader.grade(task, answer, training=True)
            place = Place("train", cycle, position, row)
            await store.add_grades([GradeRow(place, task.task_id, task.version, answer, True, grade)])
            done += 1
    return done


@contextmanager
def scripted_run(
    store: Store,
    *,
    flips: float = 0.0,
    fault: Callable[[ChatRequest], Fault | None] = lambda request: None,
    **sections: Any,
) -> Iterator[ScriptedRun]:
    """Admission of twenty tasks and the grading of their rollouts, done when the block begins."""
    world = World(flips=flips)
    with ScriptedServer(role_models(**world.models()), fault=fault) as server:
        generation = {"tasks": len(FATES), "positives": {4: 1.0}, "negative_share": 1.0, "attempts": 3}
        off = {name: {"enabled": False} for name in ("exploits", "patches", "evolution", "memo")}
        solver = {"cycles": 2, "tasks_per_cycle": 3, "tasks_per_update": 3}
        solver |= {"max_prompt_tokens": 6144, "max_completion_tokens": 8192}
        base: dict[str, Any] = {"generation": generation, "solver": solver, **off}
        base["roles"] = {role: {"max_tokens": 100_000} for role in world.models()}
        config = scripted_config(server.url, **base)
        config = scripted_config(server.url, **_merged(base, sections)) if sections else config
        with open_test_gateway(config, store) as gateway:
            roles = Roles.bind(config, gateway)

            async def whole() -> tuple[list[Admission], int]:
                await check_endpoints(gateway, config.roles_used)
                admissions = await admitted(config, roles, store)
                return admissions, await graded(config, roles, store, [a.task for a in admissions])

            admissions, rollouts = gateway.loop.run(whole())
            yield ScriptedRun(config, gateway, server, admissions, rollouts)


def _merged(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    return {**base, **{key: {**base.get(key, {}), **value} for key, value in top.items()}}
