"""dspy on the gateway: errors come back as ours, modules save and load, nothing else is touched on the way."""

import asyncio
import copy
import gc
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY

from programs import Farmer, Generator, Judge
from rri.errors import (
    BudgetExhausted,
    EmbeddedModelError,
    EndpointBusy,
    EndpointRefused,
    MalformedReply,
    RriError,
    StoreError,
    TruncatedReply,
)
from rri.lm import (
    CallRecord,
    Gateway,
    RecentCalls,
    RriAdapter,
    model_errors,
    open_gateway,
    output_spec,
    resolve_routes,
    role_lm,
    tagged,
    use_gateway,
)
from rri.lm.calls import Tag
from rri.lm.engine import AsyncGatewayEngine, GatewayEngine, current_gateway
from rri.testing import ScriptedServer, other_json, role_models, status, truncated
from signatures import JudgeCriterion
from tests.rigs import make_task, open_test_gateway, scripted_config

CRITERION = {"answer": "Rule one says so.", "criterion": "States rule one"}


@pytest.fixture(autouse=True)
def no_current_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rri.lm.engine._CURRENT", [])


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(role_models()) as running:
        yield running


@pytest.fixture
def gateway(server: ScriptedServer) -> Iterator[Gateway]:
    with open_test_gateway(scripted_config(server.url)) as opened:
        yield opened


def bound_judge(gateway: Gateway | None, strict: bool = False) -> Judge:
    judge = Judge(strict=strict)
    judge.set_lm(role_lm("judge", gateway))
    return judge


