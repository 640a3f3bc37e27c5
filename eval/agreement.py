"""How far a judge agrees with experts, and with itself.

Verdicts that are unknown are counted by themselves and are in no other figure. Intervals are 95% percentile
bootstraps that draw whole conversations, because verdicts on one conversation lean on each other. A bootstrap of very
few units is too narrow, so where there are fewer than LEAST_UNITS it draws answers, and then single items.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, comb  # type: ignore[import-untyped]
from sklearn.metrics import cohen_kappa_score, f1_score  # type: ignore[import-untyped]

from rri.types import Verdict

__all__ = [
    "Agreement",
    "Estimate",
    "Flips",
    "JudgedItem",
    "Unit",
    "cohens_kappa",
    "flips_left",
    "flips_left_if_even",
    "macro_f1",
    "measure_agreement",
    "measure_flips",
]

RESAMPLES = 2000
LEVEL = 0.95
LEAST_UNITS = 10

Unit = Literal["conversations", "answers", "items"]
"""What the bootstrap draws."""

Counts = NDArray[np.float64]

BOTH_MET, WRONG_MET, WRONG_UNMET, BOTH_UNMET, UNKNOWN, DIFFER, PAIRS = range(7)
"""Columns of a row of counts: the four known outcomes, unknown ones, pairs of votes that differ, all pairs."""


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """An expert's label and the judge's verdict on one criterion of one answer.

    `conversation` and `answer` identify what the item belongs to, `chars` is the answer's length.
    """

    conversation: str
    answer: str
    chars: int
    label: bool
    verdict: Verdict

    @property
    def known(self) -> bool:
        return self.verdict.outcome != "unknown"

    @property
    def met(self) -> bool:
        """Whether the judge found it met. Ask only where `known`."""
        return self.verdict.outcome == "met"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95% interval; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Verdicts against labels. All but `items` and `unknown` are over the known verdicts."""

    items: int
    known: int
    labelled_met: int
    both_met: int
    wrong_met: int
    wrong_unmet: int
    both_unmet: int
    kappa: Estimate
    macro_f1: Estimate
    accuracy: Estimate
    always_met: float | None
    """Accuracy of a judge that says met whatever it is shown."""
    always_unmet: float | None
    lean: Estimate
    """Share judged met minus share labelled met: above 0 the judge is lenient."""
    unknown: Estimate
    """Share of all items whose verdict is unknown."""
    drawn: Unit
    """What the intervals draw."""


@dataclass(frozen=True, slots=True)
class Flips:
    """How often the judge contradicts itself."""

    rate: Estimate
    """Share of pairs of known votes on one item that differ."""
    pairs: int
    met_share: float | None
    """Share of met among the known votes."""

    def left(self, n: int) -> float | None:
        """The rate that is left between two majorities of `n` votes (`flips_left`)."""
        if self.rate.value is None or self.met_share is None:
            return None
        return flips_left(self.rate.value, self.met_share, n)

    def left_if_even(self, n: int) -> float | None:
        """The same, were all items equally doubtful (`flips_left_if_even`)."""
        return None if self.rate.value is None else flips_left_if_even(self.rate.value, n)


def measure_agreement(items: Sequence[JudgedItem], seed: int = 0) -> Agreement:
    """Agreement of the verdicts with the labels.

    Args:
        items: judged items, unknown ones among them.
        seed: of the bootstrap.
    """
    rows = _rows(items)
    total = rows.sum(axis=0)
    unit, names = _units(items)
    drawn = _resampled(names, rows, seed)
    known = [item for item in items if item.known]
    labels, verdicts = [i.label for i in known], [i.met for i in known]
    kappa = f1 = None
    if len({*labels, *verdicts}) == 2:
        kappa = float(cohen_kappa_score(labels, verdicts, labels=[False, True]))
        f1 = float(f1_score(labels, verdicts, labels=[False, True], average="macro", zero_division=0.0))
    met = sum(labels)
    return Agreement(
        items=len(items),
        known=len(known),
        labelled_met=met,
        both_met=int(total[BOTH_MET]),
        wrong_met=int(total[WRONG_MET]),
        wrong_unmet=int(total[WRONG_UNMET]),
        both_unmet=int(total[BOTH_UNMET]),
        kappa=_estimate(kappa, cohens_kappa, drawn),
        macro_f1=_estimate(f1, macro_f1, drawn),
        accuracy=_estimate(_point(_accuracy, total), _accuracy, drawn),
        always_met=met / len(known) if known else None,
        always_unmet=1 - met / len(known) if known else None,
        lean=_estimate(_point(_lean, total), _lean, drawn),
        unknown=_estimate(_point(_unknown, total), _unknown, drawn),
        drawn=unit,
    )


