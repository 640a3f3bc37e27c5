"""Votes that are not paid for twice, and the first vote that warms the server's prefix cache."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy
import pytest

from programs import Farmer, Grader, Honest, Judge
from rri.config import ROLES, Role
from rri.lm import Gateway, ReplyCache, RriAdapter, role_lm, tagged
from rri.lm.reply_cache import FILE
from rri.testing import ChatRequest, Fault, ScriptedServer, hang, role_models, status
from rri.types import Grade, Outcome, Rubric, Task
from tests.rigs import make_task, open_test_gateway, scripted_config

Script = Callable[[ChatRequest], Fault | str]
REFUSED = status(400)


def vote(met: bool) -> str:
    return json.dumps({"reason": "because", "met": met})


def in_turn(*votes: Fault | str) -> Script:
    return lambda request: votes[request.number]


@contextmanager
def grading(judge: Script, folder: Path | None, **sections: Any) -> Iterator[tuple[Grader, ScriptedServer]]:
    with ScriptedServer(role_models(judge=judge)) as server:
        config = scripted_config(server.url, **sections)
        with open_test_gateway(config) as gateway:
            gateway.cache = ReplyCache(folder) if folder else None
            yield Grader(gateway, config.domain.score_rule, config.grading), server


def grade(grader: Grader, task: Task, answer: str = "an answer", **arguments: Any) -> Grade:
    return grader.gateway.loop.run(grader.grade(task, answer, **arguments))


def reused(gateway: Gateway) -> int:
    return gateway.ledger.total().reused


# --- votes on disk ---------------------------------------------------------------------------------------


def test_three_votes_are_three_calls_the_first_time_and_none_the_second(tmp_path: Path) -> None:
    with grading(in_turn(vote(True), vote(False), vote(True)), tmp_path) as (grader, server):
        first = grade(grader, make_task(8))
        assert (server.count("judge"), reused(grader.gateway)) == (3, 0)
        second = grade(grader, make_task(8))
        assert (server.count("judge"), reused(grader.gateway)) == (3, 3)
    assert second == first and first.verdicts[0].outcome == "met"
    assert sorted(v.outcome for v in second.verdicts[0].votes) == ["met", "met", "unmet"], "three samples, not one"


def test_each_criterion_has_votes_of_its_own(tmp_path: Path) -> None:
    task = make_task(8, 8, -6)
    outcomes = dict(zip((c.text for c in task.rubric.criteria), (True, False, True), strict=True))
    with grading(lambda r: vote(outcomes[r.block("criterion")]), tmp_path) as (grader, server):
        grades = [grade(grader, task) for _ in range(3)]
        assert server.count("judge") == 6 and reused(grader.gateway) == 12
    assert grades[0] == grades[1] == grades[2]
    assert [v.outcome for v in grades[0].verdicts] == ["met", "unmet", "met"]


def test_a_vote_that_failed_is_asked_again_and_the_others_are_not(tmp_path: Path) -> None:
    script = in_turn(REFUSED, vote(True), REFUSED, vote(True), vote(True))
    with grading(script, tmp_path) as (grader, server):
        first = grade(grader, make_task(8))
        assert [v.outcome for v in first.verdicts] == ["unknown"] and server.count("judge") == 3
        second = grade(grader, make_task(8))
        assert [v.outcome for v in second.verdicts] == ["met"]
        assert (server.count("judge"), reused(grader.gateway)) == (4, 1)


def test_a_fresh_probe_is_a_new_sample_and_the_same_one_is_not(tmp_path: Path) -> None:
    with grading(lambda r: vote(True), tmp_path) as (grader, server):
        asked = []
        for sample in ("probe-1", "probe-2", "probe-1", "probe-2", "probe-3"):
            with tagged("000001-abc", sample):
                grade(grader, make_task(8))
            asked.append(server.count("judge"))
    assert asked == [2, 4, 4, 4, 6]


CHANGES: dict[str, dict[str, Any]] = {
    "another answer": {"answer": "an answer."},
    "the strict note": {"strict": True},
    "one vote": {"votes": 1},
    "another criterion": {"task": make_task(-6)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_judge_is_asked_differently_is_asked_anew(tmp_path: Path, change: str) -> None:
    with grading(lambda r: vote(True), tmp_path) as (grader, server):
        grade(grader, make_task(8))
        grade(grader, **{"task": make_task(8), **CHANGES[change]})
        assert reused(grader.gateway) == 0
        assert server.count("judge") == 2 + (1 if change == "one vote" else 2)


def test_points_do_not_decide_a_vote(tmp_path: Path) -> None:
    """The judge does not see them, so a repair that only moves points pays for no vote."""
    with grading(lambda r: vote(True), tmp_path) as (grader, server):
        scores = [grade(grader, make_task(8, points)).score for points in (8, 4)]
        assert server.count("judge") == 4 and reused(grader.gateway) == 4
    assert scores == [1.0, 1.0]


def test_five_votes_reuse_the_three_that_are_known(tmp_path: Path) -> None:
    """Votes are numbered, so more votes of the same question go on where fewer stopped."""
    script = in_turn(vote(True), vote(False), vote(True), vote(False), vote(True))
    with grading(script, tmp_path) as (grader, server):
        grade(grader, make_task(8), votes=3)
        verdict = grade(grader, make_task(8), votes=5).verdicts[0]
        assert server.count("judge") == 5 and reused(grader.gateway) == 3
    assert verdict.outcome == "met" and len(verdict.votes) == 5


# --- no other reply is ever kept -------------------------------------------------------------------------


def test_role_modules_are_asked_every_time_also_the_judge_alone(tmp_path: Path) -> None:
    task = make_task(8, 8)
    with grading(lambda r: vote(True), tmp_path) as (grader, server), tagged("000001-abc", "probe-1"):
        farmer, honest, judge = Farmer(), Honest(), Judge()
        for role, module in (("farmer", farmer), ("honest", honest), ("judge", judge)):
            module.set_lm(role_lm(role, grader.gateway))  # type: ignore[arg-type]
        for _ in range(3):
            farmer(task=task)
            honest(task=task)
            judge(task=task, answer="an answer", criterion=task.rubric.criteria[0].text)
        assert [server.count(role) for role in ("farmer", "honest", "judge")] == [3, 3, 3]
        assert reused(grader.gateway) == 0
    with sqlite3.connect(tmp_path / FILE) as db:
        assert db.execute("SELECT count(*) FROM votes").fetchone() == (0,)


@pytest.mark.parametrize("role", ROLES)
def test_no_role_reuses_a_reply_through_dspy(tmp_path: Path, role: Role) -> None:
    models: dict[str, Script] = {role: lambda r: f"reply {r.number}"}
    every = {"retrieval": True}  # only then has the summarizer a route
    with ScriptedServer(models) as server, open_test_gateway(scripted_config(server.url, solver=every)) as gateway:
        gateway.cache = ReplyCache(tmp_path)
        lm = role_lm(role, gateway)
        with dspy.context(lm=lm, adapter=RriAdapter(), disable_history=True):
            ask = dspy.Predict("question -> answer")
            answers = [ask(question="the same").answer for _ in range(3)]
    assert answers == ["reply 0", "reply 1", "reply 2"]


# --- a warm prefix ---------------------------------------------------------------------------------------


class Arrivals(list[ChatRequest]):
    """The server's requests, each with how many votes on the first criterion had been answered when it came in."""

    def __init__(self, answered: list[int]) -> None:
        super().__init__()
        self.answered = answered
        self.seen: list[tuple[str, int]] = []

    def append(self, request: ChatRequest) -> None:
        self.seen.append((request.block("criterion"), self.answered[0]))
        super().append(request)


