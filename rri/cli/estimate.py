"""`rri estimate`: what a run will cost, before any call."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from programs.estimate import Bounds, Driver, RoleEstimate, RunEstimate, StageEstimate, estimate_run
from rri.cli.console import readable_time
from rri.config import load_config
from rri.errors import ConfigError, CorpusError
from rri.estimate import HeldOutSize
from rri.knowledge import load_corpus
from rri.service.validation import read_held_out
from rri.types import Reference

__all__ = ["assumed", "estimate_command", "readable_count"]

UNKNOWN = "unknown"
DRIVERS_SHOWN = 6


def estimate_command(
    sources: Sequence[str], overrides: Mapping[str, Any], assumptions: Sequence[str], *, as_json: bool
) -> int:
    """Print what a run of the config is expected to cost; exit code 0.

    Raises:
        ConfigError: a wrong config, or a wrong assumption.
        TaskFileError: the validation file cannot be read, or a task of it cannot be used.
    """
    given = assumed(assumptions)
    config = load_config(list(sources), overrides)
    passages: Sequence[Reference] | None = None
    missing = ""
    try:
        passages = load_corpus(config.corpus).passages
    except CorpusError as error:
        # The corpus may lie elsewhere. How long its passages are is then an assumption, and said to be one.
        missing = error.what
    held_out = HeldOutSize.of(read_held_out(config.validation).tasks)
    estimate = estimate_run(config, given, passages, held_out)
    if missing:
        estimate = estimate.model_copy(update={"notes": (*estimate.notes, missing)})
    if as_json:
        sys.stdout.write(estimate.model_dump_json() + "\n")
    else:
        _show(Console(), f"{' + '.join(sources)}: {config.domain.name}", estimate)
    return 0


def assumed(pairs: Sequence[str]) -> dict[str, float]:
    """Assumption -> its given value.

    Raises:
        ConfigError: not NAME=NUMBER.
    """
    given: dict[str, float] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            given[name] = float(text)
        except ValueError:
            raise ConfigError(
                f"--assume {pair!r} is not NAME=NUMBER", "Write for example --assume answer_chars=3000"
            ) from None
    return given


def readable_count(number: float) -> str:
    """950, 61.2k, 1.47M or 3.08G."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # What would round up to the next unit is written in it.
        if number >= size * 0.9995:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"


def _show(console: Console, title: str, estimate: RunEstimate) -> None:
    console.print(Rule(Text(f"estimate of {title}")))
    arm = f"arm {estimate.arm}: " if estimate.arm != "custom" else ""
    counts = f"{estimate.tasks:,} tasks, {estimate.cycles:,} cycles, {estimate.rollouts:,} rollouts to grade"
    if rounds := estimate.validation_rounds:
        counts += f", {estimate.validation_rollouts:,} more in {rounds:,} validation round{'' if rounds == 1 else 's'}"
    console.print(Text(arm + counts))
    console.print(_roles(estimate))
    console.print(_totals(estimate))
    if estimate.hours is not None:
        hours = _range(estimate.hours, lambda value: _duration(value * 3600))
        console.print(Text(f"time above is of one call after the other; with every slot in use at least {hours}"))
    disk = _range(estimate.disk_bytes, readable_count)
    console.print(Text(f"disk: {disk} bytes in the database; checkpoints, index and logs come on top"))
    for line in estimate.budget:
        console.print(Text(line.says, style="bold"))
    _print_drivers(console, estimate)
    for note in estimate.notes:
        console.print(Text(f"- {note}", style="dim"))


def _table(title: str, texts: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in ("calls", "in", "out", "money", "time"):
        table.add_column(name, no_wrap=True, justify="right")
    return table


def _roles(estimate: RunEstimate) -> Table:
    table = _table("expected, by role (tokens in and out)", ("role", "endpoint"))
    for role in estimate.roles:
        table.add_row(Text(role.role), Text(role.endpoint), *_figures(role, "expected"))
    return table


def _totals(estimate: RunEstimate) -> Table:
    table = _table("expected, by stage, and the whole run", ("stage",))
    for stage in estimate.stages:
        if stage.calls.high:
            table.add_row(stage.name, *_figures(stage, "expected"))
    table.add_section()
    table.add_row("all", *_figures(estimate.total, "expected"), style="bold")
    table.add_row("all, cheap end", *_figures(estimate.total, "low"))
    table.add_row("all, dear end", *_figures(estimate.total, "high"))
    return table


def _figures(row: RoleEstimate | StageEstimate, case: str) -> list[str]:
    counts = [readable_count(getattr(bounds, case)) for bounds in (row.calls, row.tokens_in, row.tokens_out)]
    money = UNKNOWN if row.money is None else f"{getattr(row.money, case):,.2f}"
    seconds = UNKNOWN if row.seconds is None else _duration(getattr(row.seconds, case))
    return [*counts, money, seconds]


def _duration(seconds: float) -> str:
    return readable_time(seconds) if seconds < 3600 else f"{seconds / 3600:,.1f} h"


def _range(bounds: Bounds, show: Callable[[float], str]) -> str:
    return f"{show(bounds.expected)} ({show(bounds.low)} to {show(bounds.high)})"


def _print_drivers(console: Console, estimate: RunEstimate) -> None:
    if not estimate.drivers:
        return
    console.print(Text(f"what decides the {estimate.drivers[0].unit}", style="bold"))
    for driver in estimate.drivers[:DRIVERS_SHOWN]:
        console.print(_driver(driver))
    if (left := len(estimate.drivers) - DRIVERS_SHOWN) > 0:
        console.print(Text(f"  and {left} more, with --json"))


def _driver(driver: Driver) -> Text:
    line = Text(f"  {driver.name} {driver.expected:g}", style="bold")
    line.append(f" ({driver.low:g} to {driver.high:g}): {driver.down:+.0%} to {driver.up:+.0%}; ", style="not bold")
    line.append(driver.source, style="not bold")
    return line