def ask(judge: Judge, way: str) -> Any:
    if way == "sync":
        return judge(task=make_task(), **CRITERION)
    return asyncio.run(judge.acall(task=make_task(), **CRITERION))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_role_module_answers_through_the_gateway(gateway: Gateway, way: str) -> None:
    vote = ask(bound_judge(gateway), way)
    assert vote.outcome in ("met", "unmet") and vote.reason == "scripted"
    assert gateway.ledger.by_role["judge"].calls == 1


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (status(429), EndpointBusy, "HTTP 429"),
        (status(401), EndpointRefused, "HTTP 401"),
        (truncated(), TruncatedReply, "was cut"),
        (other_json(), MalformedReply, "JudgeCriterion: "),
    ],
)
def test_errors_of_ours_come_back_unchanged(
    server: ScriptedServer, gateway: Gateway, way: str, fault: Any, error: type[RriError], says: str
) -> None:
    """Class, text and remedy are the gateway's, and dspy neither tries again nor falls back to another adapter."""
    server.models["judge"] = lambda request: fault
    with pytest.raises(RriError) as caught:
        ask(bound_judge(gateway), way)
    assert type(caught.value) is error
    assert caught.value.what.startswith("role judge: ") and says in caught.value.what
    assert str(caught.value).count("role judge") == 1
    assert server.total == {EndpointBusy: 3, EndpointRefused: 1}.get(error, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_used_up_budget_comes_back_unchanged(server: ScriptedServer, way: str) -> None:
    with open_test_gateway(scripted_config(server.url, budget={"calls": 1})) as gateway:
        ask(bound_judge(gateway), way)
        with pytest.raises(BudgetExhausted, match=r"budget\.calls is used up: 1 of 1"):
            ask(bound_judge(gateway), way)


class FullDisk:
    """A sink that cannot keep anything."""

    def __init__(self) -> None:
        self.error = StoreError("disk is full", "Free some space")

    async def keep(self, record: CallRecord) -> None:
        raise self.error


@pytest.mark.parametrize("way", ["sync", "async"])
def test_the_very_error_object_passes_through_dspy(server: ScriptedServer, way: str) -> None:
    sink = FullDisk()
    full = pytest.raises(StoreError)
    with open_test_gateway(scripted_config(server.url), sink) as gateway, full as caught:
        ask(bound_judge(gateway), way)
    assert caught.value is sink.error


def test_an_embedded_model_that_does_not_start_comes_back_unchanged() -> None:
    async def url() -> str:
        raise EmbeddedModelError("it did not start", "Look at the log")

    config = scripted_config("embedded")
    gateway = Gateway(resolve_routes(config), embedded_url=url)
    try:
        with pytest.raises(EmbeddedModelError, match=r"it did not start\. Look at the log"):
            ask(bound_judge(gateway), "sync")
    finally:
        gateway.loop.close()


def test_model_errors_leaves_other_errors_alone() -> None:
    with pytest.raises(KeyError), model_errors():
        raise KeyError("x")


def test_classes_that_look_alike_on_the_wire_do_not_answer_for_each_other(gateway: Gateway) -> None:
    """Classes of one name and one wire schema, but other bounds: each reply is checked by its own, once afresh."""

    def judge_with(**bounds: int) -> dspy.Predict:
        class Opinion(dspy.Signature):
            """Say something."""

            answer: str = dspy.InputField(desc="a text")
            criterion: str = dspy.InputField(desc="a text")
            reason: str = dspy.OutputField(desc="why", **bounds)
            met: bool = dspy.OutputField(desc="whether")

        output_spec(Opinion)
        predict = dspy.Predict(Opinion)
        predict.set_lm(role_lm("judge", gateway))
        return predict

    bounded, loose = judge_with(min_length=100), judge_with()
    with dspy.context(adapter=RriAdapter(), disable_history=True):
        assert loose(**CRITERION).reason == "scripted"
        with pytest.raises(MalformedReply, match="at least 100"), model_errors():
            bounded(**CRITERION)
    assert gateway.ledger.total().failed == 2, "the gateway saw that the reply is unusable"
    assert gateway.ledger.total().calls == 3


def test_sampling_given_to_predict_reaches_the_wire(server: ScriptedServer, gateway: Gateway) -> None:
    predict = dspy.Predict(JudgeCriterion)
    predict.set_lm(role_lm("judge", gateway))
    with dspy.context(adapter=RriAdapter(), disable_history=True):
        predict(**CRITERION, config={"temperature": 0.0, "max_tokens": 7})
        predict(**CRITERION)
    sent = [(r.body["temperature"], r.body["max_tokens"]) for r in server.requests]
    assert sent == [(0.0, 7), (0.6, 512)]


def test_the_same_call_twice_is_two_calls(server: ScriptedServer, gateway: Gateway) -> None:
    """No cache of dspy's answers for the model."""
    judge = bound_judge(gateway)
    ask(judge, "sync"), ask(judge, "sync")
    assert server.total == gateway.ledger.total().calls == 2


def test_no_history_grows(gateway: Gateway) -> None:
    """A run makes millions of calls; dspy must not keep them, whatever the way."""
    judge, before = bound_judge(gateway), len(GLOBAL_HISTORY)
    for way in ("sync", "async"):
        ask(judge, way)
    assert (len(judge.history), len(judge.predict.history), len(judge.predict.lm.history)) == (0, 0, 0)
    assert len(GLOBAL_HISTORY) == before
    assert not judge.predict.traces


def test_modules_work_from_threads_with_their_own_tags(server: ScriptedServer) -> None:
    with open_test_gateway(scripted_config(server.url), sink := RecentCalls()) as gateway:
        judge = bound_judge(gateway)

        def vote(number: int) -> str:
            with tagged(f"task-{number}", "s"):
                return str(judge(task=make_task(), answer=f"answer {number}", criterion="c").reason)

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(vote, range(12))) == ["scripted"] * 12
        kept = {r.tag: r.messages[-1]["content"] for r in sink.records}
    assert len(kept) == 12
    assert all(f"answer {tag.task_id.removeprefix('task-')}\n" in text for tag, text in kept.items())


def test_tags_pass_through_acall(server: ScriptedServer) -> None:
    with open_test_gateway(scripted_config(server.url), sink := RecentCalls()) as gateway, tagged("t", "s"):
        ask(bound_judge(gateway), "async")
        assert [r.tag for r in sink.records] == [Tag("t", "s")]


def test_without_our_adapter_no_typed_reply_is_guessed(gateway: Gateway) -> None:
    """dspy's own adapters speak another protocol; that is an error which names ours."""
    predict = dspy.Predict(JudgeCriterion)
    predict.set_lm(role_lm("judge", gateway))
    with pytest.raises(MalformedReply, match="RriAdapter"), dspy.context(disable_history=True), model_errors():
        predict(**CRITERION)


