"""What is kept of exploit cases and patches: frozen, strict, derived figures, and the same after JSON."""

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from rri.cases import (
    Answered,
    Check,
    CheckOutcome,
    ExploitCase,
    Patch,
    PatchOutcome,
    PatchRound,
    Preference,
    Ranking,
    RankingOutcome,
)
from rri.evidence import Probe
from rri.rubric_rules import PatchReason
from rri.types import Criterion, Grade, Verdict, Vote
from rri.vocabulary import EXPLOIT_LABELS
from tests.rigs import make_task

LIGHT = settings(max_examples=60, deadline=None)
TASK = make_task(8, -6)
CRITERION = Criterion(text="States the notice period of thirty-one days", points=8)

verdicts = st.none() | st.sampled_from(["met", "unmet", "unknown"]).map(
    lambda o: Verdict(outcome=o, votes=(Vote(outcome=o, reason="r"),))
)
checks = st.builds(
    Check,
    criterion=st.just(CRITERION),
    why=st.text(max_size=9),
    attempt=st.integers(1, 2),
    outcome=st.sampled_from(get_args(CheckOutcome)),
    detail=st.text(max_size=9),
    exploit=verdicts,
    better=verdicts,
    honest=verdicts,
    case_exploit=verdicts,
)
attacks = st.builds(
    Probe,
    status=st.sampled_from(["measured", "discarded", "unmeasured"]),
    exploit=st.text(max_size=9),
    delta=st.none() | st.floats(-2, 2),
    why=st.text(max_size=9),
    failed=st.booleans(),
)
rounds = st.builds(
    PatchRound,
    number=st.integers(1, 2),
    exploit=st.text(max_size=9),
    label=st.none() | st.sampled_from(EXPLOIT_LABELS),
    checks=st.lists(checks, max_size=3).map(tuple),
    attack=st.none() | attacks,
    why=st.text(max_size=9),
    failed=st.booleans(),
)
patches = st.builds(
    Patch,
    case=st.integers(0, 9),
    before=st.just(TASK),
    task=st.just(TASK),
    outcome=st.sampled_from(get_args(PatchOutcome)),
    rounds=st.lists(rounds, max_size=2).map(tuple),
    honest=st.text(max_size=9),
    lead_before=st.none() | st.floats(-2, 2),
    lead_after=st.none() | st.floats(-2, 2),
    why=st.text(max_size=9),
)
rankings = st.builds(
    Ranking,
    cycle=st.integers(0, 9),
    position=st.integers(0, 9),
    task_id=st.just("t"),
    version=st.integers(1, 3),
    orders=st.just(((0, 1), (1, 0))),
    tiers=st.just((((0,), (1,)), ((0, 1),))),
    notes=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    preference=st.builds(Preference, pairs=st.integers(0, 9)),
    outcome=st.sampled_from(get_args(RankingOutcome)),
    why=st.text(max_size=9),
)


def answered(row: int, raw: float) -> Answered:
    return Answered(row=row, answer=f"Answer {row}", grade=Grade(verdicts=(), score=raw, raw=raw))


cases = st.builds(
    ExploitCase,
    cycle=st.integers(0, 9),
    position=st.integers(0, 9),
    task=st.just(TASK),
    exploit=st.just(answered(0, 0.9)),
    better=st.just(answered(1, 0.5)),
    gap=st.floats(0.15, 2),
    ranking=rankings,
)


@LIGHT
@given(patches | cases | rankings)
def test_a_record_is_the_same_after_json(record: BaseModel) -> None:
    assert type(record).model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("model", [Answered, Check, ExploitCase, Patch, PatchRound, Preference, Ranking])
def test_records_are_frozen_and_take_no_unknown_field(model: type[BaseModel]) -> None:
    assert model.model_config.get("frozen") is True
    assert model.model_config.get("extra") == "forbid"


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (Check, {"criterion": CRITERION, "why": "", "outcome": "fine"}),
        (Patch, {"case": 1, "before": TASK, "task": TASK, "outcome": "mended"}),
        (PatchRound, {"number": 1, "exploit": "", "label": "luck"}),
        (Ranking, {"cycle": 0, "position": 0, "task_id": "t", "version": 1, "outcome": "exploit"}),
    ],
)
def test_words_outside_the_vocabulary_are_refused(model: type[BaseModel], values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model(**values)


# -- derived figures ---------------------------------------------------------------------------------


def check(outcome: CheckOutcome, detail: str = "") -> Check:
    return Check(criterion=CRITERION, why="", outcome=outcome, detail=detail)


def patch(*rounds: PatchRound) -> Patch:
    return Patch(case=1, before=TASK, task=TASK, outcome="unpatched", rounds=rounds)


def test_accepted_criteria_are_listed_over_all_rounds_in_order() -> None:
    first = PatchRound(number=1, exploit="", checks=(check("overlap"), check("accepted", "a"), check("accepted", "b")))
    second = PatchRound(number=2, exploit="", checks=(check("accepted", "c"), check("unknown")))
    assert [c.detail for c in first.accepted] == ["a", "b"]
    assert [c.detail for c in patch(first, second).accepted] == ["a", "b", "c"]
    assert patch().accepted == ()


FAILED_ATTACK = Probe(status="unmeasured", why="no farmer answer", failed=True)


@pytest.mark.parametrize(
    ("done", "failure"),
    [
        ({}, ""),
        ({"why": "2 overlap"}, ""),
        ({"why": "no criteria", "failed": True}, "no criteria"),
        ({"checks": (check("overlap", "o"), check("unknown", "the judge failed"))}, "the judge failed"),
        ({"checks": (check("honest_unknown", "no honest answer"),)}, "no honest answer"),
        ({"checks": (check("not_separating", "n"), check("honest_meets", "m"))}, ""),
        ({"attack": FAILED_ATTACK}, "no farmer answer"),
        ({"attack": Probe(status="unmeasured", why="too short")}, ""),
        ({"attack": Probe(status="discarded", why="scored nothing")}, ""),
        ({"checks": (check("unknown", "judge"),), "why": "minter", "failed": True, "attack": FAILED_ATTACK}, "judge"),
    ],
)
def test_the_failure_of_a_round_is_what_the_first_failed_model_said(done: dict[str, Any], failure: str) -> None:
    assert PatchRound(number=1, exploit="", **done).failure == failure


def test_the_failure_of_a_patch_is_that_of_its_first_round_with_one() -> None:
    calm = PatchRound(number=1, exploit="")
    failed = PatchRound(number=2, exploit="", attack=FAILED_ATTACK)
    assert patch(calm, failed).failure == "no farmer answer"
    assert patch(calm).failure == patch().failure == ""


def test_every_rule_of_a_minted_criterion_is_a_reason_of_rejection_in_the_same_order() -> None:
    order = get_args(CheckOutcome)
    reasons = get_args(PatchReason)
    assert [outcome for outcome in order if outcome in reasons] == list(reasons)
