"""Score rules: r signed and unclipped, unknown apart from unmet, one length term, scores under their names."""

from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rri.scoring import (
    LENGTH_CENTRE,
    LENGTH_SLOPE,
    PROFBENCH_POINTS,
    RULES,
    ScoreRule,
    answer_score,
    dataset_score,
    length_term,
    prbench_points,
    profbench_mean,
    raw_score,
    training_score,
    unknown_share,
)
from rri.types import Criterion, Outcome

LIGHT = settings(max_examples=50, deadline=None)

POINTS = st.integers(-10, 10).filter(bool)
OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(get_args(Outcome))
KNOWN: st.SearchStrategy[Outcome] = st.sampled_from(("met", "unmet"))
SCORES = st.floats(-5, 2)


def criteria_of(points: Sequence[float]) -> list[Criterion]:
    return [Criterion(text=f"Names fact {i}", points=p) for i, p in enumerate(points)]


def graded(outcomes: st.SearchStrategy[Outcome]) -> st.SearchStrategy[tuple[list[Criterion], list[Outcome]]]:
    """Rubrics with a positive first, and an outcome for each criterion."""
    pairs = st.lists(st.tuples(POINTS, outcomes), max_size=7)
    first = st.tuples(st.integers(1, 10), outcomes)
    return st.tuples(first, pairs).map(
        lambda drawn: (
            criteria_of([p for p, _ in (drawn[0], *drawn[1])]),
            [o for _, o in (drawn[0], *drawn[1])],
        )
    )


def r(points: Sequence[float], outcomes: Sequence[Outcome]) -> float:
    value = raw_score(criteria_of(points), outcomes)
    assert value is not None
    return value


# --- r -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "outcomes", "expected"),
    [
        ((5, 5), ("met", "met"), 1.0),
        ((5, 5), ("met", "unmet"), 0.5),
        ((6, 2), ("unmet", "met"), 0.25),
        ((8, -8), ("met", "met"), 0.0),
        ((8, -4), ("met", "unmet"), 1.0),
        ((5, -10), ("unmet", "met"), -2.0),
        ((1, -10, -10), ("met", "met", "met"), -19.0),
        ((2.5, 7.5), ("met", "unmet"), 0.25),
    ],
)
def test_r_is_met_points_over_positive_points_signed_and_unclipped(
    points: tuple[float, ...], outcomes: tuple[Outcome, ...], expected: float
) -> None:
    assert r(points, outcomes) == expected


@LIGHT
@given(graded(KNOWN))
def test_r_lies_between_all_errors_and_all_positives(case: tuple[list[Criterion], list[Outcome]]) -> None:
    criteria, outcomes = case
    positive = sum(c.points for c in criteria if c.points > 0)
    negative = sum(c.points for c in criteria if c.points < 0)
    value = raw_score(criteria, outcomes)
    assert value is not None
    assert negative / positive <= value <= 1.0
    best: list[Outcome] = ["met" if c.points > 0 else "unmet" for c in criteria]
    worst: list[Outcome] = ["unmet" if c.points > 0 else "met" for c in criteria]
    assert raw_score(criteria, best) == 1.0
    assert raw_score(criteria, worst) == negative / positive


@LIGHT
@given(graded(KNOWN), st.data())
def test_meeting_one_more_criterion_adds_its_points_over_the_positives(
    case: tuple[list[Criterion], list[Outcome]], data: st.DataObject
) -> None:
    criteria, outcomes = case
    index = data.draw(st.integers(0, len(criteria) - 1))
    with_it, without = list(outcomes), list(outcomes)
    with_it[index], without[index] = "met", "unmet"
    positive = sum(c.points for c in criteria if c.points > 0)
    high, low = raw_score(criteria, with_it), raw_score(criteria, without)
    assert high is not None
    assert low is not None
    assert high - low == pytest.approx(criteria[index].points / positive)


@LIGHT
@given(graded(OUTCOMES))
def test_r_does_not_depend_on_the_scale_of_points_or_the_order(case: tuple[list[Criterion], list[Outcome]]) -> None:
    criteria, outcomes = case
    halved = criteria_of([c.points / 2 for c in criteria])
    expected = raw_score(criteria, outcomes)
    assert raw_score(halved, outcomes) == expected
    assert raw_score(criteria[::-1], outcomes[::-1]) == expected


