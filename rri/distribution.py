"""Distribution report: what generated tasks look like, and where they drifted from the reference (METHOD 4.6). Pure."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import comb, isqrt
from statistics import fmean, median
from typing import Literal, Self

from pydantic import Field, model_validator

from rri.types import Frozen, Task

__all__ = [
    "MAX_PAIRS",
    "MIN_SHINGLES",
    "NEAR_DUPLICATE_AT",
    "SHINGLE_WORDS",
    "Distribution",
    "Drift",
    "DriftLimits",
    "ReferenceFigures",
    "distribution",
    "drift",
]

SHINGLE_WORDS = 5
"""Words in a row that make one shingle."""
MIN_SHINGLES = 8
"""A request with fewer different shingles is too short to compare."""
MAX_PAIRS = 200
"""Pairs of requests that self-similarity is measured on, at most."""
NEAR_DUPLICATE_AT = 0.5
"""Jaccard overlap from which two requests count as near-duplicates: they share two thirds of their shingles."""

_WORD = re.compile(r"[^\W_]+")
_ROUNDING = 1e-9
"""Keeps a figure that lies on a limit inside it."""

_Shingle = tuple[str, ...]


class Distribution(Frozen):
    """Figures of a set of tasks. None means that there was nothing to measure, never zero.

    Shares lie in [0, 1]. Means and medians are per task, lengths per criterion in characters. `use_cases` are shares
    of the tasks that carry such a label. `self_similarity` is the mean Jaccard overlap of two requests' shingles over
    `pairs` random pairs, `near_duplicates` the share of these pairs that overlap by half or more.
    """

    tasks: int
    criteria_mean: float | None = None
    criteria_median: float | None = None
    criteria_histogram: dict[int, int] | None = None
    positives_mean: float | None = None
    negatives_mean: float | None = None
    criterion_chars_mean: float | None = None
    criterion_chars_median: float | None = None
    negative_share: float | None = None
    use_cases: dict[str, float] | None = None
    specialties: int | None = None
    red_team_share: float | None = None
    pairs: int = 0
    self_similarity: float | None = None
    near_duplicates: float | None = None


class ReferenceFigures(Frozen):
    """What the target benchmark looks like. A figure that is left out is not compared.

    `use_cases` must name the whole mix, because a use case that it lacks counts as unwanted.
    """

    criteria_mean: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="criteria per task")
    criterion_chars_mean: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="characters of a criterion"
    )
    negative_share: float | None = Field(
        default=None, ge=0, le=1, allow_inf_nan=False, description="share of tasks with a negative"
    )
    use_cases: dict[str, float] | None = Field(default=None, description="use case -> share of the tasks")
    self_similarity: float | None = Field(
        default=None, ge=0, le=1, allow_inf_nan=False, description="the benchmark's own; the limits hold on top of it"
    )

    @model_validator(mode="after")
    def _whole_mix(self) -> Self:
        shares = list((self.use_cases or {}).values())
        # Published shares are rounded. Written so that a NaN fails too.
        if self.use_cases is not None and not (
            all(0 <= s <= 1 for s in shares) and abs(sum(shares) - 1) <= 0.02 + _ROUNDING
        ):
            raise ValueError(f"use_cases must be shares that sum to 1, got {shares}, whose sum is {sum(shares):g}")
        return self


class DriftLimits(Frozen):
    """How far a figure may lie from the reference; on the limit is within it."""

    use_case: float = Field(default=0.10, ge=0, allow_inf_nan=False, description="difference of a use case's share")
    criteria: float = Field(default=0.8, ge=0, allow_inf_nan=False, description="difference of criteria per task")
    length: float = Field(
        default=0.25, ge=0, allow_inf_nan=False, description="difference of a criterion's length, relative"
    )
    negatives: float = Field(default=0.20, ge=0, allow_inf_nan=False, description="difference of the negative share")
    similarity_mild: float = Field(
        default=0.07, ge=0, allow_inf_nan=False, description="self-similarity above it repeats itself"
    )
    similarity_collapse: float = Field(
        default=0.15, ge=0, allow_inf_nan=False, description="self-similarity above it has collapsed"
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.similarity_mild > self.similarity_collapse:
            raise ValueError(
                f"similarity_mild {self.similarity_mild:g} must not be above "
                f"similarity_collapse {self.similarity_collapse:g}"
            )
        return self


class Drift(Frozen):
    """One figure that left its limit. `sentence` tells a prompt the number found and the number to hit."""

    figure: str
    level: Literal["drift", "mild", "collapse"]
    found: float
    wanted: float
    sentence: str


def distribution(tasks: Sequence[Task]) -> Distribution:
    """Figures of these tasks. The same tasks in the same order always give the same figures."""
    if not tasks:
        return Distribution(tasks=0)
    counts = [len(task.rubric.criteria) for task in tasks]
    positives = [sum(c.points > 0 for c in task.rubric.criteria) for task in tasks]
    negatives = [total - positive for total, positive in zip(counts, positives, strict=True)]
    lengths = [len(c.text) for task in tasks for c in task.rubric.criteria]
    cases = Counter(task.labels.use_case for task in tasks if task.labels.use_case)
    specialties = {key for task in tasks if (key := " ".join(task.labels.specialty.casefold().split()))}
    overlaps = _overlaps([task.request for task in tasks])
    return Distribution(
        tasks=len(tasks),
        criteria_mean=fmean(counts),
        criteria_median=median(counts),
        criteria_histogram=dict(sorted(Counter(counts).items())),
        positives_mean=fmean(positives),
        negatives_mean=fmean(negatives),
        criterion_chars_mean=fmean(lengths) if lengths else None,
        criterion_chars_median=median(lengths) if lengths else None,
        negative_share=fmean(n > 0 for n in negatives),
        use_cases={name: n / cases.total() for name, n in cases.most_common()} or None,
        specialties=len(specialties) or None,
        red_team_share=fmean(task.labels.red_team for task in tasks),
        pairs=len(overlaps),
        self_similarity=fmean(overlaps) if overlaps else None,
        near_duplicates=fmean(o >= NEAR_DUPLICATE_AT for o in overlaps) if overlaps else None,
    )


def _shingles(text: str) -> Iterator[_Shingle]:
    """Word 5-grams in order, read only as far as they are asked for."""
    last: _Shingle = ()
    for match in _WORD.finditer(text):
        last = (*last[1 - SHINGLE_WORDS :], match.group().lower())
        if len(last) == SHINGLE_WORDS:
            yield last


def _comparable(text: str) -> bool:
    found: set[_Shingle] = set()
    for shingle in _shingles(text):
        found.add(shingle)
        if len(found) == MIN_SHINGLES:
            return True
    return False


def _overlaps(texts: Sequence[str]) -> list[float]:
    """Jaccard overlaps of at most MAX_PAIRS different pairs of texts, drawn evenly with seed 0."""
    usable = [text for text in texts if _comparable(text)]
    pairs = comb(len(usable), 2)
    drawn = random.Random(0).sample(range(pairs), min(MAX_PAIRS, pairs))
    return [_jaccard(set(_shingles(usable[a])), set(_shingles(usable[b]))) for a, b in map(_pair, drawn)]


def _pair(number: int) -> tuple[int, int]:
    """The pair with this number when pairs are counted (1,0), (2,0), (2,1), (3,0), ..."""
    high = (1 + isqrt(1 + 8 * number)) // 2
    return high, number - comb(high, 2)


def _jaccard(a: set[_Shingle], b: set[_Shingle]) -> float:
    return len(a & b) / len(a | b)


def drift(found: Distribution, reference: ReferenceFigures, limits: DriftLimits | None = None) -> list[Drift]:
    """Figures that lie outside their limits: use-case mix, then the rubrics' shape, then repetition.

    A figure that was not measured, or that has no reference, is not flagged. Self-similarity alone has limits of its
    own: they count from the reference, or from 0 without one.

    Args:
        found: figures of generated tasks.
        reference: the domain's figures.
        limits: the method's own by default.
    """
    limits = limits or DriftLimits()
    return [
        *_use_case_drift(found, reference, limits),
        *_shape_drift(found, reference, limits),
        *_similarity_drift(found, reference, limits),
    ]


def _beyond(distance: float, limit: float) -> bool:
    return distance > limit + _ROUNDING


def _use_case_drift(found: Distribution, reference: ReferenceFigures, limits: DriftLimits) -> Iterator[Drift]:
    if found.use_cases is None or reference.use_cases is None:
        return
    for name in dict.fromkeys([*reference.use_cases, *found.use_cases]):
        share, wanted = found.use_cases.get(name, 0.0), reference.use_cases.get(name, 0.0)
        if _beyond(abs(share - wanted), limits.use_case):
            sentence = f"Use case {name!r} makes up {share:.0%} of the tasks. Bring it to {wanted:.0%}."
            yield Drift(figure=f"use_case:{name}", level="drift", found=share, wanted=wanted, sentence=sentence)


def _shape_drift(found: Distribution, reference: ReferenceFigures, limits: DriftLimits) -> Iterator[Drift]:
    mean, wanted = found.criteria_mean, reference.criteria_mean
    if mean is not None and wanted is not None and _beyond(abs(mean - wanted), limits.criteria):
        sentence = f"A rubric holds {mean:.1f} criteria on average. Bring it to {wanted:.1f}."
        yield Drift(figure="criteria_mean", level="drift", found=mean, wanted=wanted, sentence=sentence)
    mean, wanted = found.criterion_chars_mean, reference.criterion_chars_mean
    if mean is not None and wanted is not None and _beyond(abs(mean - wanted), limits.length * wanted):
        sentence = f"A criterion is {mean:.0f} characters long on average. Bring it to {wanted:.0f}."
        yield Drift(figure="criterion_chars_mean", level="drift", found=mean, wanted=wanted, sentence=sentence)
    mean, wanted = found.negative_share, reference.negative_share
    if mean is not None and wanted is not None and _beyond(abs(mean - wanted), limits.negatives):
        sentence = f"{mean:.0%} of the tasks carry a negative criterion. Bring it to {wanted:.0%}."
        yield Drift(figure="negative_share", level="drift", found=mean, wanted=wanted, sentence=sentence)


def _similarity_drift(found: Distribution, reference: ReferenceFigures, limits: DriftLimits) -> Iterator[Drift]:
    if found.self_similarity is None:
        return
    base = reference.self_similarity or 0.0
    excess, wanted = found.self_similarity - base, base + limits.similarity_mild
    if not _beyond(excess, limits.similarity_mild):
        return
    level: Literal["mild", "collapse"] = "collapse" if _beyond(excess, limits.similarity_collapse) else "mild"
    what = "Requests have collapsed into templates" if level == "collapse" else "Requests begin to repeat themselves"
    sentence = (
        f"{what}: two of them share {found.self_similarity:.3f} of their word sequences on average. "
        f"Vary situation, form and wording until it is at most {wanted:.3f}."
    )
    yield Drift(figure="self_similarity", level=level, found=found.self_similarity, wanted=wanted, sentence=sentence)
