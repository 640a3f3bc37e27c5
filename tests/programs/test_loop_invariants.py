"""What holds of every run of the loop, whatever its models say and however they fail (METHOD 4, 5 and 7).

Three runs over real HTTP, on models whose verdicts follow from the words of the answers, with faults in every role.
One is closed and opened again twice; one has few tasks, so that each is attacked again and again, and is repaired
between its answers and their grades.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.programs import loop_checks as holds
from tests.programs.loop_runs import Ran, play
from tests.programs.loop_world import LoopWorld

MANY: dict[str, Any] = {
    "generation": {"tasks": 16},
    "pool": {"ahead": 4},
    "solver": {"cycles": 9, "tasks_per_cycle": 3, "tasks_per_update": 3, "rollouts_per_task": 5},
}
FEW: dict[str, Any] = {
    "generation": {"tasks": 4, "negative_share": 0.0},
    "admission": {"rounds": 0},
    "evolution": {"every_cycles": 4},
    "solver": {"cycles": 11, "tasks_per_cycle": 3, "tasks_per_update": 3, "rollouts_per_task": 6},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[list[Ran]]:
    with ExitStack() as stack:

        def run(world: LoopWorld, **options: Any) -> Ran:
            return stack.enter_context(play(tmp_path_factory.mktemp("run"), tiny_model, world, **options))

        three_votes = {name: {"votes": 3} for name in ("admission", "grading", "patches")}
        yield [
            run(LoopWorld(1), stops=(3, 6), **MANY),
            run(LoopWorld(5), **{**MANY, **three_votes, "generation": {"tasks": 10}}),
            run(LoopWorld(2, uniform=2), prefetch=True, **FEW),
        ]


def total(counts: list[Counter[str]]) -> Counter[str]:
    return sum(counts, Counter[str]())


def test_1_an_adopted_rewrite_always_lowers_delta(runs: list[Ran]) -> None:
    outcomes = total([holds.adopted_rewrites_lower_delta(ran) for ran in runs])
    assert outcomes["repaired"] and outcomes["kept"]


def test_2_a_patch_raises_the_better_answers_lead_over_the_exploit_of_its_pair(runs: list[Ran]) -> None:
    outcomes = total([holds.patches_raise_the_lead(ran) for ran in runs])
    assert outcomes["patched"] > 4 and outcomes["unpatched"]


def test_3_a_negative_that_the_honest_answer_meets_is_never_accepted(runs: list[Ran]) -> None:
    outcomes = total([holds.negatives_spare_the_honest_answer(ran) for ran in runs])
    assert outcomes["accepted"]


def test_4_a_task_never_gets_more_than_six_criteria_from_patches_or_twelve_in_all(runs: list[Ran]) -> None:
    added = total([holds.criteria_stay_within_their_caps(ran) for ran in runs])
    assert max(added.values()) == 6, "the cap was reached"


def test_5_a_rolled_back_memo_is_exactly_the_earlier_text(runs: list[Ran]) -> None:
    assert sum(holds.rollbacks_restore_the_text(ran) for ran in runs) > 0


def test_6_guidance_changes_in_evolution_rounds_alone(runs: list[Ran]) -> None:
    assert min(holds.guidance_changes_in_rounds_alone(ran) for ran in runs) > 2


def test_7_nothing_served_is_ever_changed_in_place(runs: list[Ran]) -> None:
    for ran in runs:
        assert len(ran.snapshots) == ran.config.solver.cycles - 1
        holds.nothing_changes_in_place(ran)
        holds.versions_count_up(ran)


def test_8_prompt_judge_referee_and_rubric_are_of_one_version(runs: list[Ran]) -> None:
    for ran in runs:
        rollouts = len(ran.trainer.graded)
        assert rollouts * 0.8 < holds.graded_as_served(ran) <= rollouts
    versions = {row.version for ran in runs for row in ran.store.served()}
    assert versions >= {1, 2, 3}


def test_10_a_patched_task_comes_back_before_anything_fresh(runs: list[Ran]) -> None:
    sources = total([holds.patched_tasks_come_back_first(ran) for ran in runs])
    assert sources["replay"] and sources["draw"]
    assert sources["back"], "an evicted task was patched and served again"


def test_11_admission_never_runs_more_than_asked_ahead_of_the_trainer(runs: list[Ran]) -> None:
    most = [holds.admission_stays_within_reach(ran) for ran in runs]
    assert most[:2] == [4, 4], "as far as it may, and no farther"


def test_failures_are_counted_and_a_judge_that_failed_is_no_verdict(runs: list[Ran]) -> None:
    """The runs were as faulty as meant, and no fault has become a score."""
    for ran in runs:
        totals = ran.store.call_totals()
        assert sum(t.failed for t in totals.values()) > 0.02 * sum(t.calls for t in totals.values())
        for row, graded in ran.trainer.graded.values():
            task = ran.store.task(graded.task_id, graded.version)
            assert task is not None
            if graded.score is None:
                assert graded.unknown and graded.unscored
            elif row.finished:
                assert graded.unknown == 0
                assert graded.score == pytest.approx(ran.world.raw(row.answer, task.rubric.criteria))
