"""The judge's votes on labelled items: all are cast, as the grader casts them, and nothing paid for is lost."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.judge_check import Cost, JudgeCheck, JudgeReport, Judging, Step, judge_alone, judge_report
from eval.labelled import LabelledItem
from programs import Grader
from rri.config import RunConfig
from rri.errors import BudgetExhausted, ModelError
from rri.lm import Totals
from rri.testing import ChatRequest, Fault, ScriptedServer, other_json, status, truncated
from rri.types import Criterion, Message, Outcome, Rubric, Task, Verdict, Vote
from signatures.judge import JudgeCriterion, JudgeCriterionStrictly
from tests.rigs import open_test_gateway, scripted_config

REFUSED = status(400)
"""The gateway sends it once and never again."""


def labelled(n: int) -> list[LabelledItem]:
    """Items in turn met and unmet; the answer holds the criterion's words where it is met."""
    said = (Message(role="user", content="Which values?"),)
    return [
        LabelledItem(said, f"value {i} of {n}" if i % 2 else f"nothing {i}", f"value {i} of {n}", bool(i % 2))
        for i in range(n)
    ]


def literal(request: ChatRequest) -> str:
    return vote(request.block("criterion") in request.block("answer"))


def vote(met: bool) -> str:
    return json.dumps({"reason": "because", "met": met})


@dataclass
class Checked:
    """What came of a check, and what the server was asked."""

    judging: Judging
    config: RunConfig
    spent: Totals
    requests: list[ChatRequest] = field(default_factory=list)
    progress: list[int] = field(default_factory=list)

    @property
    def report(self) -> JudgeReport:
        return judge_report(self.judging, self.spent, 1.0, self.config)


@contextmanager
def checking(judge: Callable[[ChatRequest], Fault | str], **sections: Any) -> Iterator[Callable[..., Checked]]:
    with ScriptedServer({"judge": judge}) as server:
        config = judge_alone(scripted_config(server.url, **sections))
        with open_test_gateway(config) as gateway:

            def run(items: list[LabelledItem], strict: bool = False) -> Checked:
                judging = Judging(items)
                progress: list[int] = []
                check = JudgeCheck(gateway, config.grading, strict=strict)
                gateway.loop.run(check.run(judging, lambda: progress.append(len(judging.verdicts))))
                return Checked(judging, config, gateway.ledger.total(), server.of("judge"), progress)

            yield run


def check(judge: Callable[[ChatRequest], Fault | str], items: list[LabelledItem], **sections: Any) -> Checked:
    with checking(judge, **sections) as run:
        return run(items)


# -- votes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("votes", [1, 3, 5])
def test_every_vote_is_cast_although_the_first_ones_agree(votes: int) -> None:
    done = check(literal, labelled(10), grading={"votes": votes})
    assert len(done.requests) == 10 * votes == done.judging.votes
    assert [len(done.judging.verdicts[i].votes) for i in range(10)] == [votes] * 10
    assert [done.judging.verdicts[i].outcome for i in range(10)] == ["unmet", "met"] * 5
    assert done.progress == list(range(1, 11))
    assert done.judging.stopped is None


@pytest.mark.parametrize("strict", [False, True])
def test_a_vote_is_asked_exactly_as_the_grader_asks_it(strict: bool) -> None:
    item = labelled(2)[1]
    rubric = Rubric(criteria=(Criterion(text=item.criterion, points=8),))
    task = Task(task_id="t", conversation=item.conversation, rubric=rubric)
    with ScriptedServer({"judge": literal}) as server:
        config = scripted_config(server.url, grading={"reason_words": 33})
        with open_test_gateway(config) as gateway:
            gateway.loop.run(Grader(gateway, "healthbench", config.grading).grade(task, item.answer, strict=strict))
            graded = server.of("judge")[0].body
    with checking(literal, grading={"reason_words": 33}) as run:
        checked = run([item], strict=strict).requests
    assert [r.body for r in checked] == [graded] * 3
    signature = JudgeCriterionStrictly if strict else JudgeCriterion
    assert checked[0].messages[0]["content"].startswith(signature.instructions.strip())


