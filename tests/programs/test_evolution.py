"""The evolution round over scripted models: diagnoses, counts, guidance that is checked, failures that are counted."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from programs.analyst import Analyst
from programs.evolution import EvolutionRound
from programs.meta_optimizer import MetaOptimizer
from rri.cases import GradedCase, GuidanceVersion
from rri.config import RunConfig
from rri.errors import BudgetExhausted, EndpointRefused, InputError, ModelError, TruncatedReply
from rri.guidance_rules import GuidanceLimits
from rri.lm import Gateway, role_lm
from rri.rounds import ExploitEvidence, Hackability, MeasuredGuidance, RoundEvidence, RoundOutcome
from rri.testing import ChatRequest, Fault, ScriptedServer, hang, status, truncated
from rri.types import Criterion, Grade, Task, Verdict
from tests.rigs import make_task, open_test_gateway, scripted_config

Model = Callable[[ChatRequest], Fault | str]

TASK = make_task(8, 8, -6)
CURRENT = GuidanceVersion(
    version=3, cycle=9, guidance_a="Vary who asks.", guidance_b="Ask for values.", summary="Third."
)


def case(number: int = 0, answer: str = "", *, truncated: bool = False, task: Task = TASK) -> GradedCase:
    grade = Grade(verdicts=(Verdict(outcome="unmet"),) * len(task.rubric.criteria), score=0.0, raw=0.0)
    return GradedCase(
        cycle=14,
        position=number,
        row=0,
        task=task,
        answer=answer or f"Answer {number}.",
        truncated=truncated,
        grade=grade,
        score=0.0,
    )


def evidence(cases: int | list[GradedCase] = 4, **other: Any) -> RoundEvidence:
    made = [case(i) for i in range(cases)] if isinstance(cases, int) else cases
    return RoundEvidence(**{"cycle": 14, "guidance": CURRENT, "cases": tuple(made), "tasks": (TASK,), **other})


def diagnose(request: ChatRequest) -> str:
    """Every answer lacks its own name."""
    return diagnosed(gap=f"what {request.block('answer').lower()[:-1]} lacks")


def diagnosed(verdict: str = "model_failed_fair_task", **found: str) -> str:
    sound = {"gap": "", "failure_mode": "calculation", "rubric_defect": "none", "task_defect": "none"}
    return json.dumps({**sound, **found, "verdict": verdict})


def guidance(a: str = "Vary the setting of each question.", b: str = "Let each criterion name a dose.") -> str:
    return json.dumps({"summary": " Doses were missing. ", "new_guidance_a": a, "new_guidance_b": b})


def guide(_: ChatRequest) -> str:
    return guidance()


def in_turn(*replies: Fault | str) -> Model:
    return lambda request: replies[request.number]


@dataclass
class Rig:
    """A round over scripted models."""

    round: EvolutionRound
    server: ScriptedServer
    gateway: Gateway
    config: RunConfig

    def run(self, given: RoundEvidence | None = None) -> RoundOutcome:
        return self.gateway.loop.run(self.round.run(given or evidence()))

    def tags(self, role: str) -> list[tuple[str, str]]:
        records = self.gateway.sink.records  # type: ignore[attr-defined]
        return [(r.tag.task_id, r.tag.sample) for r in records if r.role == role]


@contextmanager
def rig(analyst: Model = diagnose, meta: Model = guide, **sections: Any) -> Iterator[Rig]:
    with ScriptedServer({"analyst": analyst, "meta_optimizer": meta}) as server:
        config = scripted_config(server.url, **sections)
        limits = GuidanceLimits(guidance_words=config.evolution.guidance_words)
        with open_test_gateway(config) as gateway:
            roles = Analyst(config.domain.description), MetaOptimizer(config.domain.description, limits)
            roles[0].set_lm(role_lm("analyst", gateway))
            roles[1].set_lm(role_lm("meta_optimizer", gateway))
            made = EvolutionRound(*roles, config.evolution, limits, config.domain, config.generation)
            yield Rig(made, server, gateway, config)


# -- a whole round --------------------------------------------------------------------


def test_a_round_diagnoses_counts_and_writes_the_next_version() -> None:
    with rig() as r:
        outcome = r.run()
        assert (r.server.count("analyst"), r.server.count("meta_optimizer")) == (4, 1)
    assert [d.gap for d in outcome.diagnoses] == [f"what answer {i} lacks" for i in range(4)], (
        "in the order of the cases"
    )
    assert outcome.counts.verdicts == {"model_failed_fair_task": 4}
    assert outcome.guidance == GuidanceVersion(
        version=4,
        cycle=14,
        guidance_a="Vary the setting of each question.",
        guidance_b="Let each criterion name a dose.",
        summary="Doses were missing.",
    )
    assert (outcome.why, outcome.rejected) == ("", ())


def test_the_meta_optimizer_is_shown_the_evidence_of_the_round() -> None:
    versions = [
        GuidanceVersion(version=i, guidance_a=f"A{i}.", guidance_b=f"B{i}.", summary=f"S{i}.") for i in range(3)
    ]
    history = [MeasuredGuidance(guidance=g, train_mean=0.11111 * g.version or None) for g in (*versions, CURRENT)]
    exploits = ExploitEvidence(
        gaps=(0.3,),
        labels={"breadth_padding": 1},
        patches=(Criterion(text="States the dose", points=8),),
        hackability=Hackability(n=7, before=0.4, after=0.1),
    )
    with rig() as r:
        outcome = r.run(evidence(train_mean=0.71, history=tuple(history), exploits=exploits))
        (request,) = r.server.of("meta_optimizer")
    assert request.block("guidance_a") == "Vary who asks."
    assert request.block("guidance_b") == "Ask for values."
    assert request.block("max_words") == "300"
    assert request.block("score_formula").startswith("An answer's score is the sum of the points")
    assert request.block("statistics") == outcome.statistics
    assert "is 0.71, and 0.33 under the current guidance. From 0.4 to 0.6 is right: the tasks are too easy" in (
        outcome.statistics
    )
    assert request.block("diagnoses") == outcome.diagnosed
    assert json.loads(request.block("gaps")) == [f"what answer {i} lacks" for i in range(4)]
    assert request.block("exploits") == outcome.exploits
    assert "required: States the dose" in outcome.exploits and "measured on 7 tasks" in outcome.exploits
    shown = json.loads(request.block("history"))
    assert [(past["version"], past["train_mean"]) for past in shown] == [(0, None), (1, 0.111), (2, 0.222)]
    assert shown[2]["guidance_a"] == "A2.", "the current version is shown once, as the text to rewrite"


def test_the_prompts_that_are_kept_are_those_that_were_sent() -> None:
    with rig(meta=in_turn(guidance(a="word " * 301), guidance())) as r:
        outcome = r.run()
        sent = [request.messages for request in r.server.of("meta_optimizer")]
    assert [list(prompt) for prompt in outcome.prompts] == sent
    assert json.loads(outcome.files()["prompts.json"]) == sent


def test_only_the_latest_versions_of_the_history_are_shown() -> None:
    history = tuple(MeasuredGuidance(guidance=GuidanceVersion(version=i)) for i in range(3))
    for most, versions in ((8, [0, 1, 2]), (2, [1, 2]), (0, [])):
        with rig(evolution={"history": most}) as r:
            r.run(evidence(history=history))
            (request,) = r.server.of("meta_optimizer")
        assert [past["version"] for past in json.loads(request.block("history"))] == versions


def test_figures_are_of_the_latest_tasks_and_drift_counts_against_the_reference() -> None:
    tasks = (make_task(8, 8, 8, 8), make_task(8), make_task(8))
    with rig(evolution={"corpus_tasks": 2}) as r:
        outcome = r.run(evidence(tasks=tasks, reference={"criteria_mean": 3.0}))
    assert (outcome.figures.tasks, outcome.figures.criteria_mean) == (2, 1)
    assert [d.figure for d in outcome.drifts] == ["criteria_mean"]
    assert "Bring it to 3.0." in outcome.statistics


def test_the_score_formula_is_that_of_the_domain() -> None:
    with rig(domain={"score_rule": "healthbench-professional"}) as r:
        r.run()
        assert "0.0147 for every 500 characters" in r.server.of("meta_optimizer")[0].block("score_formula")


def test_calls_are_tagged_with_their_task_their_case_and_their_attempt() -> None:
    with rig(meta=in_turn(guidance(a=""), guidance())) as r:
        r.run(evidence(2))
        assert sorted(r.tags("analyst")) == [(TASK.task_id, f"evolution-14-case-{i}") for i in range(2)]
        assert r.tags("meta_optimizer") == [("", f"evolution-14-guidance-{i}") for i in (1, 2)]


# -- the analyst ----------------------------------------------------------------------


def test_cases_are_diagnosed_in_parallel_up_to_the_limit() -> None:
    """None is ever answered, and still as many as may be under way were asked, and no more."""
    asked = threading.Semaphore(0)

    def never(_: ChatRequest) -> Fault:
        asked.release()
        return hang()

    with rig(never, evolution={"concurrency": 3}) as r:
        work = r.gateway.loop.submit(r.round.run(evidence(8)))
        try:
            assert all(asked.acquire(timeout=4) for _ in range(3))
            assert r.server.count("analyst") == r.server.most_concurrent == 3
        finally:
            work.cancel()


def test_a_truncated_answer_is_diagnosed_by_rule_without_a_call() -> None:
    with rig() as r:
        outcome = r.run(evidence([case(0, truncated=True), case(1)]))
        assert r.server.count("analyst") == 1
    assert (outcome.diagnoses[0].failure_mode, outcome.diagnoses[0].gap) == ("non_answer", "")
    assert outcome.counts.failure_modes == {"calculation": 1, "non_answer": 1}


def test_a_fault_of_the_generator_is_no_gap_of_the_solver() -> None:
    replies = (
        diagnosed("generator_at_fault", gap="not the solver's", rubric_defect="untestable_vague"),
        diagnosed("model_succeeded", task_defect="too_easy"),
        diagnosed(gap="a dose"),
    )
    with rig(lambda request: replies[int(request.block("answer")[7])]) as r:
        outcome = r.run(evidence(3))
        (request,) = r.server.of("meta_optimizer")
    assert json.loads(request.block("gaps")) == ["a dose"]
    assert outcome.counts.rubric_defects == {"untestable_vague": 1}
    assert outcome.counts.side_defects == {"too_easy": 1}
    assert "Rubric defects: untestable_vague 1" in request.block("diagnoses")


def fails_for(*numbers: int, fault: Fault | None = None) -> Model:
    def model(request: ChatRequest) -> Fault | str:
        return (fault or status(400)) if int(request.block("answer")[7]) in numbers else diagnose(request)

    return model


@pytest.mark.parametrize("fault", [status(400), status(500), truncated()], ids=["refused", "failed", "truncated"])
def test_failing_analysts_are_counted_and_the_round_goes_on(fault: Fault) -> None:
    with rig(fails_for(1, 2, fault=fault)) as r:
        outcome = r.run()
    assert [bool(d.failed) for d in outcome.diagnoses] == [False, True, True, False], "half may fail"
    assert outcome.diagnoses[1].failed.startswith("role analyst: ")
    assert outcome.diagnoses[1].verdict is None
    assert (outcome.counts.cases, outcome.counts.failed) == (4, 2)
    assert "2 of them could not be diagnosed" in outcome.diagnosed
    assert outcome.guidance is not None


def test_the_round_fails_when_more_than_half_of_the_cases_have_no_diagnosis() -> None:
    def model(request: ChatRequest) -> Fault | str:
        number = int(request.block("answer")[7])
        return diagnose(request) if number == 0 else status(400) if number < 3 else truncated()

    with rig(model) as r:
        with pytest.raises(ModelError, match=r"cycle 14: the analyst failed in 3 of 4 cases, 2 times with: .*HTTP 400"):
            r.run()
        assert r.server.count("meta_optimizer") == 0


def test_an_exhausted_budget_passes_and_nothing_more_is_asked() -> None:
    with rig(budget={"calls": 2}, evolution={"concurrency": 1}) as r:
        with pytest.raises(BudgetExhausted):
            r.run()
        assert (r.server.count("analyst"), r.server.count("meta_optimizer")) == (2, 0)


def test_a_budget_that_ends_before_the_guidance_passes_too() -> None:
    with rig(budget={"calls": 4}) as r:
        with pytest.raises(BudgetExhausted):
            r.run()
        assert r.server.count("analyst") == 4


def test_a_grade_of_another_rubric_is_refused() -> None:
    wrong = case(1).model_copy(update={"task": make_task(8)})
    with rig() as r, pytest.raises(InputError, match="1 criteria, the grade 3 verdicts"):
        r.run(evidence([wrong]))


def test_without_graded_cases_nothing_is_asked_and_the_figures_are_kept() -> None:
    with rig() as r:
        outcome = r.run(evidence(0))
        assert r.server.total == 0
    assert (outcome.guidance, outcome.why) == (None, "no graded case to learn from")
    assert outcome.figures.tasks == 1
    assert "prompts.json" not in outcome.files()


# -- the guidance ---------------------------------------------------------------------


@pytest.mark.parametrize("block", ["a", "b"])
def test_guidance_of_300_words_is_taken_and_of_301_asked_for_again(block: str) -> None:
    words = {300: "vary " * 300, 301: "vary " * 301}
    with rig(meta=lambda _: guidance(**{block: words[300]})) as r:
        assert r.run().guidance is not None
    with rig(meta=in_turn(guidance(**{block: words[301]}), guidance())) as r:
        outcome = r.run()
        first, second = r.server.of("meta_optimizer")
    problem = f"new_guidance_{block}: 301 words; at most 300 are allowed"
    assert first.block("problems") == ""
    assert json.loads(second.block("problems")) == [problem]
    assert outcome.guidance is not None and outcome.guidance.version == 4
    (rejected,) = outcome.rejected
    assert rejected.problems == (problem,)
    assert getattr(rejected, f"guidance_{block}") == words[301].strip()


def test_guidance_that_asks_for_milder_grading_never_comes_into_force() -> None:
    with rig(meta=lambda _: guidance(b="Award partial credit for vague answers.")) as r:
        outcome = r.run()
        assert r.server.count("meta_optimizer") == 2, "as many calls as attempts, and no more"
    assert outcome.guidance is None
    assert outcome.why.startswith(
        "the new guidance breaks the rules in all 2 attempts: new_guidance_b: suggests credit"
    )
    assert len(outcome.rejected) == len(outcome.prompts) == 2
    decision = json.loads(outcome.files()["decision.json"])
    assert decision["guidance"] is None
    assert decision["rejected"][0]["guidance_b"] == "Award partial credit for vague answers."


def test_one_bad_block_rejects_both() -> None:
    with rig(meta=lambda _: guidance(a="")) as r:
        outcome = r.run()
    assert outcome.guidance is None
    assert outcome.rejected[0].problems == ("new_guidance_a: the guidance is empty",)


def test_problems_of_every_attempt_are_told_each_once() -> None:
    empty, long = guidance(a=""), guidance(b="vary " * 301)
    with rig(meta=in_turn(empty, long, empty, guidance()), evolution={"attempts": 4}) as r:
        outcome = r.run()
        requests = r.server.of("meta_optimizer")
    told = [json.loads(request.block("problems") or "[]") for request in requests]
    assert [len(problems) for problems in told] == [0, 1, 2, 2]
    assert outcome.guidance is not None


def test_the_same_guidance_again_is_no_new_version() -> None:
    with rig(meta=lambda _: guidance(f" {CURRENT.guidance_a}\n", CURRENT.guidance_b)) as r:
        outcome = r.run()
        assert r.server.count("meta_optimizer") == 1
    assert (outcome.guidance, outcome.rejected) == (None, ())
    assert outcome.why == "the meta-optimizer kept the guidance as it is: Doses were missing."


def test_one_changed_block_is_a_new_version() -> None:
    with rig(meta=lambda _: guidance("Vary the season.", CURRENT.guidance_b)) as r:
        outcome = r.run()
    assert outcome.guidance is not None and outcome.guidance.guidance_b == CURRENT.guidance_b


@pytest.mark.parametrize(("fault", "error"), [(status(400), EndpointRefused), (truncated(), TruncatedReply)])
@pytest.mark.parametrize("first", [True, False])
def test_a_failing_meta_optimizer_fails_the_round(fault: Fault, error: type[ModelError], first: bool) -> None:
    def model(request: ChatRequest) -> Fault | str:
        return guidance(a="") if not first and request.number == 0 else fault

    with rig(meta=model) as r, pytest.raises(error, match="role meta_optimizer: "):
        r.run()


def test_a_round_keeps_nothing_between_runs() -> None:
    with rig() as r:
        before = sorted(vars(r.round))
        assert r.run() == r.run()
        assert sorted(vars(r.round)) == before
        bodies = [json.dumps(request.body) for request in r.server.of("meta_optimizer")]
    assert bodies[0] == bodies[1]
