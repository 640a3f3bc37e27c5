"""Patch: minting, caps, rounds, the farmer's new attack, and models that fail at each place (METHOD 7)."""

import json

import pytest

from rri.cases import Patch
from rri.errors import InputError
from rri.testing import ChatRequest, status
from rri.types import Criterion
from tests.programs.patch_cases import (
    BETTER,
    CASE,
    EXPLOIT,
    HONEST,
    TASK,
    Reply,
    case_of,
    claim,
    fact,
    holding,
    judge,
    minting,
    outcomes,
    patching,
    task_of,
)

FAILED = status(400)


# -- one round ---------------------------------------------------------------------------


def test_accepted_criteria_make_the_next_version_in_their_order() -> None:
    with patching(minting((fact(0), 8), (fact(90), 8), (claim(0), -6), (fact(1), 10))) as bench:
        patch = bench.run(number=5)
    assert (patch.case, patch.before, patch.outcome) == (5, TASK, "patched")
    assert outcomes(patch) == [["accepted", "overlap", "accepted", "accepted"]]
    added = tuple(Criterion(text=t, points=p) for t, p in ((fact(0), 8), (claim(0), -6), (fact(1), 10)))
    assert patch.task == TASK.model_copy(
        update={"version": 4, "rubric": TASK.rubric.model_copy(update={"criteria": (*TASK.rubric.criteria, *added)})}
    )
    assert patch.why == "3 accepted, 1 overlap"
    assert (patch.honest, patch.failure) == (HONEST, "")
    assert Patch.model_validate_json(patch.model_dump_json()) == patch


def test_the_leads_are_raw_scores_of_the_pair_under_the_rubric_before_and_after() -> None:
    """Before: 8/16 against 16/16. After: (8 + 8 + 10)/34 against (16 - 6)/34."""
    with patching(minting((fact(0), 8), (claim(0), -6), (fact(1), 10))) as bench:
        patch = bench.run()
    assert patch.lead_before == pytest.approx(-0.5) == -CASE.gap
    assert patch.lead_after == pytest.approx((26 - 10) / 34)


def test_the_minter_sees_both_answers_with_their_verdicts() -> None:
    with patching(minting((fact(0), 8))) as bench:
        bench.run()
        (request,) = bench.server.of("minter")
    assert (request.block("answer_a"), request.block("answer_b")) == (EXPLOIT, BETTER)
    rubric = json.loads(request.block("rubric"))
    assert [(c["verdict_a"], c["verdict_b"]) for c in rubric] == [("met", "met"), ("met", "unmet"), ("unmet", "unmet")]
    assert request.block("problems") == ""


def test_a_round_keeps_what_was_minted_and_on_which_exploit() -> None:
    with patching(minting((fact(0), 8), label="breadth_padding")) as bench:
        (done,) = bench.run().rounds
    assert (done.number, done.exploit, done.label, done.failed) == (1, EXPLOIT, "breadth_padding", False)
    (check,) = done.checks
    assert (check.why, check.attempt, check.case_exploit) == (f"why {fact(0)[:10]}", 1, None)
    assert check.exploit is not None and check.exploit.votes[0].reason == "Secret reason"


def test_a_criterion_is_held_against_those_accepted_a_moment_ago() -> None:
    with patching(minting((fact(0), 8), (fact(0), 7), (fact(1), 8))) as bench:
        assert outcomes(bench.run()) == [["accepted", "overlap", "accepted"]]


def test_the_gap_is_taken_of_the_rubric_as_patched_so_far() -> None:
    """5 of 95 points are enough; after 10 more were accepted, 5 of 105 are not."""
    task = task_of(*((fact(50 + n), 10) for n in range(9)), (fact(60), 5))
    case = case_of(task, holding(fact(50), fact(51), fact(52)), BETTER)
    with patching(minting((fact(0), 10), (fact(1), 5))) as bench:
        assert outcomes(bench.run(case)) == [["accepted", "gap"]]
    with patching(minting((fact(1), 5), (fact(0), 10))) as bench:
        assert outcomes(bench.run(case)) == [["accepted", "accepted"]]


# -- minting again -----------------------------------------------------------------------------


