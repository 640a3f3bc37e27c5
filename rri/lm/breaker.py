"""Circuit breaker of one endpoint: while the server is away, calls wait instead of failing one by one."""

import asyncio
import time
from collections.abc import Callable

from rri.config import EndpointConfig
from rri.errors import EndpointBusy, EndpointError, EndpointUnreachable

__all__ = ["Breaker"]


class Breaker:
    """Counts failed tries in a row; at `breaker_failures` it opens, and all calls but one trial wait.

    The trial is let through after `breaker_wait_s` seconds, later ones after twice the pause before, at most
    `breaker_wait_max_s`. A trial that gets any answer closes the breaker. Lives on the gateway's loop.

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
        self._opened: float | None = None
        self._pauses = 0.0
        self._wait = config.breaker_wait_s
        self._trial_at = 0.0
        self._trying = False
        self._changed = asyncio.Event()

    @property
    def open(self) -> bool:
        return self._opened is not None

    @property
    def paused_s(self) -> float:
        """Seconds that calls could not go out, the present pause included."""
        return self._pauses + (time.monotonic() - self._opened if self._opened is not None else 0.0)

    async def gate(self, patience_s: float) -> None:
        """Return when a call may go out.

        Raises:
            EndpointUnreachable: the server stayed away longer than `patience_s` seconds.
        """
        while self._opened is not None:
            now = time.monotonic()
            if not self._trying and now >= self._trial_at:
                self._trying = True
                return
            left = self._opened + patience_s - now
            if left <= 0:
                what = f"endpoint {self.name!r} has been away for {now - self._opened:.0f} s: {self.reason}"
                raise EndpointUnreachable(what, "Bring the server back, or name a fallback for the role")
            pause = left if self._trying else min(left, self._trial_at - now)
            try:
                await asyncio.wait_for(self._changed.wait(), pause)
            except TimeoutError:
                continue  # time for a trial, or out of patience

    def answered(self) -> None:
        """The server answered a try, whatever it said."""
        self._failures = 0
        if self._opened is not None:
            away = time.monotonic() - self._opened
            self._pauses += away
            self._opened, self._trying, self._wait = None, False, self.config.breaker_wait_s
            self._wake()
            self._say(f"endpoint {self.name!r} answers again after {away:.0f} s; calls go on")

    def failed(self, error: EndpointError) -> None:
        """A try found no working server."""
        if not error.retryable or isinstance(error, EndpointBusy):
            self.answered()
            return
        self._failures += 1
        self.reason = error.what
        if self._opened is not None and self._trying:
            self._wait = min(self.config.breaker_wait_max_s, 2 * self._wait)
            self.abandoned()
        elif self._opened is None and self._failures >= self.config.breaker_failures:
            self._opened = time.monotonic()
            self._trial_at = self._opened + self._wait
            self._say(f"endpoint {self.name!r} failed {self._failures} times in a row, calls wait for it: {error.what}")

    def abandoned(self) -> None:
        """The trial ended without an answer; another one follows after a pause."""
        if self._trying:
            self._trying = False
            self._trial_at = time.monotonic() + self._wait
            self._wake()

    def _wake(self) -> None:
        # Waiters look again; who comes later waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()
