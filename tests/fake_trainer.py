"""A trainer without a model: it asks for positions, sends answers, reports cycles, and goes on after a restart."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rri.client import ServiceClient
from rri.wire import GradedRow, Row, ServedTask

__all__ = ["Answer", "FakeTrainer"]

Answer = Callable[[ServedTask, int, int], Row]
"""(task, row, how often the trainer was started anew) -> what the policy writes."""
Place = tuple[int, int, int]


@dataclass
class FakeTrainer:
    """Trains cycle after cycle. What the service has acknowledged is kept and compared whenever it comes again.

    An exception of the client ends `train`; called again, it goes on in the middle of the cycle with the same answers,
    as a trainer does that outlives a service. `resume` is one that died and lost its cycle. With `prefetch` the
    positions of the next cycle are asked for before this one is reported, so that the loop's work comes between the
    answers and the version that they are graded by.
    """

    client: ServiceClient
    answer: Answer
    cycle: int = 0
    starts: int = 0
    served: dict[int, ServedTask] = field(default_factory=dict)
    graded: dict[Place, tuple[Row, GradedRow]] = field(default_factory=dict)
    lost: list[tuple[Row, GradedRow]] = field(default_factory=list)
    """Grades that were acknowledged and superseded since."""
    reports: list[tuple[int, int]] = field(default_factory=list)
    """(cycle, report number), in the order of acknowledgement."""
    timeout_s: float = 120.0
    prefetch: bool = False

    def positions(self, cycle: int) -> range:
        per_cycle = self.client.run_info().tasks_per_cycle
        return range(cycle * per_cycle, (cycle + 1) * per_cycle)

    def train(self, cycles: int, after: Callable[[int], None] = lambda cycle: None) -> None:
        """Train up to and without cycle `cycles`; `after` is told each one that was reported."""
        while self.cycle < cycles:
            self.ask(self.positions(self.cycle))
            self.send(self.cycle)
            if self.prefetch:
                self.ask(self.positions(self.cycle + 1))
            number = self.client.report(self.cycle, self.cycle + 1, {"reward": 0.5}).report
            self.reports.append((self.cycle, number))
            self.cycle += 1
            after(self.cycle - 1)

    def resume(self, cycle: int) -> None:
        """A new trainer goes on from `cycle`; what was graded from there on is lost to it, and it answers anew."""
        self.client.resume(cycle)
        self.cycle = cycle
        self.starts += 1
        for place in [place for place in self.graded if place[0] >= cycle]:
            self.lost.append(self.graded.pop(place))

    def ask(self, positions: Iterable[int]) -> None:
        """Ask for positions; one that was served before must be the same."""
        for position in positions:
            task = self.client.served(position)
            assert self.served.setdefault(position, task) == task, f"position {position} has changed"

    def send(self, cycle: int) -> None:
        """Send the answers of a cycle for grading; one that was graded before must get the same grade."""
        rollouts = self.client.run_info().rollouts_per_task
        rows = [self.answer(self.served[p], r, self.starts) for p in self.positions(cycle) for r in range(rollouts)]
        response = asyncio.run(self.client.grade(cycle, rows, timeout_s=self.timeout_s))
        for row, graded in zip(rows, response.rows, strict=True):
            known = self.graded.setdefault((cycle, row.position, row.row), (row, graded))
            assert known == (row, graded), f"cycle {cycle}, position {row.position}, row {row.row} has another grade"
