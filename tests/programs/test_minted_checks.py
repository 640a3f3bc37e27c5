"""Checks of a minted criterion: each reason alone and at its edge, their order, and what each costs (METHOD 7)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

from programs.minted_checks import CaseHonest, MintedChecks, Standing
from programs.minter import MintedCriterion
from rri.cases import Check, CheckOutcome
from rri.errors import BudgetExhausted
from rri.testing import ChatRequest, Fault, ScriptedServer, status
from rri.types import Task
from signatures.judge import JudgeCriterionStrictly
from tests.programs.patch_cases import BETTER, EXPLOIT, HONEST, TASK, claim, fact, holding, judge, patching, task_of

FAILED = status(400)
FULL = task_of(*((fact(50 + n), 5) for n in range(12)))
GRADING = "The response names the notice period"
INVALID = task_of((GRADING, 8), (fact(91), 8))
RICH = task_of(*((fact(50 + n), 10) for n in range(11)))
"""Positive points of 110, of which 5 are less than a twentieth."""


@dataclass
class Bench:
    checks: MintedChecks
    server: ScriptedServer
    standing: Standing
    run_on: Callable[[Any], Any]

    def check(self, text: str, points: int = 8, **standing: Any) -> Check:
        minted = MintedCriterion(text, points, "why")
        return self.run_on(self.checks.check(minted, replace(self.standing, **standing)))  # type: ignore[no-any-return]


@contextmanager
def checking(
    *, judge: Callable[[ChatRequest], str | Fault] = judge, honest: str | Fault = HONEST, **sections: Any
) -> Iterator[Bench]:
    """The honest answer is not there yet; the model writes it."""
    with patching([], judge=judge, honest=honest, **sections) as rig:
        written = CaseHonest(rig.patcher.prober.honest, TASK, "case-1-honest")
        standing = Standing(task=TASK, exploit=EXPLOIT, better=BETTER, honest=written, in_task=0, in_round=0)
        yield Bench(rig.patcher.checks, rig.server, standing, rig.gateway.loop.run)


def verdicts(check: Check) -> tuple[str | None, ...]:
    return tuple(v.outcome if v else None for v in (check.exploit, check.better, check.honest))


# -- accepted ---------------------------------------------------------------------------


def test_a_positive_is_kept_that_is_met_on_the_better_answer_alone() -> None:
    with checking() as bench:
        check = bench.check(fact(0))
        assert (check.outcome, check.detail) == ("accepted", "")
        assert verdicts(check) == ("unmet", "met", None)
        assert (check.criterion.text, check.criterion.points, check.why) == (fact(0), 8, "why")
        assert (bench.server.count("judge"), bench.server.count("honest")) == (2, 0)


def test_a_negative_is_kept_that_is_met_on_the_exploit_alone_and_not_on_an_honest_answer() -> None:
    with checking() as bench:
        check = bench.check(claim(0), -8)
        assert check.outcome == "accepted"
        assert verdicts(check) == ("met", "unmet", "unmet")
        assert (bench.server.count("judge"), bench.server.count("honest")) == (3, 1)


def test_three_votes_under_the_strict_note_on_both_answers() -> None:
    with checking(patches={"votes": 3}) as bench:
        check = bench.check(claim(0), -8)
        requests = bench.server.of("judge")
    assert check.exploit is not None and len(check.exploit.votes) == 2, "the first two of three agree"
    strict = JudgeCriterionStrictly.instructions.strip()
    assert all(r.messages[0]["content"].startswith(strict) for r in requests)
    assert {r.block("criterion") for r in requests} == {claim(0)}
    assert sorted({r.block("answer") for r in requests}) == sorted({EXPLOIT, BETTER, HONEST})
    assert len(requests) == 6


# -- each reason alone, at its edge -------------------------------------------------------------

Setting = dict[str, Any]
LONG = (fact(0) + " " + "x" * 300)[:220]
CHEAP: list[tuple[CheckOutcome, str, int, Setting, Setting]] = [
    ("task_full", fact(0), 8, {"in_task": 6}, {}),
    ("accepted", fact(0), 8, {"in_task": 5}, {}),
    ("round_full", fact(0), 8, {"in_round": 5}, {}),
    ("accepted", fact(0), 8, {"in_round": 4}, {}),
    ("rubric_full", fact(0), 8, {"task": FULL}, {}),
    ("accepted", fact(0), 8, {"task": task_of(*((fact(50 + n), 5) for n in range(11)))}, {}),
    ("rubric_full", fact(0), 8, {}, {"generation": {"rubric": {"max_criteria_repaired": 3}}}),
    ("length", fact(0)[:39], 8, {}, {}),
    ("accepted", fact(0)[:40], 8, {}, {}),
    ("length", LONG + "x", 8, {}, {}),
    ("accepted", LONG, 8, {"better": LONG}, {}),
    ("points", fact(0), 5, {}, {"patches": {"criterion": {"min_abs_points": 6}}}),
    ("accepted", fact(0), 6, {}, {"patches": {"criterion": {"min_abs_points": 6}}}),
    ("points", claim(0), -10, {}, {"patches": {"criterion": {"max_abs_points": 9}}}),
    ("absence", "Fails to name the notice period of the contract", 8, {}, {}),
    ("absence", "Fails to name the notice period of the contract", -8, {}, {}),
    ("addresses_judge", f"{GRADING} of the contract", 8, {}, {}),
    ("overlap", fact(90), 8, {}, {}),
    ("overlap", f"{fact(91)} x00a x00b x00c x00d", 8, {}, {}),
    ("invalid", fact(0), 8, {"task": INVALID}, {}),
    ("invalid", fact(0), 8, {}, {"generation": {"rubric": {"min_criteria": 5}}}),
    ("gap", fact(0), 5, {"task": RICH}, {}),
    ("accepted", fact(0), 6, {"task": RICH}, {}),
    ("accepted", fact(0), 5, {"task": task_of(*((fact(50 + n), 10) for n in range(10)))}, {}),
    ("gap", claim(0), -5, {"task": RICH}, {}),
    ("gap", fact(0), 8, {}, {"patches": {"min_gap_removed": 0.51}}),
    ("accepted", fact(0), 8, {}, {"patches": {"min_gap_removed": 0.5}}),
]


@pytest.mark.parametrize(("outcome", "text", "points", "standing", "sections"), CHEAP)
def test_what_needs_no_model_is_decided_without_one(
    outcome: CheckOutcome, text: str, points: int, standing: Setting, sections: Setting
) -> None:
    with checking(**sections) as bench:
        check = bench.check(text, points, **standing)
        assert check.outcome == outcome
        asked = bench.server.total
    assert asked == (2 if outcome == "accepted" else 0)
    if outcome != "accepted":
        assert check.detail
        assert verdicts(check) == (None, None, None)


def test_a_rejection_names_every_rule_of_wording_that_is_broken() -> None:
    """The first one decides, and the minter needs all of them."""
    with checking() as bench:
        check = bench.check("Fails to name it", 8)
    assert check.outcome == "length"
    assert "16 characters" in check.detail and "absence" in check.detail


# -- what the judge decides -----------------------------------------------------------------------


def failing_on(answer: str, criterion: str) -> Callable[[ChatRequest], str | Fault]:
    def failing(request: ChatRequest) -> str | Fault:
        lost = (request.block("answer"), request.block("criterion")) == (answer, criterion)
        return FAILED if lost else judge(request)

    return failing


@pytest.mark.parametrize(("answer", "name"), [(EXPLOIT, "A"), (BETTER, "B")])
@pytest.mark.parametrize(("text", "points"), [(fact(0), 8), (claim(0), -8)])
def test_an_unknown_verdict_on_either_answer_rejects(answer: str, name: str, text: str, points: int) -> None:
    with checking(judge=failing_on(answer, text)) as bench:
        check = bench.check(text, points)
        assert bench.server.count("honest") == 0
    assert check.outcome == "unknown"
    assert check.detail.startswith(f"on answer {name}: the judge failed: role judge: ")
    assert "unknown" in verdicts(check)


def test_votes_that_do_not_agree_are_unknown() -> None:
    """One vote of three fails and the others differ: no majority, so no verdict."""
    votes = iter([FAILED, '{"reason": "", "met": true}', '{"reason": "", "met": false}'])

    def split(request: ChatRequest) -> str | Fault:
        return next(votes) if request.block("answer") == EXPLOIT else judge(request)

    with checking(judge=split, patches={"votes": 3}) as bench:
        assert bench.check(fact(0)).outcome == "unknown"


@pytest.mark.parametrize(
    ("points", "on_exploit", "on_better", "outcome"),
    [
        (8, False, True, "accepted"),
        (8, True, True, "not_separating"),
        (8, False, False, "not_separating"),
        (8, True, False, "not_separating"),
        (-8, True, False, "accepted"),
        (-8, True, True, "not_separating"),
        (-8, False, False, "not_separating"),
        (-8, False, True, "not_separating"),
    ],
)
def test_a_criterion_must_separate_the_pair_the_right_way(
    points: int, on_exploit: bool, on_better: bool, outcome: str
) -> None:
    text = fact(30) if points > 0 else claim(30)
    exploit, better = (holding(text) if met else holding("") for met in (on_exploit, on_better))
    with checking() as bench:
        check = bench.check(text, points, exploit=exploit + "A", better=better + "B")
        assert check.outcome == outcome
        assert bench.server.count("honest") == int(points < 0 and outcome == "accepted")
    if outcome != "accepted":
        words = {True: "met", False: "unmet"}
        assert f"{words[on_exploit]} on A and {words[on_better]} on B" in check.detail


def test_a_negative_that_the_honest_answer_meets_is_rejected() -> None:
    with checking(honest=holding(claim(0))) as bench:
        check = bench.check(claim(0), -8)
    assert check.outcome == "honest_meets"
    assert verdicts(check) == ("met", "unmet", "met")


def test_a_negative_that_cannot_be_held_against_an_honest_answer_is_rejected() -> None:
    with checking(judge=failing_on(HONEST, claim(0))) as bench:
        check = bench.check(claim(0), -8)
    assert check.outcome == "honest_unknown"
    assert check.detail.startswith("on the honest answer: the judge failed: ")
    assert verdicts(check) == ("met", "unmet", "unknown")


def test_a_failing_honest_model_rejects_negatives_is_asked_once_and_leaves_positives_alone() -> None:
    with checking(honest=FAILED) as bench:
        outcomes = [bench.check(*c).outcome for c in ((claim(0), -8), (fact(0), 8), (claim(1), -8))]
        check = bench.check(claim(0), -8)
        assert bench.server.count("honest") == 1
    assert outcomes == ["honest_unknown", "accepted", "honest_unknown"]
    assert check.detail.startswith("no honest answer: role honest: ")
    assert verdicts(check) == ("met", "unmet", None)


def test_without_the_guard_a_negative_is_not_held_against_the_honest_answer() -> None:
    with checking(honest=holding(claim(0)), patches={"honest_guard": False}) as bench:
        check = bench.check(claim(0), -8)
        assert bench.server.count("honest") == 0
    assert (check.outcome, verdicts(check)) == ("accepted", ("met", "unmet", None))


def test_an_exhausted_budget_passes_through() -> None:
    with checking(budget={"calls": 1}) as bench, pytest.raises(BudgetExhausted):
        bench.check(fact(0))


# -- the order ---------------------------------------------------------------------------------------

CHEAP_AND_RICH = task_of((GRADING, 10), *((fact(50 + n), 10) for n in range(10)))
TWO_BROKEN: list[tuple[CheckOutcome, str, int, Setting]] = [
    ("task_full", fact(0), 8, {"in_task": 6, "in_round": 5}),
    ("round_full", fact(0), 8, {"in_round": 5, "task": FULL}),
    ("rubric_full", "Short", 8, {"task": FULL}),
    ("length", "Short", 10, {}),
    ("points", "Fails to name the notice period of the contract", 10, {}),
    ("absence", "The response does not name the notice period of it", 8, {}),
    ("addresses_judge", f"The response names {fact(90)}", 8, {}),
    ("overlap", fact(91), 8, {"task": INVALID}),
    ("invalid", fact(0), 5, {"task": CHEAP_AND_RICH}),
    ("gap", fact(0), 5, {"task": RICH}),
]


@pytest.mark.parametrize(("outcome", "text", "points", "standing"), TWO_BROKEN)
def test_of_two_broken_rules_the_earlier_one_decides(
    outcome: CheckOutcome, text: str, points: int, standing: Setting
) -> None:
    """Each case also breaks the rule that comes next; the last one would meet a judge that fails."""
    sections = {"patches": {"criterion": {"max_abs_points": 9}}}
    with checking(judge=lambda _: FAILED, **sections) as bench:
        assert bench.check(text, points, **standing).outcome == outcome
        assert bench.server.total == 0


def test_unknown_comes_before_not_separating_and_that_before_the_honest_answer() -> None:
    with checking(judge=failing_on(EXPLOIT, fact(30))) as bench:
        assert bench.check(fact(30)).outcome == "unknown", "unmet on the better answer, too"
    with checking(honest=FAILED) as bench:
        assert bench.check(claim(0), -8, better=holding(claim(0))).outcome == "not_separating"
        assert bench.server.count("honest") == 0


def test_every_reason_is_reached_in_the_order_of_its_name() -> None:
    reached = {outcome for outcome, *_ in CHEAP} | {"unknown", "not_separating", "honest_unknown", "honest_meets"}
    assert reached == set(get_args(CheckOutcome))
    order = [outcome for outcome, *_ in TWO_BROKEN]
    assert order == list(get_args(CheckOutcome))[1 : 1 + len(order)]


# -- the honest answer of a case --------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, ""])
def test_an_honest_answer_is_written_once_blind_to_the_rubric_under_its_own_tag(given: str | None) -> None:
    with patching([]) as rig:
        honest = CaseHonest(rig.patcher.prober.honest, TASK, "case-9-honest", given)
        assert [rig.gateway.loop.run(honest.ask()) for _ in range(3)] == [HONEST] * 3
        (request,) = rig.server.of("honest")
        (record,) = rig.records
    assert (record.tag.task_id, record.tag.sample) == (TASK.task_id, "case-9-honest")
    assert "f90a" not in json.dumps(request.messages)
    assert (honest.text, honest.error) == (HONEST, "")


def test_an_answer_that_is_there_is_not_written_again() -> None:
    with patching([]) as rig:
        honest = CaseHonest(rig.patcher.prober.honest, TASK, "case-9-honest", "Known.")
        assert rig.gateway.loop.run(honest.ask()) == "Known."
        assert rig.server.total == 0


def test_a_standing_is_about_the_rubric_as_patched_so_far() -> None:
    """A text that was accepted a moment ago is one of the criteria that the next may not repeat."""
    patched: Task = task_of((fact(90), 8), (fact(0), 8))
    with checking() as bench:
        assert bench.check(fact(0)).outcome == "accepted"
        assert bench.check(fact(0), task=patched).outcome == "overlap"
