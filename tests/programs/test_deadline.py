"""The time that one answer's votes have, under a clock that the test turns."""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from programs import Grader
from programs.deadline import LEAST_WAIT_S, GradeDeadline
from rri.errors import BudgetExhausted
from rri.lm import CallRecord, Gateway, RecentCalls
from rri.testing import ChatRequest, Fault, ScriptedServer, hang, status
from rri.types import Grade, Task, Vote
from tests.rigs import make_task, open_test_gateway, scripted_config

MET, UNMET = (json.dumps({"reason": "because", "met": met}) for met in (True, False))
DEADLINE_S = 0.0625
"""Short, so that a deadline looks at the clock often; it ends only when the clock is turned."""
LATE = f"no vote within the answer's deadline of {DEADLINE_S:g} s"

Script = Callable[[ChatRequest], Fault | str]


class Clock:
    """Stands in for the module `time`; counts how often it is read."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.reads = 0

    def monotonic(self) -> float:
        self.reads += 1
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of deadlines and of breakers, which must agree."""
    clock = Clock()
    monkeypatch.setattr("programs.deadline.time", clock)
    monkeypatch.setattr("rri.lm.breaker.time", clock)
    return clock


class Rig(NamedTuple):
    """A scripted judge, a grader on it, and the calls that were kept."""

    server: ScriptedServer
    grader: Grader
    records: deque[CallRecord]

    @property
    def gateway(self) -> Gateway:
        return self.grader.gateway

    def start(self, task: Task, **arguments: Any) -> Any:
        """The grade under way, as a future."""
        return self.gateway.loop.submit(self.grader.grade(task, "an answer", **arguments))


@contextmanager
def grading(judge: Script, deadline_s: float = DEADLINE_S, **sections: Any) -> Iterator[Rig]:
    sections.setdefault("grading", {}).update(deadline_s=deadline_s)
    sections.setdefault("endpoints", {"main": {"timeout_s": 60, "deadline_s": 60}})
    with ScriptedServer({"judge": judge}) as server:
        config = scripted_config(server.url, **sections)
        with open_test_gateway(config, sink := RecentCalls()) as gateway:
            yield Rig(server, Grader(gateway, config.domain.score_rule, config.grading), sink.records)


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.002)


def nothing_runs(rig: Rig) -> bool:
    """Whether the gateway's loop is idle and the server has nobody left."""
    return not asyncio.all_tasks(rig.gateway.loop.loop) and rig.server.concurrent == 0


def first_criterion(request: ChatRequest) -> bool:
    return request.block("criterion") == make_task(8).rubric.criteria[0].text


# --- a judge that hangs ----------------------------------------------------------------------------------


def test_a_hanging_judge_leaves_unknown_verdicts_and_an_unscored_answer() -> None:
    """Under a real clock; nothing of the answer runs on afterwards, and what was sent is on record."""
    with grading(lambda r: hang(), deadline_s=0.2) as rig:
        grade = rig.start(make_task(8, -6)).result(20)
        assert [v.outcome for v in grade.verdicts] == ["unknown", "unknown"]
        errors = {vote.error for verdict in grade.verdicts for vote in verdict.votes}
        assert errors == {"no vote within the answer's deadline of 0.2 s"}
        assert (grade.score, grade.raw) == (None, None)
        assert "2 of 2 verdicts unknown" in grade.unscored and "deadline of 0.2 s" in grade.unscored
        until(lambda: nothing_runs(rig))
        assert rig.server.total == 4 == len(rig.records) == rig.gateway.ledger.total().calls
        assert {r.error for r in rig.records} == {"ModelError: cancelled by the caller"}


def test_votes_that_came_in_time_are_kept(clock: Clock) -> None:
    """One criterion is decided, of another one vote came, of the third none."""
    texts = [c.text for c in make_task(8, 8, 8).rubric.criteria]
    answered = {texts[0]: 2, texts[1]: 1, texts[2]: 0}

    def judge(request: ChatRequest) -> Fault | str:
        answered[request.block("criterion")] -= 1
        return MET if answered[request.block("criterion")] >= 0 else hang()

    with grading(judge) as rig:
        future = rig.start(make_task(8, 8, 8))
        until(lambda: rig.server.total == 6 and len(rig.records) == 3)
        assert not future.done()
        clock.now += DEADLINE_S
        grade = future.result(20)
        assert [v.outcome for v in grade.verdicts] == ["met", "unknown", "unknown"]
        assert [sorted(v.error for v in verdict.votes) for verdict in grade.verdicts] == [
            ["", ""],
            ["", LATE, LATE],
            [LATE, LATE],
        ]
        assert grade.verdicts[1].votes[0].outcome in ("met", "unknown")
        assert {v.reason for v in grade.verdicts[1].votes} == {"because", ""}
        assert grade.score is None and "2 of 3 verdicts unknown" in grade.unscored and LATE in grade.unscored
        until(lambda: nothing_runs(rig))


def test_just_inside_the_deadline_nothing_is_late(clock: Clock) -> None:
    def judge(request: ChatRequest) -> str:
        clock.now += DEADLINE_S - 2**-10 if request.number == 1 else 0.0
        return UNMET if request.number == 0 else MET

    with grading(judge) as rig:
        assert rig.start(make_task(8)).result(20).score == 1.0
        assert rig.server.total == 3