@pytest.mark.parametrize(
    ("votes", "role", "sent"),
    [(3, 0.6, 0.6), (3, 1.0, 1.0), (3, None, None), (1, 0.6, 0.0)],
)
def test_votes_are_sampled_as_in_a_run(votes: int, role: float | None, sent: float | None) -> None:
    """One of several votes at the role's temperature, where there is one, and a lone one at its own."""
    done = check(literal, labelled(1), grading={"votes": votes}, roles={"judge": {"temperature": role}})
    assert {r.body.get("temperature") for r in done.requests} == {sent}


def test_votes_are_tagged_so_that_none_stands_for_another() -> None:
    with ScriptedServer({"judge": literal}) as server, open_test_gateway(scripted_config(server.url)) as gateway:
        judging = Judging(labelled(2))
        gateway.loop.run(JudgeCheck(gateway, scripted_config(server.url).grading).run(judging))
        tags = {r.tag for r in gateway.sink.records}  # type: ignore[attr-defined]
    assert len(tags) == 6
    assert {t.task_id for t in tags} == {item.answer_id for item in judging.items}


@pytest.mark.parametrize(("concurrency", "most"), [(3, 3), (6, 6), (2, 3)])
def test_no_more_calls_are_under_way_than_allowed(concurrency: int, most: int) -> None:
    """One item's votes are the least that goes out together."""
    with ScriptedServer({"judge": literal}, latency_s=0.01) as server:
        config = scripted_config(server.url, grading={"concurrency": concurrency})
        with open_test_gateway(config) as gateway:
            gateway.loop.run(JudgeCheck(gateway, config.grading).run(Judging(labelled(8))))
    assert 1 < server.most_concurrent <= most


# -- failure is data -------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["met", "unmet", "unknown"]), min_size=3, max_size=3))
def test_a_failed_vote_is_unknown_and_never_unmet(outcomes: list[Outcome]) -> None:
    def judge(request: ChatRequest) -> Fault | str:
        outcome = outcomes[request.number]
        return REFUSED if outcome == "unknown" else vote(outcome == "met")

    verdict = check(judge, labelled(1)).judging.verdicts[0]
    assert sorted(v.outcome for v in verdict.votes) == sorted(outcomes)
    known = [o for o in outcomes if o != "unknown"]
    expected = next((side for side in ("met", "unmet") if known.count(side) >= 2), "unknown")
    assert verdict.outcome == expected
    assert all(bool(v.error) == (v.outcome == "unknown") for v in verdict.votes)


def test_the_commonest_reason_is_named_however_its_words_vary() -> None:
    """Cut replies of unlike length are one kind of failure, and commoner than one refusal."""

    def judge(request: ChatRequest) -> Fault | str:
        number = int(request.block("criterion").split()[1])
        if number < 4:
            return truncated("word " * (number + 3))
        return REFUSED if number == 4 else literal(request)

    done = check(judge, labelled(40))
    report = done.report
    assert (report.failed_votes, report.agreement.known, done.judging.unknown) == (15, 35, 5)
    assert "was cut after" in report.reason
    assert report.reason_share == pytest.approx(12 / 15)
    assert report.agreement.unknown.value == pytest.approx(5 / 40)


def test_replies_of_another_shape_are_unknown_too_and_what_they_quote_makes_no_kind() -> None:
    done = check(lambda request: other_json(f"it's \"{'so ' * request.number}"), labelled(5))
    assert done.report.agreement.unknown.value == 1
    assert "JudgeCriterion" in done.report.reason
    assert done.report.reason_share == 1


def test_no_failure_has_no_reason() -> None:
    report = check(literal, labelled(4)).report
    assert (report.failed_votes, report.reason, report.reason_share) == (0, "", 0)


@pytest.mark.parametrize(("failing", "stops"), [(5, False), (6, True)])
def test_a_judge_that_fails_all_the_time_is_asked_no_further(failing: int, stops: bool) -> None:
    def judge(request: ChatRequest) -> Fault | str:
        number = int(request.block("criterion").split()[1])
        return REFUSED if number < failing else literal(request)

    done = check(judge, labelled(30), grading={"unscored_in_a_row": 6, "concurrency": 1})
    assert (done.judging.stopped is not None) is stops
    assert len(done.judging.verdicts) == (6 if stops else 30)
    if stops:
        assert isinstance(done.judging.stopped, ModelError)
        assert "6 verdicts in a row are unknown" in str(done.judging.stopped)
        assert "HTTP 400" in str(done.judging.stopped)


