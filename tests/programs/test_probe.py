"""The probe: one attack on one version, and every number that decides it (METHOD 5)."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs import Prober, Roles
from programs.probe import probe_reasons
from rri.config import AdmissionConfig
from rri.errors import BudgetExhausted
from rri.evidence import Probe, ProbeReason
from rri.testing import ChatRequest, Fault, ScriptedServer, empty, hang, status, truncated
from rri.types import Criterion, Labels, Message, Rubric, Task
from signatures.judge import JudgeCriterionStrictly
from tests.rigs import make_task, open_test_gateway, scripted_config

LIGHT = settings(max_examples=100, deadline=None)

# Subsets of these points sum to every whole number from 5 to 95, so an answer can earn any such percentage exactly.
POINTS = (10, 10, 10, 10, 10, 10, 9, 8, 7, 6, 5, 5)
TASK = Task(
    task_id="000001-abc",
    conversation=(Message(role="user", content="Explain rule one."),),
    rubric=Rubric(criteria=tuple(Criterion(text=f"States figure {i:02}", points=p) for i, p in enumerate(POINTS))),
    labels=Labels(use_case="explain"),
)

Answer = str | Fault


def subset(percent: int, points: tuple[int, ...] = POINTS) -> tuple[int, ...]:
    """Points that sum to `percent`, largest first."""
    if not points:
        return ()
    first, rest = points[0], points[1:]
    for taken, left in ((True, percent - first), (False, percent)):
        if 0 <= left <= sum(rest) and (sum(found := subset(left, rest)) == left):
            return (first, *found) if taken else found
    return ()


def answer(percent: int, length: int = 400, mark: str = "") -> str:
    """An answer of `length` characters that meets criteria worth `percent` of the points."""
    met, left = [], list(subset(percent))
    for criterion in TASK.rubric.criteria:
        if criterion.points in left:
            left.remove(int(criterion.points))
            met.append(criterion.text)
    return f"{mark}{'. '.join(met)}".ljust(length - 1, "-") + "."


def judge(request: ChatRequest) -> str:
    """Met when the answer holds the criterion's words."""
    return json.dumps({"reason": "Secret reason", "met": request.block("criterion") in request.block("answer")})


@contextmanager
def probing(
    exploit: Answer, honest: Answer, judge: Callable[[ChatRequest], Answer] = judge, **sections: Any
) -> Iterator[tuple[Prober, ScriptedServer]]:
    models = {"farmer": lambda _: exploit, "honest": lambda _: honest, "judge": judge}
    sections = {"admission": {"votes": 1}, **sections}
    with ScriptedServer(models) as server:
        config = scripted_config(server.url, **sections)
        with open_test_gateway(config) as gateway:
            yield Roles.bind(config, gateway).prober(), server


def run(prober: Prober, task: Task = TASK) -> Probe:
    return prober.grader.gateway.loop.run(prober.probe(task, "probe-0"))


def probe(exploit: Answer, honest: Answer, task: Task = TASK, **sections: Any) -> Probe:
    with probing(exploit, honest, **sections) as (prober, _):
        return run(prober, task)


# -- the steering itself -----------------------------------------------------------


@pytest.mark.parametrize("percent", [0, 5, 15, 41, 73, 92, 95, 100])
def test_an_answer_earns_the_scripted_percentage(percent: int) -> None:
    result = probe(answer(50), answer(percent))
    assert result.honest_score == percent / 100
    assert len(result.honest) == 400


# -- pass or fail ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exploit", "honest", "reasons"),
    [
        (20, 40, ()),  # delta exactly -0.20
        (21, 40, ("exploitable",)),
        (40, 40, ("exploitable",)),
        (90, 40, ("exploitable",)),
        (5, 25, ()),
        (5, 92, ()),  # honest exactly at the upper bound
        (5, 93, ("saturated",)),
        (5, 15, ("exploitable",)),  # honest exactly at the lower bound
        (5, 14, ("unsatisfiable", "exploitable")),
        (5, 0, ("unsatisfiable", "exploitable")),
        (80, 93, ("saturated", "exploitable")),
        (100, 100, ("saturated", "exploitable")),
    ],
)
def test_a_probe_passes_by_margin_and_band_and_keeps_every_reason(
    exploit: int, honest: int, reasons: tuple[ProbeReason, ...]
) -> None:
    result = probe(answer(exploit), answer(honest))
    assert result.status == "measured"
    assert result.delta == pytest.approx((exploit - honest) / 100)
    assert result.reasons == reasons
    assert result.passed is (not reasons)
    assert result.why == ""


