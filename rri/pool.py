"""Serving order: replay, then unserved in order of admission, then a seeded draw (DESIGN, seam 2; METHOD 7).

What is served at a position is decided once and logged, so every rank and every resume gets the same. A version of
a task leaves the draw once its training scores show that nothing can be learned from it; a patch brings it back.
"""

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from statistics import fmean, pvariance

from rri.config import PoolConfig
from rri.store import ServedRow, Store

__all__ = ["Pool", "out_of_band"]

Entry = tuple[str, int]

TOLERANCE = 1e-9
"""Scores are fractions: a mean of 0.88 must count as inside, and a spread of 0.01 as a variance of 1e-4."""


def out_of_band(scores: deque[float] | list[float], config: PoolConfig) -> tuple[float, float] | None:
    """(mean, variance) of a task's latest training scores when it must leave the draw, else None (METHOD 7).

    It leaves after `band_rollouts` scores, when they vary by less than `band_variance` (population variance) or their
    mean lies outside [band_low, band_high].
    """
    if len(scores) < config.band_rollouts:
        return None
    mean, variance = fmean(scores), pvariance(scores)
    inside = config.band_low - TOLERANCE <= mean <= config.band_high + TOLERANCE
    return None if inside and variance >= config.band_variance - TOLERANCE else (mean, variance)


