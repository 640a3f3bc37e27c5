"""What people see while they wait: one status line, live on a terminal, now and then in a log."""

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

__all__ = [
    "Pace",
    "ProgressLine",
    "call_count",
    "counted",
    "cut",
    "describe",
    "plain_table",
    "progress_line",
    "readable_time",
    "share",
    "signed",
]

LOG_EVERY_S = 15.0


def readable_time(seconds: float) -> str:
    """1:02:03, 2:03 or 4 s."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def signed(value: float | None) -> str:
    """+0.25, or - where there is none."""
    return "-" if value is None else f"{value:+.2f}"


def share(part: float, whole: float) -> str:
    """62%, or - of nothing."""
    return f"{part / whole:.0%}" if whole else "-"


def counted(counts: Mapping[str, int], nothing: str = "none yet") -> str:
    """3 patched, 1 unpatched."""
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items())) or nothing


def cut(text: str, width: int) -> Text:
    """`text` on one line of at most `width` cells."""
    line = Text(" ".join(text.split()))
    line.truncate(width, overflow="ellipsis")
    return line


def plain_table(title: str, texts: Sequence[str], figures: Sequence[str], notes: Sequence[str] = ()) -> Table:
    """A plain table whose columns keep their width; whoever fills in notes cuts them to what is left."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in figures:
        table.add_column(name, no_wrap=True, justify="right")
    for name in notes:
        table.add_column(name, no_wrap=True)
    return table


class ProgressLine:
    """Shows messages and a status on stderr, so that stdout stays for results."""

    def __init__(self, console: Console, status: Status | None) -> None:
        self._console = console
        self._status = status
        self._last = ""
        self._shown_at = 0.0

    def say(self, message: str) -> None:
        """A line that stays, unbroken, so that logs can be searched."""
        self._console.print(message, highlight=False, markup=False, soft_wrap=True)

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


def describe(stats: dict[str, Any]) -> str:
    """A run's counters in one line: counts and cost, over all starts."""
    admission, grading, calls = stats["admission"], stats["grading"], stats["calls"]
    under_way = ", ".join(f"{n} {name}" for name, n in admission["under_way"].items() if n)
    parts = [f"admitted {admission['admitted']}/{admission['target']}" + (f" ({under_way})" if under_way else "")]
    if admission["delta_before"] is not None:
        parts.append(f"delta {admission['delta_before']:+.2f} -> {admission['delta_after']:+.2f}")
    if admission["failures"]:
        parts.append(f"{admission['failures']} failed")
    if stats["cycles"]:
        parts.append(f"cycle {grading['cycles']}/{stats['cycles']}, {grading['rollouts']} rollouts graded")
    if grading["unscored"]:
        parts.append(f"{grading['unscored']} unscored")
    if now := _loop_now(stats["loop"]):
        parts.append(now)
    tokens = sum(c["tokens_in"] + c["tokens_out"] for c in calls.values())
    money = sum(c["money"] for c in calls.values())
    parts.append(f"{call_count(stats)} calls, {tokens / 1000:.1f}k tokens, {money:.2f} money")
    if stats["health"]["status"] == "paused":
        parts.insert(0, f"PAUSED, {stats['health']['reason']}")
    return " | ".join(parts)


def _loop_now(loop: dict[str, Any]) -> str:
    """What the loop does and what waits for it, where there is anything to say."""
    # The cycle that is worked on is one of the backlog.
    waiting = loop["backlog"] - bool(loop["doing"])
    parts = [loop["doing"]] if loop["doing"] else []
    if waiting > 0:
        parts.append(f"{waiting} more {'cycle waits' if waiting == 1 else 'cycles wait'}")
    if loop["failures"]:
        parts.append(f"{loop['failures']} failed")
    return f"loop: {', '.join(parts)}" if parts else ""


def call_count(stats: dict[str, Any]) -> int:
    return sum(int(c["calls"]) for c in stats["calls"].values())


class Pace:
    """Rates and time left of this start, from the counters at its beginning."""

    def __init__(self, stats: dict[str, Any]) -> None:
        self._first = stats
        self._started = time.monotonic()

    def describe(self, stats: dict[str, Any]) -> str:
        """`describe` with the rate of calls, the time so far, and the time left where it can be told."""
        elapsed = time.monotonic() - self._started
        calls = call_count(stats) - call_count(self._first)
        admission, first = stats["admission"], self._first["admission"]
        left = [
            (admission["admitted"] - first["admitted"], admission["target"] - admission["admitted"], "to admit"),
            (
                stats["grading"]["cycles"] - self._first["grading"]["cycles"],
                stats["cycles"] - stats["grading"]["cycles"],
                "to train",
            ),
        ]
        # Training starts while tasks are still admitted, so the slower of the two counts.
        times = [(elapsed / done * todo, what) for done, todo, what in left if done > 0 and todo > 0]
        tail = f", about {readable_time(max(times)[0])} left {max(times)[1]}" if times else ""
        return f"{describe(stats)} | {calls / max(elapsed, 1e-9):.1f} calls/s, {readable_time(elapsed)}{tail}"
