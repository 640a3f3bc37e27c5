"""The loop between cycles: reports once, cases, repairs, failures that are counted, and going on after a kill."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rri.config import LoopConfig, RunConfig
from rri.errors import BudgetExhausted, ModelError
from rri.store import RoundRow
from rri.testing import Fault, hang, status
from tests.rri.service.looping import GROUP, LoopBench, looping

DOWN = status(400)


@pytest.fixture
def faults() -> dict[str, Fault]:
    return {}


@pytest.fixture
def bench(tmp_path: Path, faults: dict[str, Fault]) -> Iterator[LoopBench]:
    with looping(tmp_path, faults) as bench:
        yield bench


# --- reports -----------------------------------------------------------------------------------------


def test_a_report_twice_is_one_report(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.graded(0, 0, task)
    first = bench.report(0)
    assert bench.report(0) == first
    assert bench.loop.backlog == 1
    bench.work()
    asked = bench.server.total
    assert bench.report(0) == first
    assert bench.loop.backlog == 0
    bench.work()
    assert bench.outcomes("cycle") == ["done"]
    assert bench.server.total == asked, "nothing is done again"


def test_a_report_after_a_resume_is_a_new_one_about_the_new_rollouts(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.cycle(0, task)
    old = bench.store.open_reports()
    assert old == []
    bench.do(bench.store.supersede(0))
    bench.graded(0, 0, task, ("Copy", "Sure", "Sure"))
    again = bench.report(0)
    assert again.id == 2
    bench.work()
    assert bench.outcomes("cycle") == ["done", "done"]
    exploits = [case.exploit.row for _, case in bench.store.cases_of(again.id, chosen=True)]
    assert exploits == [1], "the superseded group had its exploit in row 0"


def test_a_resume_of_a_later_cycle_leaves_an_earlier_report_as_it_is(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.cycle(0, task)
    bench.do(bench.store.supersede(1))
    bench.graded(1, 1, task)
    bench.report(1)
    bench.work()
    assert bench.outcomes("cycle") == ["done", "done"]


def test_a_cycle_that_is_trained_again_is_not_worked_on_before(bench: LoopBench) -> None:
    """Its rollouts are superseded: a round on what is left would count as this cycle's."""
    task = bench.task(1)
    bench.graded(0, 0, task)
    bench.report(0)
    bench.do(bench.store.supersede(0))
    bench.work()
    assert bench.outcomes("cycle") == ["superseded"]
    assert bench.outcomes("cases") == bench.outcomes("patches") == []
    assert bench.server.total == 0
    bench.cycle(0, task)
    assert bench.outcomes("cycle") == ["superseded", "done"]
    assert bench.outcomes("cases") == ["done"]


def test_cycles_are_worked_off_in_the_order_of_their_reports(bench: LoopBench) -> None:
    task = bench.task(1)
    for cycle in range(3):
        bench.graded(cycle, cycle, task, ("Plain", "Plain", "Plain"))
        bench.report(cycle)
    assert bench.loop.backlog == 3
    bench.work()
    assert [row.cycle for row in bench.store.rounds("cycle")] == [0, 1, 2]
    assert bench.loop.doing == ""


def test_one_cycle_may_wait_by_default_and_a_second_one_is_too_many(bench: LoopBench) -> None:
    limit = LoopConfig().max_backlog
    assert limit == 1
    for cycle, caught_up in ((0, True), (1, False)):
        bench.report(cycle)
        assert bench.do(bench.loop.caught_up(limit, 0.01)) is caught_up
    assert bench.do(bench.loop.caught_up(2, 0.01))


def test_who_waits_for_the_loop_is_woken_when_it_has_caught_up(bench: LoopBench) -> None:
    bench.report(0)

    async def scene() -> bool:
        waiting = asyncio.create_task(bench.loop.caught_up(0))
        job = asyncio.create_task(bench.loop.run())
        caught = await asyncio.wait_for(waiting, 20)
        job.cancel()
        return caught

    assert bench.do(scene())


