"""Votes, early stop, quorum and the score of an answer (METHOD 6)."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs import Grader
from programs.grader import majority
from rri.errors import BudgetExhausted
from rri.lm import output_spec
from rri.testing import (
    ChatRequest,
    Fault,
    ScriptedServer,
    empty,
    garbage,
    other_json,
    reset,
    status,
    truncated,
)
from rri.types import Grade, Outcome, Reference, Task, Vote
from signatures.judge import JudgeCriterion, JudgeCriterionStrictly
from tests.rigs import make_task, open_test_gateway, scripted_config

LIGHT = settings(max_examples=60, deadline=None)
OUTCOMES: tuple[Outcome, ...] = ("met", "unmet", "unknown")
REFUSED = status(400)
JudgeScript = Callable[[ChatRequest], Fault | str]


def vote_reply(outcome: Outcome) -> Fault | str:
    """`unknown` is a refusal, because the gateway sends it once and never again."""
    return REFUSED if outcome == "unknown" else json.dumps({"reason": "because", "met": outcome == "met"})


def in_turn(*outcomes: Outcome) -> JudgeScript:
    return lambda request: vote_reply(outcomes[request.number])


def by_criterion(outcomes: Sequence[Outcome]) -> JudgeScript:
    """The outcome of `make_task`'s criterion i is `outcomes[i]` in every vote."""
    texts = {c.text: o for c, o in zip(make_task(*[8] * len(outcomes)).rubric.criteria, outcomes, strict=True)}
    return lambda request: vote_reply(texts[request.block("criterion")])


@contextmanager
def grading(judge: JudgeScript, **sections: Any) -> Iterator[tuple[Grader, ScriptedServer]]:
    with ScriptedServer({"judge": judge}) as server:
        config = scripted_config(server.url, **sections)
        with open_test_gateway(config) as gateway:
            yield Grader(gateway, config.domain.score_rule, config.grading), server


def grade(grader: Grader, task: Task, answer: str = "an answer", **arguments: Any) -> Grade:
    return grader.gateway.loop.run(grader.grade(task, answer, **arguments))


def full_count(outcomes: Sequence[Outcome]) -> Outcome:
    """The verdict as the method states it: more than half of all votes are known and agree."""
    for side in ("met", "unmet"):
        if outcomes.count(side) > len(outcomes) / 2:
            return side
    return "unknown"


# -- majority ------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_first_verdict_is_the_verdict_of_all_votes_for_every_sequence(n: int) -> None:
    for sequence in product(OUTCOMES, repeat=n):
        votes = [Vote(outcome=o) for o in sequence]
        verdicts = [majority(votes[:k], n) for k in range(n + 1)]
        reached = [v for v in verdicts if v is not None]
        assert set(reached) == {full_count(sequence)}, sequence
        assert verdicts == [None] * (n + 1 - len(reached)) + reached, "a verdict once reached stays"


@LIGHT
@given(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=9))
def test_a_verdict_needs_more_than_half_of_all_votes_known_and_agreeing(sequence: list[Outcome]) -> None:
    verdict = majority([Vote(outcome=o) for o in sequence], len(sequence))
    for side in ("met", "unmet"):
        assert (verdict == side) == (2 * sequence.count(side) > len(sequence))


@LIGHT
@given(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=7), st.integers(0, 6))
def test_a_vote_lost_to_a_failing_judge_never_turns_into_unmet_or_met(sequence: list[Outcome], at: int) -> None:
    before = majority([Vote(outcome=o) for o in sequence], len(sequence))
    lost = [*sequence]
    lost[at % len(lost)] = "unknown"
    after = majority([Vote(outcome=o) for o in lost], len(lost))
    assert after in (before, "unknown")


# -- early stop ----------------------------------------------------------------


@pytest.mark.parametrize("sequence", list(product(OUTCOMES, repeat=3)))
def test_three_votes_stop_as_soon_as_the_verdict_stands(sequence: tuple[Outcome, ...]) -> None:
    """Two requests when the first two agree (or both fail), three when they differ."""
    first, second, _ = sequence
    asked = 2 if first == second else 3
    with grading(in_turn(*sequence)) as (grader, server):
        verdict = grade(grader, make_task(8)).verdicts[0]
        assert server.count("judge") == asked
    assert verdict.outcome == full_count(sequence)
    assert len(verdict.votes) == asked
    assert sorted(v.outcome for v in verdict.votes) == sorted(sequence[:asked])


@pytest.mark.parametrize(
    ("sequence", "asked"),
    [
        (("met",) * 5, 3),
        (("met", "met", "unmet", "met", "met"), 4),
        (("met", "unmet", "met", "unmet", "met"), 5),
        (("unknown",) * 5, 3),
        (("unknown", "unknown", "unmet", "unmet", "unmet"), 5),
    ],
)
def test_five_votes_ask_no_more_than_the_verdict_needs(sequence: tuple[Outcome, ...], asked: int) -> None:
    with grading(in_turn(*sequence), grading={"votes": 5}) as (grader, server):
        verdict = grade(grader, make_task(8)).verdicts[0]
        assert server.count("judge") == asked
    assert verdict.outcome == full_count(sequence)


