"""The comparison as one picture: what the reward says, what the answers are worth, and what repair does in between."""

import io
import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from eval.repair_report import PAPER
from eval.world.cells import ARMS
from eval.world.results import Arm, CellResult, Probed
from rri.errors import InputError, RunDirError

__all__ = ["SMOOTHED", "compose", "draw", "smooth"]

SMOOTHED = 9
"""Training curves are running means over this many cycles."""

COLOURS: Mapping[Arm, str] = MappingProxyType(
    {"generation-only": "#D55E00", "co-evolve-only": "#0072B2", "rri": "#009E73"}
)
"""Of Okabe and Ito's palette, which colour-blind readers tell apart."""
MARKERS: Mapping[Arm, str] = MappingProxyType({"generation-only": "s", "co-evolve-only": "^", "rri": "o"})
INK, PALE = "#333333", "#8A8A8A"

_STYLE: Mapping[str, Any] = MappingProxyType(
    {
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelcolor": INK,
        "axes.edgecolor": PALE,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E6E6E6",
        "grid.linewidth": 0.8,
        "xtick.color": INK,
        "ytick.color": INK,
        "legend.frameon": False,
        "legend.fontsize": 9,
    }
)

Cells = Mapping[Arm, Sequence[CellResult]]


def draw(results: Mapping[str, CellResult], path: Path) -> None:
    """Draw the cells of the fair world with the whole method as one PNG file of about 1,800 x 1,900 pixels.

    Args:
        results: name of a cell -> its figures. A panel without cells says so; ablations and stresses are passed over.
        path: of the file; one that is there is replaced.

    Raises:
        InputError: matplotlib is not installed.
        RunDirError: the file cannot be written.
    """
    figure = compose(results)
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=180)
    scratch = path.with_name(f".{path.name}.tmp")
    try:
        scratch.write_bytes(image.getvalue())
        os.replace(scratch, path)
    except OSError as error:
        raise RunDirError(f"cannot write {path}: {error}", "Name a file in a folder that can be written") from None


def compose(results: Mapping[str, CellResult]) -> Any:
    """The matplotlib figure that `draw` saves.

    Raises:
        InputError: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("matplotlib is not installed", "Install it: pip install 'rri[world]'") from None
    fair = [result for result in results.values() if not result.change]
    cells = {arm: sorted((r for r in fair if r.arm == arm), key=lambda r: r.seed) for arm in ARMS}
    style: Any = dict(_STYLE)
    with rc_context(style):
        figure: Any = Figure(figsize=(10, 10.8), layout="constrained")
        FigureCanvasAgg(figure)
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
        # Rows of their own, so that long labels in one do not narrow the panels of another.
        top, middle, bottom = figure.subfigures(3, 1)
        curves = top.subplots(1, 3, sharex=True, sharey=True)
        for axes, arm in zip(curves, ARMS, strict=True):
            _training(axes, arm, cells[arm])
        curves[0].set_ylabel("score, 1 is the best")
        _explain(top)
        panels = (*middle.subplots(1, 2), *bottom.subplots(1, 2))
        for axes, panel in zip(panels, (_ends, _exploitable, _repair, _modes), strict=True):
            panel(axes, cells)
    return figure


def smooth(values: Sequence[float], window: int = SMOOTHED) -> list[float]:
    """Running means over `window` values, centred; at the ends over those that there are."""
    half = window // 2
    return [fmean(values[max(0, at - half) : at + half + 1]) for at in range(len(values))]


def _say(axes: Any, why: str) -> None:
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=PALE, style="italic")


def _empty(axes: Any, title: str, why: str) -> None:
    axes.set_title(title)
    _say(axes, why)
    axes.set(xticks=[], yticks=[])
    axes.grid(visible=False)


# -- over time -----------------------------------------------------------------------------------------


def _training(axes: Any, arm: Arm, cells: Sequence[CellResult]) -> None:
    """Training reward and true quality of one arm; what lies between them is painted."""
    axes.set_title(arm, color=COLOURS[arm])
    curves = [{point.cycle: point for point in cell.curve} for cell in cells]
    cycles = sorted(set.intersection(*map(set, curves))) if curves else []
    axes.set_xlabel("training cycle" + (f" (mean of {len(cells)} seeds)" if len(cells) > 1 else ""))
    if not cycles:
        # Ticks stay, because other arms share them.
        return _say(axes, "no training curve" if cells else "not run")
    means = []
    for figure, style in (("reward", "--"), ("quality", "-")):
        lines = [smooth([getattr(curve[cycle], figure) for cycle in cycles]) for curve in curves]
        means.append(_banded(axes, cycles, list(zip(*lines, strict=True)), arm, linestyle=style))
    axes.fill_between(cycles, *means, color=PALE, alpha=0.12, linewidth=0)
    return None


def _banded(axes: Any, places: Sequence[float], each: Sequence[Sequence[float]], arm: Arm, **look: Any) -> list[float]:
    """A line through the means, which are returned, in a band from the lowest seed to the highest."""
    means = [fmean(values) for values in each]
    low, high = [min(values) for values in each], [max(values) for values in each]
    axes.fill_between(places, low, high, color=COLOURS[arm], alpha=0.22, linewidth=0)
    axes.plot(places, means, color=COLOURS[arm], linewidth=2, **look)
    return means


def _explain(row: Any) -> None:
    """One legend for the training curves of all arms."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    row.suptitle(
        f"Training reward and true quality of the rollouts, running mean over {SMOOTHED} cycles",
        x=0.01, ha="left", fontsize=11, fontweight="bold",
    )  # fmt: skip
    row.legend(
        handles=[
            Line2D([], [], color=INK, linewidth=2, linestyle="--", label="training reward"),
            Line2D([], [], color=INK, linewidth=2, label="true quality"),
            Patch(color=PALE, alpha=0.2, linewidth=0, label="gap between them"),
            Patch(color=INK, alpha=0.35, linewidth=0, label="lowest to highest seed"),
        ],
        loc="outside lower center",
        ncols=4,
    )


