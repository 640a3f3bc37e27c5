"""The picture: every arm that is there is drawn, and a panel without data says so."""

import sys
from pathlib import Path
from typing import Any

import pytest

from eval.world.cells import ARMS
from eval.world.pictures import COLOURS, SMOOTHED, compose, draw, smooth
from eval.world.results import Arm
from rri.errors import InputError, RunDirError
from tests.eval.world.finished import cell, lively

CURVES, ENDS, EXPLOITABLE, REPAIR, MODES = slice(0, 3), 3, 4, 5, 6


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def colours(axes: Any) -> set[str]:
    return {str(line.get_color()) for line in axes.lines}


def test_it_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "world.png"
    draw(lively(seeds=(0,), cycles=20)[0], path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    assert path.stat().st_size > 50_000
    assert [p.name for p in tmp_path.iterdir()] == ["world.png"]


@pytest.mark.parametrize("there", [ARMS, ("generation-only", "rri"), ("co-evolve-only",)])
def test_each_arm_that_is_there_is_drawn(there: tuple[Arm, ...]) -> None:
    axes = compose(lively(seeds=(0, 1), arms=there, cycles=40)[0]).axes
    for arm, panel in zip(ARMS, axes[CURVES], strict=True):
        assert panel.get_title(loc="left") == arm
        assert len(panel.lines) == (2 if arm in there else 0)
        assert texts(panel) == ([] if arm in there else ["not run"])
    wanted = {COLOURS[arm] for arm in there}
    assert colours(axes[ENDS]) == wanted
    assert colours(axes[EXPLOITABLE]) == wanted
    assert [label.get_text() for label in axes[ENDS].get_yticklabels()] == [
        f"{a}, seed {s}" for a in there for s in (0, 1)
    ]


def test_curves_are_means_of_the_seeds_over_a_stated_window() -> None:
    results, _ = lively(seeds=(0, 1), cycles=40)
    figure = compose(results)
    reward, quality = figure.axes[2].lines
    assert (reward.get_linestyle(), quality.get_linestyle()) == ("--", "-")
    lines = [smooth([p.quality for p in results[f"rri-{seed}"].curve]) for seed in (0, 1)]
    assert list(quality.get_ydata()) == pytest.approx([(a + b) / 2 for a, b in zip(*lines, strict=True)])
    assert f"running mean over {SMOOTHED} cycles" in figure.subfigs[0].get_suptitle()


def test_a_running_mean_is_centred_and_short_at_the_ends() -> None:
    assert smooth([1, 2, 6, 3, 0], 3) == [1.5, 3, pytest.approx(11 / 3), 3, 1.5]
    assert smooth([1, 2], 1) == [1, 2]
    assert smooth([], 3) == []


def test_repair_is_drawn_beside_the_papers_figures() -> None:
    axes = compose(lively(seeds=(0,), cycles=20)[0]).axes[REPAIR]
    assert texts(axes) == ["0.43", "0.01"]
    assert {"the paper's 9B run", "rri, each seed ± 2 se"} == {t.get_text() for t in axes.get_legend().get_texts()}


def test_modes_are_counted_over_the_seeds() -> None:
    results = dict(
        [cell("rri", 0, modes={"other": 2, "none": 0}), cell("rri", 1, modes={"other": 3, "hedge_namedrop": 9})]
    )
    axes = compose(results).axes[MODES]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["hedge namedrop", "other"]
    assert texts(axes) == ["9", "5"]


def test_panels_without_data_say_so() -> None:
    axes = compose({}).axes
    said = [texts(panel) for panel in axes]
    assert said[CURVES] == [["not run"]] * 3
    assert said[3:] == [
        ["not run"],
        ["no rubrics were attacked afresh"],
        ["no repair was probed"],
        ["no exploit case was labelled"],
    ]
    bare = compose(dict([cell("rri")])).axes
    assert texts(bare[2]) == ["no training curve"]
    assert colours(bare[ENDS]) == {COLOURS["rri"]}


def test_ablations_and_stresses_are_no_part_of_it() -> None:
    axes = compose(dict([cell("rri", 0, "one-vote"), cell("rri", 0, "noisy-judge")])).axes
    assert texts(axes[ENDS]) == ["not run"]


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'rri\[world\]'"):
        draw({}, tmp_path / "world.png")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="nowhere"):
        draw({}, tmp_path / "nowhere" / "world.png")