def test_each_criterion_has_its_own_votes_in_rubric_order() -> None:
    with grading(by_criterion(["met", "unmet", "met"])) as (grader, server):
        result = grade(grader, make_task(8, 8, 8))
        assert server.count("judge") == 6
    assert [v.outcome for v in result.verdicts] == ["met", "unmet", "met"]
    assert (result.score, result.raw, result.unscored) == (16 / 24, 16 / 24, "")
    assert result.verdicts[0].votes[0].reason == "because"


def test_the_given_number_of_votes_stands_in_for_the_configured_one() -> None:
    with grading(by_criterion(["met"])) as (grader, server):
        assert len(grade(grader, make_task(8), votes=1).verdicts[0].votes) == 1
        assert server.count("judge") == 1


# -- a judge that fails -----------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [REFUSED, status(500), status(429), reset(), garbage(), empty(), truncated(), other_json(), other_json("[]")],
    ids=lambda f: f"{f.kind}-{f.code}-{f.finish_reason}-{f.body[:8]}",
)
def test_a_failing_judge_neither_raises_nor_counts_as_unmet(fault: Fault) -> None:
    with grading(lambda _: fault) as (grader, _server):
        result = grade(grader, make_task(8, -6))
    assert [v.outcome for v in result.verdicts] == ["unknown", "unknown"]
    assert (result.score, result.raw) == (None, None)
    assert all(vote.error for verdict in result.verdicts for vote in verdict.votes)
    assert "2 of 2 verdicts unknown (100% of the points)" in result.unscored
    assert result.verdicts[0].votes[0].error in result.unscored


def test_one_lost_vote_of_three_does_not_cost_the_verdict() -> None:
    with grading(in_turn("unknown", "met", "met")) as (grader, _):
        result = grade(grader, make_task(8))
    assert (result.verdicts[0].outcome, result.score) == ("met", 1.0)


def test_votes_that_differ_without_a_majority_are_named_in_the_reason() -> None:
    """Two known votes of an even number disagree: no call failed, and the grade still says why."""
    with grading(in_turn("met", "unmet")) as (grader, _):
        result = grade(grader, make_task(8), votes=2)
    assert result.verdicts[0].outcome == "unknown"
    assert "the votes did not agree" in result.unscored


def test_a_rubric_without_positive_points_is_unscored_for_that_reason() -> None:
    """Every verdict is known, so the reason must not blame the votes."""
    task = make_task(-6)
    with grading(lambda _: vote_reply("unmet")) as (grader, _server):
        result = grade(grader, task)
    assert result.score is None
    assert "votes did not agree" not in result.unscored
    assert "positive" in result.unscored


# -- quorum ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "share_max", "scored"),
    [
        ((2, 8), 0.0, False),
        ((2, 8), 0.2, True),  # exactly at the bound
        ((2, 8), 0.19, False),  # just over it
        ((5, 10, -5), 0.25, True),
        ((6, 10, -7), 0.25, False),
    ],
)
def test_unknown_points_up_to_the_bound_are_left_out_of_the_score(
    points: tuple[float, ...], share_max: float, scored: bool
) -> None:
    outcomes: list[Outcome] = ["unknown", "met", "unknown"][: len(points)]  # type: ignore[assignment]
    outcomes[2:] = ["unmet"] * (len(points) - 2)
    task = make_task(*points)
    texts = {c.text: o for c, o in zip(task.rubric.criteria, outcomes, strict=True)}
    with grading(lambda r: vote_reply(texts[r.block("criterion")]), grading={"unknown_share_max": share_max}) as (
        grader,
        _,
    ):
        result = grade(grader, task)
    assert result.score == (1.0 if scored else None), "over the known criteria only"
    assert bool(result.unscored) is not scored


def test_an_unknown_criterion_leaves_numerator_and_denominator_alike() -> None:
    outcomes: list[Outcome] = ["met", "unmet", "unknown"]
    with grading(by_criterion(outcomes), grading={"unknown_share_max": 0.5}) as (grader, _):
        assert grade(grader, make_task(8, 8, 8)).score == 0.5


# -- what the judge is told ----------------------------------------------------------


@pytest.mark.parametrize(("votes", "temperature"), [(1, 0.25), (3, 0.6)])
def test_a_single_vote_has_its_own_temperature_several_have_the_roles(votes: int, temperature: float) -> None:
    with grading(by_criterion(["met"]), grading={"temperature_single": 0.25}) as (grader, server):
        grade(grader, make_task(8), votes=votes)
        assert {r.body["temperature"] for r in server.of("judge")} == {temperature}


