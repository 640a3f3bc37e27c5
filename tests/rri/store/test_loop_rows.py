"""Cases, patches and evictions as lists, and what is in the pool at one moment."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rri.cases import PatchRound
from rri.evidence import AdmissionOutcome
from rri.store import CaseRow, EvictionRow, Report, Store
from tests.rri.store.evidence import admitted, case_of, check, numbered, patch_of, ranking


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def keep_cases(store: Store) -> None:
    """Three cases of two tasks over two cycles; the second was not chosen."""
    one, two = numbered(1), numbered(2)
    rankings = [ranking(one), ranking(two, position=1), ranking(two, position=2, outcome="flipped")]
    asyncio.run(store.add_cases(1, rankings, [(case_of(one, 0.5), True), (case_of(two, 0.25, position=1), False)]))
    asyncio.run(store.add_cases(2, [], [(case_of(one, 1.0, cycle=1, position=3), True)]))


def test_cases_are_listed_in_order_of_number_and_by_task(store: Store) -> None:
    keep_cases(store)
    rows = [
        CaseRow(1, 0, 0, "000001-abc", 1, 0.5, True),
        CaseRow(2, 0, 1, "000002-abc", 1, 0.25, False),
        CaseRow(3, 1, 3, "000001-abc", 1, 1.0, True),
    ]
    assert store.case_rows() == rows
    assert store.case_rows("000001-abc") == [rows[0], rows[2]]
    assert store.case_rows("another") == []


def test_the_referees_groups_are_counted_by_task_and_outcome(store: Store) -> None:
    keep_cases(store)
    assert store.ranked("000002-abc") == {"case": 1, "flipped": 1}
    assert store.ranked("another") == {}


def test_every_patch_comes_back_whole_patched_or_not_in_order(store: Store) -> None:
    patches = [
        patch_of(2, numbered(2)),
        patch_of(1, numbered(1), PatchRound(number=1, exploit="x", checks=(check(8),))),
    ]
    for patch in patches:
        asyncio.run(store.add_patch(patch))
    assert list(store.all_patches()) == patches


def test_the_pool_holds_the_latest_version_of_each_task_in_order_of_admission(store: Store) -> None:
    outcomes: dict[int, AdmissionOutcome] = {5: "passed", 2: "refused", 1: "kept"}
    for number, outcome in outcomes.items():
        asyncio.run(store.add_admission(admitted(numbered(number), outcome=outcome)))
    assert store.servable() == [("000005-abc", 1), ("000001-abc", 1)]
    found = PatchRound(number=1, exploit="x", checks=(check(8),))
    first = patch_of(1, numbered(5), found)
    second = patch_of(2, first.task, PatchRound(number=1, exploit="x", checks=(check(-6),)))
    for patch in (first, second, patch_of(3, numbered(1), outcome="failed")):
        asyncio.run(store.add_patch(patch))
    assert store.servable() == [("000005-abc", 3), ("000001-abc", 1)]


def test_evictions_come_back_with_their_figures_by_task(store: Store) -> None:
    for task_id, version in (("b", 1), ("a", 2), ("b", 3)):
        asyncio.run(store.add_eviction(task_id, version, 0.95, 0.0001, 8))
    assert store.evictions("b") == [EvictionRow("b", v, 0.95, 0.0001, 8) for v in (1, 3)]
    assert [row.task_id for row in store.evictions()] == ["b", "a", "b"]


def test_the_last_report_is_the_latest_one_that_came_in(store: Store) -> None:
    assert store.last_report() is None
    for cycle in (0, 1):
        asyncio.run(store.add_report(cycle, step=4 * cycle, metrics={}))
    asyncio.run(store.supersede(0))
    again = asyncio.run(store.add_report(0, step=0, metrics={}))
    assert store.last_report() == again == Report(3, 0, 0)
