"""What holds of every admission: evidence, secrecy, and invariants under random scores and random faults."""

import json
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from programs import Roles
from rri.errors import BudgetExhausted
from rri.evidence import Admission, Probe
from rri.testing import ChatRequest, Fault, FaultMix, ScriptedServer, empty, other_json, reset, status, truncated
from rri.types import Criterion, Rubric
from tests.programs.test_admission import CRITERIA, TASK, admit, rewrite_reply, scripted
from tests.programs.test_probe import POINTS, answer
from tests.rigs import make_task, open_test_gateway, scripted_config


def test_the_evidence_of_a_repair_is_complete() -> None:
    admission = admit([(80, 50), (78, 50), (20, 50)]).admission
    assert admission.probe is not None
    rejected, accepted = admission.rewrites
    assert (rejected.round, accepted.round) == (1, 2)
    for probe, pair in ((admission.probe, (80, 50)), (rejected.probes[0], (78, 50)), (accepted.probes[0], (20, 50))):
        assert probe.exploit.startswith("farmer ") and probe.honest.startswith("honest ")
        assert probe.exploit_grade is not None and probe.honest_grade is not None
        assert (probe.exploit_grade.score, probe.honest_score) == (pair[0] / 100, pair[1] / 100)
        assert len(probe.exploit_grade.verdicts) == len(probe.honest_grade.verdicts) == len(POINTS)
        assert probe.exploit_grade.verdicts[0].votes[0].reason == "Secret reason"
        assert probe.delta == pytest.approx((pair[0] - pair[1]) / 100)
    assert admission.probe.reasons == rejected.probes[0].reasons == ("exploitable",)
    assert rejected.why == "delta fell by 0.02, less than 0.15"
    assert accepted.why == "delta fell from 0.30 to -0.30"
    assert rejected.explanation == accepted.explanation == "It states nothing. It states everything."
    assert rejected.task is not None and rejected.task.request == "Rewrite 1."
    assert Admission.model_validate_json(admission.model_dump_json()) == admission


def test_the_rewriter_sees_task_rubric_exploit_and_honest_answer_and_nothing_else() -> None:
    out = admit([(80, 50), (60, 50), (20, 50)])
    for number, request in enumerate(out.server.of("rewriter")):
        user = request.messages[-1]["content"]
        blocks = {line[1:-1] for line in user.splitlines() if line.startswith("<") and not line.startswith("</")}
        assert blocks == {"conversation", "rubric", "exploit", "honest", "red_team"}
        assert json.loads(request.block("rubric")) == [c.model_dump() for c in CRITERIA]
        assert request.block("exploit") == answer(80 - 20 * number, mark=f"farmer {number}. ")
        assert request.block("honest") == answer(50, mark=f"honest {number}. ")
        assert "Secret" not in json.dumps(request.messages), "no verdict, reference or label"


def test_every_probe_and_rewrite_has_its_own_sample_name() -> None:
    with scripted([(80, 50), (0, 50), (60, 50), (20, 50)]) as (roles, _):
        gateway = roles.grader.gateway
        gateway.loop.run(roles.admitter().admit(TASK))
        records = [r for r in gateway.sink.records if r.role != "judge"]  # type: ignore[attr-defined]
    assert {r.tag.task_id for r in records} == {TASK.task_id}
    samples = {role: [r.tag.sample for r in records if r.role == role] for role in ("farmer", "honest", "rewriter")}
    assert samples["farmer"] == samples["honest"] == ["probe-0", "probe-1", "probe-1-again", "probe-2"]
    assert samples["rewriter"] == ["rewrite-1", "rewrite-2"]


# -- other bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("red_team", "outcome"), [(True, "repaired"), (False, "kept")])
def test_only_a_red_team_task_may_be_rewritten_to_a_single_positive(red_team: bool, outcome: str) -> None:
    task = make_task(8, -6, red_team=red_team)
    met, none, after = (t.ljust(300, "-") for t in (task.rubric.criteria[0].text, "", "States figure 00"))
    rewrites = [rewrite_reply("Narrow.", [("States figure 00", 8), ("Claims that the rule was repealed", -6)])] * 4
    out = admit([(met, none), (after, after), (after, after)], rewrites, task, admission={"honest_max": 1.0})
    assert out.admission.outcome == outcome


