"""Whether a judge takes length for substance.

The figure is the point-biserial correlation of the verdict with the logarithm of the answer's length, among answers
with the same label. Labels that themselves move with length, as they do where longer answers hold more, leave it at 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import permutation_test  # type: ignore[import-untyped]

from eval.agreement import JudgedItem

__all__ = ["LengthBias", "Third", "measure_length_bias"]

PERMUTATIONS = 2000
CELLS = 4_000_000
"""Numbers that the permutation test holds at once."""


@dataclass(frozen=True, slots=True)
class Third:
    """A third of the known verdicts by length of the answer. Rates are None where there is no such label."""

    items: int
    shortest: int
    longest: int
    labelled_met: float | None
    judged_met: float | None
    wrong_met: float | None
    """Share of the unmet that the judge found met."""
    wrong_unmet: float | None
    """Share of the met that the judge found unmet."""


@dataclass(frozen=True, slots=True)
class LengthBias:
    """`r` > 0: longer answers are more readily found met. `p` is a permutation test's, lengths drawn among answers.

    Both are None where all answers are of one length.
    """

    r: float | None
    p: float | None
    thirds: tuple[Third, ...]
    """Shortest first; empty with fewer than three verdicts."""


def measure_length_bias(items: Sequence[JudgedItem], seed: int = 0) -> LengthBias:
    """How verdicts move with length at the same label. Unknown verdicts are left out.

    Args:
        items: judged items. Lengths are characters.
        seed: of the permutations.
    """
    known = [item for item in items if item.known]
    r, p = _correlation(known, seed)
    return LengthBias(r, p, _thirds(known))


def _correlation(known: Sequence[JudgedItem], seed: int) -> tuple[float | None, float | None]:
    chars = {item.answer: item.chars for item in known}
    if len(set(chars.values())) < 2:
        return None, None
    place = {answer: number for number, answer in enumerate(chars)}
    # One row an answer: its items of each label, and what their verdicts exceed the mean of their label by.
    counts = np.zeros((len(place), 2))
    excess = np.zeros(len(place))
    squares = 0.0
    for label in (False, True):
        of_label = [item for item in known if item.label is label]
        mean = sum(item.met for item in of_label) / max(len(of_label), 1)
        for item in of_label:
            counts[place[item.answer], int(label)] += 1
            excess[place[item.answer]] += item.met - mean
            squares += (item.met - mean) ** 2
    if squares < 1e-12:
        # Within a label the verdict is always the same, so nothing moves it, length neither.
        return 0.0, 1.0

    def statistic(lengths: Any, axis: int = -1) -> Any:
        return _within_labels(np.moveaxis(np.asarray(lengths), axis, -1), counts, excess, squares)

    logs = np.log1p(list(chars.values()))
    test = permutation_test(
        (logs - logs.mean(),),
        statistic,
        permutation_type="pairings",
        vectorized=True,
        n_resamples=PERMUTATIONS,
        batch=max(1, CELLS // len(place)),
        rng=np.random.default_rng(seed),
    )
    return float(test.statistic), float(test.pvalue)


def _within_labels(
    lengths: NDArray[np.float64], counts: NDArray[np.float64], excess: NDArray[np.float64], squares: float
) -> NDArray[np.float64]:
    """Correlation of verdicts with the answers' `lengths` (..., answers) after the mean of each label is taken out."""
    of_label = counts.sum(axis=0)
    sums = lengths @ counts
    spread = (lengths**2) @ counts.sum(axis=1)
    spread -= np.divide(sums**2, of_label, out=np.zeros_like(sums), where=of_label > 0).sum(axis=-1)
    below = np.sqrt(np.maximum(spread, 0.0) * squares)
    correlation: NDArray[np.float64] = np.divide(
        lengths @ excess, below, out=np.zeros(np.shape(below)), where=below > 1e-9
    )
    return correlation


def _thirds(known: Sequence[JudgedItem]) -> tuple[Third, ...]:
    if len(known) < 3:
        return ()
    by_length = sorted(known, key=lambda item: item.chars)
    edges = [round(len(by_length) * i / 3) for i in range(4)]
    return tuple(_third(by_length[low:high]) for low, high in pairwise(edges))


def _third(items: Sequence[JudgedItem]) -> Third:
    met, unmet = [i for i in items if i.label], [i for i in items if not i.label]
    return Third(
        items=len(items),
        shortest=items[0].chars,
        longest=items[-1].chars,
        labelled_met=_share([i.label for i in items]),
        judged_met=_share([i.met for i in items]),
        wrong_met=_share([i.met for i in unmet]),
        wrong_unmet=_share([not i.met for i in met]),
    )


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
