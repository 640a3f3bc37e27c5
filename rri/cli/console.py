"""What people see while they wait: one status line, live on a terminal, now and then in a log."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.status import Status

__all__ = ["ProgressLine", "progress_line", "readable_time"]

LOG_EVERY_S = 15.0


def readable_time(seconds: float) -> str:
    """1:02:03, 2:03 or 4 s."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


class ProgressLine:
    """Shows messages and a status on stderr, so that stdout stays for results."""

    def __init__(self, console: Console, status: Status | None) -> None:
        self._console = console
        self._status = status
        self._last = ""
        self._shown_at = 0.0
        self.started = time.monotonic()

    def say(self, message: str) -> None:
        """A line that stays."""
        self._console.print(message, highlight=False, markup=False)

    def update(self, line: str) -> None:
        """The current status; in a log it is printed when it changed, at most every LOG_EVERY_S seconds."""
        if self._status is not None:
            self._status.update(line)
        elif line != self._last and time.monotonic() - self._shown_at >= LOG_EVERY_S:
            self._shown_at = time.monotonic()
            self._last = line
            self.say(line)


@contextlib.contextmanager
def progress_line(quiet: bool) -> Iterator[ProgressLine]:
    """A progress line while the block lasts; quiet or without a terminal it only logs."""
    console = Console(stderr=True)
    if quiet or not sys.stderr.isatty():
        yield ProgressLine(console, None)
        return
    with console.status("starting") as status:
        yield ProgressLine(console, status)


def describe(stats: dict[str, Any], elapsed: float, cycles: int) -> str:
    """A run's counters in one line: counts, rate, cost, time left."""
    admission, grading, calls = stats["admission"], stats["grading"], stats["calls"]
    under_way = ", ".join(f"{n} {name}" for name, n in admission["under_way"].items() if n)
    parts = [f"admitted {admission['admitted']}/{admission['target']}" + (f" ({under_way})" if under_way else "")]
    if admission["delta_before"] is not None:
        parts.append(f"delta {admission['delta_before']:+.2f} -> {admission['delta_after']:+.2f}")
    if admission["failures"]:
        parts.append(f"{admission['failures']} failed")
    if cycles:
        parts.append(f"cycle {grading['cycles']}/{cycles}, {grading['rollouts']} rollouts graded")
    if grading["unscored"]:
        parts.append(f"{grading['unscored']} unscored")
    total = sum(c["calls"] for c in calls.values())
    tokens = sum(c["tokens_in"] + c["tokens_out"] for c in calls.values())
    money = sum(c["money"] for c in calls.values())
    parts.append(f"{total} calls ({total / max(elapsed, 1e-9):.1f}/s), {tokens / 1000:.1f}k tokens, {money:.2f} money")
    left = time_left(admission["admitted"], admission["target"], elapsed)
    parts.append(readable_time(elapsed) + (f", about {readable_time(left)} left to admit" if left else ""))
    return " | ".join(parts)


def time_left(done: int, target: int, elapsed: float) -> float | None:
    """Seconds until `target` at the rate so far; None while there is no rate or nothing is left."""
    return elapsed / done * (target - done) if 0 < done < target else None
