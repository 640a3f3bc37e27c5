"""Circuit breaker of one endpoint: while the server is away, calls wait instead of failing one by one."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from rri.config import EndpointConfig
from rri.errors import EndpointBusy, EndpointError, EndpointUnreachable

__all__ = ["Breaker", "Stopwatch"]


class Stopwatch:
    """Seconds in which something held. Set on one thread, read on any."""

    def __init__(self) -> None:
        # One tuple, so that another thread never sees half a change.
        self._state: tuple[float, float | None] = (0.0, None)

    @property
    def since(self) -> float | None:
        """When it began to hold (monotonic seconds); None while it does not."""
        return self._state[1]

    @property
    def seconds(self) -> float:
        """All of it, the present stretch included."""
        before, since = self._state
        return before + (time.monotonic() - since if since is not None else 0.0)

    def hold(self, holds: bool) -> None:
        """Say whether it holds from now on; saying the same again changes nothing."""
        if holds and self.since is None:
            self._state = (self.seconds, time.monotonic())
        elif not holds:
            self._state = (self.seconds, None)


class Breaker:
    """Counts failed tries in a row; at `breaker_failures` it opens, and all calls but one trial wait.

    The trial is let through after `breaker_wait_s` seconds, later ones after twice the pause before, at most
    `breaker_wait_max_s`. A try that gets any answer closes the breaker. Lives on the gateway's loop.

    Args:
        name: the endpoint.
        config: its numbers.
        say: told when the breaker opens and when it closes.
    """

    def __init__(self, name: str, config: EndpointConfig, say: Callable[[str], None] = lambda message: None) -> None:
        self.name = name
        self.config = config
        self.reason = ""
        self._say = say
        self._failures = 0
        self._away = Stopwatch()
        self._wait = config.breaker_wait_s
        self._trial_at = 0.0
        self._trial = 0
        self._trials = 0
        self._changed = asyncio.Event()

    @property
    def open(self) -> bool:
        return self._away.since is not None

    @property
    def paused_s(self) -> float:
        """Seconds that calls could not go out, the present pause included."""
        return self._away.seconds

    async def gate(self, patience_s: float) -> int:
        """Return when a call may go out: the number of the trial that it is, 0 for a usual call.

        A trial must be ended: by `answered`, `failed` or `abandoned`.

        Raises:
            EndpointUnreachable: the server has been away longer than `patience_s` seconds. A call that comes later
                still waits as long for a trial that is under way.
        """
        arrived = time.monotonic()
        while (opened := self._away.since) is not None:
            now = time.monotonic()
            if not self._trial and now >= self._trial_at:
                self._trials += 1
                self._trial = self._trials
                return self._trial
            left = (arrived if self._trial else opened) + patience_s - now
            if left <= 0:
                what = f"endpoint {self.name!r} has been away for {now - opened:.0f} s: {self.reason}"
                raise EndpointUnreachable(what, "Bring the server back, or name a fallback for the role")
            pause = left if self._trial else min(left, self._trial_at - now)
            try:
                await asyncio.wait_for(self._changed.wait(), pause)
            except TimeoutError:
                continue  # time for a trial, or out of patience
        return 0

    @asynccontextmanager
    async def slot(self, slots: asyncio.Semaphore, patience_s: float) -> AsyncIterator[int]:
        """One of the endpoint's slots, once calls may go out; gives what `gate` gave. A trial ends with it.

        Raises:
            EndpointUnreachable: as in `gate`.
        """
        while True:
            trial = await self.gate(patience_s)
            try:
                async with slots:
                    # Calls that queued for a slot while the server failed must wait too, and without holding one.
                    if trial or not self.open:
                        yield trial
                        return
            finally:
                self.abandoned(trial)

    def answered(self) -> None:
        """The server answered a try, whatever it said."""
        self._failures = 0
        if (opened := self._away.since) is not None:
            away = time.monotonic() - opened
            self._away.hold(False)
            self._trial, self._wait = 0, self.config.breaker_wait_s
            self._wake()
            self._say(f"endpoint {self.name!r} answers again after {away:.0f} s; calls go on")

    def failed(self, error: EndpointError, trial: int = 0) -> None:
        """A try found no working server. `trial` is what `gate` returned for it."""
        if not error.retryable or isinstance(error, EndpointBusy):
            self.answered()
            return
        self._failures += 1
        self.reason = error.what
        if self.open:
            # One that was sent before the breaker opened says nothing about the trial.
            if self._is_trial(trial):
                self._wait = min(self.config.breaker_wait_max_s, 2 * self._wait)
                self.abandoned(trial)
        elif self._failures >= self.config.breaker_failures:
            self._away.hold(True)
            self._trial_at = time.monotonic() + self._wait
            self._say(f"endpoint {self.name!r} failed {self._failures} times in a row, calls wait for it: {error.what}")

    def abandoned(self, trial: int) -> None:
        """The trial ended without an answer; another one follows after a pause. Any other call changes nothing."""
        if self._is_trial(trial):
            self._trial = 0
            self._trial_at = time.monotonic() + self._wait
            self._wake()

    def _is_trial(self, trial: int) -> bool:
        return trial != 0 and trial == self._trial

    def _wake(self) -> None:
        # Waiters look again; who comes later waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()
