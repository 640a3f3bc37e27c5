"""The repair report on stores made by hand: every figure, its edges, and what belongs to none."""

import asyncio
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.repair_report import PAPER, Measure, RepairReport, repair_report
from rri.cases import PatchRound
from rri.evidence import AdmissionOutcome, ProbeReason
from rri.store import Store
from tests.rri.store.evidence import admitted, attack, case_of, check, graded, numbered, patch_of

NOTHING = Measure(None, 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def admit(
    store: Store,
    number: int,
    before: float | None,
    after: float | None,
    *reasons: ProbeReason,
    outcome: AdmissionOutcome = "repaired",
) -> None:
    probe = attack(*(reasons or ("exploitable",)), delta=before)
    task, repaired = numbered(number), numbered(number, 2)
    evidence = admitted(task, repaired, outcome, probe=probe, delta_before=before, delta_after=after)
    asyncio.run(store.add_admission(evidence))


def found(number: int, *points: float, **fields: object) -> PatchRound:
    checks = tuple(check(p, number=n) for n, p in enumerate(points))
    return PatchRound(number=number, exploit="x", checks=checks, **fields)  # type: ignore[arg-type]


# --- nothing -------------------------------------------------------------------------------------------


def test_an_empty_run_has_no_figure_and_none_is_zero(store: Store) -> None:
    report = repair_report(store)
    assert {getattr(report, f.name) for f in fields(report)} == {NOTHING}
    assert report.empty


def test_every_figure_has_one_of_the_papers_beside_it() -> None:
    assert set(PAPER) == {f.name for f in fields(RepairReport)}
    assert PAPER["new_exploit"] == pytest.approx(0.843, abs=1e-3)
    assert PAPER["positive_share"] == pytest.approx(0.81, abs=1e-3)


@given(st.lists(st.floats(-5, 5), max_size=8))
def test_a_measure_is_the_mean_over_its_n(values: list[float]) -> None:
    measure = Measure.of(values)
    assert measure.n == len(values)
    assert (measure.value is None) == (not values)
    if values:
        assert measure.value == pytest.approx(sum(values) / len(values))


# --- admission -----------------------------------------------------------------------------------------


def test_deltas_are_of_beaten_tasks_whose_rewrite_was_adopted(store: Store) -> None:
    admit(store, 1, 0.5, 0.1)
    admit(store, 2, 0.3, -0.3, "saturated", "exploitable", outcome="best_drop")
    admit(store, 3, 0.4, 0.4, outcome="kept")
    admit(store, 4, -0.5, -0.9, "saturated")
    admit(store, 5, None, None, outcome="unmeasured")
    asyncio.run(store.add_admission(admitted(numbered(6), delta_before=-0.4, delta_after=-0.4)))
    report = repair_report(store)
    assert report.delta_before == Measure(pytest.approx(0.4), 2)
    assert report.delta_after == Measure(pytest.approx(-0.1), 2)
    assert report.honest_leads_before == Measure(0.0, 2)
    assert report.honest_leads_after == Measure(0.5, 2)
    assert not report.empty


def test_an_even_score_is_no_lead_whatever_rounding_says(store: Store) -> None:
    for number, delta in enumerate((0.1 + 0.2 - 0.3, 0.3 - 0.1 - 0.2, -1e-6)):
        admit(store, number, 0.5, delta)
    assert repair_report(store).honest_leads_after == Measure(pytest.approx(1 / 3), 3)


def test_the_margin_is_reached_at_exactly_0_20_and_the_runs_own_margin_counts(store: Store) -> None:
    for number, delta in enumerate((0.3 - 0.5, -0.2, -0.199, -0.31)):
        admit(store, number, 0.5, delta)
    assert repair_report(store).reached == Measure(0.75, 4)
    assert repair_report(store, margin=0.3).reached == Measure(0.25, 4)


def test_what_another_run_repaired_before_the_fork_is_left_out(store: Store) -> None:
    evidence = admitted(
        numbered(1), numbered(1, 2), "repaired", probe=attack("exploitable"), delta_before=0.9, delta_after=-0.9
    )
    asyncio.run(store.add_forked([(evidence, [numbered(1), numbered(1, 2)])]))
    assert repair_report(store).empty
    admit(store, 2, 0.5, 0.25)
    assert repair_report(store).delta_before == Measure(0.5, 1)


# --- patches -------------------------------------------------------------------------------------------


def test_each_accepted_criterion_removes_a_part_of_the_points_before_it(store: Store) -> None:
    """The rubric has 16 positive points: 8 are half of them, then 6 of 24 are a quarter; a penalty adds no total."""
    rejected = check(10, "not_separating", 9)
    first = found(1, 8).model_copy(update={"checks": (check(8), rejected)})
    asyncio.run(store.add_patch(patch_of(1, numbered(1), first, found(2, -6, 6))))
    report = repair_report(store)
    assert report.gap_removed == Measure(pytest.approx((8 / 16 + 6 / 24 + 6 / 24) / 3), 3)
    assert report.positive_share == Measure(pytest.approx(2 / 3), 3)


def test_the_margin_is_over_the_cases_that_went_to_repair(store: Store) -> None:
    cases = [(case_of(numbered(n), gap, position=n), n < 2) for n, gap in enumerate((0.5, 0.25, 0.9))]
    asyncio.run(store.add_cases(1, [], cases))
    assert repair_report(store).margin == Measure(0.375, 2)


def test_a_new_exploit_is_counted_over_the_attacks_that_measured_the_first_patch(store: Store) -> None:
    attacks = [
        attack("exploitable"),
        attack("saturated", "exploitable"),
        attack(delta=-0.5),
        attack("saturated"),
        attack(status="discarded"),
        attack(status="unmeasured"),
        None,
    ]
    for number, probe in enumerate(attacks):
        later = found(2, 6, attack=attack("exploitable"))
        asyncio.run(store.add_patch(patch_of(number, numbered(number), found(1, 8, attack=probe), later)))
    asyncio.run(store.add_patch(patch_of(99, numbered(99), outcome="stale")))
    assert repair_report(store).new_exploit == Measure(0.5, 4)


def test_rewards_are_of_versions_with_scored_rollouts_on_both_sides(store: Store) -> None:
    first = patch_of(1, numbered(1), found(1, 8))
    second = patch_of(2, first.task, found(1, 6))
    alone = patch_of(3, numbered(2), found(1, 8))
    for patch in (first, second, alone, patch_of(4, numbered(3))):
        asyncio.run(store.add_patch(patch))
    versions = [numbered(1), first.task, second.task]
    scores = [(0.9, 0.7), (0.6, 0.4), (0.3, None)]
    rows = [
        graded(task, cycle, row, score)
        for cycle, (task, pair) in enumerate(zip(versions, scores, strict=True))
        for row, score in enumerate(pair)
    ]
    rows += [graded(numbered(2), 0, 0, 1.0, position=1), graded(numbered(3), 0, 0, 1.0, position=2)]
    rows += [graded(alone.task, 1, 0, None, position=5)]
    asyncio.run(store.add_grades(rows))
    report = repair_report(store)
    assert report.reward_before == Measure(pytest.approx((0.8 + 0.5) / 2), 2)
    assert report.reward_after == Measure(pytest.approx((0.5 + 0.3) / 2), 2)
