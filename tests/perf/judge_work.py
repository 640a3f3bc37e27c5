"""What every client of the judge benchmark grades, and how its run is measured.

Needs nothing but the standard library and `rri.aio`, so that the environments of other libraries can import it.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from rri.aio import collect

__all__ = [
    "ANSWERS",
    "CONCURRENCY",
    "CRITERIA",
    "DEADLINE_S",
    "LATENCY_S",
    "POINTS",
    "QUESTION",
    "VOTES",
    "Judged",
    "Meter",
    "answer",
    "by_criterion",
    "by_vote",
    "majority",
]

T = TypeVar("T")

ANSWERS, VOTES, ANSWER_CHARS, POINTS = 512, 3, 2000, 8
CONCURRENCY, LATENCY_S, DEADLINE_S = 256, 0.05, 10.0
QUESTION = "What follows from the findings? " * 8
CRITERIA = tuple(f"States the value of quantity number {i} exactly" for i in range(4))


def answer(number: int) -> str:
    return (f"Answer {number}. " + "The quantity is stated here with its unit and its source. " * 50)[:ANSWER_CHARS]


@dataclass(frozen=True)
class Judged:
    """One criterion of one answer: the verdict that the client ends with, and the votes it asked for.

    True is met, False unmet; None is no verdict, or a vote that was asked for and lost.
    """

    verdict: bool | None
    votes: Sequence[bool | None]


def majority(votes: Sequence[bool | None]) -> bool | None:
    """More than half of the votes asked for; for clients that leave voting to their user."""
    return next((side for side in (True, False) if votes.count(side) * 2 > len(votes)), None)


def by_vote(votes: Sequence[bool | None]) -> list[Judged]:
    """From single votes, those of a criterion one after another."""
    groups = [votes[start : start + VOTES] for start in range(0, len(votes), VOTES)]
    return [Judged(majority(group), group) for group in groups]


def by_criterion(gradings: Sequence[Sequence[bool | None] | None]) -> list[Judged]:
    """From gradings of whole answers, one vote on each criterion in each; those of an answer one after another."""
    lost = [None] * len(CRITERIA)
    votes = []
    for start in range(0, len(gradings), VOTES):
        sheets = [sheet or lost for sheet in gradings[start : start + VOTES]]
        votes += [vote for column in zip(*sheets, strict=True) for vote in column]
    return by_vote(votes)


@dataclass
class Meter:
    """Measures what happens inside its `with` block: seconds, CPU of this process, slowest call, exceptions."""

    slowest_s: float = 0.0
    exceptions: Counter[str] = field(default_factory=Counter)
    extra: dict[str, float] = field(default_factory=dict)
    _cpu: float = 0.0
    _wall: float = 0.0

    def __enter__(self) -> Self:
        self._cpu, self._wall = time.process_time(), time.monotonic()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._cpu, self._wall = time.process_time() - self._cpu, time.monotonic() - self._wall

    async def spread(self, calls: Sequence[Callable[[], Awaitable[T]]], limit: int = CONCURRENCY) -> list[T | None]:
        """Results in order, None for a call that raised."""
        return await collect([partial(self._timed, call) for call in calls], limit)

    async def _timed(self, call: Callable[[], Awaitable[T]]) -> T | None:
        started = time.monotonic()
        try:
            return await call()
        except Exception as error:  # noqa: BLE001  (whatever comes out of a client is counted)
            self.exceptions[type(error).__name__] += 1
            return None
        finally:
            self.took(time.monotonic() - started)

    def took(self, seconds: float) -> None:
        self.slowest_s = max(self.slowest_s, seconds)

    def report(self, judged: Sequence[Judged]) -> str:
        """One line of JSON. Every positive answer is right here, so an unmet criterion is wrong."""
        votes = [vote for criterion in judged for vote in criterion.votes]
        verdicts = [criterion.verdict for criterion in judged]
        result: dict[str, Any] = {
            "criteria": len(judged),
            "votes": len(votes),
            "wrong": verdicts.count(False),
            "unknown": verdicts.count(None),
            "lost": votes.count(None),
            "exceptions": self.exceptions.total(),
            "exception_kinds": dict(self.exceptions),
            "cpu_s": self._cpu,
            "wall_s": self._wall,
            "slowest_s": self.slowest_s,
            "peak_mb": peak_mb(),
            **self.extra,
        }
        return json.dumps(result)


def peak_mb() -> float:
    """Largest resident size of this process. Unlike `ru_maxrss`, never the one of the process that started it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found.group(1)) / 1024
