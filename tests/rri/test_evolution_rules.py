"""Which cases a round reads and what their diagnoses add up to: shares at their edges, counts where they belong."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rri.cases import CaseDiagnosis, GradedCase
from rri.config import EvolutionConfig
from rri.evolution_rules import count_diagnoses, select_cases
from rri.types import Grade
from tests.rigs import make_task

LIGHT = settings(max_examples=80, deadline=None)
CASE = GradedCase(
    cycle=4,
    position=0,
    row=0,
    task=make_task(8),
    answer="An answer.",
    truncated=False,
    grade=Grade(verdicts=(), score=0.5, raw=0.5),
    score=0.5,
)


def select(scores: list[float], seed: int = 0, **config: Any) -> list[int]:
    """Places of the chosen rows."""
    return select_cases(range(len(scores)), scores.__getitem__, EvolutionConfig(**config), random.Random(seed))


def diagnosis(**found: Any) -> CaseDiagnosis:
    return CaseDiagnosis(case=CASE, **found)


def fair(mode: str = "calculation", gap: str = "", **found: Any) -> CaseDiagnosis:
    sound = {"rubric_defect": "none", "task_defect": "none"}
    return diagnosis(failure_mode=mode, gap=gap, verdict="model_failed_fair_task", **{**sound, **found})


def at_fault(rubric: str = "none", task: str = "none", mode: str = "none", gap: str = "") -> CaseDiagnosis:
    return diagnosis(failure_mode=mode, gap=gap, rubric_defect=rubric, task_defect=task, verdict="generator_at_fault")


def succeeded(rubric: str = "none", task: str = "none") -> CaseDiagnosis:
    return diagnosis(failure_mode="none", rubric_defect=rubric, task_defect=task, verdict="model_succeeded")


# --- selection -----------------------------------------------------------------------------------------


def test_twenty_cases_are_ten_worst_five_best_and_five_of_the_rest() -> None:
    scores = [i / 100 for i in range(100)]
    random.Random(3).shuffle(scores)
    chosen = [scores[i] for i in select(scores)]
    assert len(chosen) == 20
    assert chosen[:10] == [i / 100 for i in range(10)], "the worst, worst first"
    assert chosen[10:15] == [0.99, 0.98, 0.97, 0.96, 0.95], "the best, best first"
    assert all(0.10 <= score <= 0.94 for score in chosen[15:])
    assert len(set(chosen)) == 20


@pytest.mark.parametrize(
    ("cases", "worst", "best"),
    [(1, 1, 0), (2, 1, 0), (3, 2, 0), (4, 2, 1), (5, 3, 1), (7, 4, 1), (8, 4, 2), (19, 10, 4)],
)
def test_half_is_rounded_up_and_a_quarter_down(cases: int, worst: int, best: int) -> None:
    chosen = select([float(i) for i in range(1000)], cases=cases)
    assert chosen[:worst] == list(range(worst))
    assert chosen[worst : worst + best] == list(range(999, 999 - best, -1))
    drawn = chosen[worst + best :]
    assert len(drawn) == cases - worst - best
    assert all(worst <= i <= 999 - best for i in drawn)


def test_a_share_that_is_whole_in_decimal_is_not_rounded_past_it() -> None:
    assert 100 * 0.07 > 7 and 100 * 0.29 < 29
    scores = [float(i) for i in range(1000)]
    chosen = select(scores, cases=100, worst_share=0.07, best_share=0.93)
    assert chosen == [*range(7), *range(999, 906, -1)]
    chosen = select(scores, cases=100, worst_share=0.0, best_share=0.29)
    assert chosen[:29] == list(range(999, 970, -1))


@pytest.mark.parametrize("rows", [0, 1, 2, 19, 20])
def test_where_there_are_no_more_rows_than_asked_all_come(rows: int) -> None:
    assert sorted(select([0.5] * rows)) == list(range(rows))


def test_one_row_more_than_asked_leaves_one_out() -> None:
    chosen = select([i / 21 for i in range(21)])
    assert len(chosen) == len(set(chosen)) == 20
    left = ({*range(21)} - {*chosen}).pop()
    assert 10 <= left <= 15, "what is left out is neither among the worst nor among the best"


def test_equal_states_give_equal_cases_and_other_states_other_ones() -> None:
    scores = [i % 3 / 3 for i in range(200)]
    assert select(scores, seed=5) == select(scores, seed=5)
    assert select(scores, seed=5) != select(scores, seed=6)


def test_equal_scores_fall_to_no_place_in_particular() -> None:
    """Half of the rollouts of a hard domain score 0: the first groups of a step must not stand for all."""
    counts = Counter(i for seed in range(400) for i in select([0.0] * 40, seed=seed)[:10])
    assert len(counts) == 40
    assert all(60 <= n <= 140 for n in counts.values()), "100 is expected of each"


def test_the_rest_is_drawn_evenly() -> None:
    scores = [float(i) for i in range(45)]
    counts = Counter(i for seed in range(600) for i in select(scores, seed=seed)[15:])
    assert set(counts) == set(range(10, 40))
    assert all(60 <= n <= 140 for n in counts.values()), "100 is expected of each"


@LIGHT
@given(
    scores=st.lists(st.floats(-3, 1), max_size=60),
    cases=st.integers(1, 40),
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)).filter(lambda s: sum(s) <= 1),
    seed=st.integers(0, 9),
)
def test_sizes_disjointness_and_order(scores: list[float], cases: int, shares: tuple[float, float], seed: int) -> None:
    worst_share, best_share = shares
    chosen = select(scores, seed, cases=cases, worst_share=worst_share, best_share=best_share)
    k = min(cases, len(scores))
    assert len(chosen) == len(set(chosen)) == k
    # Never further from the share than rounding takes it.
    worst = next(n for n in range(k + 1) if n >= k * worst_share - 1e-6)
    best = next(n for n in range(k, -1, -1) if n <= k * best_share + 1e-6)
    if worst + best <= k and min(abs(k * s - round(k * s)) for s in shares) > 1e-6:
        values = sorted(scores)
        assert [scores[i] for i in chosen[:worst]] == values[:worst]
        assert [scores[i] for i in chosen[worst : worst + best]] == values[::-1][:best]


# --- counts --------------------------------------------------------------------------------------------


def test_nothing_counts_to_nothing() -> None:
    counts = count_diagnoses([])
    assert (counts.cases, counts.failed, counts.verdicts, counts.gaps) == (0, 0, {}, ())


def test_verdicts_and_failed_calls_add_up_to_the_cases() -> None:
    failed = diagnosis(failed="role analyst: HTTP 500")
    counts = count_diagnoses([fair(), failed, fair(), at_fault("untestable_vague"), failed, succeeded()])
    assert (counts.cases, counts.failed) == (6, 2)
    assert counts.verdicts == {"model_failed_fair_task": 2, "generator_at_fault": 1, "model_succeeded": 1}


def test_failure_modes_are_those_of_fair_failures_alone() -> None:
    counts = count_diagnoses(
        [
            fair("safety_miss"),
            fair("calculation"),
            fair("calculation"),
            fair("none"),
            at_fault("untestable_vague", mode="verbosity"),
            diagnosis(failure_mode="incompleteness", verdict="model_succeeded"),
        ]
    )
    assert counts.failure_modes == {"calculation": 2, "safety_miss": 1}
    assert list(counts.failure_modes) == ["calculation", "safety_miss"], "the commonest first"


def test_defects_count_where_they_decided_the_outcome_and_apart_where_not() -> None:
    counts = count_diagnoses(
        [
            at_fault("untestable_vague", "template_generic"),
            at_fault("mis_scaled_points"),
            at_fault("untestable_vague"),
            fair(rubric_defect="mis_scaled_points"),
            succeeded(task="too_easy"),
            succeeded(task="too_easy", rubric="gameable_restates_task"),
        ]
    )
    assert counts.rubric_defects == {"untestable_vague": 2, "mis_scaled_points": 1}
    assert counts.task_defects == {"template_generic": 1}
    assert counts.side_defects == {"too_easy": 2, "gameable_restates_task": 1, "mis_scaled_points": 1}


def test_the_order_of_the_cases_does_not_change_the_counts() -> None:
    found = [fair("calculation"), fair("safety_miss"), at_fault("off_domain"), at_fault("untestable_vague")]
    assert count_diagnoses(found).model_dump_json() == count_diagnoses(found[::-1]).model_dump_json()


def test_gaps_are_those_of_fair_failures_each_once_in_the_order_of_the_cases() -> None:
    gaps = ["dose of b", "dose of a", " dose  of b ", "", "   "]
    other = [at_fault(gap="of a broken task"), diagnosis(gap="of a success", verdict="model_succeeded")]
    assert count_diagnoses([*other, *(fair(gap=g) for g in gaps)]).gaps == ("dose of b", "dose of a")


def test_fifteen_gaps_are_kept_the_first_ones() -> None:
    found = [fair(gap=f"gap {i}") for i in range(16)]
    assert count_diagnoses(found).gaps == tuple(f"gap {i}" for i in range(15))
    assert len(count_diagnoses(found[:15]).gaps) == 15
    assert count_diagnoses(found, EvolutionConfig(gaps=0)).gaps == ()


@pytest.mark.parametrize(("length", "cut"), [(160, False), (161, True)])
def test_a_gap_has_at_most_160_characters(length: int, cut: bool) -> None:
    (gap,) = count_diagnoses([fair(gap="x" * length)]).gaps
    assert len(gap) == 160
    assert gap.endswith("\u2026") is cut


def test_a_truncated_answer_is_no_gap_but_a_failure() -> None:
    counts = count_diagnoses([fair("non_answer")])
    assert (counts.failure_modes, counts.gaps) == ({"non_answer": 1}, ())
