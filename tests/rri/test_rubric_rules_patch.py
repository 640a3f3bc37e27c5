"""Rules of a minted criterion with the reason of each problem, and the share of the gap that it removes (METHOD 7)."""

import math
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rri.rubric_rules import PatchLimits, PatchReason, RubricLimits, check_patch, gap_removed, patch_problems
from rri.types import Criterion, Rubric

LIGHT = settings(max_examples=100, deadline=None)
WORDS = "names w{0}a w{0}b w{0}c w{0}d w{0}e w{0}f w{0}g w{0}h"


def rubric_of(*points: float) -> Rubric:
    return Rubric(criteria=tuple(Criterion(text=WORDS.format(f"{i:02}"), points=p) for i, p in enumerate(points)))


def reasons(text: str, points: float = 8, rubric: Rubric | None = None, **limits: float) -> list[PatchReason]:
    criterion = Criterion.model_construct(text=text, points=points)
    patch_limits = PatchLimits.model_validate(limits)
    return [p.reason for p in patch_problems(criterion, rubric or rubric_of(8), patch_limits, RubricLimits())]


FULL = rubric_of(*[5] * 12)
GOOD = WORDS.format("99")


@pytest.mark.parametrize(
    ("text", "points", "rubric", "expected"),
    [
        (GOOD, 8, rubric_of(8), []),
        (GOOD, 8, FULL, ["rubric_full"]),
        (GOOD, 8, rubric_of(*[5] * 11), []),
        (GOOD[:39], 8, rubric_of(8), ["length"]),
        (GOOD[:40], 8, rubric_of(8), []),
        (GOOD, 4.9, rubric_of(8), ["points"]),
        (GOOD, -4.9, rubric_of(8), ["points"]),
        (GOOD, 10.1, rubric_of(8), ["points"]),
        ("Omits the notice period of the lease agreement", 8, rubric_of(8), ["absence"]),
        ("Advises against the notice period of the lease", -8, rubric_of(8), ["absence"]),
        ("Advises against the notice period of the lease", 8, rubric_of(8), []),
        ("The answer names the notice period of the lease", 8, rubric_of(8), ["addresses_judge"]),
        (WORDS.format("00"), 8, rubric_of(8), ["overlap"]),
        (WORDS.format("00"), 8, rubric_of(8, 8), ["overlap"]),
    ],
)
def test_each_rule_has_its_reason(text: str, points: float, rubric: Rubric, expected: list[PatchReason]) -> None:
    assert reasons(text, points, rubric) == expected


def test_a_text_that_repeats_two_criteria_names_both() -> None:
    twice = Rubric(criteria=rubric_of(8).criteria * 2)
    problems = patch_problems(Criterion(text=WORDS.format("00"), points=8), twice)
    assert [p.reason for p in problems] == ["overlap", "overlap"]
    assert "criterion 1" in problems[0].text and "criterion 2" in problems[1].text


def test_all_broken_rules_are_named_in_the_order_of_their_reasons() -> None:
    text = "The answer fails to name it"
    rubric = Rubric(criteria=(*FULL.criteria[:11], Criterion(text=text, points=5)))
    assert reasons(text, 4, rubric) == list(get_args(PatchReason))


@LIGHT
@given(
    text=st.sampled_from([GOOD, GOOD[:39], "Omits the notice period", "The answer names it", WORDS.format("01")]),
    points=st.sampled_from([3.0, 5.0, 10.0, 12.0, -5.0]),
    size=st.integers(1, 13),
)
def test_the_sentences_are_those_of_check_patch(text: str, points: float, size: int) -> None:
    criterion, rubric = Criterion.model_construct(text=text, points=points), rubric_of(*[5] * size)
    problems = patch_problems(criterion, rubric)
    assert check_patch(criterion, rubric) == [p.text for p in problems]
    order = get_args(PatchReason)
    assert [p.reason for p in problems] == sorted((p.reason for p in problems), key=order.index)


def test_the_limits_are_settings() -> None:
    assert reasons(GOOD, min_chars=len(GOOD) + 1) == ["length"]
    assert reasons(GOOD, min_abs_points=9) == ["points"]
    assert reasons(f"names w00a w00b w00c {GOOD}", max_overlap=0.1) == ["overlap"]
    assert reasons(f"names w00a w00b w00c {GOOD}") == []


# -- the gap -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "rubric", "share"),
    [
        (8, rubric_of(8, 8), 0.5),
        (-8, rubric_of(8, 8), 0.5),
        (5, rubric_of(*[10] * 10), 0.05),
        (5, rubric_of(10, -10, 10), 0.25),
        (5, rubric_of(-10), math.inf),
    ],
)
def test_the_share_of_the_positive_points_before_the_criterion(points: float, rubric: Rubric, share: float) -> None:
    assert gap_removed(Criterion(text=GOOD, points=points), rubric) == pytest.approx(share)
