"""Verdicts on criteria that no rubric holds yet, and an attack beside an honest answer that is there already."""

import pytest

from rri.testing import ChatRequest, status
from rri.types import Criterion
from signatures.judge import JudgeCriterionStrictly
from tests.programs.patch_cases import HONEST, LOSING, TASK, Reply, fact, holding, judge, patching

CRITERIA = [Criterion(text=fact(n), points=8) for n in range(4)]
ANSWER = holding(fact(1), fact(3))


@pytest.mark.parametrize("warm", [False, True])
def test_verdicts_come_in_the_order_of_the_criteria(warm: bool) -> None:
    with patching([], grading={"warm_prefix": warm}) as bench:
        grader = bench.patcher.prober.grader
        verdicts = bench.gateway.loop.run(grader.verdicts(TASK, ANSWER, CRITERIA, votes=1))
        assert bench.gateway.loop.run(grader.verdicts(TASK, ANSWER, [])) == []
        requests = bench.server.of("judge")
    assert [v.outcome for v in verdicts] == ["unmet", "met", "unmet", "met"]
    assert sorted(r.block("criterion") for r in requests) == [c.text for c in CRITERIA]
    strict = JudgeCriterionStrictly.instructions.strip()
    assert not any(r.messages[0]["content"].startswith(strict) for r in requests)


def test_a_judge_that_fails_on_one_criterion_is_unknown_there_alone() -> None:
    def fails(request: ChatRequest) -> Reply:
        return status(400) if request.block("criterion") == fact(1) else judge(request)

    with patching([], judge=fails) as bench:
        work = bench.patcher.prober.grader.verdicts(TASK, ANSWER, CRITERIA, strict=True)
        verdicts = bench.gateway.loop.run(work)
    assert [v.outcome for v in verdicts] == ["unmet", "unknown", "unmet", "met"]


def test_an_attack_asks_the_farmer_alone_and_is_measured_as_a_probe() -> None:
    with patching([]) as bench:
        attack = bench.gateway.loop.run(bench.patcher.prober.attack(TASK, HONEST, "again"))
        tags = {(r.role, r.tag.task_id, r.tag.sample) for r in bench.records}
    assert tags == {(role, TASK.task_id, "again") for role in ("farmer", "judge")}
    assert (attack.status, attack.exploit, attack.honest) == ("measured", LOSING, HONEST)
    assert attack.delta == pytest.approx(-0.5)
    assert attack.reasons == ("saturated",)


def test_an_attack_beside_a_short_honest_answer_is_unmeasured() -> None:
    with patching([]) as bench:
        attack = bench.gateway.loop.run(bench.patcher.prober.attack(TASK, "Short.", "again"))
        assert bench.server.count("judge") == 0
    assert (attack.status, attack.failed) == ("unmeasured", False)
    assert attack.why == "the honest answer has 6 characters, fewer than 200"