def test_r_without_positive_points_is_none() -> None:
    assert raw_score(criteria_of([-5]), ["met"]) is None
    assert raw_score([], []) is None


@pytest.mark.parametrize("rule", RULES)
def test_outcomes_must_match_the_criteria(rule: ScoreRule) -> None:
    with pytest.raises(ValueError, match=r"shorter|longer|criteria"):
        answer_score(rule, criteria_of([5, 5, 5]), ["met", "met"], LENGTH_CENTRE)


# --- unknown is not unmet ----------------------------------------------------------------------------


def test_an_unknown_positive_leaves_the_denominator() -> None:
    assert r((5, 5), ("met", "unknown")) == 1.0
    assert r((5, 5), ("met", "unmet")) == 0.5


@LIGHT
@given(graded(OUTCOMES))
def test_r_with_unknowns_is_r_of_the_known_criteria(case: tuple[list[Criterion], list[Outcome]]) -> None:
    criteria, outcomes = case
    known = [(c, o) for c, o in zip(criteria, outcomes, strict=True) if o != "unknown"]
    assert raw_score(criteria, outcomes) == raw_score([c for c, _ in known], [o for _, o in known])


@LIGHT
@given(graded(KNOWN), st.data())
def test_an_unknown_lies_between_met_and_unmet(
    case: tuple[list[Criterion], list[Outcome]], data: st.DataObject
) -> None:
    criteria, outcomes = case
    index = data.draw(st.integers(0, len(criteria) - 1))
    values = []
    for outcome in ("unmet", "unknown", "met"):
        changed: list[Outcome] = [*outcomes[:index], outcome, *outcomes[index + 1 :]]
        values.append(raw_score(criteria, changed))
    unmet, unknown, met = values
    assert unmet is not None
    assert met is not None
    assume(unknown is not None)
    assert unknown is not None
    assume(unknown >= 0)  # below zero a smaller denominator takes r further from zero than either
    assert min(unmet, met) - 1e-12 <= unknown <= max(unmet, met) + 1e-12
    if criteria[index].points > 0 and unknown > 0:
        assert unknown > unmet


@pytest.mark.parametrize("rule", RULES)
def test_an_answer_of_unknowns_is_none_and_not_zero(rule: ScoreRule) -> None:
    for score in (answer_score, training_score):
        assert score(rule, criteria_of([5, 8]), ["unknown", "unknown"], 100) is None


def test_unknown_positives_alone_leave_r_undefined() -> None:
    assert raw_score(criteria_of([5, -5]), ["unknown", "met"]) is None


@pytest.mark.parametrize(
    ("points", "outcomes", "expected"),
    [
        ((5, 5), ("met", "unmet"), 0.0),
        ((5, -10, 5), ("met", "unknown", "met"), 0.5),
        ((2, 6), ("unknown", "met"), 0.25),
        ((5, -5), ("unknown", "unknown"), 1.0),
        ((), (), 0.0),
    ],
)
def test_unknown_share_counts_absolute_points(
    points: tuple[float, ...], outcomes: tuple[Outcome, ...], expected: float
) -> None:
    assert unknown_share(criteria_of(points), outcomes) == expected


@LIGHT
@given(graded(OUTCOMES))
def test_unknown_share_is_zero_exactly_without_unknowns(case: tuple[list[Criterion], list[Outcome]]) -> None:
    criteria, outcomes = case
    share = unknown_share(criteria, outcomes)
    assert 0 <= share <= 1
    assert (share > 0) == ("unknown" in outcomes)
    assert (share == 1) == (set(outcomes) == {"unknown"})


# --- the length term ---------------------------------------------------------------------------------


def test_the_length_terms_constants() -> None:
    assert (LENGTH_CENTRE, LENGTH_SLOPE) == (2000, 0.0147)


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize(("length", "expected"), [(2000, 0.0), (2500, 0.0147), (3000, 0.0294), (4000, 0.0588)])
def test_long_answers_lose_per_500_characters(length: int, expected: float, two_sided: bool) -> None:
    assert length_term(length, two_sided=two_sided) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("two_sided", [True, False])
