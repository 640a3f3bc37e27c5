"""What a rubric, a rewrite and a patch may look like (METHOD 4.5, 5 and 7). Pure functions.

Every check returns the problems it found as sentences that can be given back to the model that wrote
the rubric; an empty list means valid.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from rri.types import POINTS_LIMIT, Criterion, Frozen, Rubric

__all__ = [
    "PatchLimits",
    "PatchProblem",
    "PatchReason",
    "RewriteLimits",
    "RubricLimits",
    "addresses_judge",
    "check_patch",
    "check_rewrite",
    "check_rubric",
    "gap_removed",
    "is_absence",
    "patch_problems",
    "salvage_rewrite",
    "trigram_overlap",
]

_NOT_DONE = (
    r"(?:(?:do(?:es)?|did|is|are|was|were|has|have|had|can|could|will|would|should|may|must)\s+not"
    r"|(?:do(?:es)?|did|is|are|was|were|has|have|had|ca|could|wo|would|should|must)n['\u2019]t"
    r"|cannot|never|lacks?|lacking|omits?|omitted|omitting|omission\s+of|leav(?:e|es|ing)\s+out|is\s+missing"
    r"|(?:fail|neglect|forget)(?:s|ed|ing)?\s+to"
    r"|(?:mak|giv|provid|offer|stat|nam|includ)(?:es?|s)\s+no)\b"
)
# Turning someone away from a thing: fine to require, but a negative that names it would reward the error.
_DISCOURAGED = r"(?:avoids|refrains|(?:advises|warns|recommends|cautions|counsels)\s+against)\b"
_DISCOURAGED_OPENS = r"(?:avoid(?:ing)?|refrain(?:ing)?|(?:advis|warn|recommend|caution|counsel)(?:e|ing)?\s+against)\b"
_START = r"^(?:\W|\d+[.)])*"
_SUBJECT = r"(?:(?:the|this|that|an?)\s+(?:\w+\s+){1,3}|it\s+|there\s+(?:is\s+|are\s+)?)?"
_JOINT = r"(?:[:;,(]\s*|\b(?:or|but|and)\s+)"
_ABSENT = re.compile(
    rf"{_START}{_SUBJECT}(?:{_NOT_DONE}|(?:no|not|neither|without|miss(?:es|ing))\b)|{_JOINT}{_NOT_DONE}", re.IGNORECASE
)
_TURNED_AWAY = re.compile(
    rf"{_START}{_SUBJECT}(?:{_DISCOURAGED}|{_DISCOURAGED_OPENS})|{_JOINT}{_DISCOURAGED}", re.IGNORECASE
)

_CREDIT = r"(?:credit(?!\s+(?:risk|rating|card|agreement|line|default))|points?\b|marks?\b)"
_JUDGE = re.compile(
    rf"{_START}(?:penali[sz]es?|(?:deduct|subtract)s?\s+(?:\w+\s+){{0,2}}?(?:points?|marks?)\b|reward"
    r"|award(?!s\s+the)s?|score(?=\s+\d)|mark(?=\s+(?:as|it|the\s+answer))|rate\s+the|grade\s+the"
    rf"|(?:give|grant|assign|add|take)s?\s+(?:\w+\s+){{0,2}}?{_CREDIT}"
    r"|(?:the\s+|this\s+)?(?:response|answer|assistant|AI|output|completion)\W+(?!to\b|rate)\w+s\b"
    r"|the\s+(?:response|answer|model|assistant|AI|output|completion)\W+(?!to\b|rates?\b)\w+)"
    r"|\bthe\s+(?:rubric|grader)\b|\bthe\s+response\s+(?:should|must|needs)\b|\bthis\s+criterion\b"
    r"|,\s*(?:award|deduct|subtract|give)\s+(?:\w+\s+){0,2}?(?:credit|points?|marks?)\b"
    r"|\b(?:full|partial)\s+(?:credit|points|marks)\b",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[^\W_]+")


class RubricLimits(Frozen):
    """How many criteria a rubric may hold: 1-6 at birth, 12 after repairs (METHOD 4.5 and 7)."""

    min_criteria: int = Field(default=1, ge=1)
    max_criteria: int = Field(default=6, ge=1, description="at birth")
    max_criteria_repaired: int = Field(default=12, ge=1, description="after rewrites and patches")


class RewriteLimits(Frozen):
    """Shape of an admission rewrite (METHOD 3, rewriter; METHOD 5, salvage)."""

    min_abs_points: int = Field(default=5, ge=1, le=POINTS_LIMIT, description="smaller points are clamped to this")
    max_growth: int = Field(default=4, ge=0, description="added criteria beyond this are trimmed")
    min_positives: int = Field(default=2, ge=1, description="red-team tasks are exempt")
    max_negatives: int = Field(default=3, ge=0)


class PatchLimits(Frozen):
    """Wording and shape of a minted criterion (METHOD 7)."""

    min_chars: int = Field(default=40, ge=1)
    max_chars: int = Field(default=220, ge=1)
    min_abs_points: float = Field(default=5, gt=0, le=POINTS_LIMIT)
    max_abs_points: float = Field(default=10, gt=0, le=POINTS_LIMIT)
    max_overlap: float = Field(default=0.6, gt=0, le=1, description="word trigrams shared with any other criterion")


def is_absence(text: str, *, warnings: bool = True) -> bool:
    """Whether a criterion describes what is not there. A negative phrased so would reward the error.

    Args:
        text: the criterion.
        warnings: also count advice against a thing, which a criterion with positive points may require.
    """
    return bool(_ABSENT.search(text) or (warnings and _TURNED_AWAY.search(text)))


def addresses_judge(text: str) -> bool:
    """Whether a criterion speaks to or of the grading instead of naming content."""
    return bool(_JUDGE.search(text))


def _trigrams(text: str) -> frozenset[tuple[str, str, str]]:
    words = _WORDS.findall(text.lower())
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def trigram_overlap(a: str, b: str) -> float:
    """Shared word trigrams over the smaller set, in [0, 1]; texts under three words compare as a whole."""
    left, right = _trigrams(a), _trigrams(b)
    if not left or not right:
        return float(_WORDS.findall(a.lower()) == _WORDS.findall(b.lower()))
    return len(left & right) / min(len(left), len(right))


def _wording_problems(criteria: Sequence[Criterion]) -> list[str]:
    problems = []
    seen: set[str] = set()
    for number, criterion in enumerate(criteria, 1):
        text = criterion.text.strip()
        key = " ".join(_WORDS.findall(text.lower())) or text
        if not text:
            problems.append(f"criterion {number} is empty")
        elif key in seen:
            problems.append(f"criterion {number} repeats an earlier one")
        seen.add(key)
        if criterion.points < 0 and is_absence(text):
            problems.append(
                f"criterion {number} has negative points but names an absence; name the error that is made: {text!r}"
            )
        if addresses_judge(text):
            problems.append(f"criterion {number} speaks about the grading; name only content: {text!r}")
        if not -POINTS_LIMIT <= criterion.points <= POINTS_LIMIT or criterion.points == 0:
            problems.append(f"criterion {number} has {criterion.points:g} points; allowed are -10..10 without 0")
    return problems


def check_rubric(rubric: Rubric, *, repaired: bool = False, limits: RubricLimits | None = None) -> list[str]:
    """Problems of a rubric under METHOD 4.5.

    Args:
        rubric: the rubric.
        repaired: whether the larger bound on the number of criteria holds.
        limits: the bounds; the method's own by default.
    """
    limits = limits or RubricLimits()
    most = limits.max_criteria_repaired if repaired else limits.max_criteria
    count = len(rubric.criteria)
    problems = []
    if not limits.min_criteria <= count <= most:
        problems.append(f"{count} criteria; between {limits.min_criteria} and {most} are allowed")
    if not any(c.points > 0 for c in rubric.criteria):
        problems.append("no criterion with positive points; at least one is needed")
    return problems + _wording_problems(rubric.criteria)


def salvage_rewrite(
    before: Rubric, after: Rubric, limits: RewriteLimits | None = None, rubric_limits: RubricLimits | None = None
) -> Rubric:
    """Clamp points to +-[5, 10] and trim growth beyond four added criteria (METHOD 5).

    Rejecting rewrites for shape loses most of them, so what can be mended is mended. Trimming takes the
    last criteria first, but never the last positive.
    """
    limits, rubric_limits = limits or RewriteLimits(), rubric_limits or RubricLimits()
    clamped = [Criterion(text=c.text, points=_clamp_points(c.points, limits.min_abs_points)) for c in after.criteria]
    most = min(len(before.criteria) + limits.max_growth, rubric_limits.max_criteria_repaired)
    while len(clamped) > most:
        positives = sum(c.points > 0 for c in clamped)
        droppable = (i for i in reversed(range(len(clamped))) if clamped[i].points < 0 or positives > 1)
        del clamped[next(droppable)]
    return Rubric(criteria=tuple(clamped))


def _clamp_points(points: float, least: float) -> float:
    size = min(POINTS_LIMIT, max(least, abs(points)))
    return size if points > 0 else -size


def check_rewrite(
    before: Rubric,
    after: Rubric,
    *,
    red_team: bool,
    limits: RewriteLimits | None = None,
    rubric_limits: RubricLimits | None = None,
) -> list[str]:
    """Problems of a salvaged rewrite that keep it from being probed (METHOD 3 and 5)."""
    limits = limits or RewriteLimits()
    problems = check_rubric(after, repaired=True, limits=rubric_limits)
    if len(after.criteria) < len(before.criteria):
        problems.append(
            f"the rewrite has {len(after.criteria)} criteria, the version before it {len(before.criteria)}; "
            "keep at least as many"
        )
    positives = sum(c.points > 0 for c in after.criteria)
    negatives = len(after.criteria) - positives
    if not red_team and positives < limits.min_positives:
        problems.append(f"{positives} positive criteria; at least {limits.min_positives} are needed")
    if negatives > limits.max_negatives:
        problems.append(f"{negatives} negative criteria; at most {limits.max_negatives} are allowed")
    return problems


PatchReason = Literal["rubric_full", "length", "points", "absence", "addresses_judge", "overlap"]
"""The rules of a minted criterion's wording and shape, in the order in which they are checked."""