def _exploitable(axes: Any, cells: Cells) -> None:
    title = "Rubrics that a fresh attack exploits"
    until = 0
    for arm, found in cells.items():
        stretches: dict[tuple[int, int], list[float]] = {}
        for point in chain.from_iterable(cell.exploitable for cell in found):
            if point.probes:
                stretches.setdefault((point.first, point.last), []).append(100 * point.exploitable)
        if not stretches:
            continue
        order = sorted(stretches)
        until = max(until, *(last for _, last in order))
        middles = [(first + last) / 2 for first, last in order]
        _banded(axes, middles, [stretches[key] for key in order], arm, marker=MARKERS[arm], label=arm)
    if not until:
        return _empty(axes, title, "no rubrics were attacked afresh")
    axes.set_title(title)
    axes.set(xlabel="training cycle in which they were served", ylabel="share of rubrics, %")
    axes.set(xlim=(0, until), ylim=(-3, 103))
    axes.legend(loc="best")
    return None


# -- at the end ----------------------------------------------------------------------------------------


def _ends(axes: Any, cells: Cells) -> None:
    """Training reward and held-out quality of every cell, with the gap between them as a line."""
    title = "Reward and true quality at the end"
    rows = [(arm, cell) for arm, found in cells.items() for cell in found]
    if not rows:
        return _empty(axes, title, "not run")
    heights: list[float] = []
    for number, (arm, cell) in enumerate(rows):
        new_arm = number > 0 and rows[number - 1][0] != arm
        heights.append((heights[-1] + 1 + 0.7 * new_arm) if heights else 0.0)
        at, colour, marker = heights[-1], COLOURS[arm], MARKERS[arm]
        axes.plot([cell.true_quality, cell.train_reward], [at, at], color=colour, alpha=0.35, linewidth=2)
        axes.plot(
            cell.train_reward, at, marker, color=colour, markerfacecolor="white", markersize=7, markeredgewidth=1.5
        )
        axes.errorbar(
            cell.true_quality, at, xerr=2 * cell.standard_error, fmt=marker, color=colour, markersize=7, capsize=3
        )
    axes.set_title(title)
    axes.set_yticks(heights, [f"{arm}, seed {cell.seed}" for arm, cell in rows])
    axes.set_ylim(max(heights[-1], 3) + 0.7, -0.7)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(
        "score (hollow: training reward of the last cycles,\nfilled: true quality on held-out requests ± 2 se)"
    )
    return None


def _repair(axes: Any, cells: Cells) -> None:
    title = "Lead of the exploit, before and after repair"
    pairs = [(cell.before, cell.after) for cell in cells["rri"] if cell.before and cell.after]
    if not pairs:
        return _empty(axes, title, "no repair was probed")
    axes.axhline(0, color=PALE, linewidth=1)
    for number, (before, after) in enumerate(pairs):
        shift = 0.16 * (number / (len(pairs) - 1) - 0.5) if len(pairs) > 1 else 0.0
        axes.errorbar(
            [shift, 1 + shift], [before.delta, after.delta], yerr=[2 * _error(before), 2 * _error(after)],
            color=COLOURS["rri"], marker=MARKERS["rri"], capsize=3, linewidth=1.2, markersize=6,
            label=None if number else "rri, each seed ± 2 se",
        )  # fmt: skip
    # Beside the seeds, so that none lies on it.
    paper = (-0.22, PAPER["delta_before"], "right"), (1.22, PAPER["delta_after"], "left")
    axes.plot(
        [x for x, _, _ in paper], [y for _, y, _ in paper], "D", color=INK, markersize=6, label="the paper's 9B run"
    )
    for x, y, side in paper:
        axes.annotate(
            f"{y:.2f}", (x, y), xytext=(7 if side == "left" else -7, 0), textcoords="offset points", ha=side,
            va="center", color=INK,
        )  # fmt: skip
    axes.set_title(title)
    axes.set_xticks([0, 1], ["as written", "as admitted"])
    axes.set(xlim=(-0.6, 1.6), ylabel="delta: exploit's score - honest's")
    axes.grid(visible=False, axis="x")
    axes.legend(loc="best")
    return None


def _error(probed: Probed) -> float:
    return probed.standard_error or 0.0


def _modes(axes: Any, cells: Cells) -> None:
    title = "How answers gamed the rubrics of rri"
    counts: dict[str, int] = {}
    for cell in cells["rri"]:
        for mode, cases in cell.modes.items():
            counts[mode] = counts.get(mode, 0) + cases
    ranked = sorted(((n, mode) for mode, n in counts.items() if n), reverse=True)
    if not ranked:
        return _empty(axes, title, "no exploit case was labelled")
    names = ["none (earned)" if mode == "none" else mode.replace("_", " ") for _, mode in ranked]
    colours = [PALE if mode == "none" else COLOURS["rri"] for _, mode in ranked]
    bars = axes.barh(range(len(ranked)), [n for n, _ in ranked], color=colours, height=0.7)
    axes.bar_label(bars, padding=3, fontsize=9, color=INK)
    axes.set_title(title)
    axes.set_yticks(range(len(ranked)), names)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("cases that the minter labelled, all seeds")
    return None