def test_after_the_deadline_no_vote_is_asked_for(clock: Clock) -> None:
    """Two votes differ and the time is up: the third is late without a request."""

    def judge(request: ChatRequest) -> str:
        clock.now += DEADLINE_S if request.number == 1 else 0.0
        return UNMET if request.number == 0 else MET

    with grading(judge) as rig:
        (verdict,) = rig.start(make_task(8)).result(20).verdicts
        assert rig.server.total == 2
    assert verdict.outcome == "unknown" and verdict.votes[2] == Vote(outcome="unknown", error=LATE)


def test_the_deadline_is_of_the_answer_not_of_each_criterion(clock: Clock) -> None:
    """One criterion at a time: the first one hangs, and those behind it have no time left."""
    with grading(lambda r: hang() if first_criterion(r) else MET, grading={"concurrency": 1}) as rig:
        future = rig.start(make_task(8, 8, 8))
        until(lambda: rig.server.total == 2)
        clock.now += DEADLINE_S
        grade = future.result(20)
        assert rig.server.total == 2
    assert {vote.error for verdict in grade.verdicts for vote in verdict.votes} == {LATE}


def test_another_answer_has_time_of_its_own(clock: Clock) -> None:
    with grading(lambda r: MET) as rig:
        for _ in range(3):
            clock.now += DEADLINE_S
            assert rig.start(make_task(8)).result(20).score == 1.0


# --- an endpoint that is away ----------------------------------------------------------------------------


@pytest.mark.parametrize("away", [True, False])
def test_time_while_the_endpoint_is_away_does_not_count(clock: Clock, away: bool) -> None:
    """The same wait for the same votes, once because the server is away and once because the judge is slow."""
    down, votes = [away], iter((MET, UNMET, MET))

    def judge(request: ChatRequest) -> Fault | str:
        if down[0]:
            return status(503)
        if not away and request.number == 1:
            clock.now += 20 * DEADLINE_S
        return next(votes)

    endpoint = {"breaker_failures": 2, "breaker_wait_s": 0.01}
    with grading(judge, endpoints={"main": endpoint}) as rig:
        future = rig.start(make_task(8))
        if away:
            until(lambda: rig.gateway.paused)
            clock.now += 20 * DEADLINE_S
            down[0] = False
        (verdict,) = future.result(20).verdicts
        assert rig.gateway.paused_s("judge") == (20 * DEADLINE_S if away else 0)
    assert [v.error for v in verdict.votes] == ["", "", "" if away else LATE]
    assert verdict.outcome == ("met" if away else "unknown")


def test_a_pause_just_before_the_deadline_is_no_busy_loop(clock: Clock) -> None:
    """The time left stands still then, however short it is."""
    with grading(lambda r: hang(), deadline_s=1e-6) as rig:
        future = rig.start(make_task(8), votes=1)
        until(lambda: rig.server.total == 1)
        started, reads = time.monotonic(), clock.reads
        until(lambda: time.monotonic() - started > 4 * LEAST_WAIT_S)
        most = 2 + (time.monotonic() - started) / LEAST_WAIT_S
        looks = (clock.reads - reads) / 2  # a look reads its own clock, and no more than one of the breaker
        assert 1 <= looks <= most
        clock.now += 1
        assert future.result(20).score is None


# --- ends from outside -----------------------------------------------------------------------------------


def test_an_exhausted_budget_comes_through_while_other_votes_hang(clock: Clock) -> None:
    with grading(lambda r: hang(), budget={"calls": 3}) as rig:
        with pytest.raises(BudgetExhausted, match=r"budget\.calls"):
            rig.start(make_task(8, 8)).result(20)
        until(lambda: nothing_runs(rig))
        assert rig.server.total <= 3


@pytest.mark.parametrize("own_loop", [True, False], ids=["the gateway's loop", "another loop"])
def test_cancelling_the_grade_cancels_its_calls(clock: Clock, own_loop: bool) -> None:
    with grading(lambda r: hang()) as rig:

        async def main() -> bool:
            grade: asyncio.Task[Grade] = asyncio.ensure_future(rig.grader.grade(make_task(8, 8), "an answer"))
            await asyncio.to_thread(until, lambda: rig.server.concurrent == 4)
            grade.cancel()
            await asyncio.wait([grade])
            return grade.cancelled()

        assert rig.gateway.loop.submit(main()).result(20) if own_loop else asyncio.run(main())
        until(lambda: nothing_runs(rig) and len(rig.records) == 4)


def test_any_other_error_of_a_vote_comes_through(clock: Clock) -> None:
    """A vote that a bug or a full disk ended is no unknown vote."""
    with grading(lambda r: MET) as rig:

        async def broken() -> Vote:
            raise ZeroDivisionError

        async def fine() -> Vote:
            return Vote(outcome="met")

        deadline = GradeDeadline(rig.gateway, DEADLINE_S)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(deadline.keep([fine, broken]))
        assert asyncio.run(deadline.keep([fine, fine])) == [Vote(outcome="met")] * 2
