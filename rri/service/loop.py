"""The loop between cycles: exploits repair rubrics, and diagnoses rewrite how tasks are made (METHOD 7).

All state is in the store. What a kill interrupts is done again at the next start, from the same rows; what was
kept stays.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from programs.exploits import CaseFinder, largest
from programs.patching import Patcher
from rri.aio import collect
from rri.cases import ExploitCase, Patch, Ranking
from rri.config import RunConfig
from rri.errors import ModelError, RriError
from rri.pool import Pool
from rri.service.evolving import Evolver
from rri.store import Report, RoundRow, Store
from rri.types import Task

__all__ = ["Loop"]

Stage = Callable[[Report], Awaitable[Mapping[str, Any]]]


class Loop:
    """Works off the cycles that the trainer reports, in order, in the background. Lives on the service's loop.

    A failing model is counted and its round left out; after `loop.failures_in_a_row` failed rounds of one kind `run`
    ends with the reason. A round that had nothing to do is no success between them. Cycles that a resumed trainer goes
    over again are not worked on twice: only its new report counts.

    Args:
        config: the run's config.
        store, pool: where cases and patches go.
        finder, patcher: the programs on a step's rollouts.
        evolver: the round at every interval.
    """

    def __init__(
        self, config: RunConfig, store: Store, pool: Pool, finder: CaseFinder, patcher: Patcher, evolver: Evolver
    ) -> None:
        self.config = config
        self.store = store
        self.pool = pool
        self.finder = finder
        self.patcher = patcher
        self.evolver = evolver
        self.failures = 0
        self.last_error = ""
        self.doing = ""
        self._in_a_row: Counter[str] = Counter()
        self._backlog = store.open_reports()
        self._changed = asyncio.Event()

    @property
    def backlog(self) -> int:
        """Reported cycles whose work is not over."""
        return len(self._backlog)

    async def report(self, cycle: int, step: int, metrics: Mapping[str, float]) -> Report:
        """A cycle is finished; its work follows in the background. The same report again changes nothing."""
        report = await self.store.add_report(cycle, step, metrics)
        if report not in self._backlog and not self.store.round_done(report.id, "cycle"):
            self._backlog.append(report)
            self._wake()
        return report

    async def caught_up(self, limit: int, patience_s: float | None = None) -> bool:
        """Whether at most `limit` cycles wait, within `patience_s` seconds; None waits for ever."""
        try:
            async with asyncio.timeout(patience_s):
                while self.backlog > limit:
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        # Waiters look again; who comes later waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            RriError: too many failures in a row, the budget, or the store.
        """
        while True:
            while not self._backlog:
                await self._changed.wait()
            report = self._backlog[0]
            await self._cycle(report)
            self._backlog.remove(report)
            self._wake()

    async def _cycle(self, report: Report) -> None:
        started = time.monotonic()
        if self.config.exploits.enabled:
            await self._stage(report, "cases", self._find_cases)
        if self.config.patches.enabled:
            await self._stage(report, "patches", self._patch_cases)
        if self.evolver.due(report.cycle):
            await self._stage(report, "evolution", self.evolver.evolve)
        self.doing = ""
        outcome = "superseded" if self.store.superseded(report.id) else "done"
        row = RoundRow(report.id, report.cycle, "cycle", outcome, time.monotonic() - started, {"step": report.step})
        await self.store.add_round(row)

    async def _stage(self, report: Report, kind: str, stage: Stage) -> None:
        """One piece of work, once; a failing model leaves it out and is counted."""
        if self.store.round_done(report.id, kind) or self.store.superseded(report.id):
            return
        self.doing = f"{kind} of cycle {report.cycle}"
        started = time.monotonic()
        try:
            data, outcome = await stage(report), "done"
        except ModelError as error:
            data, outcome = {"error": str(error)}, "failed"
            await self._failed(kind, report, error)
        else:
            if data:
                self._in_a_row[kind] = 0
        if kind == "patches" or outcome == "failed":
            # The others keep themselves, together with what they found or put into force.
            seconds = time.monotonic() - started
            await self.store.add_round(RoundRow(report.id, report.cycle, kind, outcome, seconds, data))

    async def _failed(self, kind: str, report: Report, error: RriError) -> None:
        self.failures += 1
        self._in_a_row[kind] += 1
        self.last_error = f"{kind} of cycle {report.cycle}: {error}"
        await self.store.log("loop_failed", self.last_error)
        failures = self._in_a_row[kind]
        if failures >= self.config.loop.failures_in_a_row:
            paused = f"paused after {failures} failed rounds of the loop in a row ({kind})"
            error.what = f"{paused}; the last one: {error.what}"
            raise error

    # -- cases ----------------------------------------------------------------

    async def _find_cases(self, report: Report) -> Mapping[str, Any]:
        """Rank every group of the cycle; the largest gaps go to repair. All cases are kept, in one commit with the
        round, so that none is found twice.

        Raises:
            ModelError: the referee failed on every group that it was asked for.
        """
        started = time.monotonic()
        groups = self.store.groups(report.cycle)
        thunks = []
        for position, (task_id, version, answers) in groups.items():
            task = self._task(task_id, version)
            thunks.append(partial(self.finder.find, report.cycle, position, task, answers))
        found: list[tuple[Ranking, ExploitCase | None]] = await collect(thunks, self.config.exploits.concurrency)
        rankings = [ranking for ranking, _ in found]
        cases = [case for _, case in found if case is not None]
        chosen = largest(cases, self.config.exploits.cases_per_round)
        failed = [r.why for r in rankings if r.outcome == "failed"]
        if failed and len(failed) == sum(bool(r.tiers) or r.outcome == "failed" for r in rankings):
            await self.store.add_cases(report.id, rankings, [])
            raise ModelError(f"the referee failed on all {len(failed)} groups; the last one: {failed[-1]}")
        data = {"groups": len(rankings), "cases": len(cases), "chosen": len(chosen), "failed": len(failed)}
        row = RoundRow(report.id, report.cycle, "cases", "done", time.monotonic() - started, data)
        await self.store.add_cases(report.id, rankings, [(case, case in chosen) for case in cases], row)
        return data

    def _task(self, task_id: str, version: int) -> Task:
        task = self.store.task(task_id, version)
        assert task is not None, f"task {task_id} version {version} was graded and is not in the store"
        return task

    # -- patches ----------------------------------------------------------------

    async def _patch_cases(self, report: Report) -> Mapping[str, Any]:
        """Repair the chosen cases of the cycle.

        Raises:
            ModelError: models failed on every one of them.
        """
        waiting = [
            (number, case)
            for number, case in self.store.cases_of(report.id, chosen=True)
            if self.store.patch_of(number) is None
        ]
        thunks = [partial(self._patch, number, case) for number, case in waiting]
        patches = await collect(thunks, self.config.patches.concurrency)
        failed = [p.why for p in patches if p.outcome == "failed"]
        if failed and len(failed) == len(patches):
            raise ModelError(f"repair failed on all {len(failed)} cases; the last one: {failed[-1]}")
        return {outcome: sum(p.outcome == outcome for p in patches) for outcome in {p.outcome for p in patches}}

    async def _patch(self, number: int, case: ExploitCase) -> Patch:
        task_id = case.task.task_id
        current = self._task(task_id, self.pool.version(task_id) or case.task.version)
        known = self.store.honest_answer(current.conversation)
        patch: Patch = await self.patcher.patch(number, case, current, self.store.accepted_before(task_id), known)
        if patch.honest and known is None:
            await self.store.add_honest_answer(current.conversation, patch.honest)
        await self.store.add_patch(patch)
        if patch.outcome == "patched":
            self.pool.refresh()
        return patch

    def stats(self) -> dict[str, Any]:
        """Counters for `rri status` and `/metrics`."""
        return {
            "backlog": self.backlog,
            "doing": self.doing,
            "failures": self.failures,
            "last_error": self.last_error,
            **self.store.loop_figures(),
            **self.evolver.stats(),
        }
