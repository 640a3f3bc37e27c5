"""Serving order: replay, then unserved in order of admission, then a seeded draw (DESIGN, seam 2).

What is served at a position is decided once and logged, so every rank and every resume gets the same.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable

from rri.config import PoolConfig
from rri.store import ServedRow, Store

__all__ = ["Pool"]


class Pool:
    """Decides what stands at each position. Lives on the service's loop.

    Args:
        store: where decisions are logged.
        seed: the run's seed; the draw at a position depends on it and the position alone.
        config: how long to wait for new tasks.
        expecting: whether more tasks will still be admitted.
    """

    def __init__(self, store: Store, seed: int, config: PoolConfig, expecting: Callable[[], bool]) -> None:
        self._store = store
        self._seed = seed
        self._config = config
        self._expecting = expecting
        self._log = store.served()
        self._entries: list[tuple[str, int]] = []
        self._seen = 0
        self._replay: deque[tuple[str, int]] = deque()
        self._fresh: deque[tuple[str, int]] = deque()
        self._changed = asyncio.Event()
        self._wanted = -1
        self._decider: asyncio.Task[None] | None = None
        self._arrivals: dict[int, asyncio.Future[None]] = {}
        self.refresh()
        given = {row.task_id for row in self._log}
        self._fresh = deque(entry for entry in self._fresh if entry[0] not in given)

    @property
    def size(self) -> int:
        """Servable tasks."""
        return len(self._entries)

    @property
    def unserved(self) -> int:
        return len(self._fresh)

    @property
    def positions(self) -> int:
        """Positions decided so far."""
        return len(self._log)

    def refresh(self) -> None:
        """Take in what was admitted since the last look, and wake whoever waits."""
        for number, task_id, version in self._store.pool_entries(self._seen):
            self._seen = number
            self._entries.append((task_id, version))
            self._fresh.append((task_id, version))
        self._changed.set()

    def nudge(self) -> None:
        """Wake whoever waits, because `expecting` may have changed."""
        self._changed.set()

    def row(self, position: int) -> ServedRow | None:
        """What was served at `position`, None when that is not decided yet."""
        return self._log[position] if position < len(self._log) else None

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
            self._take(source)
            if arrival := self._arrivals.pop(row.position, None):
                arrival.set_result(None)

    def _waiting_for(self) -> str:
        missing = self._config.min_tasks - len(self._entries)
        if missing > 0:
            return f"the pool holds {len(self._entries)} tasks; training starts at {self._config.min_tasks}"
        return f"all {len(self._entries)} tasks are served; waiting for a new one"

    async def _choose(self, position: int) -> tuple[str, tuple[str, int]]:
        """Look at the next task without taking it: it is taken once the decision is logged."""
        await self._until(lambda: len(self._entries) >= self._config.min_tasks)
        if not (self._replay or self._fresh):
            try:
                async with asyncio.timeout(self._config.fresh_wait_s):
                    await self._until(lambda: bool(self._replay or self._fresh))
            except TimeoutError:
                pass  # no new task in time: one is drawn again
        if self._replay:
            return "replay", self._replay[0]
        if self._fresh:
            return "fresh", self._fresh[0]
        return "draw", random.Random(f"{self._seed}:{position}").choice(self._entries)

    def _take(self, source: str) -> None:
        if source == "replay":
            self._replay.popleft()
        elif source == "fresh":
            self._fresh.popleft()

    async def _until(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready`, or until no more tasks are expected and the pool is not empty."""
        while not ready() and (self._expecting() or not self._entries):
            self._changed.clear()
            await self._changed.wait()