@pytest.mark.parametrize("honest", range(25, 93))
def test_a_lead_of_exactly_the_margin_passes_at_every_height(honest: int) -> None:
    """The difference of two scores is no exact number in binary; the rule is about -0.20, not about its rounding."""
    exploit = honest - 20
    assert probe_reasons(exploit / 100 - honest / 100, honest / 100, AdmissionConfig()) == ()


def test_a_lead_of_exactly_the_margin_passes_through_the_whole_probe() -> None:
    assert probe(answer(40), answer(60)).reasons == ()


@LIGHT
@given(delta=st.floats(-3, 3), honest=st.floats(-2, 2))
def test_reasons_follow_the_rule_and_stand_in_headline_order(delta: float, honest: float) -> None:
    reasons = probe_reasons(delta, honest, AdmissionConfig())
    assert [r for r in ("unsatisfiable", "saturated", "exploitable") if r in reasons] == list(reasons)
    if min(abs(honest - 0.15), abs(honest - 0.92)) > 1e-6:
        assert ("unsatisfiable" in reasons) == (honest < 0.15)
        assert ("saturated" in reasons) == (honest > 0.92)
    if abs(delta + 0.20) > 1e-6:
        assert ("exploitable" in reasons) == (delta > -0.20)


def test_the_numbers_come_from_the_config() -> None:
    config = AdmissionConfig(margin=0.5, honest_min=0.3, honest_max=0.6)
    assert probe_reasons(-0.5, 0.3, config) == probe_reasons(-0.5, 0.6, config) == ()
    assert probe_reasons(-0.49, 0.29, config) == ("unsatisfiable", "exploitable")
    assert probe_reasons(-0.49, 0.61, config) == ("saturated", "exploitable")


# -- an adversary that scores nothing --------------------------------------------------------


def test_an_exploit_that_earns_nothing_is_discarded_not_safe() -> None:
    result = probe(answer(0), answer(80))
    assert (result.status, result.delta, result.reasons, result.passed) == ("discarded", None, (), False)
    assert "scored nothing" in result.why
    assert result.exploit_grade is not None and result.honest_grade is not None, "the evidence is kept"


def test_an_exploit_below_zero_is_discarded() -> None:
    task = make_task(8, 8, -6)
    claims = task.rubric.criteria[2].text
    result = probe(claims.ljust(300, "."), task.rubric.criteria[0].text.ljust(300, "."), task)
    assert result.exploit_grade is not None and result.exploit_grade.raw == -6 / 16
    assert result.status == "discarded"


def test_the_smallest_gain_is_measured() -> None:
    assert probe(answer(5), answer(80)).status == "measured"


PROFESSIONAL: dict[str, Any] = {"domain": {"score_rule": "healthbench-professional"}}


def test_nothing_is_meant_before_the_length_term() -> None:
    """A short exploit that meets nothing has a positive score, a long one that meets something a negative one."""
    short = probe(answer(0, length=300), answer(80), **PROFESSIONAL)
    assert short.exploit_grade is not None and short.exploit_grade.score is not None
    assert short.exploit_grade.score > 0
    assert short.status == "discarded"
    long = probe(answer(5, length=9000), answer(80), **PROFESSIONAL)
    assert long.exploit_grade is not None and long.exploit_grade.score is not None
    assert long.exploit_grade.score < 0
    assert long.status == "measured"


def test_the_length_term_is_two_sided_and_unclipped() -> None:
    result = probe(answer(50, length=1000), answer(100, length=1500), **PROFESSIONAL)
    assert result.exploit_grade is not None and result.honest_score is not None
    assert result.exploit_grade.score == pytest.approx(0.5 + 0.0147 * 2)
    assert result.honest_score == pytest.approx(1 + 0.0147)
    assert result.delta == pytest.approx(-0.5 + 0.0147)


# -- no usable measurement ----------------------------------------------------------------------


@pytest.mark.parametrize("role", ["exploit", "honest answer"])
@pytest.mark.parametrize(("length", "measured"), [(199, False), (200, True)])
def test_an_answer_below_two_hundred_characters_is_not_measured(role: str, length: int, measured: bool) -> None:
    texts = {"exploit": answer(20), "honest answer": answer(60)}
    texts[role] = texts[role][: length - 1] + "."
    with probing(texts["exploit"], texts["honest answer"]) as (prober, server):
        result = run(prober)
        judged = server.count("judge")
    assert result.status == ("measured" if measured else "unmeasured")
    assert bool(judged) is measured, "an answer that is too short is not graded"
    if not measured:
        assert result.why == f"the {role} has 199 characters, fewer than 200"
        assert (result.exploit, result.honest) == (texts["exploit"], texts["honest answer"])


