"""Figures of a graded generation batch, as they are logged beside TRL's own (METHOD 6 and 11).

TRL averages the values of a figure over all ranks. Most figures come as one value a row, a verdict or a group, so that
the average is exact however rows are spread; `score_std` and `length_reward_correlation` are of one rank each. A figure
that is undefined is absent, since NaN would spread.

Stock TRL cannot draw a group again whose scores are all equal: it has no advantage and teaches nothing, and
`zero_variance_share` says how many groups were such.
"""

from collections.abc import Iterable, Sequence
from statistics import StatisticsError, correlation, pstdev

from rri.wire import GradedRow, Row

__all__ = ["grade_metrics"]


def grade_metrics(rows: Sequence[Row], graded: Sequence[GradedRow]) -> dict[str, list[float]]:
    """Name -> values to average, for one rank's rows and their grades in the same order.

    `score` is the training reward; the ones over scored rows leave unscored ones out. Of a group that is spread over
    ranks each one sees a part.
    """
    scored = [(row, grade, grade.score) for row, grade in zip(rows, graded, strict=True) if grade.score is not None]
    scores = [score for _, _, score in scored]
    groups: dict[int, list[float]] = {}
    for _, grade, score in scored:
        groups.setdefault(grade.position, []).append(score)
    compared = [group for group in groups.values() if len(group) > 1]
    figures = {
        "unscored_share": [float(grade.score is None) for grade in graded],
        "truncated_share": [float(not row.finished) for row in rows],
        "answer_chars": [float(len(row.answer)) for row in rows],
        "unknown_share": [*_ones(g.unknown for g in graded), *_zeros(g.met + g.unmet for g in graded)],
        "score_mean": scores,
        "score_std": [pstdev(scores)] if scores else [],
        "patched_score_mean": [score for _, grade, score in scored if grade.patched],
        "unpatched_score_mean": [score for _, grade, score in scored if not grade.patched],
        "zero_variance_share": [float(max(group) == min(group)) for group in compared],
        "group_spread": [max(group) - min(group) for group in compared],
        "length_reward_correlation": _pearson([len(row.answer) for row, _, _ in scored], scores),
    }
    return {name: values for name, values in figures.items() if values}


def _ones(counts: Iterable[int]) -> list[float]:
    return [1.0] * sum(counts)


def _zeros(counts: Iterable[int]) -> list[float]:
    return [0.0] * sum(counts)


def _pearson(lengths: Sequence[int], scores: Sequence[float]) -> list[float]:
    """One value, or none where either side does not vary."""
    try:
        return [correlation(lengths, scores)]
    except StatisticsError:
        return []
