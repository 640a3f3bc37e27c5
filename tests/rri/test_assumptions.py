"""Assumptions: three ends, known figures, and shares of one whole."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rri.assumptions import CASES, Assumptions

NAMES = tuple(Assumptions.model_fields)
SHARES = ("first_probe_passes", "first_probe_discarded", "probe_ungraded")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_expected_lies_between_the_ends(name: str) -> None:
    low, expected, high = (Assumptions.end(name, case) for case in CASES)
    if low is None or expected is None or high is None:
        assert (low, expected, high) == (None, None, None), "a figure is known at every end or at none"
        return
    assert min(low, high) <= expected <= max(low, high)


@pytest.mark.parametrize("name", NAMES)
def test_every_assumption_says_what_it_is_and_where_it_is_from(name: str) -> None:
    assert re.search(r"\(.+\)|unless given$", Assumptions.model_fields[name].description or "")


def test_the_expected_end_is_what_one_gets_without_arguments() -> None:
    assert Assumptions.case("expected") == Assumptions()
    assert Assumptions.case("low") != Assumptions() != Assumptions.case("high")


def test_one_assumption_alone_is_moved() -> None:
    moved = Assumptions.case("high", only="answer_chars")
    assert moved == Assumptions().model_copy(update={"answer_chars": 4000.0})


def test_a_given_figure_is_the_same_at_every_end() -> None:
    found = {Assumptions.case(case, {"answer_chars": 3000}).answer_chars for case in CASES}
    assert found == {3000}


def test_a_given_share_leaves_the_others_what_room_there_is() -> None:
    low = Assumptions.case("low", {"first_probe_passes": 0.97})
    # 0.10 and 0.05 do not fit into 0.03 and keep their proportion.
    assert low.first_probe_discarded == pytest.approx(0.02)
    assert low.probe_ungraded == pytest.approx(0.01)
    assert Assumptions.case("low", {"first_probe_passes": 0.85}).first_probe_discarded == 0.1, "they just fit"


@given(st.dictionaries(st.sampled_from(SHARES), st.floats(0, 1), min_size=1), st.sampled_from(CASES))
def test_shares_of_the_first_probe_never_exceed_one(known: dict[str, float], case: str) -> None:
    assert case in CASES
    if sum(known.values()) > 1 + 1e-9:
        with pytest.raises(ValidationError, match="more than 1"):
            Assumptions.case(case, known)
        return
    found = Assumptions.case(case, known)
    assert sum(getattr(found, name) for name in SHARES) <= 1 + 1e-9
    assert {name: getattr(found, name) for name in known} == known


@pytest.mark.parametrize(
    "known",
    [
        {"nonsense": 1.0},
        {"vote_flips": 1.01},
        {"vote_flips": -0.01},
        {"rule_breaks": 0.951},
        {"usable_requests": 0.0},
        {"chars_per_token": 0.0},
        {"prompt_rate": 0.0},
        {"answer_chars": float("nan")},
        {"answer_chars": float("inf")},
    ],
)
def test_a_figure_that_cannot_be_is_refused(known: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Assumptions.case("expected", known)


def test_figures_on_the_edge_are_taken() -> None:
    edges = {"vote_flips": 1.0, "rule_breaks": 0.95, "usable_requests": 1.0, "truncated_answers": 0.0}
    found = Assumptions.case("expected", edges)
    assert {name: getattr(found, name) for name in edges} == edges