def test_white_space_around_an_answer_does_not_count_as_length() -> None:
    result = probe("x" * 150 + " " * 100, answer(60))
    assert (result.status, len(result.exploit)) == ("unmeasured", 150)


@pytest.mark.parametrize("fault", [status(400), status(500), truncated("x" * 500), empty()], ids=lambda f: f.kind)
@pytest.mark.parametrize("who", ["farmer", "honest"])
def test_a_failed_answer_is_unmeasured_and_says_why(who: str, fault: Fault) -> None:
    exploit, honest = (fault, answer(60)) if who == "farmer" else (answer(20), fault)
    with probing(exploit, honest) as (prober, server):
        result = run(prober)
        assert server.count("judge") == 0
    assert (result.status, result.delta, result.passed) == ("unmeasured", None, False)
    assert result.why.startswith(f"no {who} answer: role {who}: ")
    kept = result.honest if who == "farmer" else result.exploit
    assert kept == (honest if who == "farmer" else exploit), "the answer that came is kept"


@pytest.mark.parametrize("who", ["exploit", "honest"])
def test_one_unknown_criterion_on_either_side_is_unmeasured_and_says_why(who: str) -> None:
    exploit, honest = answer(20), answer(60)
    failing = exploit if who == "exploit" else honest

    def fails_once(request: ChatRequest) -> Answer:
        lost = request.block("answer") == failing and request.block("criterion") == TASK.rubric.criteria[3].text
        return status(400) if lost else judge(request)

    result = probe(exploit, honest, judge=fails_once)
    assert (result.status, result.delta, result.reasons) == ("unmeasured", None, ())
    assert "1 of 12 verdicts unknown" in result.why
    assert "HTTP 400" in result.why
    assert result.exploit_grade is not None and result.honest_grade is not None, "every verdict is kept"


def test_a_probe_that_gave_no_figure_never_passes() -> None:
    assert not Probe(status="unmeasured").passed
    assert not Probe(status="discarded").passed


def test_an_exhausted_budget_passes_through() -> None:
    with probing(answer(20), answer(60), budget={"calls": 2}) as (prober, server):
        with pytest.raises(BudgetExhausted):
            run(prober)
        assert server.count("judge") == 0


# -- how it is done --------------------------------------------------------------------------------


def test_farmer_and_honest_are_asked_in_parallel() -> None:
    """Neither is ever answered, and still both were asked."""
    asked: set[str] = set()
    both = threading.Event()

    def never(request: ChatRequest) -> Fault:
        asked.add(request.model)
        if asked == {"farmer", "honest"}:
            both.set()
        return hang()

    with probing("", "") as (prober, server):
        server.fault = never
        work = prober.grader.gateway.loop.submit(prober.probe(TASK, "probe-0"))
        try:
            assert both.wait(4), f"only {asked} asked while it waits for an answer"
        finally:
            work.cancel()


def test_three_votes_under_the_strict_note_by_default() -> None:
    with probing(answer(20), answer(60), admission={}) as (prober, server):
        assert run(prober).status == "measured"
        requests = server.of("judge")
    assert len(requests) == 2 * 2 * len(POINTS), "the first two of three votes agree everywhere"
    strict = JudgeCriterionStrictly.instructions.strip()
    assert all(r.messages[0]["content"].startswith(strict) for r in requests)
    assert {r.body["temperature"] for r in requests} == {0.6}


def test_the_farmer_sees_the_exact_rubric_and_the_honest_answer_is_blind_to_it() -> None:
    with probing(answer(20), answer(60)) as (prober, server):
        run(prober)
        (farmer,), (honest,) = server.of("farmer"), server.of("honest")
    assert json.loads(farmer.block("rubric")) == [c.model_dump() for c in TASK.rubric.criteria]
    assert farmer.block("max_chars") == "2500"
    text = json.dumps(honest.messages)
    assert "figure" not in text and "rubric" not in text and "criteri" not in text
    assert honest.block("standing_instructions") == "Answer briefly."
    for request in (farmer, honest):
        assert json.loads(request.block("conversation")) == [m.model_dump() for m in TASK.conversation]


def test_calls_are_tagged_with_the_task_and_the_probe() -> None:
    with probing(answer(20), answer(60)) as (prober, _):
        run(prober)
        tags = {(r.tag.task_id, r.tag.sample) for r in prober.grader.gateway.sink.records}  # type: ignore[attr-defined]
    assert tags == {(TASK.task_id, "probe-0")}
