"""Background work that fills the pool: write tasks, attack and repair them, admit them (METHOD 4 and 5).

Admission runs at most `pool.ahead` tasks ahead of the trainer, which in turn waits while the pool is thin.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from programs.admission import Admitter
from programs.writing import Request, TaskWriter
from rri.config import RunConfig
from rri.errors import ModelError, RriError
from rri.evidence import Admission
from rri.pool import Pool
from rri.shape import ShapePlan, ShapeRow, plan_shape
from rri.store import Origin, Store
from rri.types import Message, Task

__all__ = ["GuidedWriter", "Producer"]


class GuidedWriter(NamedTuple):
    """The writer under the guidance and the memo of these versions."""

    writer: TaskWriter
    guidance: int
    memo: int


@dataclass
class Figures:
    """Admissions so far, kept up as they come: counting them anew would slow down with every task."""

    outcomes: Counter[str]
    measured: int = 0
    before: float = 0.0
    after: float = 0.0

    @classmethod
    def of(cls, store: Store) -> Self:
        before, after, measured = store.mean_deltas()
        return cls(Counter(store.admission_counts()), measured, (before or 0) * measured, (after or 0) * measured)

    def add(self, admission: Admission) -> None:
        self.outcomes[admission.outcome] += 1
        if admission.delta_before is not None and admission.delta_after is not None:
            self.measured += 1
            self.before += admission.delta_before
            self.after += admission.delta_after

    def as_stats(self) -> dict[str, Any]:
        n = self.measured
        return {
            "outcomes": dict(self.outcomes),
            "delta_before": self.before / n if n else None,
            "delta_after": self.after / n if n else None,
            "measured": n,
        }


class Producer:
    """Writes and admits tasks until the run has as many as the config asks for.

    Failing models are counted; after `generation.failures_in_a_row` of them the error ends `run`.

    Args:
        config: the run's config.
        writer: the program that writes, with the guidance in force; replaced by evolution rounds.
        admitter: the program that attacks and repairs.
        store, pool: where tasks go.
        prompt_tokens: length of a prompt in the solver's tokens.
        held_out: why a task must not be trained on; empty where it may be.
    """

    def __init__(
        self,
        config: RunConfig,
        writer: GuidedWriter,
        admitter: Admitter,
        store: Store,
        pool: Pool,
        prompt_tokens: Callable[[list[Message]], int],
        held_out: Callable[[Task], str] = lambda task: "",
    ) -> None:
        self.config = config
        self.writer = writer
        self.figures = Figures.of(store)
        rows, self._earlier = store.origins(config.generation.shape.rows_needed)
        self._shapes = deque(rows, maxlen=config.generation.shape.rows_needed)
        self.admitter = admitter
        self.store = store
        self.pool = pool
        self.prompt_tokens = prompt_tokens
        self.held_out = held_out
        self.admitted = pool.size
        self.under_way = 0
        self.unbounded = False
        self.closing = False
        self.failures = 0
        self.last_error = ""
        self.stages: dict[str, int] = {"writing": 0, "in repair": 0, "queued": 0}
        self._requests: deque[tuple[int, Request]] = deque()
        self._proposing = asyncio.Lock()
        self._draws = store.last_draw()
        self._in_a_row = 0
        self._repairs = asyncio.Semaphore(config.admission.concurrency)
        self._moved = asyncio.Event()

    @property
    def target(self) -> int:
        return self.config.generation.tasks

    @property
    def finished(self) -> bool:
        return self.admitted >= self.target

    @property
    def plan(self) -> ShapePlan:
        """What the shape controls ask for now."""
        config = self.config.generation
        return plan_shape(
            list(self._shapes), config.positives, config.negative_share, config.shape, earlier=self._earlier
        )

    def nudge(self) -> None:
        """Look again whether there is something to write: a task was served."""
        self._moved.set()

    def _may_write(self) -> bool:
        """Whether one more task may be begun: the target is not reached, and the trainer is not too far behind."""
        if self.admitted + self.under_way >= self.target:
            return False
        return self.unbounded or self.pool.unserved + self.under_way < self.config.pool.ahead

    def close(self) -> None:
        """Nobody will take tasks any more: what may still be begun is, and then `run` ends, target or not."""
        self.closing = True
        self._moved.set()

    async def run(self) -> None:
        """Admit what an earlier start left as drafts, then write more until the target is reached.

        Raises:
            RriError: too many failures in a row, the budget, or the store.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for draft in self.store.drafts()[: max(0, self.target - self.admitted)]:
                    self.under_way += 1
                    group.create_task(self._admit(draft))
                for _ in range(min(self.config.generation.concurrency, self.target)):
                    group.create_task(self._work(group))
        except BaseExceptionGroup as failures:
            ours = failures.subgroup(RriError)
            raise (ours.exceptions[0] if ours else failures.exceptions[0]) from None

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            if not self._may_write():
                # Tasks under way may still be refused, so a worker stays until the target is really reached.
                if self.finished or (self.closing and not self.under_way):
                    return
                self._moved.clear()
                await self._moved.wait()
                continue
            self.under_way += 1
            self.stages["writing"] += 1
            try:
                draft, origin = await self._write()
            except ModelError as error:
                self._settle(0)
                await self._failed("write_failed", error)
                continue
            finally:
                self.stages["writing"] -= 1
            await self.store.add_draft(draft, origin)
            self._shaped(draft, origin)
            group.create_task(self._admit(draft))

    def _settle(self, admitted: int) -> None:
        """One task is no longer under way; wake the workers that wait for that."""
        self.under_way -= 1
        self.admitted += admitted
        self._moved.set()

    async def _write(self) -> tuple[Task, Origin]:
        number, request = await self._next_request()
        guided = self.writer
        shape = guided.writer.shape(request, number, self.plan)
        task = await guided.writer.write(request, number, shape)
        origin = Origin(
            guidance=guided.guidance,
            memo=guided.memo,
            asked_positives=shape.positives,
            asked_negative=shape.negative,
        )
        return task, origin

    def _shaped(self, draft: Task, origin: Origin) -> None:
        """The shape controls see what was delivered."""
        if len(self._shapes) == self._shapes.maxlen:
            self._earlier += 1
        points = [c.points for c in draft.rubric.criteria]
        self._shapes.append(
            ShapeRow(
                origin.asked_positives or 0,
                bool(origin.asked_negative),
                sum(p > 0 for p in points),
                sum(p < 0 for p in points),
                draft.labels.red_team,
            )
        )

    async def _next_request(self) -> tuple[int, Request]:
        """A request with its number, from the latest draw or a new one."""
        async with self._proposing:
            if not self._requests:
                settings = self.config.generation
                avoid = self.store.recent_requests(settings.recent_requests)
                self._draws += 1
                requests = await self.writer.writer.propose(settings.requests_per_call, self._draws, avoid)
                numbers = await self.store.add_proposals(self._draws, [r.text for r in requests])
                self._requests.extend(zip(numbers, requests, strict=True))
            return self._requests.popleft()

    async def _failed(self, kind: str, error: RriError) -> None:
        self.failures += 1
        self._in_a_row += 1
        in_a_row = self._in_a_row  # another worker may fail while this failure is kept
        self.last_error = str(error)
        await self.store.log(kind, str(error))
        if in_a_row >= self.config.generation.failures_in_a_row:
            error.what = f"{in_a_row} tasks in a row failed; the last one: {error.what}"
            raise error

    async def _admit(self, draft: Task) -> None:
        self.stages["queued"] += 1
        async with self._repairs:
            self.stages["queued"] -= 1
            self.stages["in repair"] += 1
            started = time.monotonic()
            try:
                admission = self._fit(draft) or await self.admitter.admit(draft)
                admission = self._refit(admission)
            finally:
                self.stages["in repair"] -= 1
        await self.store.add_admission(admission)
        self.figures.add(admission)
        # In this order, with nothing awaited between: a task that counted nowhere would let one too many begin.
        self.pool.refresh()
        self._settle(int(admission.outcome != "refused"))
        seconds = time.monotonic() - started
        await self.store.log("admitted", f"{draft.task_id} {admission.outcome}", seconds=seconds)
        if admission.outcome == "refused":
            await self._failed("refused", ModelError(f"task {draft.task_id} was refused: {admission.why}"))
            return
        if failure := admission.failure:
            await self._failed("attack_failed", ModelError(f"attack on {draft.task_id}: {failure}"))
        else:
            self._in_a_row = 0

    def _fit(self, draft: Task) -> Admission | None:
        """A refusal of what never enters the pool: a task that is longer than the solver's prompt, or one that is kept
        apart for validation.
        """
        length = self.prompt_tokens(list(draft.conversation))
        limit = self.config.solver.max_prompt_tokens
        why = self.held_out(draft)
        if length > limit:
            why = f"its prompt has {length} tokens, the solver takes {limit}"
        if not why:
            return None
        return Admission(original=draft, task=draft, outcome="refused", why=why)

    def _refit(self, admission: Admission) -> Admission:
        """The original in place of an adopted rewrite that may not enter the pool."""
        if admission.task.version == admission.original.version or (refusal := self._fit(admission.task)) is None:
            return admission
        return admission.model_copy(
            update={
                "task": admission.original,
                "outcome": "kept",
                "delta_after": admission.delta_before,
                "why": f"{admission.why}; the adopted rewrite cannot be used: {refusal.why}",
            }
        )
