"""Figures of graded rows: what is averaged, what is left out, and what is absent because it is undefined."""

from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rri.wire import GradedRow, Row
from training.metrics import grade_metrics

Scores = Sequence[float | None]


def figures(scores: Scores, *, chars: Sequence[int] = (), patched: Sequence[bool] = ()) -> dict[str, list[float]]:
    """Rows of groups of four, 1 met, 2 unmet, and one unknown where there is no score."""
    rows = [
        Row(position=i // 4, row=i % 4, answer="x" * (chars[i] if chars else i), finished=i % 2 == 0)
        for i in range(len(scores))
    ]
    graded = [
        GradedRow(
            position=row.position, row=row.row, task_id="t", version=1, score=score, raw=score, met=1, unmet=2,
            unknown=int(score is None), patched=bool(patched) and patched[i],
        )
        for i, (row, score) in enumerate(zip(rows, scores, strict=True))
    ]  # fmt: skip
    return grade_metrics(rows, graded)


def means(found: dict[str, list[float]]) -> dict[str, float]:
    """What TRL logs on one rank."""
    return {name: round(fmean(values), 4) for name, values in found.items()}


def test_every_figure_of_two_groups() -> None:
    patched = [False] * 4 + [True] * 4
    found = means(figures([1.0, None, 0.0, 0.5, None, 0.25, 0.25, 0.25], patched=patched))
    assert found == {
        "unscored_share": 0.25,
        "truncated_share": 0.5,
        "answer_chars": 3.5,
        "unknown_share": round(2 / 26, 4),
        "score_mean": 0.375,
        "score_std": 0.3146,
        "patched_score_mean": 0.25,
        "unpatched_score_mean": 0.5,
        "zero_variance_share": 0.5,
        "group_spread": 0.5,
        "length_reward_correlation": -0.5772,
    }


def test_a_group_with_one_score_is_not_compared() -> None:
    found = figures([0.5, None, None, None, 0.1, 0.1, None, None])
    assert found["zero_variance_share"] == [1.0] and found["group_spread"] == [0.0]
    assert "zero_variance_share" not in figures([0.5, None, None, None])


def test_without_a_patched_task_there_is_no_patched_mean() -> None:
    found = figures([0.5] * 4)
    assert "patched_score_mean" not in found and found["unpatched_score_mean"] == [0.5] * 4
    assert "unpatched_score_mean" not in figures([0.5] * 4, patched=[True] * 4)


@pytest.mark.parametrize(
    ("scores", "chars"),
    [
        ([0.5, 0.5, 0.5, 0.5], [1, 2, 3, 4]),
        ([0.1, 0.2, 0.3, 0.4], [7, 7, 7, 7]),
        ([0.1, None, None, None], [1, 2, 3, 4]),
        ([None] * 4, [1, 2, 3, 4]),
    ],
)
def test_correlation_that_is_undefined_is_absent(scores: Scores, chars: list[int]) -> None:
    assert "length_reward_correlation" not in figures(scores, chars=chars)


def test_correlation_leaves_unscored_rows_out() -> None:
    found = figures([0.1, 0.2, 0.3, None], chars=[10, 20, 30, 9000])
    assert found["length_reward_correlation"] == pytest.approx([1.0])
    assert figures([0.3, 0.2, 0.1, 0.0], chars=[1, 2, 3, 4])["length_reward_correlation"] == pytest.approx([-1.0])


@given(
    st.lists(st.none() | st.floats(-2, 2, allow_nan=False), min_size=8, max_size=16).filter(lambda s: len(s) % 4 == 0)
)
def test_figures_of_rows_do_not_depend_on_how_ranks_are_cut(scores: list[float | None]) -> None:
    """TRL averages the values of all ranks together, so means over rows are those of the whole batch."""
    whole, cut = figures(scores), len(scores) // 2
    parts = [figures(scores[:cut]), figures(scores[cut:])]
    for name in ("unscored_share", "unknown_share", "score_mean", "unpatched_score_mean"):
        joined = [value for part in parts for value in part.get(name, [])]
        assert sorted(joined) == sorted(whole.get(name, []))
    assert all(values for values in whole.values()), "absent rather than empty, which TRL would divide by"
