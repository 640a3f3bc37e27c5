"""What the loop reads to decide: groups, scores and graded cases of cycles, shapes and probes of written tasks."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rri.config import GenerationConfig
from rri.evidence import Probe
from rri.shape import ShapeRow
from rri.store import GradeRow, Origin, Place, Store
from rri.types import Grade, Verdict
from tests.rri.store.evidence import admitted, graded, numbered


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def do(work: Any) -> Any:
    return asyncio.run(work)


# --- grades ------------------------------------------------------------------------------------------


def test_groups_hold_the_judged_rollouts_of_one_cycle_in_row_order(store: Store) -> None:
    one, two = numbered(1), numbered(2, 2)
    cut = GradeRow(Place("train", 0, 5, 3), one.task_id, 1, "cut", False, Grade(verdicts=(), score=0.0, raw=None))
    rows = [
        graded(one, 0, 2, 0.5, position=5),
        graded(one, 0, 0, 1.0, position=5),
        graded(two, 0, 1, 0.25, position=6),
        graded(one, 0, 1, None, position=5),
        cut,
        graded(one, 1, 0, 0.0, position=7),
        graded(one, 0, 4, 0.0, position=5, split="validation"),
    ]
    do(store.add_grades(rows))
    groups = store.groups(0)
    assert {p: (task_id, version) for p, (task_id, version, _) in groups.items()} == {
        5: ("000001-abc", 1),
        6: ("000002-abc", 2),
    }
    assert [(a.row, a.grade.raw) for a in groups[5][2]] == [(0, 1.0), (2, 0.5)]
    do(store.supersede(0))
    assert store.groups(0) == {}


def test_scores_since_a_cycle_are_numbered_and_without_what_does_not_count(store: Store) -> None:
    task = numbered(1)
    scores = [(0, 0.1), (1, None), (1, 0.3), (2, 0.4), (3, 0.5)]
    do(store.add_grades([graded(task, cycle, row, score) for row, (cycle, score) in enumerate(scores)]))
    do(store.add_grades([graded(task, 2, 9, 0.9, split="validation")]))
    do(store.supersede(3))
    assert store.scored_since(1) == [(3, 0.3), (4, 0.4)]
    assert store.scored_since(0)[0] == (1, 0.1)


def test_graded_cases_come_in_the_order_asked_for_with_the_version_that_graded_them(store: Store) -> None:
    one, two = numbered(1), numbered(1, 2)
    for task in (one, two):
        do(store.add_draft(task))
    verdicts = (Verdict(outcome="met"), Verdict(outcome="unmet"), Verdict(outcome="unmet"))
    whole, cut = Grade(verdicts=verdicts, score=0.4, raw=0.5), Grade(verdicts=(), score=0.0, raw=None)
    do(store.add_grades([GradeRow(Place("train", 0, 5, 1), one.task_id, 1, "cut", False, cut)]))
    do(store.add_grades([GradeRow(Place("train", 2, 7, 3), two.task_id, 2, "whole", True, whole)]))
    second, first = store.graded_cases([2, 1])
    assert (second.task, second.answer, second.truncated, second.score) == (two, "whole", False, 0.4)
    assert (second.cycle, second.position, second.row, second.grade) == (2, 7, 3, whole)
    assert (first.task, first.truncated, first.score) == (one, True, 0.0)
    assert store.graded_cases([]) == []


def test_windows_of_the_pool_are_scores_by_version_oldest_first(store: Store) -> None:
    one, two = numbered(1), numbered(1, 2)
    do(store.add_grades([graded(one, 0, 0, 0.1), graded(two, 1, 0, 0.2), graded(one, 0, 1, None)]))
    do(store.add_grades([graded(one, 1, 1, 0.3), graded(one, 0, 2, 0.9, split="validation")]))
    assert store.task_scores() == [("000001-abc", 1, 0.1), ("000001-abc", 2, 0.2), ("000001-abc", 1, 0.3)]
    do(store.supersede(1))
    assert store.task_scores() == [("000001-abc", 1, 0.1)]


def test_means_by_cycle_are_over_scored_rollouts_and_say_how_many(store: Store) -> None:
    task = numbered(1)
    rows = [(0, 0.5), (0, None), (0, 1.0), (1, None), (3, 0.25)]
    do(store.add_grades([graded(task, cycle, row, score) for row, (cycle, score) in enumerate(rows)]))
    assert store.scored_by_cycle() == [(0, 2, 0.75), (3, 1, 0.25)]
    do(store.supersede(3))
    assert store.scored_by_cycle() == [(0, 2, 0.75)]


def test_the_difficulty_gauge_is_the_mean_of_the_latest_64_rollouts(store: Store) -> None:
    config = GenerationConfig()
    assert (config.difficulty_window, config.difficulty_low, config.difficulty_high) == (64, 0.4, 0.6)
    rows = [graded(numbered(1), 0, row, 0.5 if row else -9.0) for row in range(config.difficulty_window + 1)]
    do(store.add_grades(rows[:-1]))
    assert store.score_summary(config.difficulty_window)["mean_score"] < 0.4
    do(store.add_grades(rows[-1:]))
    assert store.score_summary(config.difficulty_window)["mean_score"] == 0.5
    assert store.score_summary()["mean_score"] < 0.4


# --- written tasks -----------------------------------------------------------------------------------


def test_shapes_are_what_was_asked_and_delivered_at_birth_latest_last(store: Store) -> None:
    origins = [Origin(asked_positives=n, asked_negative=bool(n % 2)) for n in (1, 2, 3)]
    for number, origin in enumerate(origins, 1):
        do(store.add_draft(numbered(number, 1, *([8.0] * number), *([-6.0] if number % 2 else [])), origin))
    for number, other in ((7, Origin(source="imported")), (8, Origin())):
        do(store.add_draft(numbered(number), other))
    rows = [ShapeRow(n, bool(n % 2), n, n % 2, False) for n in (1, 2, 3)]
    assert store.origins(10) == (rows, 0)
    assert store.origins(2) == (rows[1:], 1)
    assert store.origins(1) == (rows[2:], 2)


def test_a_repair_changes_nothing_of_what_was_delivered(store: Store) -> None:
    before, after = numbered(1, 1, 8.0), numbered(1, 2, 8.0, 8.0, -6.0)
    do(store.add_draft(before, Origin(asked_positives=1, asked_negative=True)))
    do(store.add_admission(admitted(before, after, "repaired", delta_before=0.5, delta_after=-0.5)))
    assert store.origins(1) == ([ShapeRow(1, True, 1, 0, False)], 0)


def probe(delta: float | None, honest: float) -> Probe:
    grade = Grade(verdicts=(), score=honest, raw=honest)
    status: Any = "measured" if delta is not None else "discarded"
    return Probe(status=status, exploit_grade=grade, honest_grade=grade, delta=delta)


def test_first_probes_are_told_by_the_memo_that_their_tasks_were_written_under(store: Store) -> None:
    """Only measured ones count, with the figures at birth and not those after repair."""
    found = [(0, 0.4, 0.5), (1, 0.2, 0.6), (0, 0.3, 0.7), (1, None, 0.9), (None, 0.1, 0.1)]
    for number, (memo, delta, honest) in enumerate(found):
        task = numbered(number)
        do(store.add_draft(task, Origin(memo=memo)))
        figures = {"delta_before": delta, "delta_after": -0.5 if delta is not None else None}
        outcome: Any = "kept" if delta is not None else "discarded"
        do(store.add_admission(admitted(task, outcome=outcome, probe=probe(delta, honest), **figures)))
    do(store.add_draft(numbered(9), Origin(memo=1)))
    assert store.probes_by_memo() == {0: ([0.4, 0.3], [0.5, 0.7]), 1: ([0.2], [0.6])}


def test_latest_deltas_are_of_measured_tasks_oldest_first(store: Store) -> None:
    assert store.latest_deltas(3) == []
    for number, delta in enumerate((0.1, None, 0.3, 0.4)):
        after = None if delta is None else -delta
        do(store.add_admission(admitted(numbered(number), outcome="kept", delta_before=delta, delta_after=after)))
    assert store.latest_deltas(2) == [(0.3, -0.3), (0.4, -0.4)]
    assert store.latest_deltas(9) == [(0.1, -0.1), (0.3, -0.3), (0.4, -0.4)]


def test_latest_tasks_are_the_latest_admitted_ones_as_they_were_written(store: Store) -> None:
    for number in (1, 2, 3):
        do(store.add_draft(numbered(number)))
    do(store.add_admission(admitted(numbered(3), numbered(3, 2), "repaired")))
    do(store.add_admission(admitted(numbered(1))))
    assert store.latest_tasks(5) == [numbered(1), numbered(3)]
    assert store.latest_tasks(1) == [numbered(1)]
    assert store.versions("000003-abc") == [numbered(3), numbered(3, 2)]
    assert store.versions("000009-abc") == []