def test_the_minter_is_asked_again_with_the_problems_where_nothing_was_accepted() -> None:
    with patching([minting(("Too short", 8), (fact(40), 8)), minting((fact(0), 8))]) as bench:
        patch = bench.run()
        first, second = bench.server.of("minter")
    assert outcomes(patch) == [["length", "not_separating", "accepted"]]
    assert [check.attempt for check in patch.rounds[0].checks] == [1, 1, 2]
    assert first.block("problems") == ""
    problems = json.loads(second.block("problems"))
    assert len(problems) == 2
    assert "9 characters" in problems[0] and "'Too short'" in problems[0]
    assert "unmet on A and unmet on B" in problems[1] and fact(40) in problems[1]


def test_the_minter_is_asked_twice_a_round_and_then_the_case_is_over() -> None:
    with patching([minting((fact(40), 8)), minting((fact(90), 8))]) as bench:
        patch = bench.run()
        counts = bench.counts
    assert (patch.outcome, patch.task, outcomes(patch)) == ("unpatched", TASK, [["not_separating", "overlap"]])
    assert counts == {"minter": 2, "judge": 2}, "nothing is attacked that was not patched"
    assert patch.lead_before == patch.lead_after == pytest.approx(-0.5)
    assert patch.why == "1 not_separating, 1 overlap"


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_attempts_of_a_round_are_a_setting(attempts: int) -> None:
    with patching(minting((fact(40), 8)), patches={"attempts": attempts}) as bench:
        bench.run()
        assert bench.counts["minter"] == attempts


def test_one_accepted_criterion_is_enough_not_to_ask_again() -> None:
    with patching([minting((fact(90), 8), (fact(0), 8))]) as bench:
        assert outcomes(bench.run()) == [["overlap", "accepted"]]


def test_a_minter_that_sees_no_exploit_ends_the_case() -> None:
    with patching([minting(label="none")]) as bench:
        patch = bench.run()
        counts = bench.counts
    assert (patch.outcome, patch.task, outcomes(patch)) == ("unpatched", TASK, [[]])
    assert patch.rounds[0].label == "none"
    assert patch.why == patch.rounds[0].why == "the minter named no exploit"
    assert counts == {"minter": 1}


def test_what_the_judge_could_not_decide_is_not_held_against_a_criterion() -> None:
    def fails(request: ChatRequest) -> Reply:
        return FAILED if request.block("criterion") == fact(0) else judge(request)

    with patching([minting((fact(0), 8), (fact(90), 8)), minting((fact(1), 8))], judge=fails) as bench:
        patch = bench.run()
        problems = json.loads(bench.server.of("minter")[1].block("problems"))
    assert outcomes(patch) == [["unknown", "overlap", "accepted"]]
    assert len(problems) == 1 and fact(90) in problems[0]
    assert "the judge failed" in patch.failure, "a patch that came through still says what failed on the way"


# -- caps -----------------------------------------------------------------------------------------

FIVE = minting(*((fact(n), 8) for n in range(5)))


@pytest.mark.parametrize(("before", "accepted"), [(0, 5), (1, 5), (2, 4), (5, 1)])
def test_six_criteria_a_task_over_all_its_cases(before: int, accepted: int) -> None:
    with patching(FIVE) as bench:
        patch = bench.run(before=before)
    assert outcomes(patch) == [["accepted"] * accepted + ["task_full"] * (5 - accepted)]


def test_a_task_that_got_its_six_criteria_costs_no_call() -> None:
    with patching(FIVE) as bench:
        patch = bench.run(before=6)
        assert bench.server.total == 0
    assert (patch.outcome, patch.task, patch.rounds) == ("unpatched", TASK, ())
    assert patch.why == "6 criteria were accepted for this task, the most it may get"


def test_a_round_brings_no_more_than_its_share() -> None:
    with patching(FIVE, patches={"accepted_per_round": 2}) as bench:
        assert outcomes(bench.run()) == [["accepted", "accepted", "round_full", "round_full", "round_full"]]