@pytest.mark.parametrize("calls", [1, 2, 30])
def test_an_exhausted_budget_passes_through(calls: int) -> None:
    with pytest.raises(BudgetExhausted):
        admit([(80, 50), (60, 50), (40, 50)], budget={"calls": calls})


# -- random scores, random faults ---------------------------------------------------------------------------

SMALL = tuple(Criterion(text=f"Gives fact {i}", points=p) for i, p in enumerate((10, 8, 7, 5, -6)))
START = TASK.model_copy(update={"rubric": Rubric(criteria=SMALL)})
MARGIN, LOW, HIGH, DROP, NOISE = 0.20, 0.15, 0.92, 0.15, 1e-9
SEEDS = range(60)


FAULTS = {status(400): 0.03, status(500): 0.04, reset(): 0.02, empty(): 0.02, truncated(): 0.02, other_json(): 0.02}


class RandomModels:
    """Answers, rewrites and faults drawn from one seed, in whatever order requests come in.

    Verdicts are looked up in the answer's text; each request has its own draw.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.judge_fails = seed % 3 == 0
        self.numbers: Counter[str] = Counter()
        self.draw = random.Random()

    def fault(self, request: ChatRequest) -> Fault | None:
        """Asked before the model, so this also makes the request's own draw."""
        number = self.numbers[request.model]
        self.numbers[request.model] += 1
        if request.model == "judge":
            votes = random.Random(f"{self.seed}:{request.block('answer')}:{request.block('criterion')}")
            return status(400) if self.judge_fails and votes.random() < 0.03 else None
        self.draw = random.Random(f"{self.seed}:{request.model}:{number}")
        return FaultMix(FAULTS, self.draw.randrange(2**32)).draw()

    def write(self, request: ChatRequest) -> str:
        if self.draw.random() < 0.03:
            return "Too short."
        share = self.draw.choice((0.0, 0.3, 0.6, 0.9) if request.model == "farmer" else (0.3, 0.6, 0.8, 1.0))
        met = [c.text for c in SMALL if self.draw.random() < (share if c.points > 0 else 0.15)]
        return f"{request.model} {self.numbers[request.model]}. {'. '.join(met)}".ljust(220, "-")

    def judge(self, request: ChatRequest) -> str:
        return json.dumps({"reason": "", "met": request.block("criterion") in request.block("answer")})

    def rewrite(self, request: ChatRequest) -> str:
        pairs = [(c.text, self.draw.choice((5, 7, 10)) if c.points > 0 else -6) for c in SMALL]
        if self.draw.random() < 0.3:
            del pairs[-1]
        return rewrite_reply(f"Rewrite {self.numbers['rewriter']}.", pairs)


@pytest.fixture(scope="module")
def admissions() -> Iterator[dict[int, Admission]]:
    """One admission a seed, on a server and a gateway of all."""
    done = {}
    with ScriptedServer({}) as server:
        config = scripted_config(server.url, admission={"votes": 1}, endpoints={"main": {"retries": 1}})
        with open_test_gateway(config) as gateway:
            admitter = Roles.bind(config, gateway).admitter()
            for seed in SEEDS:
                models = RandomModels(seed)
                server.fault = models.fault
                server.models = {"farmer": models.write, "honest": models.write}
                server.models |= {"judge": models.judge, "rewriter": models.rewrite}
                done[seed] = gateway.loop.run(admitter.admit(START))
        yield done


def score(text: str, rubric: Rubric) -> float:
    """What an answer earns, from its text alone."""
    met = sum(c.points for c in rubric.criteria if c.text in text)
    return met / sum(c.points for c in rubric.criteria if c.points > 0)


