"""Patch: models that fail at each place, the budget, and how calls are tagged."""

from typing import Any

import pytest

from rri.errors import BudgetExhausted
from rri.testing import ChatRequest, Fault, empty, status, truncated
from tests.programs.patch_cases import (
    EXPLOIT,
    HONEST,
    LOSING,
    TASK,
    WINNING,
    Reply,
    claim,
    fact,
    judge,
    minting,
    outcomes,
    patching,
    texts,
)

FAILED = status(400)


# -- models that fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [FAILED, status(500), truncated(), empty()], ids=lambda f: f"{f.kind}{f.code}")
def test_a_minter_that_fails_before_anything_was_accepted_is_a_failed_patch(fault: Fault) -> None:
    with patching(fault) as bench:
        patch = bench.run()
    assert (patch.outcome, patch.task) == ("failed", TASK)
    (done,) = patch.rounds
    assert (done.failed, done.label, done.checks) == (True, None, ())
    assert patch.why == patch.failure == done.why
    assert patch.why.startswith("no criteria: role minter: ")
    assert patch.lead_before == patch.lead_after


def test_a_minter_that_fails_when_it_is_asked_again_leaves_its_first_criteria_on_record() -> None:
    with patching([minting((fact(90), 8)), FAILED]) as bench:
        patch = bench.run()
    assert (patch.outcome, outcomes(patch)) == ("failed", [["overlap"]])
    assert (patch.rounds[0].label, patch.rounds[0].failed) == ("hedge_namedrop", True)


def test_a_minter_that_fails_in_the_second_round_leaves_the_first_accepted() -> None:
    with patching([minting((fact(0), 8)), FAILED], farmer=WINNING) as bench:
        patch = bench.run()
    assert (patch.outcome, texts(patch), patch.task.version) == ("patched", [fact(0)], 4)
    assert [r.failed for r in patch.rounds] == [False, True]
    assert patch.rounds[1].exploit == WINNING
    assert patch.failure.startswith("no criteria: ")


def test_a_second_round_that_accepts_nothing_leaves_the_first_accepted() -> None:
    with patching([minting((fact(0), 8)), *[minting((fact(0), 8))] * 2], farmer=[WINNING]) as bench:
        patch = bench.run()
    assert (patch.outcome, outcomes(patch)) == ("patched", [["accepted"], ["overlap", "overlap"]])
    assert patch.rounds[1].attack is None


def test_a_judge_that_fails_on_every_criterion_is_a_failed_patch() -> None:
    with patching(minting((fact(0), 8), (fact(1), 8)), judge=lambda _: FAILED) as bench:
        patch = bench.run()
    assert (patch.outcome, outcomes(patch)) == ("failed", [["unknown"] * 4])
    assert patch.why.startswith("on answer A: the judge failed: role judge: ")


def test_a_judge_that_fails_on_the_case_exploit_leaves_the_lead_to_what_is_known() -> None:
    """Fact 1 is unknown on the exploit of the case: 24 of 32 against 16 of 24."""

    def fails(request: ChatRequest) -> Reply:
        lost = (request.block("answer"), request.block("criterion")) == (EXPLOIT, fact(1))
        return FAILED if lost else judge(request)

    with patching([minting((fact(0), 8)), minting((fact(1), 8))], farmer=[WINNING, LOSING], judge=fails) as bench:
        patch = bench.run()
    assert outcomes(patch) == [["accepted"], ["accepted"]]
    assert patch.lead_after == pytest.approx(24 / 32 - 16 / 24)


@pytest.mark.parametrize("calls", range(1, 13))
def test_an_exhausted_budget_passes_through_wherever_it_ends(calls: int) -> None:
    """Twelve calls: the minter, two verdicts, the honest answer, the farmer, and eight verdicts less one."""
    with patching([minting((fact(0), 8))], budget={"calls": calls}) as bench, pytest.raises(BudgetExhausted):
        bench.run(honest=None)


def test_a_budget_that_is_just_enough_is_not_exhausted() -> None:
    with patching([minting((fact(0), 8))], budget={"calls": 13}) as bench:
        assert bench.run(honest=None).outcome == "patched"


# -- tags ---------------------------------------------------------------------------------------------------------


def samples(records: list[Any], role: str) -> list[str]:
    return [r.tag.sample for r in records if r.role == role]


def test_every_call_is_tagged_with_its_case_round_and_attempt() -> None:
    mints = [minting((fact(90), 8)), minting((claim(0), -8)), minting((fact(1), 8))]
    with patching(mints, farmer=[WINNING, LOSING], honest=HONEST) as bench:
        bench.run(number=12, honest=None)
        records = bench.records
    assert {r.tag.task_id for r in records} == {TASK.task_id}
    assert samples(records, "minter") == ["case-12-round-1-mint-1", "case-12-round-1-mint-2", "case-12-round-2-mint-1"]
    assert samples(records, "farmer") == ["case-12-round-1-attack", "case-12-round-2-attack"]
    assert samples(records, "honest") == ["case-12-honest"]
    assert set(samples(records, "judge")) == {
        "case-12-round-1-check-2",
        "case-12-round-1-attack",
        "case-12-round-2-check-1",
        "case-12-round-2-case-exploit",
        "case-12-round-2-attack",
    }