def test_engines_dump_their_role_and_nothing_else(gateway: Gateway) -> None:
    for engine in (GatewayEngine, AsyncGatewayEngine):
        state = engine("farmer", gateway).dump_state()
        assert state == {"role": "farmer"}
        assert engine.load_state(state).role == "farmer"
        with pytest.raises(ValueError, match=r"'solver'.*judge"):
            engine.load_state({"role": "solver"})


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_saved_module_answers_through_the_current_gateway(
    server: ScriptedServer, gateway: Gateway, tmp_path: Path, way: str
) -> None:
    """The one that is current when it is called, not the one that it was saved with."""
    saved = bound_judge(gateway)
    saved.save(tmp_path / "judge.json")
    loaded = Judge()
    loaded.load(tmp_path / "judge.json", allow_unsafe_lm_state=True)
    for _ in range(2):
        with ScriptedServer(role_models()) as other, open_test_gateway(scripted_config(other.url)) as current:
            use_gateway(current)
            assert ask(loaded, way).reason == "scripted"
            assert (other.total, server.total) == (1, 0)


def test_a_saved_module_holds_no_url_and_no_key(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", "sk-secret")
    config = scripted_config(server.url, endpoints={"main": {"api_key_env": "TEST_MODEL_KEY"}})
    with open_test_gateway(config) as gateway:
        bound_judge(gateway).save(tmp_path / "judge.json")
    text = (tmp_path / "judge.json").read_text()
    assert "sk-secret" not in text and server.url not in text
    assert json.loads(text)["predict"]["lm"]["engine"] == {
        "class": "rri.lm.engine:GatewayEngine",
        "state": {"role": "judge"},
    }


@pytest.mark.parametrize("strict", [False, True])
def test_a_loaded_module_sends_what_the_saved_one_sent(
    server: ScriptedServer, gateway: Gateway, tmp_path: Path, strict: bool
) -> None:
    """Prompt, schema and its name, to the byte."""
    use_gateway(gateway)
    saved, loaded = bound_judge(None, strict), Judge(strict=strict)
    saved.save(tmp_path / "judge.json")
    loaded.load(tmp_path / "judge.json", allow_unsafe_lm_state=True)
    ask(saved, "sync"), ask(loaded, "sync")
    first, second = (r.body for r in server.requests)
    assert first == second


@pytest.mark.parametrize("copier", [copy.deepcopy, Farmer.deepcopy])
def test_modules_copy_with_their_engine(gateway: Gateway, copier: Callable[[Farmer], Farmer]) -> None:
    """Optimizers deep-copy modules; the copy speaks to the same gateway, which itself is not copied."""
    farmer, made, failure = Farmer(), None, ""
    farmer.set_lm(role_lm("farmer", gateway))
    try:
        made = copier(farmer)
    except TypeError as error:
        failure = str(error)
    gc.collect()  # A half-copied event loop fails in its finalizer, at a time of its own choosing.
    assert made is not None, failure
    assert made.predict.lm.engine.gateway is gateway
    assert made(task=make_task()).startswith("Try ")


def test_a_module_without_an_open_gateway_says_what_to_do() -> None:
    with pytest.raises((RuntimeError, RriError), match="open_gateway"):
        current_gateway()
    generator = Generator()
    generator.set_lm(role_lm("generator"))
    with pytest.raises((RuntimeError, RriError), match="open_gateway"):
        generator(request="x", passages=[], positives=1, negative=False)


def test_open_gateway_makes_it_current_with_the_configs_budget(server: ScriptedServer) -> None:
    gateway = open_gateway(scripted_config(server.url, budget={"calls": 1}))
    try:
        assert current_gateway() is gateway
        assert ask(bound_judge(None), "sync").reason == "scripted"
        with pytest.raises(BudgetExhausted):
            ask(bound_judge(None), "sync")
    finally:
        gateway.close_sync()
        gateway.loop.close()


def test_no_litellm_on_our_path() -> None:
    """A fresh process that calls roles sync and async, typed and plain, never imports it."""
    program = """
        import asyncio, sys
        from programs import Farmer, Judge
        from rri.lm import role_lm
        from rri.testing import ScriptedServer, role_models
        from tests.rigs import make_task, open_test_gateway, scripted_config

        with ScriptedServer(role_models()) as server, open_test_gateway(scripted_config(server.url)) as gateway:
            farmer, judge = Farmer(), Judge()
            farmer.set_lm(role_lm("farmer", gateway))
            judge.set_lm(role_lm("judge", gateway))
            answer = farmer(task=make_task())
            asyncio.run(judge.acall(task=make_task(), answer=answer, criterion="c"))
            assert server.total == 2
        print("litellm" in sys.modules)
    """
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=root, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.strip()) == (0, "False"), done.stderr
