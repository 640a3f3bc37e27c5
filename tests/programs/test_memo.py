"""The memo round over a scripted model: when it is asked, what is taken, and that a rolled-back text is exact."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.memo import MemoRound
from programs.memo_optimizer import MemoOptimizer
from rri.cases import MemoVersion
from rri.config import MemoConfig
from rri.errors import BudgetExhausted, EndpointRefused, ModelError, TruncatedReply
from rri.guidance_rules import GuidanceLimits
from rri.lm import Gateway, role_lm
from rri.memo_score import MemoObservations, decide
from rri.rounds import ExploitEvidence, Hackability, MemoEvidence, MemoOutcome
from rri.testing import ChatRequest, Fault, ScriptedServer, status, truncated
from rri.types import Criterion
from tests.rigs import open_test_gateway, scripted_config

LIGHT = settings(max_examples=60, deadline=None)
Model = Callable[[ChatRequest], Fault | str]

GOOD = "Do not write that a topic is mentioned; write the value that must be stated instead."


def reply(memo: str = GOOD, summary: str = " Values. ") -> str:
    return json.dumps({"summary": summary, "new_memo": memo})


def in_turn(*replies: Fault | str) -> Model:
    return lambda request: replies[request.number]


def observed(version: int, delta: float, honest: float = 0.5, n: int = 2) -> MemoObservations:
    return MemoObservations(version=version, deltas=(delta,) * n, honests=(honest,) * n)


def evidence(*observations: MemoObservations, texts: tuple[str, ...] = (), **other: Any) -> MemoEvidence:
    """Versions from 0 on, as far as they are observed, with texts of their own."""
    texts = texts or tuple(f"Text {i}.\n" for i in range(max((o.version for o in observations), default=0) + 1))
    versions = tuple(
        MemoVersion(version=i, memo=text, decision="new" if i else "initial") for i, text in enumerate(texts)
    )
    return MemoEvidence(**{"cycle": 14, "versions": versions, "observations": observations, **other})


BEATEN = evidence(observed(0, 0.4))


@dataclass
class Rig:
    """A memo round over a scripted model."""

    round: MemoRound
    server: ScriptedServer
    gateway: Gateway

    def run(self, given: MemoEvidence = BEATEN) -> MemoOutcome:
        return self.gateway.loop.run(self.round.run(given))


@contextmanager
def rig(model: Model = lambda _: reply(), **sections: Any) -> Iterator[Rig]:
    with ScriptedServer({"memo_optimizer": model}) as server:
        config = scripted_config(server.url, **sections)
        memo = config.memo
        limits = GuidanceLimits(memo_chars=memo.max_chars, memo_asked_chars=memo.asked_chars)
        with open_test_gateway(config) as gateway:
            module = MemoOptimizer(limits)
            module.set_lm(role_lm("memo_optimizer", gateway))
            yield Rig(MemoRound(module, memo), server, gateway)


# -- proposing ------------------------------------------------------------------------


def test_a_beaten_memo_is_rewritten() -> None:
    with rig() as r:
        outcome = r.run()
        assert r.server.count("memo_optimizer") == 1
    assert outcome.decision.action == "propose"
    assert outcome.memo == MemoVersion(version=1, cycle=14, memo=GOOD, summary="Values.", decision="new")
    assert (outcome.why, outcome.rejected) == ("", ())


def test_the_optimizer_is_shown_the_figures_the_tricks_and_the_history() -> None:
    versions = (
        MemoVersion(version=0, memo=""),
        MemoVersion(version=1, memo="One.", decision="new"),
        MemoVersion(version=2, memo="Two.", decision="new"),
        MemoVersion(version=3, memo="One.", decision="rolled_back", of=1),
        MemoVersion(version=4, memo="Four.", decision="new"),
    )
    given = MemoEvidence(
        cycle=14,
        versions=versions,
        observations=(observed(0, 0.4), observed(1, 0.12345, 0.45678), observed(2, 0.5, n=1), observed(4, 0.1, n=3)),
        exploits=ExploitEvidence(
            gaps=(0.2,),
            labels={"breadth_padding": 3, "task_restatement": 1},
            patches=(Criterion(text="States the dose", points=8), Criterion(text="Claims a cure", points=-6)),
            hackability=Hackability(n=9, before=0.4, after=0.1),
        ),
    )
    with rig() as r:
        outcome = r.run(given)
        (request,) = r.server.of("memo_optimizer")
    assert request.block("memo") == "Four."
    assert request.block("max_chars") == "1500", "the prompt asks for less than is taken"
    assert request.block("hackability") == outcome.hackability
    assert "The number to lower is 0.100 under the current memo, over 3 first probes" in outcome.hackability
    assert "measured on 9 tasks" in outcome.hackability
    assert json.loads(request.block("modes")) == {"breadth_padding": 3, "task_restatement": 1}
    assert json.loads(request.block("minted")) == ["required: States the dose", "penalised: Claims a cure"]
    shown = json.loads(request.block("history"))
    assert [(p["version"], p["score"], p["honest_mean"], p["decision"]) for p in shown] == [
        (0, 0.4, 0.5, "the first one, then rewritten"),
        (1, 0.123, 0.457, "written anew, then rewritten"),
        (2, None, 0.5, "written anew, then given up for version 1"),
        (3, None, None, "the text of version 1 again, then rewritten"),
    ]


def test_the_latest_versions_and_criteria_are_shown() -> None:
    observations = [observed(i, 0.4) for i in range(4)]
    patches = tuple(Criterion(text=f"States {i}", points=8) for i in range(5))
    for most, versions, minted in ((2, [1, 2], ["States 3", "States 4"]), (0, [], [])):
        with rig(memo={"history": most, "minted": most}) as r:
            r.run(evidence(*observations, exploits=ExploitEvidence(patches=patches)))
            (request,) = r.server.of("memo_optimizer")
        assert [past["version"] for past in json.loads(request.block("history"))] == versions
        assert json.loads(request.block("minted")) == [f"required: {text}" for text in minted]


def test_the_prompts_that_are_kept_are_those_that_were_sent() -> None:
    with rig(in_turn(reply("x" * 2401), reply())) as r:
        outcome = r.run()
        sent = [request.messages for request in r.server.of("memo_optimizer")]
        tags = [(c.tag.task_id, c.tag.sample) for c in r.gateway.sink.records]  # type: ignore[attr-defined]
    assert json.loads(outcome.files()["memo-prompts.json"]) == sent
    assert tags == [("", "memo-14-attempt-1"), ("", "memo-14-attempt-2")]


def test_a_memo_of_2400_characters_is_taken_and_one_of_2401_asked_for_again() -> None:
    with rig(lambda _: reply("x" * 2400)) as r:
        outcome = r.run()
        assert r.server.count("memo_optimizer") == 1
    assert outcome.memo is not None and len(outcome.memo.memo) == 2400
    with rig(in_turn(reply("x" * 2401), reply())) as r:
        outcome = r.run()
        first, second = r.server.of("memo_optimizer")
    assert first.block("problems") == ""
    assert json.loads(second.block("problems")) == ["2401 characters; at most 2400 are allowed"]
    assert outcome.memo is not None and outcome.memo.memo == GOOD
    assert [len(rejected.memo) for rejected in outcome.rejected] == [2401]


@pytest.mark.parametrize(
    "text",
    [
        "Drop the negative criteria.",
        "Lower the points of hard criteria.",
        "Give partial credit.",
        "Write three criteria.",
    ],
)
def test_a_memo_that_loosens_or_speaks_of_what_code_owns_is_never_taken(text: str) -> None:
    with rig(lambda _: reply(text)) as r:
        outcome = r.run()
        assert r.server.count("memo_optimizer") == 2, "asked once more, and no more"
    assert outcome.memo is None
    assert outcome.why.startswith("the new memo breaks the rules in all 2 attempts: ")
    assert [rejected.memo for rejected in outcome.rejected] == [text, text]
    assert json.loads(outcome.files()["memo-decision.json"])["rejected"][1]["problems"]


@pytest.mark.parametrize("text", ["", "  \n", " Text 0.\n "])
def test_an_empty_memo_and_the_same_one_change_nothing(text: str) -> None:
    with rig(lambda _: reply(text, "Tight enough.")) as r:
        outcome = r.run()
        assert r.server.count("memo_optimizer") == 1, "proposing nothing is an answer and no fault"
    assert (outcome.memo, outcome.rejected) == (None, ())
    assert outcome.why == "the memo optimizer proposes no change: Tight enough."


# -- no call --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "action"),
    [
        (evidence(), "wait"),
        (evidence(observed(0, 0.9, n=1)), "wait"),
        (evidence(observed(0, 0.3, 0.2499)), "restricting"),
        (evidence(observed(0, 0.0)), "at_target"),
        (evidence(observed(0, 0.1), observed(1, 0.1201)), "roll_back"),
    ],
)
def test_the_optimizer_is_not_asked_where_the_figures_decide(given: MemoEvidence, action: str) -> None:
    with rig() as r:
        outcome = r.run(given)
        assert r.server.total == 0
    assert outcome.decision.action == action
    assert (outcome.memo is not None) is (action == "roll_back")
    assert bool(outcome.why) is (action != "roll_back")
    assert (outcome.hackability, outcome.prompts) == ("", ())
    assert "memo-prompts.json" not in outcome.files()


def test_a_rolled_back_memo_is_the_earlier_text_to_the_letter() -> None:
    texts = ("", " Exact \ttext.\r\n\n\u00e9\u200b ", "Worse.")
    with rig() as r:
        outcome = r.run(evidence(observed(0, 0.3), observed(1, 0.1), observed(2, 0.5), texts=texts))
    assert outcome.memo is not None
    assert outcome.memo.memo == texts[1]
    made = outcome.memo
    assert (made.version, made.cycle, made.decision, made.of) == (3, 14, "rolled_back", 1)
    assert outcome.files()["memo-after.md"] == texts[1]
    assert "worse by 0.400 than that of memo 1" in made.summary


def test_a_roll_back_can_end_at_no_memo_at_all() -> None:
    with rig() as r:
        outcome = r.run(evidence(observed(0, 0.1), observed(1, 0.5), texts=("", "Worse.")))
    assert outcome.memo is not None and (outcome.memo.memo, outcome.memo.of) == ("", 0)


@LIGHT
@given(seed=st.integers(0, 10**6), rounds=st.integers(1, 14))
def test_over_any_history_a_rolled_back_text_is_that_of_its_version(seed: int, rounds: int) -> None:
    """Runs a memo through random measurements; new texts come from a small set, so that equal ones turn up."""
    rng = random.Random(seed)
    program = MemoRound(MemoOptimizer())
    versions = [MemoVersion(version=0)]
    seen: dict[int, list[tuple[float, float]]] = {}
    for cycle in range(rounds):
        for _ in range(rng.randrange(3)):
            seen.setdefault(versions[-1].version, []).append((rng.uniform(-0.2, 0.8), rng.uniform(0.2, 0.9)))
        given = MemoEvidence(
            cycle=cycle,
            versions=tuple(versions),
            observations=tuple(
                MemoObservations(version=v, deltas=tuple(d for d, _ in pairs), honests=tuple(h for _, h in pairs))
                for v, pairs in seen.items()
            ),
        )
        if rng.random() < 0.5:
            text = rng.choice([" a\n", "b ", "c"])
            versions.append(MemoVersion(version=len(versions), cycle=cycle, memo=text, decision="new"))
            continue
        made = _without_a_model(program, given)
        if made is None:
            continue
        assert made.version == len(versions) and made.of is not None
        assert made.memo == versions[made.of].memo != versions[-1].memo
        versions.append(made)


def _without_a_model(program: MemoRound, given: MemoEvidence) -> MemoVersion | None:
    """The version that a round makes by itself; none where it would ask."""
    if decide(given.versions, given.observations, program.config).action == "propose":
        return None
    return asyncio.run(program.run(given)).memo


# -- failures -------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "error"), [(status(400), EndpointRefused), (truncated(), TruncatedReply)])
@pytest.mark.parametrize("first", [True, False])
def test_a_failing_model_passes_to_the_caller(fault: Fault, error: type[ModelError], first: bool) -> None:
    def model(request: ChatRequest) -> Fault | str:
        return reply("Give partial credit.") if not first and request.number == 0 else fault

    with rig(model) as r, pytest.raises(error, match="role memo_optimizer: "):
        r.run()


def test_an_exhausted_budget_passes() -> None:
    with rig(lambda _: reply("Give partial credit."), budget={"calls": 1}) as r:
        with pytest.raises(BudgetExhausted):
            r.run()
        assert r.server.count("memo_optimizer") == 1


def test_the_numbers_come_from_the_config() -> None:
    with rig(lambda _: reply("x" * 50), memo={"max_chars": 49, "asked_chars": 40, "min_observations": 1}) as r:
        outcome = r.run(evidence(observed(0, 0.4, n=1)))
    assert outcome.decision.action == "propose"
    assert outcome.why.endswith("50 characters; at most 49 are allowed")
    assert MemoRound(MemoOptimizer()).config == MemoConfig()


def test_a_round_keeps_nothing_between_runs() -> None:
    with rig() as r:
        assert r.run() == r.run()
        bodies = [json.dumps(request.body) for request in r.server.of("memo_optimizer")]
    assert bodies[0] == bodies[1]