@pytest.mark.parametrize("first_votes", [("met", "unmet", "met"), ("met", "met"), ("unknown", "unknown")])
def test_nothing_else_of_the_answer_comes_before_the_first_criterions_votes_are_answered(
    first_votes: tuple[Outcome, ...],
) -> None:
    task, answered = make_task(8, 8, 8, -6), [0]
    first = task.rubric.criteria[0].text

    def judge(request: ChatRequest) -> Fault | str:
        if request.block("criterion") != first:
            return vote(True)
        outcome = first_votes[answered[0]]
        answered[0] += 1
        return REFUSED if outcome == "unknown" else vote(outcome == "met")

    with grading(judge, None, grading={"warm_prefix": True}) as (grader, server):
        server.latency_s = 0.01
        server.requests = arrivals = Arrivals(answered)
        grade(grader, task)
    mine = [seen for seen in arrivals.seen if seen[0] == first]
    others = [seen for seen in arrivals.seen if seen[0] != first]
    assert arrivals.seen == mine + others
    assert len(mine) == len(first_votes) and len(others) == 6
    assert {count for _, count in others} == {len(first_votes)}


@pytest.mark.parametrize("outcomes", [(True, False, True), (False, False, False), (None, True, True)])
def test_verdicts_are_the_same_with_and_without(outcomes: tuple[bool | None, ...]) -> None:
    task = make_task(8, 8, -6)
    replies = {
        c.text: REFUSED if met is None else vote(met) for c, met in zip(task.rubric.criteria, outcomes, strict=True)
    }
    grades, sent = [], []
    for warm in (True, False):
        with grading(lambda r: replies[r.block("criterion")], None, grading={"warm_prefix": warm}) as (grader, server):
            found = grade(grader, task)
            grades.append(json.loads(found.model_dump_json().replace(server.url, "URL")))
            sent.append(sorted(json.dumps(r.body, sort_keys=True) for r in server.of("judge")))
    assert grades[0] == grades[1]
    assert sent[0] == sent[1], "the same requests, in another order"


def test_without_it_criteria_do_not_wait_for_each_other() -> None:
    task = make_task(8, 8, 8)
    first = task.rubric.criteria[0].text

    def judge(request: ChatRequest) -> Fault | str:
        return hang() if request.block("criterion") == first else vote(True)

    with grading(judge, None, endpoints={"main": {"timeout_s": 60}}) as (grader, server):
        under_way = grader.gateway.loop.submit(grader.grade(task, "an answer"))
        deadline = time.monotonic() + 20
        while sum(r.block("criterion") != first for r in server.of("judge")) < 4:
            assert time.monotonic() < deadline and not under_way.done()
            time.sleep(0.002)
        under_way.cancel()


@pytest.mark.parametrize("warm", [True, False])
def test_a_rubric_without_criteria_is_unscored_either_way(warm: bool) -> None:
    task = make_task(8).model_copy(update={"rubric": Rubric(criteria=())})
    with grading(lambda r: vote(True), None, grading={"warm_prefix": warm}) as (grader, server):
        assert grade(grader, task).score is None
        assert server.total == 0
