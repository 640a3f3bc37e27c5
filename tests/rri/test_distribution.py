"""The distribution report and its drift flags: figures against a second way to compute them, limits at their edge."""

import random
import time
from itertools import combinations
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rri.distribution import Distribution, Drift, DriftLimits, ReferenceFigures, distribution, drift
from rri.types import Criterion, Labels, Message, Rubric, Task

LIGHT = settings(max_examples=60, deadline=None)


def task(request: str = "a question", points: tuple[float, ...] = (8, 8, -8), **labels: object) -> Task:
    criteria = tuple(Criterion(text=f"criterion {i}", points=p) for i, p in enumerate(points))
    return Task(
        task_id="t",
        conversation=(Message(role="user", content=request),),
        rubric=Rubric(criteria=criteria),
        labels=Labels.model_validate(labels),
    )


def words(first: int, last: int) -> str:
    return " ".join(f"w{i}" for i in range(first, last))


def shingles(text: str) -> set[str]:
    parts = text.lower().split()
    return {" ".join(parts[i : i + 5]) for i in range(len(parts) - 4)}


# --- figures -------------------------------------------------------------------------------------------


def test_no_tasks_have_no_figures() -> None:
    figures = distribution([]).model_dump()
    assert (figures.pop("tasks"), figures.pop("pairs")) == (0, 0)
    assert set(figures.values()) == {None}


def test_counts_of_criteria() -> None:
    found = distribution([task(points=p) for p in ((8,), (8, 8, -5), (8, 8, 5, -5), (8, 8, 5, -5, -5), (8, 8, 5))])
    assert found.tasks == 5
    assert found.criteria_mean == pytest.approx(16 / 5)
    assert found.criteria_median == 3
    assert found.criteria_histogram == {1: 1, 3: 2, 4: 1, 5: 1}
    assert found.positives_mean == pytest.approx(12 / 5)
    assert found.negatives_mean == pytest.approx(4 / 5)
    assert found.negative_share == pytest.approx(3 / 5)


def test_the_length_of_a_criterion_is_in_characters_over_all_criteria() -> None:
    texts = ["é" * 10, "b" * 20, "c" * 90]
    rubrics = [Rubric(criteria=tuple(Criterion(text=t, points=8) for t in part)) for part in (texts[:1], texts[1:])]
    found = distribution([task().model_copy(update={"rubric": rubric}) for rubric in rubrics])
    assert (found.criterion_chars_mean, found.criterion_chars_median) == (40, 20)


def test_tasks_without_criteria_have_no_lengths() -> None:
    found = distribution([task(points=())])
    assert (found.criteria_mean, found.negative_share) == (0, 0)
    assert (found.criterion_chars_mean, found.criterion_chars_median) == (None, None)


def test_the_mix_is_over_the_tasks_that_name_a_use_case() -> None:
    found = distribution([task(use_case=name) for name in ("ask", "write", "write", "", "write")])
    assert found.use_cases == {"write": 0.75, "ask": 0.25}
    assert list(found.use_cases) == ["write", "ask"], "the largest first"
    assert distribution([task()]).use_cases is None


def test_specialties_are_told_apart_by_their_words() -> None:
    names = ("Cardiology", " cardiology ", "pediatric  Cardiology", "Pediatric cardiology", "")
    assert distribution([task(specialty=name) for name in names]).specialties == 2
    assert distribution([task()]).specialties is None


def test_the_red_team_share() -> None:
    assert distribution([task(red_team=i < 1) for i in range(4)]).red_team_share == 0.25


def test_figures_survive_the_store() -> None:
    found = distribution([task(words(0, 12), use_case="ask"), task(words(0, 12), points=(8,))])
    assert Distribution.model_validate_json(found.model_dump_json()) == found


# --- self-similarity -----------------------------------------------------------------------------------


def test_a_request_needs_eight_different_shingles() -> None:
    long, short = task(words(0, 12)), task(words(0, 11))
    assert distribution([long, long]).self_similarity == 1
    assert distribution([long, short]).self_similarity is None
    assert distribution([long, task("again and " * 50)]).self_similarity is None, "many shingles, but two different"
    assert distribution([long]).near_duplicates is None


def test_shingles_are_five_words_and_know_no_case_or_punctuation() -> None:
    plain = words(0, 20)
    assert distribution([task(plain), task(plain.upper().replace(" ", ", "))]).self_similarity == 1
    # Nine words in common hold five runs of five.
    other = words(0, 9) + " " + words(50, 61)
    assert distribution([task(plain), task(other)]).self_similarity == pytest.approx(5 / (16 + 16 - 5))


def test_words_of_every_script_count() -> None:
    text = " ".join(f"wört{chr(0x3B1 + i)}" for i in range(12))
    assert distribution([task(text), task(text)]).self_similarity == 1


def test_near_duplicates_overlap_by_half_or_more() -> None:
    base = task(words(0, 16))  # 12 shingles
    assert distribution([base, task(words(4, 20))]).self_similarity == 0.5
    assert distribution([base, task(words(4, 20))]).near_duplicates == 1
    assert distribution([base, task(words(4, 21))]).near_duplicates == 0
    assert distribution([base, task(words(5, 21))]).near_duplicates == 0


