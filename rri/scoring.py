"""Score rules of the target benchmarks (METHOD 2). Pure functions.

`raw` of an answer is r = sum(points of met criteria) / sum(positive points): signed, unclipped.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, get_args

from rri.types import Criterion, Outcome

__all__ = [
    "LENGTH_CENTRE",
    "LENGTH_SLOPE",
    "PROFBENCH_POINTS",
    "RULES",
    "DatasetScore",
    "ScoreRule",
    "answer_score",
    "dataset_score",
    "length_term",
    "prbench_points",
    "profbench_mean",
    "raw_score",
    "training_score",
    "unknown_share",
]

ScoreRule = Literal[
    "healthbench",
    "healthbench-hard",
    "healthbench-professional",
    "prbench",
    "prbench-hard",
    "profbench",
    "medxpertqa",
    "equal-weights",
]
RULES: tuple[ScoreRule, ...] = get_args(ScoreRule)

LENGTH_CENTRE = 2000
"""Characters of an answer at which the length term of healthbench-professional is zero."""
LENGTH_SLOPE = 0.0147
"""Score lost per LENGTH_UNIT characters beyond the centre."""
LENGTH_UNIT = 500

PROFBENCH_POINTS: Mapping[str, int] = {"Critical": 4, "Major": 3, "Minor": 2, "Additional": 1}

DatasetScore = dict[str, float]


def length_term(length: int, *, two_sided: bool) -> float:
    """Points to subtract for an answer of `length` characters (reasoning and tool spans removed).

    Two-sided (evaluation, probes) rewards short answers; one-sided (training) only taxes long ones.
    """
    excess = length - LENGTH_CENTRE
    if not two_sided:
        excess = max(0, excess)
    return LENGTH_SLOPE * excess / LENGTH_UNIT


def raw_score(criteria: Sequence[Criterion], outcomes: Sequence[Outcome]) -> float | None:
    """r over the known criteria; None when no positive criterion is known.

    Unknown criteria leave numerator and denominator alike, so they never count as unmet. Callers decide
    with `unknown_share` whether a grade with unknown criteria may be scored at all.
    """
    known = [(c.points, o) for c, o in zip(criteria, outcomes, strict=True) if o != "unknown"]
    positive = sum(p for p, _ in known if p > 0)
    if positive <= 0:
        return None
    return sum(p for p, o in known if o == "met") / positive


def unknown_share(criteria: Sequence[Criterion], outcomes: Sequence[Outcome]) -> float:
    """Share of the absolute points whose verdict is unknown, in [0, 1]."""
    total = sum(abs(c.points) for c in criteria)
    unknown = sum(abs(c.points) for c, o in zip(criteria, outcomes, strict=True) if o == "unknown")
    return unknown / total if total else 0.0


def _equal_weights(outcomes: Sequence[Outcome]) -> float | None:
    known = [o for o in outcomes if o != "unknown"]
    return sum(o == "met" for o in known) / len(known) if known else None


def answer_score(
    rule: ScoreRule, criteria: Sequence[Criterion], outcomes: Sequence[Outcome], length: int
) -> float | None:
    """Score of one answer under the evaluation rule, unclipped; None when nothing is known."""
    return _score(rule, criteria, outcomes, length, two_sided=True)


def training_score(
    rule: ScoreRule, criteria: Sequence[Criterion], outcomes: Sequence[Outcome], length: int
) -> float | None:
    """Score of one rollout as the training reward: the length term only taxes answers over the centre."""
    return _score(rule, criteria, outcomes, length, two_sided=False)


def _score(
    rule: ScoreRule,
    criteria: Sequence[Criterion],
    outcomes: Sequence[Outcome],
    length: int,
    *,
    two_sided: bool,
) -> float | None:
    if len(criteria) != len(outcomes):
        raise ValueError(f"{len(outcomes)} outcomes for {len(criteria)} criteria")
    if rule == "equal-weights":
        return _equal_weights(outcomes)
    raw = raw_score(criteria, outcomes)
    if raw is None or rule != "healthbench-professional":
        return raw
    return raw - length_term(length, two_sided=two_sided)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def dataset_score(rule: ScoreRule, raws: Sequence[float], adjusted: Sequence[float] = ()) -> DatasetScore:
    """Scores over a data set, each under the name by which it must be reported.

    Args:
        rule: the benchmark's rule.
        raws: r of each answer (the share of met criteria under equal-weights).
        adjusted: length-adjusted score of each answer; needed by healthbench-professional alone.

    Raises:
        ValueError: no answers, or `adjusted` does not match `raws` where the rule needs it.
    """
    if not raws:
        raise ValueError("a data set score needs at least one scored answer")
    if rule in ("healthbench", "healthbench-hard"):
        return {"clipped_mean": _clip(fmean(raws)), "mean_of_clipped": fmean(map(_clip, raws))}
    if rule == "healthbench-professional":
        if len(adjusted) != len(raws):
            raise ValueError(f"{len(raws)} raw scores but {len(adjusted)} length-adjusted ones")
        mean = fmean(adjusted)
        return {"adjusted": mean, "adjusted_clipped": _clip(mean), "raw": fmean(map(_clip, raws))}
    name = {"medxpertqa": "accuracy", "equal-weights": "share_met"}.get(rule, "mean")
    return {name: fmean(raws)}


def profbench_mean(scores: Mapping[str, Mapping[str, Sequence[float]]]) -> float:
    """Domain -> task -> r of its answers, averaged per task, then domain, then over domains (in [0, 1])."""
    return fmean(fmean(fmean(answers) for answers in tasks.values()) for tasks in scores.values())


def prbench_points(annotations: Mapping[str, object]) -> float:
    """Points of a PRBench criterion: the weight column that `weight_class` names, no other.

    Raises:
        ValueError: the class is missing or its column holds no number.
    """
    weight_class = annotations.get("weight_class")
    if not isinstance(weight_class, str):
        raise ValueError("PRBench criterion without weight_class")
    column = re.sub(r"\s+", "_", weight_class.strip()) + "_weight"
    weight = annotations.get(column)
    if not isinstance(weight, int | float):
        raise ValueError(f"PRBench criterion of class {weight_class!r} has no number in {column!r}")
    return float(weight)