@pytest.mark.parametrize(("size", "accepted"), [(10, 2), (11, 1), (12, 0)])
def test_twelve_criteria_a_rubric(size: int, accepted: int) -> None:
    task = task_of(*((fact(50 + n), 5) for n in range(size)))
    case = case_of(task, holding(fact(50), fact(51), fact(52)), BETTER)
    with patching(FIVE) as bench:
        patch = bench.run(case)
        counts = bench.counts
    if not accepted:
        assert (patch.outcome, patch.rounds, counts) == ("unpatched", (), {})
        assert patch.why == "the rubric holds 12 criteria, the most it may"
        return
    assert outcomes(patch) == [["accepted"] * accepted + ["rubric_full"] * (5 - accepted)]
    assert len(patch.task.rubric.criteria) == 12


def test_both_rounds_count_towards_the_task() -> None:
    second = minting(*((fact(n), 8) for n in range(5, 9)))
    winning = holding(fact(90), fact(91), *(fact(n) for n in range(5)), mark="Attack. ")
    with patching([FIVE, second], farmer=winning) as bench:
        patch = bench.run()
    assert outcomes(patch) == [["accepted"] * 5, ["accepted", *["task_full"] * 3]]
    assert len(patch.accepted) == 6


def test_a_full_task_gets_no_second_round_though_the_farmer_wins() -> None:
    winning = holding(fact(90), fact(91), *(fact(n) for n in range(5)), mark="Attack. ")
    with patching([FIVE], farmer=winning) as bench:
        patch = bench.run(before=1)
    (done,) = patch.rounds
    assert done.attack is not None and "exploitable" in done.attack.reasons
    assert patch.why == "5 accepted; 6 criteria were accepted for this task, the most it may get"


# -- the honest answer -------------------------------------------------------------------------------------


def test_a_missing_honest_answer_is_written_once_and_handed_back() -> None:
    with patching([minting((claim(0), -8), (claim(1), -8), (fact(0), 8))]) as bench:
        patch = bench.run(honest=None)
        counts = bench.counts
    assert (patch.honest, counts["honest"]) == (HONEST, 1)
    assert outcomes(patch) == [["accepted"] * 3]
    assert patch.rounds[0].attack is not None and patch.rounds[0].attack.honest == HONEST


def test_no_honest_answer_is_written_where_nothing_needs_it() -> None:
    with patching(minting((fact(40), 8))) as bench:
        patch = bench.run(honest=None)
        assert "honest" not in bench.counts
    assert patch.honest == ""


def test_a_failing_honest_model_costs_the_negatives_and_the_attack_not_the_positives() -> None:
    with patching([minting((claim(0), -8), (fact(0), 8))], honest=FAILED) as bench:
        patch = bench.run(honest=None)
        counts = bench.counts
    assert (patch.outcome, outcomes(patch)) == ("patched", [["honest_unknown", "accepted"]])
    attack = patch.rounds[0].attack
    assert attack is not None and (attack.status, attack.failed) == ("unmeasured", True)
    assert attack.why.startswith("no honest answer: role honest: ")
    assert (counts["honest"], "farmer" in counts) == (1, False)
    assert patch.failure.startswith("no honest answer: ")


# -- cases that do not fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 4])
def test_a_task_at_another_version_is_stale(version: int) -> None:
    now = TASK.model_copy(update={"version": version})
    with patching([]) as bench:
        patch = bench.run(task=now)
        assert bench.server.total == 0
    assert (patch.outcome, patch.task, patch.before, patch.rounds) == ("stale", now, now, ())
    assert (patch.lead_before, patch.lead_after, patch.honest) == (None, None, HONEST)
    assert patch.why == f"the task is at version {version}, the case is about version 3"


def test_another_task_is_refused() -> None:
    other = TASK.model_copy(update={"task_id": "000002-def"})
    with patching([]) as bench, pytest.raises(InputError, match=r"000001-abc.*000002-def"):
        bench.run(task=other)


@pytest.mark.parametrize("before", [0, 6], ids=["open", "full"])
@pytest.mark.parametrize("side", ["exploit", "better"])
def test_a_grade_of_another_rubric_is_refused_before_any_call(side: str, before: int) -> None:
    answered = getattr(CASE, side)
    grade = answered.grade.model_copy(update={"verdicts": answered.grade.verdicts[:2]})
    case = CASE.model_copy(update={side: answered.model_copy(update={"grade": grade})})
    with patching([]) as bench:
        with pytest.raises(InputError, match="3 criteria, the grade 2"):
            bench.run(case, before=before)
        assert bench.server.total == 0