# --- cases -------------------------------------------------------------------------------------------


def test_all_cases_are_kept_and_the_eight_largest_gaps_go_to_repair(bench: LoopBench) -> None:
    """Nine tasks whose exploits lead by ever more: the smallest lead is kept and not repaired."""
    tasks = [bench.task(number, (number, 10)) for number in range(2, 11)]
    for position, task in enumerate(tasks):
        bench.graded(0, position, task)
    report = bench.report(0)
    bench.work()
    chosen = {case.task.task_id for _, case in bench.store.cases_of(report.id, chosen=True)}
    (left,) = bench.store.cases_of(report.id, chosen=False)
    assert len(chosen) == RunConfig.model_fields["exploits"].default.cases_per_round == 8
    assert left[1].task == tasks[0]
    assert bench.store.patch_of(left[0]) is None
    assert len(bench.store.patches()) == 8
    (row,) = bench.store.rounds("cases")
    assert row.data == {"groups": 9, "cases": 9, "chosen": 8, "failed": 0}


def test_of_one_task_the_largest_gap_alone_goes_to_repair(bench: LoopBench) -> None:
    """Two repairs of one version would make two tasks of one name."""
    task = bench.task(1)
    bench.cycle(0, task, task)
    assert len(bench.store.cases_of(1, chosen=True)) == len(bench.store.cases_of(1, chosen=False)) == 1
    assert [p.outcome for p in bench.store.patches()] == ["patched"]


def test_unscored_and_truncated_answers_are_not_ranked(bench: LoopBench) -> None:
    bench.cycle(0, bench.task(1), kinds=("Sure", "?", "Copy"))
    assert bench.store.loop_figures()["rankings"] == {"no_case": 1}
    assert bench.server.count("referee") == 0


def test_a_referee_that_is_down_for_all_groups_is_a_failed_round(bench: LoopBench, faults: dict[str, Fault]) -> None:
    faults["referee"] = DOWN
    bench.cycle(0, bench.task(1), bench.task(2))
    assert bench.outcomes("cases") == ["failed"]
    assert bench.loop.failures == 1
    assert "the referee failed on all 2 groups" in bench.loop.stats()["last_error"]
    assert [m for _, m, _ in bench.store.events("loop_failed")] == [bench.loop.last_error]
    assert bench.store.loop_figures()["rankings"] == {"failed": 2}
    faults.clear()
    bench.open()
    bench.work()
    assert bench.server.count("referee") == 2, "a round that was left out stays so"


def test_groups_that_need_no_referee_do_not_hide_that_it_is_down(bench: LoopBench, faults: dict[str, Fault]) -> None:
    faults["referee"] = DOWN
    tasks = [bench.task(1), bench.task(2)]
    bench.graded(0, 0, tasks[0])
    bench.graded(0, 1, tasks[1], ("Sure", "Sure", "Sure"))
    bench.report(0)
    bench.work()
    assert bench.outcomes("cases") == ["failed"]


def test_a_referee_that_fails_on_some_groups_is_none(tmp_path: Path) -> None:
    with looping(tmp_path) as bench:
        bench.server.fault = lambda r: DOWN if r.model == "referee" and "rule 1." in r.block("conversation") else None
        bench.cycle(0, bench.task(1), bench.task(2))
        (row,) = bench.store.rounds("cases")
        assert (row.outcome, row.data["failed"], row.data["cases"]) == ("done", 1, 1)
        assert bench.loop.failures == 0


# --- repair ------------------------------------------------------------------------------------------


