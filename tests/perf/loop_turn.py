"""One measured turn of the service's work: `python -m tests.perf.loop_turn JSON_OF_A_TURN`.

Opens the run in a folder, which may hold a database already, as `rri run` does: with the vote cache on, every call kept
and `stats` asked twice a second. Then tasks are written, attacked, repaired and admitted; groups are served, graded and
reported; the loop ranks them, patches the cases and closes with an evolution round. CPU is that of this process,
threads included. The last line is one JSON object.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Coroutine
from concurrent.futures import wait
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from rri.aio import collect
from rri.config import RunConfig
from rri.heap import settle_heap
from rri.rundir import RunDir
from rri.service.material import gather
from rri.service.run import OpenRun
from rri.store import Store
from rri.testing.roles import HONEST_MARK
from rri.wire import GradeRequest, ReportRequest, Row, ServedTask
from tests.perf.loop_models import lengthened
from tests.rigs import scripted_config

__all__ = ["STAGES", "Turn"]

STAGES = ("admission", "grading", "ranking", "patching", "evolution")
ROLLOUTS, ROLLOUT_CHARS, GROUPS_AT_ONCE = 8, 1600, 16
POLL_S = 0.5
"""How often `rri run` asks for the figures of its progress line."""


@dataclass(frozen=True)
class Turn:
    """What one process does.

    Args:
        folder: the run directory.
        url: the model server's.
        base_model: folder with the solver's tokenizer.
        tasks: tasks to admit.
        groups: positions of the cycle that follows.
        cases: exploit cases of a cycle that go to repair.
    """

    folder: str
    url: str
    base_model: str
    tasks: int
    groups: int
    cases: int

    def config(self, admitted: int) -> RunConfig:
        """The method's numbers, with every task of one shape, so that two sizes are compared on equal work."""
        return scripted_config(
            self.url,
            corpus="starter",
            endpoints={"main": {"timeout_s": 120.0, "concurrency": 64}},
            generation={
                "tasks": admitted + self.tasks,
                "positives": {3: 1.0},
                "negative_share": 1.0,
                "requests_per_call": 6,
                "concurrency": 16,
            },
            pool={"ahead": 10**6},
            cache={"enabled": True, "folder": f"{self.folder}/votes"},
            exploits={"cases_per_round": self.cases},
            evolution={"every_cycles": 1},
            solver={
                "cycles": 10**6,
                "tasks_per_cycle": self.groups,
                "tasks_per_update": self.groups,
                "rollouts_per_task": ROLLOUTS,
                "max_prompt_tokens": 6144,
            },
        )


