"""The domain's model: shares, sub-topics, and contradictions that are refused by name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rri.distribution import ReferenceFigures
from rri.domain import DomainConfig, UseCase

SMALLEST: dict[str, Any] = {
    "name": "rules",
    "description": "questions about rules",
    "expert": "librarian",
    "system_prompt": "Answer briefly.",
    "use_cases": [{"name": "explain", "weight": 1}, {"name": "apply", "weight": 2}],
}


def domain(**changes: Any) -> DomainConfig:
    return DomainConfig.model_validate({**SMALLEST, **changes})


def refusal(**changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        domain(**changes)
    return str(caught.value)


def test_what_is_left_out_is_english_the_starter_passages_and_no_reference() -> None:
    plain = domain()
    assert (plain.languages, plain.topics, plain.corpus, plain.reference) == ({}, (), "starter", None)
    assert plain.score_rule == "healthbench"


# --- sub-topics ----------------------------------------------------------------------------------------


def test_a_use_case_without_topics_has_the_domains() -> None:
    both = domain(topics=["a"], use_cases=[{"name": "x", "weight": 1}, {"name": "y", "weight": 1, "topics": ["b"]}])
    assert [both.topics_of(use_case) for use_case in both.use_cases] == [("a",), ("b",)]


def test_a_use_case_named_twice_is_refused() -> None:
    message = refusal(use_cases=[{"name": n, "weight": 1} for n in ("consult", "writing", "consult")])
    assert "'consult' more than once" in message
    assert "'writing'" not in message


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_that_no_draw_can_use_is_refused(weight: float) -> None:
    assert "use_cases.0.weight" in refusal(use_cases=[{"name": "x", "weight": weight}])


@pytest.mark.parametrize("changes", [{"name": ""}, {"topics": [""]}, {"corpus": ""}, {"languages": {"": 0.1}}])
def test_an_empty_name_is_refused(changes: dict[str, Any]) -> None:
    assert "at least 1 character" in refusal(**changes)


# --- languages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "languages",
    [{}, {"Spanish": 1.0}, {"Spanish": 0.5, "Hindi": 0.5}, {f"L{i}": 0.1 for i in range(10)}, {"Old English": 0.1}],
)
def test_shares_up_to_one_are_taken(languages: dict[str, float]) -> None:
    """Ten times a tenth is a little less than one, three times a third a little more."""
    assert domain(languages=languages).languages == languages


@pytest.mark.parametrize(
    ("languages", "words"),
    [
        ({"Spanish": 0.6, "Hindi": 0.401}, ["sum to at most 1", "[0.6, 0.401]", "1.001"]),
        ({"Spanish": 1.01}, ["sum to at most 1", "1.01"]),
        ({"Spanish": 0.0}, ["above 0"]),
        ({"Spanish": -0.1, "Hindi": 0.2}, ["above 0", "-0.1"]),
        ({"Spanish": float("nan")}, ["above 0", "nan"]),
        ({"english": 0.9, "Spanish": 0.1}, ["'english'", "takes the rest"]),
    ],
)
def test_shares_that_cannot_be_are_refused(languages: dict[str, float], words: list[str]) -> None:
    message = refusal(languages=languages)
    assert all(word in message for word in words), message


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=8))
def test_the_sum_alone_decides_over_positive_shares(shares: list[float]) -> None:
    languages = {f"L{i}": share for i, share in enumerate(shares)}
    total = sum(shares)
    if total <= 1:
        assert domain(languages=languages).languages == languages
    elif total > 1 + 1e-8:
        assert "sum to at most 1" in refusal(languages=languages)


# --- reference -----------------------------------------------------------------------------------------


def test_figures_of_the_reference_need_not_name_a_mix() -> None:
    figures = domain(reference={"criteria_mean": 3.75}).reference
    assert figures == ReferenceFigures(criteria_mean=3.75)


def test_the_mix_of_the_reference_is_about_the_same_use_cases() -> None:
    mix = {"explain": 0.3, "apply": 0.7}
    assert domain(reference={"use_cases": mix}).reference == ReferenceFigures(use_cases=mix)
    message = refusal(reference={"use_cases": {"explain": 0.3, "judge": 0.7}})
    assert "explain, judge" in message
    assert "apply, explain" in message
    assert "set reference to null" in message


def test_a_use_case_stands_alone_too() -> None:
    assert UseCase(name="x", weight=0.5).topics == ()