def test_the_length_term_is_exactly_zero_at_the_centre(two_sided: bool) -> None:
    assert length_term(2000, two_sided=two_sided) == 0.0
    assert length_term(2001, two_sided=two_sided) > 0


@pytest.mark.parametrize(("length", "expected"), [(0, -0.0588), (1500, -0.0147), (1999, -0.0147 / 500)])
def test_short_answers_gain_two_sided_alone(length: int, expected: float) -> None:
    assert length_term(length, two_sided=True) == pytest.approx(expected, abs=1e-12)
    assert length_term(length, two_sided=False) == 0.0


@LIGHT
@given(st.integers(0, 20_000), st.integers(0, 20_000))
def test_the_length_term_is_linear_without_a_cap(a: int, b: int) -> None:
    difference = length_term(a, two_sided=True) - length_term(b, two_sided=True)
    assert difference == pytest.approx(0.0147 * (a - b) / 500, abs=1e-9)
    assert length_term(a, two_sided=False) == max(0.0, length_term(a, two_sided=True))


# --- one answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [x for x in RULES if x not in ("healthbench-professional", "equal-weights")])
@LIGHT
@given(case=graded(OUTCOMES), length=st.integers(0, 9000))
def test_other_rules_score_r_at_any_length(
    rule: ScoreRule, case: tuple[list[Criterion], list[Outcome]], length: int
) -> None:
    expected = raw_score(*case)
    assert answer_score(rule, *case, length) == expected
    assert training_score(rule, *case, length) == expected


@LIGHT
@given(graded(KNOWN), st.integers(0, 9000))
def test_professional_subtracts_the_length_term_from_r(
    case: tuple[list[Criterion], list[Outcome]], length: int
) -> None:
    raw = raw_score(*case)
    assert raw is not None
    excess = length - 2000
    evaluated = answer_score("healthbench-professional", *case, length)
    trained = training_score("healthbench-professional", *case, length)
    assert evaluated == pytest.approx(raw - 0.0147 * excess / 500)
    assert trained == pytest.approx(raw - 0.0147 * max(0, excess) / 500)


def test_professional_scores_are_not_clipped() -> None:
    criteria = criteria_of([5, -10])
    high = answer_score("healthbench-professional", criteria, ["met", "unmet"], 0)
    low = answer_score("healthbench-professional", criteria, ["unmet", "met"], 4000)
    assert high == pytest.approx(1.0588)
    assert low == pytest.approx(-2.0588)
    assert training_score("healthbench-professional", criteria, ["met", "unmet"], 0) == 1.0


def test_equal_weights_is_the_share_of_known_criteria_met() -> None:
    criteria = criteria_of([10, 1, 1, 1])
    for score in (answer_score, training_score):
        assert score("equal-weights", criteria, ["met", "unmet", "unmet", "unmet"], 9000) == 0.25
        assert score("equal-weights", criteria, ["unmet", "met", "met", "met"], 0) == 0.75
        assert score("equal-weights", criteria, ["met", "unknown", "unmet", "unknown"], 0) == 0.5


# --- a data set --------------------------------------------------------------------------------------


def test_rules_lists_every_rule_once() -> None:
    assert get_args(ScoreRule) == RULES


@pytest.mark.parametrize("rule", ["healthbench", "healthbench-hard"])
def test_healthbench_names_both_ways_of_clipping(rule: ScoreRule) -> None:
    assert dataset_score(rule, [-1.0, 1.0]) == {"clipped_mean": 0.0, "mean_of_clipped": 0.5}
    assert dataset_score(rule, [-3.0, 1.0]) == {"clipped_mean": 0.0, "mean_of_clipped": 0.5}
    assert dataset_score(rule, [-0.5, 1.0]) == {"clipped_mean": 0.25, "mean_of_clipped": 0.5}


