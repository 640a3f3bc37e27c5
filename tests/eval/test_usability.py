"""The verdict on a judge: every threshold at its edge, and what is missing before one can tell."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.agreement import Agreement, Estimate, Flips, flips_left
from eval.length_bias import LengthBias
from eval.usability import WORDS, Thresholds, Usability, judge_usability, missing_labels

T = Thresholds()


def agreement(**changes: Any) -> Agreement:
    """A good judge of 100 items, with figures changed."""
    good = Agreement(
        items=100,
        known=100,
        labelled_met=50,
        both_met=46,
        wrong_met=4,
        wrong_unmet=4,
        both_unmet=46,
        kappa=Estimate(0.84, 0.72, 0.94),
        macro_f1=Estimate(0.92, 0.86, 0.97),
        accuracy=Estimate(0.92, 0.86, 0.97),
        always_met=0.5,
        always_unmet=0.5,
        lean=Estimate(0.0, -0.05, 0.05),
        unknown=Estimate(0.0, 0.0, 0.0),
        drawn="items",
    )
    return replace(good, **changes)


def usability(
    flips: Flips | None = None, length: LengthBias | None = None, votes: int = 3, **changes: Any
) -> Usability:
    return judge_usability(
        agreement(**changes),
        flips or Flips(Estimate(0.02, 0.01, 0.03), 300, 0.5),
        length or LengthBias(0.02, 0.6, ()),
        votes,
    )


def test_a_good_judge_may_train() -> None:
    found = usability()
    assert found == Usability("training")
    assert found.words == WORDS["training"] == "usable for training reward and probes"


@pytest.mark.parametrize(
    ("figure", "value", "use"),
    [
        ("kappa", Estimate(0.5, 0.35, 0.6), "training"),
        ("kappa", Estimate(0.499, 0.35, 0.6), "reports"),
        ("kappa", Estimate(0.8, 0.3, 0.9), "training"),
        ("kappa", Estimate(0.8, 0.299, 0.9), "reports"),
        ("kappa", Estimate(0.4, 0.2, 0.6), "reports"),
        ("kappa", Estimate(0.399, 0.2, 0.6), "nothing"),
        ("kappa", Estimate(0.45, 0.001, 0.8), "reports"),
        ("kappa", Estimate(0.45, 0.0, 0.8), "nothing"),
        ("kappa", Estimate(-0.5, -0.7, -0.3), "nothing"),
        ("unknown", Estimate(0.02), "training"),
        ("unknown", Estimate(0.021), "reports"),
        ("unknown", Estimate(0.25), "reports"),
        ("unknown", Estimate(0.251), "nothing"),
        ("lean", Estimate(0.1), "training"),
        ("lean", Estimate(0.55 - 0.45), "training"),
        ("lean", Estimate(-0.1), "training"),
        ("lean", Estimate(0.101), "reports"),
        ("lean", Estimate(-0.101), "reports"),
        ("lean", Estimate(0.2), "reports"),
        ("lean", Estimate(0.201), "nothing"),
        ("lean", Estimate(-0.201), "nothing"),
    ],
)
def test_a_figure_of_agreement_at_its_limits(figure: str, value: Estimate, use: str) -> None:
    assert usability(**{figure: value}).use == use


@pytest.mark.parametrize(
    ("r", "p", "use"),
    [
        (0.15, 0.001, "training"),
        (0.151, 0.01, "reports"),
        (-0.151, 0.01, "reports"),
        (0.151, 0.011, "training"),
        (0.3, 0.001, "reports"),
        (0.301, 0.001, "nothing"),
        (-0.301, 0.001, "nothing"),
        (0.9, 0.011, "training"),
    ],
)
def test_length_counts_where_it_is_large_and_no_chance(r: float, p: float, use: str) -> None:
    found = usability(length=LengthBias(r, p, ()))
    assert found.use == use
    if use != "training":
        assert found.shortfalls[0].figure == "length"
        assert found.shortfalls[0].words.startswith("longer" if r > 0 else "shorter")


def rate_that_leaves(left: float) -> float:
    """The rate of single votes of which majorities of three leave `left`."""
    low, high = 0.0, 0.5
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if flips_left(middle, 0.5, 3) < left else (low, middle)
    return high


@pytest.mark.parametrize(("left", "use"), [(0.0499, "training"), (0.0501, "reports"), (0.4, "reports")])
def test_flips_count_by_what_the_majority_leaves(left: float, use: str) -> None:
    flips = Flips(Estimate(rate_that_leaves(left)), 300, 0.5)
    assert usability(flips).use == use


def test_more_votes_mend_flips() -> None:
    flips = Flips(Estimate(rate_that_leaves(0.055)), 300, 0.5)
    assert usability(flips, votes=3).use == "reports"
    assert usability(flips, votes=7).use == "training"


def test_the_methods_own_judge_may_train() -> None:
    """METHOD 11: 2.7% of single votes stray."""
    assert usability(Flips(Estimate(2 * 0.027 * 0.973), 300, 0.5)).use == "training"


def test_what_was_not_measured_is_no_ground_for_training() -> None:
    no_flips = usability(Flips(Estimate(None), 0, 0.5), votes=1)
    no_length = usability(length=LengthBias(None, None, ()))
    for found, figure in ((no_flips, "flips left"), (no_length, "length")):
        assert found.use == "reports"
        assert [(s.figure, s.value) for s in found.shortfalls] == [(figure, None)]
        assert "not measured" in found.shortfalls[0].words


def test_every_missed_threshold_is_named_with_its_figure_and_limit() -> None:
    found = usability(
        Flips(Estimate(0.5), 300, 0.5),
        LengthBias(0.2, 0.001, ()),
        kappa=Estimate(0.45, 0.35, 0.6),
        lean=Estimate(0.15),
        unknown=Estimate(0.1),
    )
    assert found.use == "reports"
    assert [(s.figure, s.limit, s.purpose) for s in found.shortfalls] == [
        ("unknown share", 0.02, "training"),
        ("kappa", 0.5, "training"),
        ("lean", 0.1, "training"),
        ("flips left", 0.05, "training"),
        ("length", 0.15, "training"),
    ]
    assert "judged met 15.0% more often than labelled, above 10%" in [s.words for s in found.shortfalls]


# -- too little to tell --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("known", "met", "use"), [(30, 15, "training"), (29, 15, "unclear"), (30, 25, "training")])
def test_thirty_known_verdicts_are_the_least(known: int, met: int, use: str) -> None:
    found = usability(items=known, known=known, labelled_met=met)
    assert found.use == use
    assert found.missing == (("1 more known verdict (29 of 30)",) if use == "unclear" else ())


@pytest.mark.parametrize(
    ("met", "missing"),
    [
        (0, "5 more labelled met (0 of 5)"),
        (4, "1 more labelled met (4 of 5)"),
        (5, None),
        (95, None),
        (96, "1 more labelled unmet (4 of 5)"),
        (100, "5 more labelled unmet (0 of 5)"),
    ],
)
def test_five_of_each_label_are_the_least(met: int, missing: str | None) -> None:
    found = usability(labelled_met=met)
    assert found.use == ("unclear" if missing else "training")
    assert found.missing == ((missing,) if missing else ())
    assert not (found.missing and found.shortfalls)


def test_a_judge_that_fails_is_not_usable_however_few_verdicts_are_left() -> None:
    found = usability(items=100, known=0, labelled_met=0, unknown=Estimate(1.0), kappa=Estimate(None))
    assert found.use == "nothing"
    assert [s.figure for s in found.shortfalls] == ["unknown share"], "there is no verdict that other figures are of"
    few = usability(items=20, known=0, labelled_met=0, unknown=Estimate(1.0), kappa=Estimate(None))
    assert few.use == "unclear"


def test_what_is_missing_can_be_told_from_the_labels_alone() -> None:
    assert missing_labels(15, 15) == ()
    assert missing_labels(0, 10) == ("20 more known verdicts (10 of 30)", "5 more labelled met (0 of 5)")


# -- the thresholds themselves -------------------------------------------------------------------------------


def test_training_never_asks_for_less_than_reports() -> None:
    assert T.kappa_training >= T.kappa_reports and T.kappa_low_training >= T.kappa_low_reports
    for name in ("unknown", "lean", "length"):
        assert getattr(T, f"{name}_training") <= getattr(T, f"{name}_reports")


def test_other_thresholds_can_be_asked_for() -> None:
    strict = Thresholds(kappa_training=0.9)
    found = judge_usability(agreement(), Flips(Estimate(0.0), 300, 0.5), LengthBias(0.0, 1.0, ()), 3, strict)
    assert [(s.figure, s.limit) for s in found.shortfalls] == [("kappa", 0.9)]
    assert all(isinstance(getattr(T, f.name), int | float) for f in fields(T))


@settings(max_examples=100, deadline=None)
@given(st.floats(-1, 1), st.floats(0, 0.5), st.floats(0, 1), st.floats(-1, 1), st.floats(-0.9, 0.9))
def test_the_use_follows_from_the_shortfalls(kappa: float, rate: float, unknown: float, lean: float, r: float) -> None:
    found = usability(
        Flips(Estimate(rate), 300, 0.5),
        LengthBias(r, 0.001, ()),
        kappa=Estimate(kappa, kappa - 0.1, kappa + 0.1),
        lean=Estimate(lean),
        unknown=Estimate(unknown),
    )
    purposes = {s.purpose for s in found.shortfalls}
    assert found.use == ("nothing" if "reports" in purposes else "reports" if purposes else "training")
    assert len({s.figure.split(",")[0] for s in found.shortfalls}) == len(found.shortfalls), "one shortfall a figure"