class PatchProblem(NamedTuple):
    """A rule that a minted criterion breaks, and what to tell the model that wrote it."""

    reason: PatchReason
    text: str


def check_patch(
    criterion: Criterion,
    rubric: Rubric,
    limits: PatchLimits | None = None,
    rubric_limits: RubricLimits | None = None,
) -> list[str]:
    """Problems of a minted criterion's wording and shape, cheap checks first (METHOD 7)."""
    return [problem.text for problem in patch_problems(criterion, rubric, limits, rubric_limits)]


def patch_problems(
    criterion: Criterion,
    rubric: Rubric,
    limits: PatchLimits | None = None,
    rubric_limits: RubricLimits | None = None,
) -> list[PatchProblem]:
    """`check_patch` with the rule that each problem breaks, in the order of `PatchReason` (METHOD 7)."""
    limits, rubric_limits = limits or PatchLimits(), rubric_limits or RubricLimits()
    problems = []
    count = len(rubric.criteria)
    if count >= rubric_limits.max_criteria_repaired:
        problems.append(PatchProblem("rubric_full", f"the rubric already holds {count} criteria, the most it may"))
    length = len(criterion.text.strip())
    if not limits.min_chars <= length <= limits.max_chars:
        allowed = f"between {limits.min_chars} and {limits.max_chars} are allowed"
        problems.append(PatchProblem("length", f"{length} characters; {allowed}"))
    if not limits.min_abs_points <= abs(criterion.points) <= limits.max_abs_points:
        allowed = f"the size must lie in [{limits.min_abs_points:g}, {limits.max_abs_points:g}]"
        problems.append(PatchProblem("points", f"{criterion.points:g} points; {allowed}"))
    if is_absence(criterion.text, warnings=criterion.points < 0):
        problems.append(PatchProblem("absence", "the criterion names an absence; name what is there"))
    if addresses_judge(criterion.text):
        problems.append(PatchProblem("addresses_judge", "the criterion speaks about the grading; name only content"))
    return problems + list(_overlaps(criterion, rubric, limits.max_overlap))


def _overlaps(criterion: Criterion, rubric: Rubric, most: float) -> Iterator[PatchProblem]:
    for number, other in enumerate(rubric.criteria, 1):
        overlap = trigram_overlap(criterion.text, other.text)
        if overlap >= most:
            shared = f"shares {overlap:.2f} of its word trigrams with criterion {number}"
            yield PatchProblem("overlap", f"{shared}; below {most:g} is allowed")


def gap_removed(criterion: Criterion, rubric: Rubric) -> float:
    """|points| / sum of the positive points of `rubric`, which does not hold the criterion yet (METHOD 7).

    Infinite for a rubric without positive points.
    """
    total = rubric.positive_total
    return abs(criterion.points) / total if total else math.inf