class Pool:
    """Decides what stands at each position. Lives on the service's loop.

    Args:
        store: where decisions are logged.
        seed: the run's seed; the draw at a position depends on it, on the tasks and on the position alone.
        config: the band, and how long to wait for new tasks.
        expecting: whether more tasks will still be admitted.
        taken: told when a task was served, because admission may wait for that.
    """

    def __init__(
        self,
        store: Store,
        seed: int,
        config: PoolConfig,
        expecting: Callable[[], bool],
        taken: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._seed = seed
        self._config = config
        self._expecting = expecting
        self._taken = taken
        self._log = store.served()
        # task id -> version that is served now, in order of admission.
        self._current: dict[str, int] = {}
        self._patched: set[Entry] = set()
        self._order: list[str] = []
        self._drawable = 0
        self._evicted = set(store.evicted())
        self._windows: dict[Entry, deque[float]] = {}
        self._seen, self._seen_patches = 0, 0
        # task id -> version, in the order of the patches.
        self._replay: OrderedDict[str, int] = OrderedDict()
        self._fresh: deque[Entry] = deque()
        self._changed = asyncio.Event()
        self._wanted = -1
        self._decider: asyncio.Task[None] | None = None
        self._arrivals: dict[int, asyncio.Future[None]] = {}
        self.refresh()
        given = {row.task_id for row in self._log}
        self._fresh = deque(entry for entry in self._fresh if entry[0] not in given)
        served = {(row.task_id, row.version) for row in self._log}
        self._replay = OrderedDict(entry for entry in self._replay.items() if entry not in served)
        self.recount()

    @property
    def size(self) -> int:
        """Admitted tasks that may be served, evicted ones included."""
        return len(self._current)

    @property
    def unserved(self) -> int:
        return len(self._fresh)

    @property
    def replaying(self) -> int:
        """Patched tasks that wait for their next turn."""
        return len(self._replay)

    @property
    def evicted(self) -> int:
        """Tasks whose present version has left the draw."""
        return len(self._current) - self._drawable

    @property
    def positions(self) -> int:
        """Positions decided so far."""
        return len(self._log)

    def version(self, task_id: str) -> int | None:
        """The version of a task that is served now."""
        return self._current.get(task_id)

    def patched(self, task_id: str, version: int) -> bool:
        """Whether this version came from a patch, not from admission."""
        return (task_id, version) in self._patched

    def refresh(self) -> None:
        """Take in what was admitted and patched since the last look, and wake whoever waits."""
        for number, task_id, version in self._store.pool_entries(self._seen):
            self._seen = number
            self._order.append(task_id)
            self._bring_in(task_id, version)
            self._fresh.append((task_id, version))
        for patch in self._store.patches(self._seen_patches, patched=True):
            self._seen_patches = patch.seq
            self._bring_in(patch.task_id, patch.version)
            self._patched.add((patch.task_id, patch.version))
            # Of several patches between two turns only the last is served.
            self._replay[patch.task_id] = patch.version
            self._replay.move_to_end(patch.task_id)
        self._changed.set()

    def _bring_in(self, task_id: str, version: int) -> None:
        """This version is served from now on. Counts are kept up, not counted anew: the pool may be large."""
        before = self._current.get(task_id)
        self._drawable -= before is not None and (task_id, before) not in self._evicted
        self._current[task_id] = version
        self._drawable += (task_id, version) not in self._evicted

    def nudge(self) -> None:
        """Wake whoever waits, because `expecting` may have changed."""
        self._changed.set()

    def row(self, position: int) -> ServedRow | None:
        """What was served at `position`, None when that is not decided yet."""
        return self._log[position] if position < len(self._log) else None

    def _window(self, entry: Entry) -> deque[float]:
        return self._windows.setdefault(entry, deque(maxlen=self._config.band_window))

    def recount(self) -> None:
        """Fill the windows from the store: training has gone back, and some scores no longer count.

        What was evicted by them stays evicted.
        """
        self._windows.clear()
        for task_id, version, score in self._store.task_scores():
            self._window((task_id, version)).append(score)

    async def scored(self, task_id: str, version: int, score: float) -> None:
        """A training score of a served version; it may leave the draw by it."""
        entry = (task_id, version)
        window = self._window(entry)
        window.append(score)
        figures = out_of_band(window, self._config) if self._config.evict else None
        if figures is not None and entry not in self._evicted:
            self._evicted.add(entry)
            self._drawable -= self._current.get(task_id) == version
            await self._store.add_eviction(task_id, version, *figures, len(window))

    async def served(self, position: int, patience_s: float) -> ServedRow | str:
        """What stands at `position`; every position before it is decided first.

        Returns:
            The row, or a message when no task can be given within `patience_s` seconds.

        Raises:
            StoreError: a decision could not be logged.
        """
        self._wanted = max(self._wanted, position)
        if len(self._log) <= position:
            # One task decides for all callers, and no caller's timeout can stop it between a decision and its row.
            if self._decider is None or self._decider.done():
                self._decider = asyncio.create_task(self._decide())
            arrival = self._arrivals.setdefault(position, asyncio.get_running_loop().create_future())
            await asyncio.wait([arrival, self._decider], timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if position >= len(self._log) and self._decider.done():
                self._decider.result()
        return self._log[position] if position < len(self._log) else self._waiting_for()

    async def _decide(self) -> None:
        while len(self._log) <= self._wanted:
            source, (task_id, version) = await self._choose(len(self._log))
            row = ServedRow(len(self._log), task_id, version, source)
            await self._store.add_served(row)
            self._log.append(row)
            self._take(source, (task_id, version))
            if arrival := self._arrivals.pop(row.position, None):
                arrival.set_result(None)

    def _waiting_for(self) -> str:
        missing = self._config.min_tasks - len(self._current)
        if missing > 0:
            return f"the pool holds {len(self._current)} tasks; training starts at {self._config.min_tasks}"
        if not self._drawable:
            return f"all {len(self._current)} tasks have left the difficulty band; waiting for a new or a patched one"
        return f"all {len(self._current)} tasks are served; waiting for a new one"

    async def _choose(self, position: int) -> tuple[str, Entry]:
        """Look at the next task without taking it: it is taken once the decision is logged."""
        await self._until(lambda: len(self._current) >= self._config.min_tasks)
        if not (self._replay or self._fresh):
            try:
                async with asyncio.timeout(self._config.fresh_wait_s):
                    await self._until(lambda: bool(self._replay or self._fresh))
            except TimeoutError:
                pass  # no new task in time: one is drawn again
        await self._until(lambda: bool(self._replay or self._fresh or self._drawable))
        if self._replay:
            return "replay", next(iter(self._replay.items()))
        if self._fresh:
            return "fresh", self._fresh[0]
        return self._drawn(random.Random(f"{self._seed}:{position}"))

    def _drawn(self, rng: random.Random) -> tuple[str, Entry]:
        """A task of the band. With none left and nothing to come, an evicted task is better than none."""
        source = "draw" if self._drawable else "evicted"
        while True:
            # Drawn from all, and again where it has left: no list is made anew for every eviction.
            task_id = rng.choice(self._order)
            entry = (task_id, self._current[task_id])
            if source == "evicted" or entry not in self._evicted:
                return source, entry

    def _take(self, source: str, entry: Entry) -> None:
        task_id, version = entry
        if source == "replay" and self._replay.get(task_id) == version:
            del self._replay[task_id]
        elif source == "fresh" and entry in self._fresh:
            self._fresh.remove(entry)
        self._taken()

    async def _until(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready`, or until no more tasks are expected and the pool is not empty."""
        while not ready() and (self._expecting() or not self._current):
            self._changed.clear()
            await self._changed.wait()
