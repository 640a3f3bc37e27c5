"""Tables: readable in 100 columns, the same in markdown, and honest about what is missing."""

import io

import pytest
from rich.console import Console

from eval.world.comparison import comparison
from eval.world.findings import Comparison, SeedDifference
from eval.world.tables import markdown, screen, verdict_on
from tests.eval.world.finished import answers_of, cell, lively, probed


def printed(found: Comparison, width: int = 100) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(screen(found))
    return out.getvalue()


@pytest.fixture(scope="module")
def whole() -> Comparison:
    return comparison(*lively())


def test_everything_fits_into_100_columns(whole: Comparison) -> None:
    """At 300 columns nothing is cut; at 100 all figures and names must still be there."""
    narrow, wide = printed(whole), printed(whole, 300)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 100
    figures = [word for word in wide.split() if any(c.isdigit() for c in word)]
    assert sorted(figures) == sorted(word for word in narrow.split() if any(c.isdigit() for c in word))


def test_a_row_of_an_arm_holds_its_figures() -> None:
    before, after = probed(0.412), probed(-0.02)
    name, result = cell("rri", reward=0.75, quality=0.5, before=before, after=after)
    lines = printed(comparison({name: result}, {})).splitlines()
    row = next(line for line in lines if line.split()[:2] == ["rri", "0"])
    assert row.split() == ["rri", "0", "0.750", "0.500", "±", "0.010", "+0.25", "+0.41", "->", "-0.02", "-", "60%"]


def test_a_mean_follows_only_where_there_are_several_seeds() -> None:
    assert "mean " not in printed(comparison(dict([cell("rri")]), {})).partition("arms in")[2].partition("held-out")[0]
    text = printed(comparison(dict([cell("rri", 0, quality=0.4), cell("rri", 1, quality=0.6)]), {}))
    mean = next(line for line in text.splitlines() if line.split()[:2] == ["rri", "mean"])
    assert mean.split()[2:7] == ["0.800", "0.500", "±", "0.007", "+0.30"]


def test_what_was_not_run_says_so() -> None:
    text = printed(comparison({}, {}))
    for title in ("arms in the fair world", "differences of true quality", "ablations", "stresses"):
        assert f"{title}: not run" in text
    assert text.count("rri narrows the gap") == 1
    assert "MISSED" not in text
    assert "**ablations**: not run" in markdown(comparison({}, {}))


def test_checks_are_met_or_missed() -> None:
    text = printed(comparison(dict([cell("generation-only", reward=0.6)]), {}))
    assert text.splitlines()[4].split()[:3] == ["MISSED", "generation-only", "is"]
    text = printed(comparison(dict([cell("generation-only", reward=0.9)]), {}))
    assert text.splitlines()[4].split()[:3] == ["met", "generation-only", "is"]


@pytest.mark.parametrize(
    ("mean", "error", "words"),
    [
        (0.019, 0.01, "costs nothing measurable"),
        (-0.019, 0.01, "costs nothing measurable"),
        (0.0, 0.0, "costs nothing measurable"),
        (0.02, 0.01, "costs true quality"),
        (-0.02, 0.01, "is better without"),
    ],
)
def test_a_cost_counts_from_two_errors(mean: float, error: float, words: str) -> None:
    assert verdict_on(SeedDifference(seed=0, mean=mean, standard_error=error)) == words


def test_an_ablation_stands_beside_the_whole_method() -> None:
    results = dict([cell("rri"), cell("rri", 0, "one-vote")])
    answers = {"rri-0": answers_of(0.5, 0.7), "rri-0-one-vote": answers_of(0.4, 0.58)}
    row = next(line for line in markdown(comparison(results, answers)).splitlines() if line.startswith("| one-vote"))
    assert row == "| one-vote | costs true quality | 0 | 0.500 | +0.110 ± 0.010 | 3.0% (3.0%) | 0.10 (0.10) |"
    alone = markdown(comparison(dict([results.popitem()]), {}))
    assert "| one-vote | whole method not run | 0 | 0.500 | - | 3.0% (-) | 0.10 (-) |" in alone


def test_markdown_is_made_of_whole_tables(whole: Comparison) -> None:
    blocks = markdown(whole).split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    assert len(tables) == 7
    for table in tables:
        assert len({line.count("|") for line in table}) == 1
        assert len(table) > 2
    assert "| paper, 9B | before |  | +0.43 |" in markdown(whole)