def test_the_budget_stops_it_and_what_was_judged_is_kept() -> None:
    done = check(literal, labelled(30), budget={"calls": 60}, grading={"concurrency": 6})
    assert isinstance(done.judging.stopped, BudgetExhausted)
    assert len(done.requests) <= done.spent.calls <= 60
    assert 18 <= len(done.judging.verdicts) <= 20
    assert all(len(v.votes) == 3 and v.outcome != "unknown" for v in done.judging.verdicts.values())
    report = done.report
    assert report.agreement.items == len(done.judging.verdicts) == report.cost.verdicts
    assert report.agreement.kappa.value == 1


# -- one judge -------------------------------------------------------------------------------------------------


def test_one_judge_is_measured_on_fresh_votes() -> None:
    other = {"url": "http://127.0.0.1:9/v1"}
    config = scripted_config(
        "http://127.0.0.1:8/v1",
        endpoints={"other": other},
        roles={"judge": {"fallback": "other"}},
        cache={"enabled": True},
    )
    alone = judge_alone(config)
    assert list(alone.roles) == ["judge"]
    assert alone.roles["judge"].fallback == ""
    assert alone.roles["judge"].model == "judge"
    assert not alone.cache.enabled
    assert config.cache.enabled and len(config.roles) > 1, "the config given is left as it is"


# -- the report ------------------------------------------------------------------------------------------------


def test_items_are_judged_items_of_their_answer_and_conversation() -> None:
    said = (Message(role="user", content="Which?"),)
    other = (Message(role="user", content="What?"),)
    items = [
        LabelledItem(said, "one", "a", True),
        LabelledItem(said, "one", "b", False),
        LabelledItem(said, "two!", "a", True),
        LabelledItem(other, "one", "a", True),
        LabelledItem(other, "one", "c", True),
    ]
    verdicts = {i: Verdict(outcome="met", votes=(Vote(outcome="met"),)) for i in (3, 0, 1, 2)}
    judged = Judging(items, verdicts).judged()
    assert [(i.label, i.chars) for i in judged] == [(True, 3), (False, 3), (True, 4), (True, 3)]
    a, b, c, d = judged
    assert a.answer == b.answer and a.conversation == b.conversation == c.conversation
    assert len({a.answer, c.answer, d.answer}) == 3
    assert d.conversation != a.conversation


def test_a_perfect_judge_reports_what_it_left_of_nothing() -> None:
    report = check(literal, labelled(40), grading={"votes": 5}).report
    assert report.left == report.left_if_even == {3: 0.0, 5: 0.0}
    assert report.flips.pairs == 40 * 10


def test_a_step_costs_what_the_votes_cost_each() -> None:
    cost = Cost(100, 30, 110, 10, 50_000, 2_000, 0.5, 55.0, 5.0, True)
    step = cost.of_step(Step(), 16, flip_rate=0.1)
    assert step["votes"] == 64 * 8 * 4 * 3 == 6144
    assert step["calls"] == pytest.approx(6144 * 1.1)
    assert (step["tokens_in"], step["tokens_out"]) == pytest.approx((6144 * 500, 6144 * 20))
    assert step["money"] == pytest.approx(6144 * 0.005)
    assert step["hours"] == pytest.approx(6144 * 0.55 / 16 / 3600)
    assert step["share_with_early_stop"] == pytest.approx(2.1 / 3)
    assert cost.of_step(Step(), 16, flip_rate=None)["share_with_early_stop"] == 1
    assert cost.of_step(Step(votes=5), 16, flip_rate=0.1)["share_with_early_stop"] == 1


def test_the_cost_is_the_ledgers() -> None:
    done = check(literal, labelled(10), endpoints={"main": {"price_in": 2.0, "price_out": 4.0}})
    cost = done.report.cost
    assert (cost.votes, cost.verdicts, cost.calls, cost.failed) == (30, 10, 30, 0)
    assert cost.tokens_in == sum(len(m["content"].split()) for r in done.requests for m in r.messages)
    assert cost.money == pytest.approx((cost.tokens_in * 2 + cost.tokens_out * 4) / 1e6)
    assert cost.priced
    assert not check(literal, labelled(2)).report.cost.priced