def check_probe(probe: Probe, rubric: Rubric) -> None:
    if probe.status == "unmeasured":
        assert probe.why and probe.delta is None and not probe.reasons
        return
    exploit, honest = score(probe.exploit, rubric), score(probe.honest, rubric)
    assert probe.honest_score == pytest.approx(honest)
    if probe.status == "discarded":
        assert exploit <= 0 and probe.why and probe.delta is None
        return
    assert exploit > 0
    assert probe.delta == pytest.approx(exploit - honest)
    expected = [("unsatisfiable", honest < LOW - NOISE), ("saturated", honest > HIGH + NOISE)]
    expected += [("exploitable", exploit - honest > -MARGIN + NOISE)]
    assert list(probe.reasons) == [name for name, holds in expected if holds]


def in_band(probe: Probe) -> bool:
    return probe.honest_score is not None and LOW - NOISE <= probe.honest_score <= HIGH + NOISE


@pytest.mark.parametrize("seed", SEEDS)
def test_every_task_is_admitted_and_its_evidence_adds_up(admissions: dict[int, Admission], seed: int) -> None:
    admission = admissions[seed]
    first = admission.probe
    assert admission.original == START
    assert admission.task.task_id == START.task_id
    assert first is not None
    check_probe(first, START.rubric)
    if first.status != "measured" or first.passed:
        assert admission.outcome == ("passed" if first.passed else first.status)
        assert (admission.task, admission.rewrites) == (START, ())
        assert admission.delta_before == admission.delta_after == first.delta
        return
    assert admission.why == ", ".join(first.reasons)
    assert admission.delta_before == first.delta
    assert [r.round for r in admission.rewrites] in ([1], [1, 2])
    replay(admission)


def replay(admission: Admission) -> None:
    """Walk the rounds again from what was kept, and arrive at what was adopted."""
    assert admission.probe is not None and admission.delta_before is not None and admission.delta_after is not None
    current, delta, outcome = admission.original, admission.delta_before, "kept"
    best = (delta - NOISE, admission.original)
    for number, record in enumerate(admission.rewrites):
        assert record.why
        if record.outcome in ("unusable", "failed"):
            assert (record.task, record.probes) == (None, ())
            continue
        assert record.task is not None and record.task.version == current.version + 1
        assert len(record.probes) == (2 if record.probes[0].status == "discarded" else 1)
        for probe in record.probes:
            check_probe(probe, record.task.rubric)
        last = record.probes[-1]
        cleared = last.delta is not None and in_band(last) and delta - last.delta >= DROP - NOISE
        assert record.outcome == ("accepted" if cleared else "rejected")
        if last.passed:
            assert number == len(admission.rewrites) - 1, "nothing follows a probe that passes"
        else:
            assert number == 1 or len(admission.rewrites) == 2, "a task that is still beaten gets its second round"
        if last.delta is not None and in_band(last) and last.delta < best[0]:
            best = (last.delta, record.task)
        if cleared:
            assert last.delta is not None
            current, delta, outcome = record.task, last.delta, "repaired"
    if outcome == "kept" and best[1] is not admission.original:
        (delta, current), outcome = best, "best_drop"
    assert (admission.outcome, admission.task, admission.delta_after) == (outcome, current, delta)
    assert admission.delta_after <= admission.delta_before
    assert (admission.delta_after < admission.delta_before) == (admission.task != admission.original)


def test_the_seeds_reach_every_outcome(admissions: dict[int, Admission]) -> None:
    outcomes = Counter(a.outcome for a in admissions.values())
    assert set(outcomes) == {"passed", "repaired", "best_drop", "kept", "unmeasured", "discarded"}
    records = Counter(r.outcome for a in admissions.values() for r in a.rewrites)
    assert set(records) == {"accepted", "rejected", "unusable", "failed"}
    statuses = Counter(p.status for a in admissions.values() for r in a.rewrites for p in r.probes)
    assert set(statuses) == {"measured", "unmeasured", "discarded"}
