"""The time that the votes of one answer may take."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from rri.aio import collect
from rri.lm.gateway import Gateway
from rri.types import Vote

__all__ = ["GradeDeadline"]

LEAST_WAIT_S = 0.05
"""While the endpoint is away the time left stands still: looking again after a sliver of it would be a busy loop."""


class GradeDeadline:
    """Seconds that one answer's votes have in all, counted from its making.

    Time in which the judge's endpoint is away does not count: the loop pauses then, it does not lose answers.
    """

    def __init__(self, gateway: Gateway, seconds: float) -> None:
        self.gateway = gateway
        self.seconds = seconds
        self._started = time.monotonic() - gateway.paused_s("judge")

    def _left(self) -> float:
        return self._started + self.seconds + self.gateway.paused_s("judge") - time.monotonic()

    async def keep(self, thunks: Sequence[Callable[[], Awaitable[Vote]]]) -> list[Vote]:
        """The votes in the order of `thunks`; one that does not come in time is unknown.

        Raises:
            BudgetExhausted: a hard limit is reached.
        """
        votes: dict[int, Vote] = {}

        async def cast(number: int) -> None:
            votes[number] = await thunks[number]()

        job = asyncio.ensure_future(collect([partial(cast, i) for i in range(len(thunks))], len(thunks)))
        try:
            while not job.done() and (left := self._left()) > 0:
                await asyncio.wait([job], timeout=max(left, LEAST_WAIT_S))
        finally:
            if not job.done():
                job.cancel()
                await asyncio.wait([job])
        if not job.cancelled():
            job.result()
        late = Vote(outcome="unknown", error=f"no vote within the answer's deadline of {self.seconds:g} s")
        return [votes.get(i, late) for i in range(len(thunks))]
