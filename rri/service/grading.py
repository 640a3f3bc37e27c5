"""Grades rollouts: each one once, whatever is lost on the way (DESIGN, seam 2)."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from programs.grader import Grader
from rri.config import GradingConfig
from rri.errors import ModelError, ServiceRefused, ServiceUnavailable
from rri.lm import tagged
from rri.pool import Pool
from rri.service.validation import Validation
from rri.store import GradeRow, Place, Store
from rri.types import Grade, Split, Task
from rri.wire import GradedRow, GradeRequest, GradeResponse, Row

__all__ = ["RolloutGrader"]

Key = tuple[Place, str]
GroupKey = tuple[Split, int, int]


@dataclass
class Group:
    """The rollouts of one position in one cycle, wherever they come from; truncated ones have no score of their own."""

    size: int
    scores: dict[int, float | None]
    full: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, row: int, score: float | None) -> None:
        self.scores[row] = score
        if len(self.scores) >= self.size:
            self.full.set()

    def floor(self) -> float:
        """The lower of 0 and the lowest score (METHOD 6)."""
        return min([0.0, *(score for score in self.scores.values() if score is not None)])


class RolloutGrader:
    """Turns grade requests into kept grades. Lives on the service's loop.

    The same rollout sent again, while it is graded or later, gets the same grade without new calls.

    Args:
        grader: votes and scores.
        store, pool: where grades go, and what was served where.
        config: the limit of unscored answers in a row.
        judge_truncated: judge answers that were cut at the token limit.
        rollouts_per_task: size of a group.
        floor_wait_s: how long a truncated answer waits for the rest of its group, which other ranks may send.
        validation: whose answers are graded too, by the same judge and rule; None where there is none.
    """

    def __init__(
        self,
        grader: Grader,
        store: Store,
        pool: Pool,
        config: GradingConfig,
        *,
        judge_truncated: bool,
        rollouts_per_task: int,
        floor_wait_s: float,
        validation: Validation | None = None,
    ) -> None:
        self.grader = grader
        self.store = store
        self.pool = pool
        self.config = config
        self.judge_truncated = judge_truncated
        self.rollouts_per_task = rollouts_per_task
        self.floor_wait_s = floor_wait_s
        self.validation = validation
        self.truncated = 0
        self.in_a_row = 0
        self.last_error = ""
        self._under_way: dict[Key, asyncio.Task[Grade]] = {}
        self._groups: dict[GroupKey, Group] = {}

    async def grade(self, request: GradeRequest) -> GradeResponse:
        """Scores in the order of the rows.

        Raises:
            ServiceRefused: a position was never served, or is no validation task.
            ServiceUnavailable: the rows were dropped, because training resumed or the run ended.
            ModelError: the judge has failed on too many answers in a row.
            BudgetExhausted: a hard limit is reached.
        """
        started = time.monotonic()
        tasks = {row.position: self._task(request.split, row) for row in request.rows}
        # Nothing is left of an answer that was cut within its reasoning, so there is nothing to judge.
        judged = [row.finished or (self.judge_truncated and bool(row.answer.strip())) for row in request.rows]
        jobs = [
            self._once(_place(request, row), row, tasks[row.position]) if judge else None
            for row, judge in zip(request.rows, judged, strict=True)
        ]
        for row, job in zip(request.rows, jobs, strict=True):
            if job is None:
                self._group(request, row).add(row.row, None)
        grades: list[Grade] = []
        for row, job in zip(request.rows, jobs, strict=True):
            if job is None:
                continue
            grade = await _outcome(job)
            self._group(request, row).add(row.row, grade.score)
            grades.append(grade)
        scored = iter(grades)
        rows = [
            self._graded(row, tasks[row.position], next(scored) if job else await self._floored(request, row, tasks))
            for row, job in zip(request.rows, jobs, strict=True)
        ]
        return GradeResponse(rows=tuple(rows), seconds=time.monotonic() - started)

    def cancel(self, from_cycle: int | None = None) -> list["asyncio.Task[Grade]"]:
        """Drop what is being graded, with `from_cycle` only rows of that cycle and later ones.

        A validation round just before it is dropped too: where it was still being graded, it is begun anew.
        """
        jobs = [
            job
            for (place, _), job in self._under_way.items()
            if from_cycle is None or place.cycle >= from_cycle - (place.split == "validation")
        ]
        for job in jobs:
            job.cancel()
        self._groups = {key: g for key, g in self._groups.items() if from_cycle is not None and key[1] < from_cycle}
        return jobs

    async def stop(self, from_cycle: int | None = None) -> None:
        """`cancel`, and wait until it has happened."""
        if jobs := self.cancel(from_cycle):
            await asyncio.wait(jobs)

    def _task(self, split: Split, row: Row) -> Task:
        if split == "validation":
            if self.validation is None:
                raise ServiceRefused("the run has no validation tasks", "Name a file under validation.file")
            return self.validation.task(row.position, row.row)
        served = self.pool.row(row.position)
        task = self.store.task(served.task_id, served.version) if served else None
        if task is None:
            raise ServiceRefused(f"position {row.position} was never served", "Ask for /v1/served/{position} first")
        return task

    def _group(self, request: GradeRequest, row: Row) -> Group:
        key = (request.split, request.cycle, row.position)
        if key not in self._groups:
            known = self.store.group_scores(*key)
            group = self._groups[key] = Group(self._group_size(request.split), dict(known))
            if len(known) >= group.size:
                group.full.set()
            self._groups = {k: g for k, g in self._groups.items() if k[1] >= request.cycle - 1}
        return self._groups[key]

    def _group_size(self, split: Split) -> int:
        if split == "validation" and self.validation is not None:
            return self.validation.config.rollouts_per_task
        return self.rollouts_per_task

    def _once(self, place: Place, row: Row, task: Task) -> "asyncio.Task[Grade]":
        key = (place, row.answer)
        job = self._under_way.get(key)
        if job is None:
            job = self._under_way[key] = asyncio.create_task(self._grade(place, row, task))
            job.add_done_callback(lambda done: self._forget(key, done))
        return job

    def _forget(self, key: Key, job: "asyncio.Task[Grade]") -> None:
        self._under_way.pop(key, None)
        if not job.cancelled():
            job.exception()  # looked at, for a job whose request has failed already

    async def _grade(self, place: Place, row: Row, task: Task) -> Grade:
        known = self.store.find_grade(place, row.answer)
        if known is not None:
            return known
        with tagged(task.task_id, f"cycle-{place.cycle}-position-{place.position}-row-{place.row}"):
            grade = await self.grader.grade(task, row.answer, training=place.split == "train")
        await self.store.add_grades([GradeRow(place, task.task_id, task.version, row.answer, row.finished, grade)])
        self._count(grade)
        await self._observe(place, task, grade)
        return grade

    async def _observe(self, place: Place, task: Task, grade: Grade) -> None:
        """The pool learns the training score: the task may leave the draw by it."""
        if place.split == "train" and grade.score is not None:
            await self.pool.scored(task.task_id, task.version, grade.score)

    def _count(self, grade: Grade) -> None:
        """Raises:
        ModelError: the judge has failed on too many answers in a row.
        """
        if grade.score is not None:
            self.in_a_row = 0
            return
        self.in_a_row += 1
        self.last_error = grade.unscored
        if self.in_a_row >= self.config.unscored_in_a_row:
            raise ModelError(f"the judge failed on {self.in_a_row} answers in a row; the last one: {self.last_error}")

    async def _floored(self, request: GradeRequest, row: Row, tasks: dict[int, Task]) -> Grade:
        """The grade of a truncated row, once the rest of its group is scored."""
        place, task = _place(request, row), tasks[row.position]
        known = self.store.find_grade(place, row.answer)
        if known is not None:
            return known
        group = self._group(request, row)
        with contextlib.suppress(TimeoutError):
            # A rank that died sends nothing; its group is then floored by what there is.
            await asyncio.wait_for(group.full.wait(), self.floor_wait_s)
        # No verdicts and no raw score: what a kept row without them and `finished` false means.
        grade = Grade(verdicts=(), score=group.floor(), raw=None)
        await self.store.add_grades([GradeRow(place, task.task_id, task.version, row.answer, row.finished, grade)])
        self.truncated += place.split == "train"
        await self._observe(place, task, grade)
        return grade

    def _graded(self, row: Row, task: Task, grade: Grade) -> GradedRow:
        outcomes: Sequence[str] = [v.outcome for v in grade.verdicts]
        return GradedRow(
            position=row.position,
            row=row.row,
            task_id=task.task_id,
            version=task.version,
            score=grade.score,
            raw=grade.raw,
            unscored=grade.unscored,
            met=outcomes.count("met"),
            unmet=outcomes.count("unmet"),
            unknown=outcomes.count("unknown"),
            patched=self.pool.patched(task.task_id, task.version),
        )


def _place(request: GradeRequest, row: Row) -> Place:
    return Place(request.split, request.cycle, row.position, row.row)


async def _outcome(job: "asyncio.Task[Grade]") -> Grade:
    """The job's grade. Shielded: a client that hangs up does not throw paid verdicts away.

    Raises:
        ServiceUnavailable: the job was dropped.
    """
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        if job.cancelled():
            raise ServiceUnavailable("the answer was dropped: training resumed, or the run ended") from None
        raise
