"""The scripted roles of the loop give the method work: patches that hold, rankings to disagree with, cases to count."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from programs import Analyst, MemoOptimizer, MetaOptimizer, Minter, Referee
from programs.role import RoleModule
from rri.config import Role
from rri.guidance_rules import check_guidance, check_memo
from rri.lm import Gateway, role_lm
from rri.rubric_rules import check_patch
from rri.testing import ChatRequest, ScriptedServer, role_models
from rri.testing.roles import EXPLOIT_MARK, HONEST_MARK
from rri.types import Grade, Outcome, Rubric, Task, Verdict
from tests.rigs import make_task, open_test_gateway, scripted_config

TASK = make_task(8, 8, -6)


@contextmanager
def scripted() -> Iterator[Gateway]:
    with ScriptedServer(role_models()) as server, open_test_gateway(scripted_config(server.url)) as gateway:
        yield gateway


def bound(module: RoleModule, role: Role, gateway: Gateway) -> RoleModule:  # type: ignore[type-arg]
    module.set_lm(role_lm(role, gateway))
    return module


def grade(*outcomes: Outcome) -> Grade:
    return Grade(verdicts=tuple(Verdict(outcome=o) for o in outcomes), score=0.5, raw=0.5)


def judged(answer: str, criterion: str) -> bool:
    fields = {"answer": answer, "criterion": criterion}
    text = "\n\n".join(f"<{name}>\n{value}\n</{name}>" for name, value in fields.items())
    request = ChatRequest("judge", [{"role": "user", "content": text}], "JudgeCriterion", {}, 0, "")
    reply = role_models()["judge"](request)
    assert isinstance(reply, str)
    return bool(json.loads(reply)["met"])


def test_a_minted_criterion_separates_its_pair_and_passes_the_cheap_checks() -> None:
    pairs = [(f"exploit {i}", f"better {i}") for i in range(8)]
    pairs += [(f"{EXPLOIT_MARK} x", f"{HONEST_MARK} y")]
    full = grade("met", "met", "unmet")
    with scripted() as gateway:
        minter = bound(Minter(), "minter", gateway)
        for exploit, better in pairs:
            rubric = TASK.rubric
            for _ in range(2):
                task: Task = TASK.model_copy(update={"rubric": rubric})
                grades = grade(*["met"] * len(rubric.criteria))
                minting = minter(task=task, exploit=exploit, better=better, exploit_grade=grades, better_grade=grades)
                first, second = (c.criterion for c in minting.criteria)
                assert check_patch(first, rubric) == [] and check_patch(second, TASK.rubric) == []
                assert judged(better, first.text) and not judged(exploit, first.text)
                assert not judged(better, second.text) and not judged(exploit, second.text), "rejected by measurement"
                rubric = Rubric(criteria=(*rubric.criteria, first))
        same = minter(task=TASK, exploit="same", better="same", exploit_grade=full, better_grade=full)
        assert (same.criteria, same.label) == ((), "none"), "nothing separates an answer from itself"


def test_the_referee_has_a_taste_of_its_own_that_no_order_changes() -> None:
    rollouts = [f"rollout {i}" for i in range(8)]
    answers = [*rollouts, f"{EXPLOIT_MARK} x", f"{HONEST_MARK} y"]
    with scripted() as gateway:
        referee = bound(Referee("librarian"), "referee", gateway)
        ranked = referee(task=TASK, answers=answers, order=list(range(10)))
        again = referee(task=TASK, answers=answers, order=list(range(10))[::-1])
        among = referee(task=TASK, answers=rollouts, order=list(range(8)))
    assert ranked.tiers == again.tiers
    assert (ranked.tiers[0], ranked.tiers[-1]) == ((9,), (8,))
    assert len(among.tiers) == 2, "a group of rollouts is told apart"


def test_diagnoses_have_every_verdict() -> None:
    with scripted() as gateway:
        analyst = bound(Analyst(), "analyst", gateway)
        good = analyst(task=TASK, answer="x", grade=grade("met", "met", "unmet"))
        bad = [analyst(task=TASK, answer=f"answer {i}", grade=grade("met", "unmet", "unmet")) for i in range(24)]
    assert good.verdict == "model_succeeded" and good.failure_mode == "none"
    assert {d.verdict for d in bad} == {"model_failed_fair_task", "generator_at_fault"}
    fair = [d for d in bad if d.verdict == "model_failed_fair_task"]
    assert len({d.failure_mode for d in fair}) > 1 and all(d.gap for d in fair)
    assert all(d.rubric_defect != "none" for d in bad if d not in fair)


def test_guidance_and_memo_pass_their_checks_and_change_from_call_to_call() -> None:
    with scripted() as gateway:
        guide = bound(MetaOptimizer(), "meta_optimizer", gateway)
        remember = bound(MemoOptimizer(), "memo_optimizer", gateway)
        evidence = {"statistics": "s", "diagnoses": "d", "gaps": [], "exploits": "e", "history": []}
        new = [guide(score_formula="f", guidance_a="", guidance_b="", **evidence) for _ in range(2)]
        memos = [remember(memo="", hackability="h", modes={}, minted=[], history=[]) for _ in range(2)]
    assert [check_guidance(text) for g in new for text in (g.guidance_a, g.guidance_b)] == [[]] * 4
    assert [check_memo(m.memo) for m in memos] == [[]] * 2
    assert new[0].guidance_a != new[1].guidance_a and new[0].guidance_b != new[1].guidance_b
    assert memos[0].memo != memos[1].memo