def test_the_last_user_message_is_compared() -> None:
    shared = Message(role="user", content=words(0, 20))
    apart = [
        task().model_copy(update={"conversation": (shared, Message(role="user", content=words(a, a + 20)))})
        for a in (100, 200)
    ]
    assert distribution(apart).self_similarity == 0


@LIGHT
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=0, max_size=30), max_size=20))
def test_up_to_two_hundred_pairs_all_are_compared(texts: list[list[str]]) -> None:
    """Twenty requests make 190 pairs, so the mean over the sample is the mean over everything."""
    requests = [" ".join(text) for text in texts]
    usable = [found for found in map(shingles, requests) if len(found) >= 8]
    overlaps = [len(a & b) / len(a | b) for a, b in combinations(usable, 2)]
    found = distribution([task(request) for request in requests])
    assert found.pairs == len(overlaps)
    if overlaps:
        assert found.self_similarity == pytest.approx(fmean(overlaps))
        assert found.near_duplicates == pytest.approx(fmean(overlap >= 0.5 for overlap in overlaps))
    else:
        assert found.self_similarity is None


def test_at_most_two_hundred_pairs_are_drawn_and_always_the_same() -> None:
    rng = random.Random(2)
    tasks = [task(" ".join(rng.choices("abcd", k=40))) for _ in range(60)]
    found = distribution(tasks)
    assert (distribution(tasks[:20]).pairs, distribution(tasks[:21]).pairs, found.pairs) == (190, 200, 200)
    assert distribution(tasks) == found
    exact = fmean(len(a & b) / len(a | b) for a, b in combinations([shingles(t.request) for t in tasks], 2))
    assert found.self_similarity == pytest.approx(exact, abs=0.005)


def test_pairs_are_drawn_from_the_whole_set() -> None:
    """Half of the requests are one template: a quarter of the pairs are copies."""
    tasks = [task(words(0, 20) if i < 500 else words(100 * i, 100 * i + 20)) for i in range(1000)]
    assert distribution(tasks).near_duplicates == pytest.approx(0.25, abs=0.09)


def test_ten_thousand_tasks_take_well_under_two_seconds() -> None:
    rng = random.Random(3)
    requests = [" ".join(f"w{rng.randint(0, 5000)}" for _ in range(150)) for _ in range(100)]
    tasks = [task(f"{i} {requests[i % 100]}", use_case="ask", specialty=f"s{i % 50}") for i in range(10_000)]
    began = time.process_time()
    found = distribution(tasks)
    assert time.process_time() - began < 2
    assert (found.tasks, found.pairs, found.specialties) == (10_000, 200, 50)


# --- drift ---------------------------------------------------------------------------------------------


def flags(reference: ReferenceFigures, limits: DriftLimits | None = None, **figures: object) -> list[Drift]:
    return drift(Distribution.model_validate({"tasks": 100, **figures}), reference, limits)


def test_the_limits_of_the_method() -> None:
    assert DriftLimits().model_dump() == {
        "use_case": 0.10,
        "criteria": 0.8,
        "length": 0.25,
        "negatives": 0.20,
        "similarity_mild": 0.07,
        "similarity_collapse": 0.15,
    }