@dataclass
class Part:
    """What one stage has cost. `units` are tasks, groups, cases or rounds."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    calls: int = 0
    units: int = 0


@dataclass
class Meter:
    """Adds what is spent to the stage that is under way; stages come one after another."""

    run: OpenRun
    parts: dict[str, Part] = field(default_factory=lambda: {name: Part() for name in STAGES})
    stage: str = ""
    _since: tuple[float, float, int] = (0.0, 0.0, 0)

    def enter(self, stage: str) -> None:
        """The stage before is over."""
        now = (time.process_time(), time.monotonic(), self.run.gateway.ledger.total().calls)
        if self.stage:
            part = self.parts[self.stage]
            part.cpu_s += now[0] - self._since[0]
            part.wall_s += now[1] - self._since[1]
            part.calls += now[2] - self._since[2]
        self.stage, self._since = stage, now

    def enter_with(self, owner: Any, name: str, stage: str) -> None:
        """`stage` begins with the next call of this method; each call is a unit of it."""
        method = getattr(owner, name)

        async def noted(*given: Any) -> Any:
            if self.stage != stage:
                self.enter(stage)
            self.parts[stage].units += 1
            return await method(*given)

        setattr(owner, name, noted)


class Service:
    """An open run that is worked as the trainer and `rri run` work it."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.stats_ms: list[float] = []

    def __enter__(self) -> Self:
        turn, folder = self.turn, Path(self.turn.folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = turn.config(admitted_in(folder))
        material = gather(config, turn.base_model)
        self.folder = RunDir.create_or_resume(folder, config, facts=material.facts())
        cpu, started = time.process_time(), time.monotonic()
        self.run = OpenRun.open(self.folder, config, material)
        self.ask()
        settle_heap()
        self.meter = Meter(self.run)
        self.run.gateway.loop.run(self.run.start())
        # Runs after the first step of the background work, which looks for drafts of an earlier start.
        self.run.gateway.loop.run(nothing())
        whole = time.monotonic() - started
        self.meter.enter("admission")
        # Models and index are opened alike whatever the store holds.
        seconds = {name: data["seconds"] for _, name, data in self.run.store.events("stage", 2)}
        store = whole - seconds["models"] - seconds["index"]
        self.opening = {"whole_s": whole, "store_s": store, "cpu_s": time.process_time() - cpu}
        loop = self.run.loop
        self.meter.enter_with(loop.finder, "find", "ranking")
        self.meter.enter_with(loop.patcher, "patch", "patching")
        self.meter.enter_with(loop.evolver, "evolve", "evolution")
        return self

    def __exit__(self, *_: object) -> None:
        self.run.close()
        self.folder.close()

    def ask(self) -> None:
        started = time.thread_time()
        self.run.stats()
        self.stats_ms.append(1000 * (time.thread_time() - started))

    def wait(self, work: Coroutine[Any, Any, Any]) -> None:
        """Until `work` is done, asking for figures meanwhile.

        Raises:
            RriError: what failed the run.
        """
        future = self.run.gateway.loop.submit(work)
        while not wait([future], POLL_S).done:
            self.ask()
        future.result()

    def admit(self) -> None:
        self.wait(self.run.finished_admitting())
        self.meter.parts["admission"].units = self.turn.tasks

    def train(self, cycle: int) -> None:
        """Serve, grade and report one cycle, and wait until the loop has worked it off."""
        first = self.run.pool.positions
        texts = {position: rollouts(position) for position in range(first, first + self.turn.groups)}
        self.meter.enter("grading")
        self.wait(collect([partial(self.group, cycle, p, rows) for p, rows in texts.items()], GROUPS_AT_ONCE))
        self.meter.parts["grading"].units = self.turn.groups
        self.wait(self.run.report(ReportRequest(cycle=cycle, step=cycle + 1, metrics={"reward": 0.5})))
        self.wait(self.run.finished_looping())

    async def group(self, cycle: int, position: int, rows: tuple[Row, ...]) -> None:
        task = await self.run.served(position, 60.0)
        assert isinstance(task, ServedTask), task
        graded = await self.run.grade(GradeRequest(cycle=cycle, rows=rows))
        assert all(row.score is not None for row in graded.rows), graded

    def report(self) -> dict[str, Any]:
        idle = []
        for _ in range(20):
            started = time.monotonic()
            self.run.stats()
            idle.append(1000 * (time.monotonic() - started))
        return {
            "parts": {name: asdict(part) for name, part in self.meter.parts.items()},
            "opening": self.opening,
            "stats_first_ms": self.stats_ms[0],
            "stats_ms": statistics.median(self.stats_ms[1:]),
            "stats_idle_ms": statistics.median(idle),
            "stats": self.run.stats(),
            "stored_mb": self.run.store.path.stat().st_size / 2**20,
        }


def rollouts(position: int) -> tuple[Row, ...]:
    """A group with one honest answer: where another one scores higher, the referee's taste makes an exploit case."""
    openings = [f"Answer {position}-0. {HONEST_MARK}", *(f"Answer {position}-{row}." for row in range(1, ROLLOUTS))]
    texts = [lengthened(opening, ROLLOUT_CHARS) for opening in openings]
    return tuple(Row(position=position, row=row, answer=text) for row, text in enumerate(texts))


async def nothing() -> None:
    """A turn of the loop."""


def admitted_in(folder: Path) -> int:
    """Tasks of an earlier start."""
    store = Store(folder)
    try:
        counts = store.admission_counts()
    finally:
        store.close()
    return sum(counts.values()) - counts.get("refused", 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turn", type=lambda text: Turn(**json.loads(text)))
    turn = parser.parse_args().turn
    with Service(turn) as service:
        service.admit()
        service.train(math.ceil(service.run.pool.positions / turn.groups))
        service.meter.enter("")
        print(json.dumps(service.report()))


if __name__ == "__main__":
    main()