def test_a_single_vote_is_greedy_by_default() -> None:
    with grading(by_criterion(["met"]), grading={"votes": 1}) as (grader, server):
        grade(grader, make_task(8))
        assert [r.body["temperature"] for r in server.of("judge")] == [0.0]


@pytest.mark.parametrize("strict", [False, True])
def test_the_strict_note_is_sent_only_when_asked_for(strict: bool) -> None:
    signature, other = JudgeCriterion, JudgeCriterionStrictly
    if strict:
        signature, other = other, signature
    with grading(by_criterion(["met"])) as (grader, server):
        grade(grader, make_task(8), strict=strict)
        for request in server.of("judge"):
            system = request.messages[0]["content"]
            assert system.startswith(signature.instructions.strip())
            assert not system.startswith(other.instructions.strip())
            assert ("hedging" in system) is strict
            assert request.schema_name == output_spec(signature).name


def test_the_config_switches_the_strict_note_off() -> None:
    with grading(by_criterion(["met"]), grading={"strict_note": False}) as (grader, server):
        grade(grader, make_task(8), strict=True)
        assert {r.schema_name for r in server.of("judge")} == {output_spec(JudgeCriterion).name}
        assert not any("hedging" in r.messages[0]["content"] for r in server.of("judge"))


@pytest.mark.parametrize("strict", [False, True])
def test_points_references_and_labels_never_reach_the_judge(strict: bool) -> None:
    """Tasks that differ in nothing the judge may see are sent as the same bytes."""
    task, other = make_task(7.25, -8.75), make_task(1.5, -2.5, red_team=True)
    reference = Reference(id="r9", title="Secret title", text="Secret text", source="secret")
    other = other.model_copy(update={"references": (reference,)})
    with grading(lambda _: vote_reply("met")) as (grader, server):
        for each in (task, other):
            grade(grader, each, strict=strict, votes=1)
        sent = [r.messages for r in server.of("judge")]
    key = str
    assert sorted(sent[:2], key=key) == sorted(sent[2:], key=key)
    text = json.dumps(sent)
    assert not any(word in text for word in ("7.25", "8.75", "points", "Secret"))


def test_the_judge_sees_the_conversation_the_answer_and_one_criterion() -> None:
    task = make_task(8, 8)
    with grading(lambda _: vote_reply("met"), grading={"reason_words": 37}) as (grader, server):
        grade(grader, task, "The answer itself.", votes=1)
        requests = server.of("judge")
    assert sorted(r.block("criterion") for r in requests) == sorted(c.text for c in task.rubric.criteria)
    for request in requests:
        assert json.loads(request.block("conversation")) == [m.model_dump() for m in task.conversation]
        assert request.block("answer") == "The answer itself."
        assert request.block("reason_words") == "37"
        one, two = (c.text in json.dumps(request.messages) for c in task.rubric.criteria)
        assert one != two


# -- length term -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "training", "evaluation"),
    [(1999, 1.0, 1.0 + 0.0147 / 500), (2000, 1.0, 1.0), (2001, 1.0 - 0.0147 / 500, 1.0 - 0.0147 / 500)],
)
def test_training_taxes_only_long_answers_evaluation_rewards_short_ones(
    length: int, training: float, evaluation: float
) -> None:
    with grading(by_criterion(["met"]), domain={"score_rule": "healthbench-professional"}) as (grader, _):
        in_training = grade(grader, make_task(8), "x" * length, training=True)
        in_evaluation = grade(grader, make_task(8), "x" * length)
    assert in_training.score == pytest.approx(training, abs=1e-12)
    assert in_evaluation.score == pytest.approx(evaluation, abs=1e-12)
    assert in_training.raw == in_evaluation.raw == 1.0, "raw carries no length term"


def test_a_rule_without_a_length_term_ignores_length() -> None:
    with grading(by_criterion(["met"])) as (grader, _):
        assert grade(grader, make_task(8), "x" * 9000).score == 1.0


# -- limits ------------------------------------------------------------------------------


def test_an_exhausted_budget_passes_through() -> None:
    with grading(by_criterion(["met", "met"]), budget={"calls": 3}) as (grader, server):
        with pytest.raises(BudgetExhausted, match=r"budget\.calls"):
            for _ in range(4):
                grade(grader, make_task(8, 8))
        assert server.count("judge") <= 4, "calls under way may end, no new one starts"


def test_no_more_judge_calls_are_under_way_than_configured() -> None:
    with grading(lambda _: vote_reply("met"), grading={"concurrency": 2, "votes": 1}) as (grader, server):
        grade(grader, make_task(*[8] * 9))
        assert server.count("judge") == 9
        assert server.most_concurrent <= 2