@pytest.mark.parametrize(
    ("figure", "wanted", "inside", "outside"),
    [
        ("criteria_mean", 3.75, (2.95, 3.75, 4.55), (2.94, 4.56)),
        ("criterion_chars_mean", 135, (101.25, 135, 168.75), (101.2, 168.8)),
        ("negative_share", 0.75, (0.55, 0.75, 0.95), (0.549, 0.951)),
        ("negative_share", 0.3, (0.1, 0.5), (0.099, 0.501)),
    ],
)
def test_a_figure_is_flagged_just_outside_its_limit(
    figure: str, wanted: float, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    reference = ReferenceFigures.model_validate({figure: wanted})
    for found in inside:
        assert flags(reference, **{figure: found}) == []
    for found in outside:
        [flag] = flags(reference, **{figure: found})
        assert (flag.figure, flag.level, flag.found, flag.wanted) == (figure, "drift", found, wanted)


def test_a_use_case_is_flagged_just_outside_its_limit() -> None:
    reference = ReferenceFigures(use_cases={"ask": 0.45, "write": 0.3, "read": 0.25})
    assert flags(reference, use_cases={"ask": 0.55, "write": 0.2, "read": 0.25}) == []
    found = flags(reference, use_cases={"ask": 0.551, "write": 0.199, "read": 0.25})
    assert [(f.figure, f.found, f.wanted) for f in found] == [
        ("use_case:ask", 0.551, 0.45),
        ("use_case:write", 0.199, 0.3),
    ]


def test_a_use_case_that_is_missing_or_unknown_is_flagged() -> None:
    reference = ReferenceFigures(use_cases={"ask": 0.9, "write": 0.1})
    assert flags(reference, use_cases={"ask": 0.9, "chat": 0.1}) == []
    found = flags(reference, use_cases={"ask": 0.89, "chat": 0.11})
    assert [(f.figure, f.found, f.wanted) for f in found] == [("use_case:chat", 0.11, 0)]
    reference = ReferenceFigures(use_cases={"ask": 0.89, "write": 0.11})
    found = flags(reference, use_cases={"ask": 0.95, "chat": 0.05})
    assert [(f.figure, f.found, f.wanted) for f in found] == [("use_case:write", 0, 0.11)]


@pytest.mark.parametrize(
    ("found", "level"),
    [(0.0, None), (0.07, None), (0.0701, "mild"), (0.15, "mild"), (0.1501, "collapse"), (1, "collapse")],
)
def test_self_similarity_has_two_limits_that_need_no_reference(found: float, level: str | None) -> None:
    got = flags(ReferenceFigures(), self_similarity=found)
    assert [f.level for f in got] == ([level] if level else [])
    assert [f.wanted for f in got] == ([0.07] if level else [])


@pytest.mark.parametrize(("found", "level"), [(0.12, None), (0.121, "mild"), (0.2, "mild"), (0.201, "collapse")])
def test_a_benchmark_that_repeats_itself_shifts_the_limits(found: float, level: str | None) -> None:
    got = flags(ReferenceFigures(self_similarity=0.05), self_similarity=found)
    assert [f.level for f in got] == ([level] if level else [])
    assert [f.wanted for f in got] == pytest.approx([0.12] if level else [])


def test_what_was_not_measured_or_has_no_reference_is_not_flagged() -> None:
    whole = ReferenceFigures(criteria_mean=3, criterion_chars_mean=135, negative_share=0.75, use_cases={"ask": 1})
    assert flags(whole) == []
    assert (
        flags(ReferenceFigures(), criteria_mean=99, criterion_chars_mean=9, negative_share=0, use_cases={"x": 1}) == []
    )


def test_a_zero_that_was_measured_is_flagged() -> None:
    assert [f.figure for f in flags(ReferenceFigures(negative_share=0.75), negative_share=0.0)] == ["negative_share"]


def test_sentences_say_the_number_found_and_the_number_to_hit() -> None:
    reference = ReferenceFigures(
        criteria_mean=3.75, criterion_chars_mean=135, negative_share=0.75, use_cases={"ask": 0.4, "write": 0.6}
    )
    found = flags(
        reference,
        criteria_mean=2.16,
        criterion_chars_mean=210.4,
        negative_share=0.364,
        use_cases={"ask": 0.2, "write": 0.65, "chat": 0.15},
        self_similarity=0.1,
    )
    assert [f.sentence for f in found] == [
        "Use case 'ask' makes up 20% of the tasks. Bring it to 40%.",
        "Use case 'chat' makes up 15% of the tasks. Bring it to 0%.",
        "A rubric holds 2.2 criteria on average. Bring it to 3.8.",
        "A criterion is 210 characters long on average. Bring it to 135.",
        "36% of the tasks carry a negative criterion. Bring it to 75%.",
        "Requests begin to repeat themselves: two of them share 0.100 of their word sequences on average. "
        "Vary situation, form and wording until it is at most 0.070.",
    ]
    [collapsed] = flags(ReferenceFigures(), self_similarity=0.3)
    assert collapsed.sentence.startswith("Requests have collapsed into templates: two of them share 0.300")


def test_limits_can_be_changed() -> None:
    strict = DriftLimits(criteria=0.1)
    assert flags(ReferenceFigures(criteria_mean=3), strict, criteria_mean=3.1) == []
    assert len(flags(ReferenceFigures(criteria_mean=3), strict, criteria_mean=3.11)) == 1


# --- bounds of the settings ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["criteria_mean", "criterion_chars_mean", "negative_share", "self_similarity"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_a_reference_figure_is_a_number_that_can_occur(name: str, value: float) -> None:
    with pytest.raises(ValidationError):
        ReferenceFigures.model_validate({name: value})


@pytest.mark.parametrize("mix", [{}, {"a": 0.97}, {"a": 1.03}, {"a": 1.2, "b": -0.2}, {"a": float("nan")}])
def test_a_mix_that_is_not_whole_is_refused(mix: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="sum to 1"):
        ReferenceFigures(use_cases=mix)


def test_a_mix_may_be_rounded() -> None:
    assert ReferenceFigures(use_cases={"a": 0.33, "b": 0.33, "c": 0.33}).use_cases
    assert ReferenceFigures(use_cases={"a": 0.34, "b": 0.34, "c": 0.34}).use_cases


@pytest.mark.parametrize("name", list(DriftLimits.model_fields))
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1])
def test_a_limit_is_a_number(name: str, value: float) -> None:
    with pytest.raises(ValidationError):
        DriftLimits.model_validate({name: value})


def test_the_mild_limit_lies_below_the_other() -> None:
    assert DriftLimits(similarity_mild=0.15).similarity_mild == 0.15
    with pytest.raises(ValidationError, match=r"similarity_mild 0\.16 must not be above similarity_collapse 0\.15"):
        DriftLimits(similarity_mild=0.16)
