"""Reports, rounds, cases, repairs and texts: kept once, with what belongs to them, and read back as they were."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rri.cases import GuidanceVersion, MemoVersion, PatchRound, Preference
from rri.errors import StoreError
from rri.store import PatchRow, Report, RoundRow, Store
from rri.types import Message
from tests.rri.store.evidence import case_of, check, numbered, patch_of, ranking


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def do(work: Any) -> Any:
    return asyncio.run(work)


def over(report: int, kind: str = "cycle", cycle: int = 0, outcome: str = "done", **data: Any) -> RoundRow:
    return RoundRow(report, cycle, kind, outcome, 1.5, data)


def found(*points: float) -> PatchRound:
    return PatchRound(
        number=1, exploit="x", label="other", checks=tuple(check(p, number=i) for i, p in enumerate(points))
    )


# --- reports -----------------------------------------------------------------------------------------


def test_a_report_is_kept_once_until_the_trainer_goes_back(store: Store) -> None:
    first = do(store.add_report(0, 4, {"reward": 0.5}))
    assert first == Report(1, 0, 4)
    assert do(store.add_report(0, 4, {"reward": 0.9})).id == 1
    do(store.supersede(0))
    again = do(store.add_report(0, 4, {}))
    assert again.id == 2
    assert do(store.add_report(0, 4, {})).id == 2
    assert store.open_reports() == [first, again]


def test_a_report_that_is_sent_twice_at_once_is_one(store: Store) -> None:
    async def twice() -> list[int]:
        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(store.add_report(3, 7, {})) for _ in range(5)]
        return [job.result().id for job in jobs]

    assert set(do(twice())) == {1}


def test_metrics_are_kept_as_they_came(tmp_path: Path, store: Store) -> None:
    do(store.add_report(0, 4, {"reward": 0.5, "length": 12.0}))
    with sqlite3.connect(tmp_path / "rri.db") as db:
        assert db.execute("SELECT metrics FROM reports").fetchall() == [('{"reward": 0.5, "length": 12.0}',)]


@pytest.mark.parametrize(
    ("resumed", "superseded"), [((), False), ((3,), False), ((2,), True), ((0,), True), ((3, 1), True), ((3, 4), False)]
)
def test_a_report_is_superseded_by_a_resume_at_its_cycle_or_before(
    store: Store, resumed: tuple[int, ...], superseded: bool
) -> None:
    do(store.supersede(0))
    report = do(store.add_report(2, 4, {}))
    for cycle in resumed:
        do(store.supersede(cycle))
    assert store.superseded(report.id) is superseded


def test_an_open_report_is_one_without_the_round_that_ends_its_cycle(tmp_path: Path, store: Store) -> None:
    reports = [do(store.add_report(cycle, cycle, {})) for cycle in range(3)]
    do(store.add_round(over(2, "cases")))
    do(store.add_round(over(1)))
    assert store.open_reports() == reports[1:]
    assert [store.round_done(report, "cases") for report in (1, 2, 3)] == [False, True, False]
    store.close()
    again = Store(tmp_path)
    assert again.open_reports() == reports[1:]
    again.close()


# --- rounds ------------------------------------------------------------------------------------------


def test_rounds_come_back_by_kind_in_order_with_their_data(store: Store) -> None:
    rows = [over(1, "evolution", 4, why="nothing"), over(2, "cases"), over(3, "evolution", 9, "failed", error="down")]
    for row in rows:
        do(store.add_round(row))
    assert store.rounds("evolution") == [rows[0], rows[2]]
    assert store.rounds("memo") == []


def test_a_round_and_what_it_put_into_force_are_kept_together_or_not_at_all(store: Store) -> None:
    do(store.begin_texts(GuidanceVersion(version=0), MemoVersion(version=0)))
    new = GuidanceVersion(version=1, cycle=4, guidance_a="a"), MemoVersion(version=1, cycle=4, memo="m", decision="new")
    do(store.add_round(over(1, "evolution", 4), *new))
    assert (store.guidance_versions()[-1], store.memo_versions()[-1]) == new
    taken = GuidanceVersion(version=2, cycle=9), MemoVersion(version=1, cycle=9)
    with pytest.raises(StoreError, match="UNIQUE"):
        do(store.add_round(over(2, "evolution", 9), *taken))
    assert len(store.guidance_versions()) == 2
    assert len(store.rounds("evolution")) == 1


def test_a_run_begins_with_its_first_texts_and_keeps_them(store: Store) -> None:
    assert store.guidance_versions() == store.memo_versions() == []
    begun = GuidanceVersion(version=0, guidance_a="a", summary="from x"), MemoVersion(version=0, memo="m")
    do(store.begin_texts(*begun))
    do(store.begin_texts(GuidanceVersion(version=0, guidance_a="b"), MemoVersion(version=0, memo="n")))
    assert (store.guidance_versions(), store.memo_versions()) == ([begun[0]], [begun[1]])


# --- cases -------------------------------------------------------------------------------------------


def test_cases_and_the_round_that_found_them_are_kept_together_or_not_at_all(store: Store) -> None:
    """A kill between the two would have them found, kept and repaired twice."""
    task, row = numbered(1), over(1, "cases", groups=1)
    broken: Any = RoundRow(1, 0, "cases", None, 0.0, {})  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="NOT NULL"):
        do(store.add_cases(1, [ranking(task)], [(case_of(task), True)], broken))
    assert store.cases_of(1, chosen=True) == []
    assert store.loop_figures()["rankings"] == {}
    do(store.add_cases(1, [ranking(task)], [(case_of(task), True)], row))
    assert [case for _, case in store.cases_of(1, chosen=True)] == [case_of(task)]
    assert store.rounds("cases") == [row]


def test_cases_come_back_by_step_and_by_whether_they_were_chosen(store: Store) -> None:
    cases = [case_of(numbered(n), 0.1 * n, position=n) for n in range(1, 4)]
    do(store.add_cases(1, [], [(cases[0], True), (cases[1], False)]))
    do(store.add_cases(2, [], [(cases[2], True)]))
    assert store.cases_of(1, chosen=True) == [(1, cases[0])]
    assert store.cases_of(1, chosen=False) == [(2, cases[1])]
    assert store.cases_of(2, chosen=True) == [(3, cases[2])]
    assert store.case(2) == cases[1]
    assert store.case(9) is None


def test_exploits_are_of_cases_since_a_cycle_and_their_patches_whenever_they_were_made(store: Store) -> None:
    cases = [case_of(numbered(n), 0.25 * n, cycle=n) for n in range(1, 4)]
    do(store.add_cases(1, [], [(case, True) for case in cases]))
    patches = [patch_of(n, numbered(n), found(8)) for n in (3, 1, 2)]
    for patch in patches:
        do(store.add_patch(patch))
    assert store.exploits_since(2) == ([0.5, 0.75], [patches[0], patches[2]])
    assert store.exploits_since(4) == ([], [])


def test_figures_of_the_loop_are_sums_over_everything(store: Store) -> None:
    nothing = {"pairs": 0, "longer": 0, "earlier": 0}
    assert store.loop_figures() == {"rankings": {}, "patches": {}, "accepted": 0, "preference": nothing}
    task = numbered(1)
    liked = ranking(task).model_copy(update={"preference": Preference(pairs=4, longer=3, earlier=1)})
    do(store.add_cases(1, [liked, liked, ranking(task, outcome="failed")], []))
    do(store.add_patch(patch_of(1, numbered(1), found(8, 5))))
    do(store.add_patch(patch_of(2, numbered(2), outcome="failed")))
    figures = store.loop_figures()
    assert figures["rankings"] == {"case": 2, "failed": 1}
    assert figures["patches"] == {"patched": 1, "failed": 1}
    assert figures["accepted"] == 2
    assert figures["preference"] == {"pairs": 8, "longer": 6, "earlier": 2}


# --- repairs -----------------------------------------------------------------------------------------


def test_a_patch_and_its_new_version_are_kept_together_or_not_at_all(store: Store) -> None:
    do(store.add_draft(numbered(1)))
    patch = patch_of(1, numbered(1), found(8))
    do(store.add_patch(patch))
    assert store.task("000001-abc", 2) == patch.task
    other = patch_of(1, numbered(2), found(8))
    with pytest.raises(StoreError, match="UNIQUE"):
        do(store.add_patch(other))
    assert store.task("000002-abc", 2) is None, "the case has been repaired"


def test_two_repairs_of_one_version_cannot_both_be_kept(store: Store) -> None:
    do(store.add_draft(numbered(1)))
    do(store.add_patch(patch_of(1, numbered(1), found(8))))
    with pytest.raises(StoreError, match="000001-abc version 2 is kept with other content"):
        do(store.add_patch(patch_of(2, numbered(1), found(5))))
    assert store.patch_of(2) is None


def test_patches_come_back_in_order_of_repair_from_any_number_on(store: Store) -> None:
    patches = [patch_of(2, numbered(2), found(8)), patch_of(1, numbered(1)), patch_of(3, numbered(3), found(8, -6))]
    for patch in patches:
        do(store.add_patch(patch))
    rows = [
        PatchRow(1, 2, "000002-abc", 2, "patched", 1),
        PatchRow(2, 1, "000001-abc", 1, "unpatched", 0),
        PatchRow(3, 3, "000003-abc", 2, "patched", 2),
    ]
    assert store.patches() == rows
    assert store.patches(1) == rows[1:]
    assert store.patches(1, patched=True) == [rows[2]]
    assert store.latest_patches(5) == [patches[2], patches[0]]
    assert store.latest_patches(1) == [patches[2]]
    assert [store.patch_of(case) for case in (1, 2, 4)] == [patches[1], patches[0], None]


def test_accepted_criteria_of_a_task_are_counted_over_all_its_patches(store: Store) -> None:
    first = patch_of(1, numbered(1), found(8, 5))
    for patch in (first, patch_of(2, first.task, found(-6)), patch_of(3, numbered(2), found(8))):
        do(store.add_patch(patch))
    assert [store.accepted_before(task_id) for task_id in ("000001-abc", "000002-abc", "x")] == [3, 1, 0]


def test_the_first_honest_answer_of_a_conversation_stays(store: Store) -> None:
    asked, other = numbered(1).conversation, (Message(role="user", content="Another."),)
    assert store.honest_answer(asked) is None
    for answer in ("first", "second"):
        do(store.add_honest_answer(asked, answer))
    assert store.honest_answer(asked) == "first"
    assert store.honest_answer(numbered(1, 2).conversation) == "first", "the rubric has no part in it"
    assert store.honest_answer(other) is None


def test_a_version_leaves_once(store: Store) -> None:
    for mean in (0.9, 0.95):
        do(store.add_eviction("t", 1, mean, 0.0, 4))
    assert store.evicted() == [("t", 1)]
    assert [row.mean for row in store.evictions()] == [0.9]