def measure_flips(items: Sequence[JudgedItem], seed: int = 0) -> Flips:
    """How often two known votes on one item differ. Items with fewer than two known votes say nothing of it.

    Args:
        items: judged items with every vote that was cast.
        seed: of the bootstrap.
    """
    rows = _rows(items)
    total = rows.sum(axis=0)
    votes = [v.outcome == "met" for item in items for v in item.verdict.votes if v.outcome != "unknown"]
    drawn = _resampled(_units(items)[1], rows, seed)
    return Flips(
        rate=_estimate(_point(_flip_rate, total), _flip_rate, drawn),
        pairs=int(total[PAIRS]),
        met_share=sum(votes) / len(votes) if votes else None,
    )


def flips_left(rate: float, met_share: float, n: int) -> float:
    """Share of pairs of majorities of `n` votes that differ, where single votes differ with `rate`.

    Each item has its own chance that a vote says met. The chances are taken to follow the beta distribution whose mean
    is `met_share` and under which two votes differ with `rate`. So doubtful items stay doubtful: a majority mends less
    than it would if every item were equally likely to flip.

    Args:
        rate: pairs of single votes on one item that differ, in [0, 1].
        met_share: share of met among single votes, in [0, 1].
        n: votes of a majority, odd.

    Raises:
        ValueError: `n` is even or below 1.
    """
    _check_odd(n)
    if rate <= 0:
        return 0.0
    most = 2 * met_share * (1 - met_share)
    if rate >= most * (1 - 1e-9):
        # As many flips as if every item had the same chance, so there is no spread to estimate.
        return _pairs_of_majorities(met_share, n)
    j, k = np.arange(n // 2 + 1, n + 1), np.arange(n // 2 + 1)
    ways = comb(n, j)[:, None] * comb(n, k)[None, :]
    met = j[:, None] + k[None, :]
    spread = 1 - rate / most
    a, b = met_share * (1 - spread) / spread, (1 - met_share) * (1 - spread) / spread
    return float(2 * (ways * np.exp(betaln(a + met, b + 2 * n - met) - betaln(a, b))).sum())


def flips_left_if_even(rate: float, n: int) -> float:
    """`flips_left` were every item's vote equally likely to stray from its prevailing side: the least that is left.

    METHOD 11 counts so: 2.7% of single votes stray, 0.2% of majorities of three.

    Raises:
        ValueError: `n` is even or below 1.
    """
    _check_odd(n)
    return _pairs_of_majorities((1 - math.sqrt(max(0.0, 1 - 2 * rate))) / 2, n)


def _check_odd(n: int) -> None:
    if n < 1 or n % 2 == 0:
        raise ValueError(f"a majority needs an odd number of votes, got {n}")


def _pairs_of_majorities(chance: float, n: int) -> float:
    """Share of pairs of majorities of `n` votes that differ, each vote being met by `chance`."""
    k = np.arange(n // 2 + 1, n + 1)
    met = float((comb(n, k) * chance**k * (1 - chance) ** (n - k)).sum())
    return 2 * met * (1 - met)


def cohens_kappa(counts: Counts) -> Counts:
    """Cohen's kappa of each row of counts (..., 7); NaN where labels and verdicts are all of one class."""
    met, wrong_met, wrong_unmet, unmet = (counts[..., c] for c in (BOTH_MET, WRONG_MET, WRONG_UNMET, BOTH_UNMET))
    n = met + wrong_met + wrong_unmet + unmet
    by_chance = (met + wrong_met) * (met + wrong_unmet) + (unmet + wrong_met) * (unmet + wrong_unmet)
    return _ratio((met + unmet) * n - by_chance, n * n - by_chance)


def macro_f1(counts: Counts) -> Counts:
    """Mean of the F1 of met and of unmet for each row of counts (..., 7); NaN where all are of one class."""
    met, wrong, unmet = (
        counts[..., BOTH_MET],
        counts[..., WRONG_MET] + counts[..., WRONG_UNMET],
        counts[..., BOTH_UNMET],
    )
    return (_ratio(2 * met, 2 * met + wrong) + _ratio(2 * unmet, 2 * unmet + wrong)) / 2


def _accuracy(counts: Counts) -> Counts:
    right = counts[..., BOTH_MET] + counts[..., BOTH_UNMET]
    return _ratio(right, counts[..., BOTH_MET : BOTH_UNMET + 1].sum(axis=-1))


def _lean(counts: Counts) -> Counts:
    return _ratio(
        counts[..., WRONG_MET] - counts[..., WRONG_UNMET], counts[..., BOTH_MET : BOTH_UNMET + 1].sum(axis=-1)
    )


def _unknown(counts: Counts) -> Counts:
    return _ratio(counts[..., UNKNOWN], counts[..., BOTH_MET : UNKNOWN + 1].sum(axis=-1))


def _flip_rate(counts: Counts) -> Counts:
    return _ratio(counts[..., DIFFER], counts[..., PAIRS])


def _ratio(above: Any, below: Any) -> Counts:
    quotient: Counts = np.divide(above, below, out=np.full(np.shape(below), np.nan), where=np.asarray(below) != 0)
    return quotient


def _rows(items: Sequence[JudgedItem]) -> Counts:
    rows = np.zeros((len(items), 7))
    for row, item in zip(rows, items, strict=True):
        if not item.known:
            row[UNKNOWN] = 1
        elif item.met:
            row[BOTH_MET if item.label else WRONG_MET] = 1
        else:
            row[WRONG_UNMET if item.label else BOTH_UNMET] = 1
        votes = [v.outcome for v in item.verdict.votes if v.outcome != "unknown"]
        row[DIFFER] = sum(a != b for a, b in combinations(votes, 2))
        row[PAIRS] = len(votes) * (len(votes) - 1) // 2
    return rows


def _units(items: Sequence[JudgedItem]) -> tuple[Unit, list[str]]:
    """The largest unit of which there are enough, and the one that each item belongs to."""
    conversations, answers = [i.conversation for i in items], [i.answer for i in items]
    if len(set(conversations)) >= LEAST_UNITS:
        return "conversations", conversations
    if len(set(answers)) >= LEAST_UNITS:
        return "answers", answers
    return "items", [str(number) for number in range(len(items))]


def _resampled(units: Sequence[str], rows: Counts, seed: int) -> Counts:
    """Counts of RESAMPLES draws of as many units as there are, shape (RESAMPLES, 7)."""
    place: dict[str, int] = {}
    index = [place.setdefault(unit, len(place)) for unit in units]
    n = len(place)
    by_unit = np.zeros((n, 7))
    np.add.at(by_unit, index, rows)
    draws = np.random.default_rng(seed)
    return np.array([by_unit[draws.integers(0, n, n) if n else []].sum(axis=0) for _ in range(RESAMPLES)])


def _point(statistic: Callable[[Counts], Counts], total: Counts) -> float | None:
    value = float(statistic(total))
    return None if np.isnan(value) else value


def _estimate(value: float | None, statistic: Callable[[Counts], Counts], drawn: Counts) -> Estimate:
    figures = statistic(drawn)
    # A draw may lack a class; it has no kappa then and says nothing of the spread.
    figures = figures[~np.isnan(figures)]
    if value is None or not figures.size:
        return Estimate(value)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(figures, [tail, 1 - tail])
    return Estimate(value, float(low), float(high))
