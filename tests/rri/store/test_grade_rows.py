"""What each version of a task earned in training."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rri.store import Rollout, Store, VersionScores
from tests.rri.store.evidence import graded, numbered


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def test_scores_are_of_one_version_and_leave_out_what_is_unscored_superseded_or_not_training(store: Store) -> None:
    one, two, other = numbered(1), numbered(1, 2), numbered(2)
    rows = [
        graded(two, 1, 0, 0.25),
        graded(one, 0, 0, 0.5),
        graded(one, 2, 0, 1.0),
        graded(one, 0, 1, None),
        graded(other, 0, 2, 0.0, position=1),
        graded(one, 0, 3, 0.0, split="validation"),
    ]
    asyncio.run(store.add_grades(rows))
    first = VersionScores("000001-abc", 2, 1, 1, 0.25, 1, 1)
    assert store.version_scores() == [
        first,
        VersionScores("000001-abc", 1, 3, 2, 0.75, 0, 2),
        VersionScores("000002-abc", 1, 1, 1, 0.0, 0, 0),
    ]
    asyncio.run(store.supersede(2))
    assert store.version_scores("000001-abc") == [first, VersionScores("000001-abc", 1, 2, 1, 0.5, 0, 0)]


def test_a_version_without_a_scored_rollout_has_no_mean(store: Store) -> None:
    asyncio.run(store.add_grades([graded(numbered(1), 0, 0, None)]))
    assert store.version_scores() == [VersionScores("000001-abc", 1, 1, 0, None, 0, 0)]


def test_rollouts_of_a_cycle_include_cut_and_unscored_ones(store: Store) -> None:
    cut = graded(numbered(2), 0, 1, -0.5, position=1)
    cut = replace(cut, finished=False, grade=cut.grade.model_copy(update={"raw": None}))
    rows = [cut, graded(numbered(1), 0, 1, None), graded(numbered(1), 0, 0, 0.5), graded(numbered(1), 1, 0, 0.75)]
    asyncio.run(store.add_grades([*rows, graded(numbered(1), 0, 2, 0.0, split="validation")]))
    assert store.rollouts(0) == [
        Rollout(0, 0, "000001-abc", 1, "answer 0", True, 0.5),
        Rollout(0, 1, "000001-abc", 1, "answer 1", True, None),
        Rollout(1, 1, "000002-abc", 1, "answer 1", False, -0.5),
    ]
    assert len(store.groups(0)[0][2]) == 1, "groups hold judged and scored ones alone"
    asyncio.run(store.supersede(0))
    assert store.rollouts(0) == []