def test_professional_names_adjusted_signed_its_clip_and_raw() -> None:
    score = dataset_score("healthbench-professional", [-1.0, 0.5], [-1.25, 0.25])
    assert score == {"adjusted": -0.5, "adjusted_clipped": 0.0, "raw": 0.25}
    above = dataset_score("healthbench-professional", [1.0], [1.0588])
    assert above == {"adjusted": 1.0588, "adjusted_clipped": 1.0, "raw": 1.0}


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("prbench", "mean"),
        ("prbench-hard", "mean"),
        ("profbench", "mean"),
        ("medxpertqa", "accuracy"),
        ("equal-weights", "share_met"),
    ],
)
def test_the_other_rules_report_the_plain_mean(rule: ScoreRule, name: str) -> None:
    assert dataset_score(rule, [-1.0, 0.5]) == {name: -0.25}


@pytest.mark.parametrize("rule", RULES)
def test_no_answers_make_no_score(rule: ScoreRule) -> None:
    with pytest.raises(ValueError, match="scored answer"):
        dataset_score(rule, [])


@pytest.mark.parametrize("adjusted", [[], [0.5], [0.5, 0.5, 0.5]])
def test_professional_needs_one_adjusted_score_an_answer(adjusted: list[float]) -> None:
    with pytest.raises(ValueError, match="2 raw"):
        dataset_score("healthbench-professional", [0.5, 0.5], adjusted)


@LIGHT
@given(st.lists(SCORES, min_size=1, max_size=8))
def test_only_the_clipped_figures_stay_in_the_unit_interval(raws: list[float]) -> None:
    mean = sum(raws) / len(raws)
    healthbench = dataset_score("healthbench", raws)
    professional = dataset_score("healthbench-professional", raws, raws)
    clipped = [*healthbench.values(), professional["adjusted_clipped"], professional["raw"]]
    assert all(0 <= value <= 1 for value in clipped)
    assert healthbench["clipped_mean"] == pytest.approx(min(1.0, max(0.0, mean)))
    assert professional["adjusted"] == pytest.approx(mean)
    assert dataset_score("prbench", raws)["mean"] == pytest.approx(mean)


# --- ProfBench and PRBench ---------------------------------------------------------------------------


def test_profbench_weights() -> None:
    assert dict(PROFBENCH_POINTS) == {"Critical": 4, "Major": 3, "Minor": 2, "Additional": 1}


def test_profbench_averages_answers_then_tasks_then_domains() -> None:
    scores = {
        "Physics PhD": {"a": [1.0, 0.0, 0.5], "b": [1.0]},  # 0.75 by task, 0.625 flat
        "Finance MBA": {"c": [0.25]},
    }
    assert profbench_mean(scores) == pytest.approx(0.5)


@LIGHT
@given(st.lists(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=3), min_size=1, max_size=3), min_size=1))
def test_profbench_mean_weighs_a_repeated_answer_no_more(nested: list[list[list[float]]]) -> None:
    once = {str(d): {str(t): answers for t, answers in enumerate(tasks)} for d, tasks in enumerate(nested)}
    repeated = {d: {t: answers * (1 + (t == "0")) for t, answers in tasks.items()} for d, tasks in once.items()}
    assert profbench_mean(repeated) == pytest.approx(profbench_mean(once))
    assert 0 <= profbench_mean(once) <= 1


WEIGHTS: dict[str, int] = {
    "critically_important_weight": 9,
    "important_weight": 5,
    "slightly_important_weight": 2,
    "slightly_detrimental_weight": -2,
    "detrimental_weight": -5,
    "critically_detrimental_weight": -9,
}


@pytest.mark.parametrize(("column", "weight"), WEIGHTS.items())
def test_prbench_takes_the_column_of_its_class_among_many(column: str, weight: int) -> None:
    weight_class = column.removesuffix("_weight").replace("_", " ")
    assert prbench_points({**WEIGHTS, "weight_class": weight_class}) == weight


def test_prbench_never_falls_back_to_another_column() -> None:
    for weights in ({**WEIGHTS, "detrimental_weight": None}, {"important_weight": 5}):
        with pytest.raises(ValueError, match="detrimental_weight"):
            prbench_points({**weights, "weight_class": "detrimental"})


@pytest.mark.parametrize("weight_class", [None, 5, "", "vital"])
def test_prbench_refuses_a_class_without_column(weight_class: object) -> None:
    with pytest.raises(ValueError, match="PRBench"):
        prbench_points({**WEIGHTS, "weight_class": weight_class})
    with pytest.raises(ValueError, match="PRBench"):
        prbench_points(WEIGHTS)
