"""The loop and its evolver on a store, a pool and scripted models: no index, no HTTP service, no trainer.

Verdicts and ranks are those of `LoopWorld`: `Sure` answers beat a fresh rubric, and `Copy` answers are better.
"""

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from programs import Roles
from rri.cases import GuidanceVersion, MemoVersion
from rri.config import RunConfig
from rri.evidence import Admission
from rri.lm import Gateway
from rri.pool import Pool
from rri.service.evolving import Evolver
from rri.service.loop import Loop
from rri.store import GradeRow, Place, Report, Store
from rri.testing import ChatRequest, Fault, Reply, ScriptedServer, role_models
from rri.types import Criterion, Grade, Message, Rubric, Task, Verdict
from tests.programs.loop_world import CHEAP, SOLID, TRAP, LoopWorld
from tests.rigs import open_test_gateway, scripted_config

__all__ = ["GROUP", "LoopBench", "looping"]

GUARD_S = 20
"""Seconds after which hung work fails; no test waits for it."""
GROUP = ("Sure", "Copy", "Plain")
"""A group with a case: the first one scores highest, the second one is better."""

Model = Callable[[ChatRequest], Reply | Fault | str]


class LoopBench:
    """A loop with what it works on. `put` notes the versions that were put into force."""

    pool: Pool
    evolver: Evolver
    loop: Loop

    def __init__(
        self, config: RunConfig, gateway: Gateway, server: ScriptedServer, store: Store, world: LoopWorld
    ) -> None:
        self.config = config
        self.gateway = gateway
        self.server = server
        self.store = store
        self.world = world
        self.put: list[tuple[int, int]] = []
        self.do(store.begin_texts(GuidanceVersion(version=0), MemoVersion(version=0)))
        self.open()

    def do(self, work: Any) -> Any:
        """Run work on the gateway's loop."""
        return self.gateway.loop.run(work)

    def open(self) -> None:
        """New parts on what the store holds, as a restart makes them."""
        self.do(self._open())

    async def _open(self) -> None:
        config, store, roles = self.config, self.store, Roles.bind(self.config, self.gateway)
        folder = store.path.parent / "rounds"
        self.pool = Pool(store, config.seed, config.pool, lambda: False)
        self.evolver = Evolver(config, store, roles.evolution(), roles.memo(), folder, self._put)
        self.loop = Loop(config, store, self.pool, roles.finder(), roles.patcher(), self.evolver)

    def _put(self, guidance: GuidanceVersion, memo: MemoVersion) -> None:
        self.put.append((guidance.version, memo.version))

    # -- what a trainer leaves ------------------------------------------------------

    def task(self, number: int, points: Sequence[int] = (8, 8)) -> Task:
        """A task that an attack beats: its first criterion is met by attacks alone. Admitted when it is new."""
        draw = random.Random(number)
        texts = [self.world.criterion("Mentions", [kind], draw) for kind in (TRAP, *[CHEAP] * (len(points) - 1))]
        criteria = tuple(Criterion(text=text, points=p) for text, p in zip(texts, points, strict=True))
        task = Task(
            task_id=f"{number:06}-abc",
            conversation=(Message(role="user", content=f"Explain rule {number}."),),
            rubric=Rubric(criteria=criteria),
        )
        if self.store.task(task.task_id, 1) is None:
            self.do(self.store.add_draft(task))
            self.do(self.store.add_admission(Admission(original=task, task=task, outcome="passed")))
            self.pool.refresh()
        return task

    def graded(self, cycle: int, position: int, task: Task, kinds: Sequence[str] = GROUP, **fields: Any) -> None:
        """A group of rollouts on `task`. A kind of "?" is an answer that could not be graded."""
        rows = []
        for row, kind in enumerate(kinds):
            answer = f"{kind} {cycle}.{position}.{row} ".ljust(60, "-")
            place = Place("train", cycle, position, row)
            rows.append(GradeRow(place, task.task_id, task.version, answer, True, self._grade(task, answer, **fields)))
        self.do(self.store.add_grades(rows))

    def _grade(self, task: Task, answer: str, score: float | None = None) -> Grade:
        if answer.startswith("?"):
            return Grade(verdicts=(), score=None, raw=None, unscored="the judge failed")
        met = [self.world.meets(answer, c.text) for c in task.rubric.criteria]
        raw = self.world.raw(answer, task.rubric.criteria)
        verdicts = tuple(Verdict(outcome="met" if m else "unmet") for m in met)
        return Grade(verdicts=verdicts, score=raw if score is None else score, raw=raw)

    # -- the loop -----------------------------------------------------------------

    def report(self, cycle: int) -> Report:
        report: Report = self.do(self.loop.report(cycle, cycle + 1, {}))
        return report

    def work(self) -> None:
        """Let the loop work off its backlog.

        Raises:
            RriError: what ended the loop.
        """
        self.do(self._work())

    async def _work(self) -> None:
        job = asyncio.create_task(self.loop.run())
        caught = asyncio.create_task(self.loop.caught_up(0, GUARD_S))
        await asyncio.wait([job, caught], return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            caught.cancel()
            job.result()
        assert await caught, f"still {self.loop.doing} after {GUARD_S} s"
        await self._end(job)

    def work_until(self, ready: Callable[[], bool]) -> None:
        """Let the loop work until `ready`, then stop it where it is, as a kill does."""

        async def scene() -> None:
            job = asyncio.create_task(self.loop.run())
            async with asyncio.timeout(GUARD_S):
                while not ready():
                    await asyncio.sleep(0)
            await self._end(job)

        self.do(scene())

    @staticmethod
    async def _end(job: "asyncio.Task[None]") -> None:
        job.cancel()
        await asyncio.wait([job])

    def cycle(self, number: int, *tasks: Task, kinds: Sequence[str] = GROUP) -> None:
        """A cycle from the trainer's side, and the loop's work on it."""
        for place, task in enumerate(tasks):
            self.graded(number, number * len(tasks) + place, task, kinds)
        self.report(number)
        self.work()

    def outcomes(self, kind: str) -> list[str]:
        """Outcomes of the rounds of a kind, in order."""
        return [row.outcome for row in self.store.rounds(kind)]


def separating(world: LoopWorld) -> Model:
    """A minter that always writes one criterion, which separates a case's pair."""

    def mint(request: ChatRequest) -> str:
        text = world.criterion("Gives", [SOLID], random.Random(request.number))
        criteria = [{"why": "", "text": text, "points": 8}]
        return json.dumps({"criteria": criteria, "label": "breadth_padding"})

    return mint


@contextmanager
def looping(folder: Path, faults: dict[str, Fault] | None = None, **sections: Any) -> Iterator[LoopBench]:
    """A bench on an empty store in `folder`. `faults` maps a model to what it does instead, and may be changed."""
    world, faults = LoopWorld(1, faulty=False), faults if faults is not None else {}
    models = {**world.models(), "minter": separating(world)}
    base: dict[str, Any] = {
        "admission": {"votes": 1},
        "grading": {"votes": 1},
        "patches": {"votes": 1},
        "evolution": {"every_cycles": 100},
        "endpoints": {"main": {"retries": 0}},
    }
    merged = {key: {**base.get(key, {}), **sections.get(key, {})} for key in {*base, *sections}}
    with ScriptedServer(role_models(**models), fault=lambda r: faults.get(r.model)) as server:
        store = Store(folder)
        try:
            config = scripted_config(server.url, **merged)
            with open_test_gateway(config, store) as gateway:
                yield LoopBench(config, gateway, server, store, world)
        finally:
            store.close()