def test_a_patched_task_is_served_next_with_its_new_criteria(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.task(2)
    assert bench.do(bench.pool.served(0, 1)).task_id == task.task_id
    bench.cycle(0, task)
    (row,) = bench.store.patches(patched=True)
    assert (bench.pool.version(task.task_id), bench.pool.replaying) == (row.version, 1) == (2, 1)
    served = [bench.do(bench.pool.served(position, 1)) for position in (1, 2)]
    assert [(s.task_id, s.version, s.source) for s in served] == [
        (task.task_id, 2, "replay"),
        ("000002-abc", 1, "fresh"),
    ]
    assert [bench.pool.patched(task.task_id, version) for version in (1, 2)] == [False, True]
    patched = bench.store.task(task.task_id, 2)
    assert patched is not None and len(patched.rubric.criteria) == 2 + row.accepted


def test_a_later_case_on_the_old_version_is_stale(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.cycle(0, task)
    bench.cycle(1, task)
    assert [p.outcome for p in bench.store.patches()] == ["patched", "stale"]


def test_criteria_count_over_all_cases_of_a_task(tmp_path: Path) -> None:
    """A task that has got what it may is not repaired again, whatever beats it."""
    with looping(tmp_path, patches={"accepted_per_task": 2}) as bench:
        task = bench.task(1)
        for cycle in range(5):
            current = bench.store.task(task.task_id, bench.pool.version(task.task_id) or 1)
            assert current is not None
            bench.cycle(cycle, current, kinds=("Game", "Copy", "Game", "Plain"))
        assert bench.store.accepted_before(task.task_id) == 2
        last = bench.store.patch_of(bench.store.patches()[-1].case)
        assert last is not None and last.rounds == ()
        assert last.why == "2 criteria were accepted for this task, the most it may get"


def test_the_honest_answer_of_a_conversation_is_written_once(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.cycle(0, task)
    assert bench.server.count("honest") == 1
    assert bench.store.honest_answer(task.conversation) is not None
    current = bench.store.task(task.task_id, 2)
    assert current is not None
    bench.graded(1, 1, current, ("Game", "Copy", "Game", "Game", "Game"))
    bench.report(1)
    bench.work()
    assert bench.server.count("honest") == 1


def test_models_that_fail_on_every_case_are_a_failed_round(bench: LoopBench, faults: dict[str, Fault]) -> None:
    faults["minter"] = DOWN
    bench.cycle(0, bench.task(1), bench.task(2))
    assert bench.outcomes("cases") == ["done"]
    assert bench.outcomes("patches") == ["failed"]
    assert [p.outcome for p in bench.store.patches()] == ["failed", "failed"]
    assert "repair failed on all 2 cases" in bench.loop.last_error


def test_without_patches_cases_are_found_and_kept(tmp_path: Path) -> None:
    with looping(tmp_path, patches={"enabled": False}) as bench:
        bench.cycle(0, bench.task(1))
        assert len(bench.store.cases_of(1, chosen=True)) == 1
        assert bench.server.count("minter") == 0
        assert bench.outcomes("patches") == []


def test_without_an_adversary_nobody_is_asked(tmp_path: Path) -> None:
    with looping(tmp_path, exploits={"enabled": False}, patches={"enabled": False}) as bench:
        bench.cycle(0, bench.task(1))
        assert bench.server.total == 0
        assert bench.outcomes("cycle") == ["done"]


# --- failures in a row -------------------------------------------------------------------------------


def test_the_third_failed_round_in_a_row_ends_the_loop_with_the_reason(
    bench: LoopBench, faults: dict[str, Fault]
) -> None:
    """Rounds that had nothing to repair, because nothing was ranked, are no success between them."""
    assert LoopConfig().failures_in_a_row == 3
    task = bench.task(1)
    faults["referee"] = DOWN
    for cycle in range(2):
        bench.cycle(cycle, task)
    assert bench.loop.failures == 2
    with pytest.raises(ModelError, match=r"paused after 3 failed rounds of the loop in a row \(cases\).*HTTP 400"):
        bench.cycle(2, task)
    assert bench.outcomes("cases") == ["failed", "failed"]
    faults.clear()
    bench.open()
    assert bench.loop.backlog == 1
    bench.work()
    assert bench.outcomes("cases") == ["failed", "failed", "done"], "the cycle that ended it is done when it goes on"


def test_a_success_between_failures_starts_the_count_anew(bench: LoopBench, faults: dict[str, Fault]) -> None:
    task = bench.task(1)
    for cycle, down in enumerate((True, True, False, True, True)):
        faults.clear()
        faults.update({"referee": DOWN} if down else {})
        bench.cycle(cycle, task)
    assert bench.loop.failures == 4


def test_repairs_that_fail_in_a_row_end_the_loop_although_ranking_works(
    bench: LoopBench, faults: dict[str, Fault]
) -> None:
    faults["minter"] = DOWN
    for cycle in range(2):
        bench.cycle(cycle, bench.task(cycle + 1))
    bench.cycle(2, bench.task(3), kinds=("Plain", "Plain", "Plain"))
    with pytest.raises(ModelError, match=r"3 failed rounds of the loop in a row \(patches\)"):
        bench.cycle(3, bench.task(4))


def test_an_exhausted_budget_ends_the_loop_at_once(tmp_path: Path) -> None:
    with looping(tmp_path, budget={"calls": 2}) as bench, pytest.raises(BudgetExhausted):
        bench.cycle(0, bench.task(1))


# --- going on after a kill ---------------------------------------------------------------------------


def test_what_was_found_is_not_looked_for_again(bench: LoopBench, faults: dict[str, Fault]) -> None:
    """The loop stops in the middle of a repair; ranking is over by then."""
    bench.graded(0, 0, bench.task(1))
    bench.report(0)
    faults["minter"] = hang()
    bench.work_until(lambda: bench.server.count("minter") == 1)
    ranked = bench.server.count("referee")
    faults.clear()
    bench.open()
    bench.work()
    assert bench.server.count("referee") == ranked
    assert bench.outcomes("cases") == ["done"]
    assert [p.outcome for p in bench.store.patches()] == ["patched"]


def test_a_case_that_was_repaired_before_the_kill_is_not_repaired_again(tmp_path: Path) -> None:
    with looping(tmp_path, patches={"concurrency": 1}) as bench:
        held: list[bool] = [True]
        bench.server.fault = lambda r: (
            hang() if held and r.model == "minter" and "rule 2." in r.block("conversation") else None
        )
        for position, number in enumerate((1, 2)):
            bench.graded(0, position, bench.task(number))
        bench.report(0)
        bench.work_until(lambda: len(bench.store.patches()) == 1)
        first = bench.server.count("minter")
        held.clear()
        bench.open()
        bench.work()
        assert [p.case for p in bench.store.patches()] == [1, 2]
        conversations = [r.block("conversation") for r in bench.server.of("minter")[first:]]
        assert all("rule 2." in text for text in conversations)
        assert bench.outcomes("patches") == ["done"]


def test_ranking_that_was_cut_off_is_done_again_and_kept_once(bench: LoopBench, faults: dict[str, Fault]) -> None:
    bench.graded(0, 0, bench.task(1))
    bench.graded(0, 1, bench.task(2), GROUP)
    bench.report(0)
    faults["referee"] = hang()
    bench.work_until(lambda: bench.server.count("referee") == 2)
    assert bench.store.loop_figures()["rankings"] == {}
    faults.clear()
    bench.open()
    bench.work()
    assert bench.store.loop_figures()["rankings"] == {"case": 2}
    assert len(bench.store.patches()) == 2


def test_work_that_is_over_is_not_started_again(bench: LoopBench) -> None:
    bench.cycle(0, bench.task(1))
    asked = bench.server.total
    bench.open()
    assert bench.loop.backlog == 0
    bench.do(bench.store.add_round(RoundRow(1, 0, "note", "done", 0.0, {})))
    bench.work()
    assert bench.server.total == asked
