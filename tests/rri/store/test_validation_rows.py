"""Validation rollouts: counted by cycle, superseded with a resume, and seen by nothing that trains."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rri.evidence import Admission
from rri.store import GradeRow, Store, ValidationRow
from rri.store.rows import Place
from tests.rri.store.evidence import graded, numbered


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def held_out(cycle: int, row: int, score: float | None, *, finished: bool = True) -> GradeRow:
    """A validation rollout at the place, and of the task, of a training one."""
    one = graded(numbered(1), cycle, row, score, split="validation")
    return GradeRow(one.place, one.task_id, one.version, one.answer, finished, one.grade)


def test_rollouts_are_counted_by_cycle(store: Store) -> None:
    rows = [held_out(4, 0, 0.5), held_out(4, 1, None), held_out(4, 2, 0.0, finished=False), held_out(9, 0, None)]
    asyncio.run(store.add_grades([*rows, graded(numbered(1), 4, 0, 1.0)]))
    assert store.validation_rows() == [ValidationRow(4, 3, 2, 0.25, 1), ValidationRow(9, 1, 0, None, 0)]


@pytest.mark.parametrize(("validation_from", "left"), [(None, [3, 4]), (4, [3]), (3, [])])
def test_a_resume_takes_validation_back_as_well(store: Store, validation_from: int | None, left: list[int]) -> None:
    rows = [held_out(cycle, 0, 0.5) for cycle in (3, 4, 5, 9)]
    asyncio.run(store.add_grades([*rows, graded(numbered(1), 4, 0, 1.0), graded(numbered(1), 5, 0, 1.0)]))
    asyncio.run(store.supersede(5, validation_from=validation_from))
    assert [row.cycle for row in store.validation_rows()] == left
    assert store.scored_by_cycle() == [(4, 1, 1.0)], "training goes by its own cycle"
    assert store.find_grade(Place("validation", 9, 0, 0), rows[-1].answer) is None


TRAINING: dict[str, Callable[[Store], Any]] = {
    "what the referee ranks": lambda s: s.groups(0),
    "what the analyst may see": lambda s: [score for _, score in s.scored_since(0)],
    "the pool's windows": lambda s: s.task_scores(),
    "scores of versions": lambda s: s.version_scores(),
    "the difficulty feedback": lambda s: s.score_summary(50),
    "the summary": lambda s: s.score_summary(),
    "the train means of guidance": lambda s: s.scored_by_cycle(),
    "scores by cycle": lambda s: s.cycle_scores(),
    "the floor of a group": lambda s: s.group_scores("train", 0, 0),
}


@pytest.mark.parametrize("what", TRAINING)
def test_nothing_that_trains_sees_validation(what: str, store: Store, tmp_path_factory: pytest.TempPathFactory) -> None:
    trained = [graded(numbered(1), cycle, row, 0.25 * row) for cycle in (0, 1) for row in range(3)]
    plain = Store(tmp_path_factory.mktemp("plain"))
    asyncio.run(plain.add_grades(trained))
    for one in trained:
        later = held_out(one.place.cycle, one.place.row, 1.0)
        asyncio.run(store.add_grades([held_out(one.place.cycle, one.place.row + 7, 1.0), one, later]))
    assert TRAINING[what](store) == TRAINING[what](plain)
    assert len(store.validation_rows()) == 2
    plain.close()


def test_evidence_is_of_training_rollouts(store: Store) -> None:
    asyncio.run(store.add_draft(numbered(1)))
    asyncio.run(store.add_grades([held_out(0, 0, 1.0), graded(numbered(1), 0, 1, 0.5), held_out(0, 2, 1.0)]))
    cases = store.graded_cases([number for number, _ in store.scored_since(0)])
    assert [(case.row, case.score) for case in cases] == [(1, 0.5)]


def test_what_may_be_trained_on_is_every_version_of_what_was_admitted(store: Store) -> None:
    for number, outcome in ((1, "passed"), (2, "refused")):
        task = numbered(number)
        asyncio.run(store.add_admission(Admission(original=task, task=task, outcome=outcome)))  # type: ignore[arg-type]
    later = Admission(original=numbered(3), task=numbered(3, 2), outcome="repaired")
    asyncio.run(store.add_admission(later))
    asyncio.run(store.add_draft(numbered(4)))
    assert [(task.task_id, task.version) for task in store.trainable()] == [
        ("000001-abc", 1), ("000003-abc", 1), ("000003-abc", 2),
    ]  # fmt: skip
