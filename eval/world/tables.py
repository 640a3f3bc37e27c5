"""The comparison as tables: on a terminal of 100 columns, and as markdown."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Any, get_args

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from eval.repair_report import PAPER
from eval.world.checks import ERRORS
from eval.world.findings import AblationRow, Comparison, Difference, Repair, SeedDifference, SeedRow
from eval.world.heldout import AnswerKind
from eval.world.results import Probed

__all__ = ["markdown", "screen", "verdict_on"]

KINDS: tuple[AnswerKind, ...] = get_args(AnswerKind)
STYLES = {"met": "green", "MISSED": "bold red", "not run": "dim"}
"""Words of a check's outcome -> how a terminal shows them."""


@dataclass(frozen=True)
class _Sheet:
    """One table. The first `texts` columns are words, the others figures; those in `wraps` may be broken.

    What a cell lists with semicolons stands on lines of its own on a terminal.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int
    wraps: frozenset[int] = frozenset()
    notes: Sequence[str] = ()


def screen(comparison: Comparison) -> Group:
    """Every table, to be printed by rich. Where there are no cells for one, a line says so."""
    parts: list[Table | Text] = []
    for sheet in _sheets(comparison):
        parts.append(_rich(sheet) if sheet.rows else Text(f"{sheet.title}: not run\n", style="bold"))
        if sheet.rows and sheet.notes:
            parts.append(Text("\n".join([*sheet.notes, ""]), style="dim"))
    return Group(*parts)


def markdown(comparison: Comparison) -> str:
    """The same tables for a page of documentation, each under its title in bold."""
    parts = []
    for sheet in _sheets(comparison):
        if not sheet.rows:
            parts.append(f"**{sheet.title}**: not run")
            continue
        ends = ["---" if n < sheet.texts else "---:" for n in range(len(sheet.columns))]
        lines = [sheet.columns, ends, *sheet.rows]
        table = "\n".join(f"| {' | '.join(cell.replace(chr(10), ' ') for cell in line)} |" for line in lines)
        parts += [f"**{sheet.title}**", table, *sheet.notes]
    return "\n\n".join(parts) + "\n"


def verdict_on(cost: SeedDifference) -> str:
    """What switching a part off costs, in words."""
    if abs(cost.mean) < ERRORS * cost.standard_error or cost.mean == 0:
        return "costs nothing measurable"
    return "costs true quality" if cost.mean > 0 else "is better without"


def _rich(sheet: _Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(sheet.columns):
        justify: Any = "left" if number < sheet.texts else "right"
        table.add_column(Text(name), justify=justify, no_wrap=number not in sheet.wraps, vertical="top")
    for row in sheet.rows:
        cells = (Text(cell.replace("; ", "\n"), style=STYLES.get(cell, "")) for cell in row)
        table.add_row(*cells, style="bold" if {"mean", "all"} & set(row) else "")
    return table


def _sheets(comparison: Comparison) -> list[_Sheet]:
    return [
        _checks(comparison),
        _arms(comparison),
        _answers(comparison),
        _differences(comparison),
        _repair(comparison.repair),
        _ablations(comparison),
        _stresses(comparison),
    ]


# -- figures as words ----------------------------------------------------------------------------------


def _with_error(value: float, error: float | None, sign: str = "") -> str:
    return f"{value:{sign}.3f}" + ("" if error is None else f" ± {error:.3f}")


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _change(row: SeedRow) -> str:
    if row.delta_before is None and row.delta_after is None:
        return "-"
    return f"{_signed(row.delta_before)} -> {_signed(row.delta_after)}"


def _in_errors(mean: float, error: float) -> str:
    return f"{mean / error:+.1f}" if error > 1e-9 else "-"  # rounding alone is no error


# -- the tables ----------------------------------------------------------------------------------------


def _checks(comparison: Comparison) -> _Sheet:
    words = {True: "met", False: "MISSED", None: "not run"}
    rows = [(words[check.met], check.name, check.target, check.found) for check in comparison.checks]
    return _Sheet("checks", ("", "check", "target", "found"), rows, 4, frozenset({1, 2}))


def _arms(comparison: Comparison) -> _Sheet:
    rows = [line for arm, table in comparison.arms.items() for line in _with_mean(arm, table.seeds)]
    columns = ("arm", "seed", "train\nreward", "true quality\n± se", "gap", "delta of repair\nbefore -> after",
               "exploitable\nat the end", "correct\nanswers")  # fmt: skip
    return _Sheet("arms in the fair world", columns, rows, 1)


def _with_mean(arm: str, seeds: Sequence[SeedRow]) -> Iterable[tuple[str, ...]]:
    yield from (_arm(arm, row) for row in seeds)
    if len(seeds) > 1:
        error = sqrt(sum(row.standard_error**2 for row in seeds)) / len(seeds)
        left = [row.exploitable for row in seeds if row.exploitable is not None]
        yield (
            arm,
            "mean",
            f"{fmean(row.train_reward for row in seeds):.3f}",
            _with_error(fmean(row.true_quality for row in seeds), error),
            _signed(fmean(row.gap for row in seeds)),
            "",  # the probes are put together in the table of repair
            _percent(fmean(left) if left else None),
            _percent(fmean(row.kinds.get("correct", 0.0) for row in seeds)),
        )


def _arm(arm: str, row: SeedRow) -> tuple[str, ...]:
    return (
        arm,
        str(row.seed),
        f"{row.train_reward:.3f}",
        _with_error(row.true_quality, row.standard_error),
        _signed(row.gap),
        _change(row),
        _percent(row.exploitable),
        _percent(row.kinds.get("correct", 0.0)),
    )


def _answers(comparison: Comparison) -> _Sheet:
    rows = [
        (arm, str(row.seed), f"{row.answers:,}", *(_percent(row.kinds.get(kind, 0.0)) for kind in KINDS))
        for arm, table in comparison.arms.items()
        for row in table.seeds
    ]
    return _Sheet("held-out answers by kind", ("arm", "seed", "answers", *KINDS), rows, 1)


def _differences(comparison: Comparison) -> _Sheet:
    rows = [row for name, difference in comparison.differences.items() for row in _difference(name, difference)]
    columns = ("difference", "seed", "true quality\n± se", "in se", "se of\nanswers", "se of\nseeds")
    note = "Paired by request. Of a mean, the larger one of two errors counts: what the answers leave open, and how "
    note += "far the seeds lie apart."
    return _Sheet("differences of true quality", columns, rows, 1, notes=(note,))


def _difference(name: str, difference: Difference) -> Iterable[tuple[str, ...]]:
    for seed in difference.seeds:
        error = seed.standard_error
        yield name, str(seed.seed), _with_error(seed.mean, error, "+"), _in_errors(seed.mean, error), "", ""
    if len(difference.seeds) > 1:
        yield (
            name,
            "mean",
            _with_error(difference.mean, difference.standard_error, "+"),
            _in_errors(difference.mean, difference.standard_error),
            f"{difference.combined_error:.3f}",
            "-" if difference.spread_error is None else f"{difference.spread_error:.3f}",
        )


def _repair(repair: Repair | None) -> _Sheet:
    rows: list[tuple[str, ...]] = []
    if repair:
        for seed in repair.seeds:
            rows += [
                _probed(str(seed.seed), "before", seed.before, seed.adopted_before),
                _probed(str(seed.seed), "after", seed.after, seed.adopted_after),
            ]
        if len(repair.seeds) > 1:
            rows += [_probed("all", "before", repair.before), _probed("all", "after", repair.after)]
        for when, delta in (("before", repair.paper_before), ("after", repair.paper_after)):
            rows.append(("paper, 9B", when, "", _signed(delta), _percent(PAPER[f"honest_leads_{when}"]), "", "", ""))
    columns = ("seed", "repair", "probes", "delta ± se", "honest\nleads", "exploitable", "honest\nsaturated",
               "delta as\nadoption saw it")  # fmt: skip
    note = "Delta is the exploit's score less the honest answer's, on confirming probes that no decision has seen."
    return _Sheet("repair at admission, arm rri", columns, rows, 2, notes=(note,))


def _probed(seed: str, when: str, probed: Probed | None, adopted: float | None = None) -> tuple[str, ...]:
    if probed is None:
        return (seed, when, "0", "-", "-", "-", "-", _signed(adopted))
    return (
        seed,
        when,
        str(probed.probes),
        _with_error(probed.delta, probed.standard_error, "+"),
        _percent(probed.honest_leads),
        _percent(probed.exploitable),
        _percent(probed.saturated),
        "" if seed == "all" else _signed(adopted),
    )


def _ablations(comparison: Comparison) -> _Sheet:
    rows = [_ablation(name, row) for name, table in comparison.ablations.items() for row in table.seeds]
    columns = ("rri, changed", "verdict", "seed", "true\nquality", "cost\n± se", "wrong keys\n(whole)",
               "wrong neg.\n(whole)")  # fmt: skip
    note = (
        "Cost: true quality of the whole method less this one's, paired by request. Wrong keys: share of the demanded "
    )
    note += "values that are wrong; wrong negatives: those a rubric that punish a true value."
    return _Sheet("ablations", columns, rows, 2, frozenset({1}), (note,))


def _ablation(name: str, row: AblationRow) -> tuple[str, ...]:
    keys = "-" if row.whole_wrong_keys is None else f"{row.whole_wrong_keys:.1%}"
    negatives = "-" if row.whole_wrong_negatives is None else f"{row.whole_wrong_negatives:.2f}"
    return (
        name,
        verdict_on(row.cost) if row.cost else "whole method not run",
        str(row.seed),
        f"{row.true_quality:.3f}",
        _with_error(row.cost.mean, row.cost.standard_error, "+") if row.cost else "-",
        f"{row.wrong_keys:.1%} ({keys})",
        f"{row.wrong_negatives:.2f} ({negatives})",
    )


def _stresses(comparison: Comparison) -> _Sheet:
    rows = [
        (stress, *_arm(arm, row)[:-2])
        for stress, arms in comparison.stresses.items()
        for arm, table in arms.items()
        for row in table.seeds
    ]
    columns = ("world", "arm", "seed", "train\nreward", "true quality\n± se", "gap", "delta of repair\nbefore -> after")
    return _Sheet("stresses", columns, rows, 2, notes=list(_stress_notes(comparison.stress_differences)))


def _stress_notes(differences: Mapping[str, Difference]) -> Iterable[str]:
    for stress, found in differences.items():
        mean = _with_error(found.mean, found.standard_error, "+")
        yield f"{stress}: rri minus generation-only {mean}, in se {_in_errors(found.mean, found.standard_error)}"
