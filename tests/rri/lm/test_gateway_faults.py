"""The gateway when the endpoint or the reply is at fault: what is retried, how often, and what is raised."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from rri.errors import (
    EmptyReply,
    EndpointBusy,
    EndpointFailed,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnreachable,
    MalformedReply,
    ModelError,
    ReplyError,
    RriError,
    TruncatedReply,
)
from rri.lm import Gateway, ModelRequest, RecentCalls, Reply, output_spec
from rri.testing import Fault, ScriptedServer, empty, garbage, hang, other_json, reset, status, truncated
from signatures import FarmAnswer, JudgeCriterion
from tests.rigs import open_test_gateway, scripted_config

VERDICT = '{"reason": "scripted", "met": true}'

RETRIED: list[tuple[Fault, type[ModelError]]] = [
    (status(429), EndpointBusy),
    (status(429, retry_after="3600"), EndpointBusy),
    (status(500), EndpointFailed),
    (status(502, body="<html>"), EndpointFailed),
    (status(503, retry_after="Fri, 31 Dec 2100 23:59:59 GMT"), EndpointFailed),
    (status(529), EndpointFailed),
    (garbage(), EndpointFailed),
    (garbage(""), EndpointFailed),
    (reset(), EndpointUnreachable),
]
REFUSED = [400, 401, 403, 404, 413, 422]
CONTENT: list[tuple[Fault, type[ReplyError]]] = [
    (empty(), EmptyReply),
    (Fault("content", body=" \n\t"), EmptyReply),
    (truncated(), TruncatedReply),
    (truncated(VERDICT), TruncatedReply),
    (truncated(""), TruncatedReply),
    (other_json(), MalformedReply),
    (other_json("[]"), MalformedReply),
    (other_json('{"reason": "x"}'), MalformedReply),
    (other_json('{"reason": "x", "met": null}'), MalformedReply),
    (other_json('{"reason": "x", "met": true, "confidence": 1}'), MalformedReply),
    (other_json('{"reason": "x", "met"'), MalformedReply),
    (other_json("I would say that it is met."), MalformedReply),
    (other_json(f"```json\n{VERDICT}\n```"), MalformedReply),
    (other_json(VERDICT + VERDICT), MalformedReply),
    (other_json('{"reason": "\ud83d", "met": true}'), MalformedReply),
    (Fault("content", body=VERDICT, finish_reason="content_filter"), ReplyError),
    (Fault("content", body=VERDICT, finish_reason="tool_calls"), ReplyError),
]


def by_name(value: Any) -> str:
    return f"{value.kind}-{value.code}-{value.body[:24]!a}-{value.finish_reason}" if isinstance(value, Fault) else ""


def ask(gateway: Gateway, signature: Any = JudgeCriterion) -> Reply:
    messages = [{"role": "user", "content": "?"}]
    return gateway.complete_sync(ModelRequest(role="judge", messages=messages, output=output_spec(signature)))


def first(n: int, fault: Fault) -> Callable[[Any], Fault | str]:
    """A model whose first `n` replies are a fault."""
    return lambda request: fault if request.number < n else VERDICT


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between tries, recorded and not waited for."""
    seen: list[float] = []
    sleep = asyncio.sleep

    async def record(seconds: float, result: object = None) -> None:
        seen.append(seconds)
        await sleep(0)

    monkeypatch.setattr("rri.lm.gateway.asyncio.sleep", record)
    return seen


@pytest.mark.parametrize(("fault", "error"), RETRIED, ids=by_name)
def test_what_another_try_can_mend_is_tried_again(fault: Fault, error: type[ModelError]) -> None:
    """Twice after the first with `retries: 2`: the third answer counts, and a third failure is the end."""
    with (
        ScriptedServer({"judge": first(2, fault)}) as server,
        open_test_gateway(scripted_config(server.url)) as gateway,
    ):
        assert ask(gateway).text == VERDICT
        assert server.total == gateway.ledger.total().calls == 3
        assert gateway.ledger.total().failed == 2
    with (
        ScriptedServer({"judge": first(9, fault)}) as server,
        open_test_gateway(scripted_config(server.url)) as gateway,
    ):
        with pytest.raises(ModelError) as caught:
            ask(gateway)
        assert type(caught.value) is error
        assert server.total == gateway.ledger.total().calls == gateway.ledger.total().failed == 3


def test_no_answer_before_the_deadline_is_tried_again() -> None:
    with ScriptedServer({"judge": lambda r: hang()}) as server:
        config = scripted_config(server.url, endpoints={"main": {"timeout_s": 0.1, "retries": 1}})
        with open_test_gateway(config, sink := RecentCalls()) as gateway:
            with pytest.raises(EndpointTimeout, match="no answer within 0.1 s"):
                ask(gateway)
            assert [r.error.split(":")[0] for r in sink.records] == ["EndpointTimeout"] * 2


def test_a_server_that_is_not_there_is_tried_again() -> None:
    with ScriptedServer({}) as gone:
        url = gone.url
    with open_test_gateway(scripted_config(url), sink := RecentCalls()) as gateway:
        with pytest.raises(EndpointUnreachable):
            ask(gateway)
        assert len(sink.records) == gateway.ledger.total().failed == 3


def test_no_retries_means_one_try() -> None:
    with ScriptedServer({"judge": first(1, status(500))}) as server:
        with open_test_gateway(scripted_config(server.url, endpoints={"main": {"retries": 0}})) as gateway:
            with pytest.raises(EndpointFailed):
                ask(gateway)
        assert server.total == 1


@pytest.mark.parametrize("code", REFUSED)
def test_a_wrong_request_is_not_tried_again(code: int) -> None:
    with ScriptedServer({"judge": first(1, status(code))}) as server:
        with open_test_gateway(scripted_config(server.url), sink := RecentCalls()) as gateway:
            with pytest.raises(EndpointRefused, match=f"HTTP {code}: scripted"):
                ask(gateway)
            assert server.total == gateway.ledger.total().failed == len(sink.records) == 1


def test_the_fix_of_a_refused_key_names_the_key() -> None:
    """401 and 403 send the reader to the key, the others to url and model."""
    for code, word in ((401, "api_key_env"), (403, "api_key_env"), (404, "model"), (400, "model")):
        with ScriptedServer({"judge": first(1, status(code))}) as server:
            with open_test_gateway(scripted_config(server.url)) as gateway:
                with pytest.raises(EndpointRefused) as caught:
                    ask(gateway)
        assert word in caught.value.fix


@pytest.mark.parametrize(("fault", "error"), CONTENT, ids=by_name)
def test_an_unusable_reply_gets_exactly_one_fresh_sample(fault: Fault, error: type[ReplyError]) -> None:
    """A good second reply is the answer; a bad one raises the class that says why, and nothing more is asked."""
    with (
        ScriptedServer({"judge": first(1, fault)}) as server,
        open_test_gateway(scripted_config(server.url)) as gateway,
    ):
        assert ask(gateway).text == VERDICT
        assert server.total == 2
        assert (gateway.ledger.total().calls, gateway.ledger.total().failed) == (2, 1)
    with ScriptedServer({"judge": first(9, fault)}) as server:
        with open_test_gateway(scripted_config(server.url), sink := RecentCalls()) as gateway:
            with pytest.raises(ReplyError) as caught:
                ask(gateway)
            assert type(caught.value) is error
            assert server.total == gateway.ledger.total().failed == 2
            assert [r.reply for r in sink.records] == [fault.body] * 2, "the bad replies are kept"


def test_the_last_bad_reply_names_the_error() -> None:
    with ScriptedServer({"judge": lambda r: empty() if r.number == 0 else truncated()}) as server:
        with open_test_gateway(scripted_config(server.url)) as gateway:
            with pytest.raises(TruncatedReply):
                ask(gateway)


def test_the_fresh_sample_has_its_own_tries() -> None:
    """A bad reply, then a busy endpoint, then a good reply."""
    script: list[Fault | str] = [empty(), status(429), status(429), VERDICT]
    with ScriptedServer({"judge": lambda r: script[r.number]}) as server:
        with open_test_gateway(scripted_config(server.url), sink := RecentCalls()) as gateway:
            assert ask(gateway).text == VERDICT
            assert [r.attempt for r in sink.records] == [0, 0, 1, 2]


@pytest.mark.parametrize("signature", [JudgeCriterion, FarmAnswer])
def test_a_truncated_reply_is_never_an_answer(signature: Any) -> None:
    """Not even where it is whole JSON of the right shape, or plain text."""
    with ScriptedServer({"judge": lambda r: truncated(VERDICT)}) as server:
        with open_test_gateway(scripted_config(server.url)) as gateway:
            with pytest.raises(TruncatedReply, match="cut after 4 tokens"):
                ask(gateway, signature)
        assert server.total == 2


def completion(**changed: Any) -> str:
    choice = {"message": {"content": VERDICT}, "finish_reason": "stop"}
    return json.dumps({"choices": [{**choice, **changed.pop("choice", {})}], **changed})


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        "null",
        '"text"',
        "{}",
        '{"choices": []}',
        '{"choices": {}}',
        '{"error": {"message": "overloaded"}}',
        completion(choice={"message": None}),
        completion(choice={"message": {"content": [{"type": "text", "text": VERDICT}]}}),
        completion(choice={"message": {"content": {"text": VERDICT}}}),
        completion(usage=[1]),
        completion(usage={"prompt_tokens": "many"}),
        completion(usage={"prompt_tokens": float("inf")}),
        completion(usage={"completion_tokens": float("nan")}),
        "[" * 100_000,
    ],
    ids=lambda b: b[:60],
)
def test_a_body_that_is_no_completion_is_an_endpoint_error(body: str) -> None:
    """Whatever 200 carries, the caller sees an error of ours, and every try is on record."""
    with ScriptedServer({"judge": lambda r: garbage(body)}) as server:
        with open_test_gateway(scripted_config(server.url), sink := RecentCalls()) as gateway:
            with pytest.raises(EndpointFailed):
                ask(gateway)
            assert len(sink.records) == server.total == 3


@pytest.mark.parametrize(
    "body", [completion(), completion(usage=None), completion(choice={"finish_reason": None}, usage={})]
)
def test_usage_and_finish_reason_may_be_missing(body: str) -> None:
    with ScriptedServer({"judge": lambda r: garbage(body)}) as server:
        with open_test_gateway(scripted_config(server.url)) as gateway:
            assert ask(gateway).text == VERDICT


@pytest.mark.parametrize(
    ("fault", "error"),
    [(f, e) for f, e in RETRIED if f.kind != "reset"] + [(reset(), EndpointUnreachable)] + CONTENT,
    ids=by_name,
)
def test_errors_name_role_url_and_remedy_in_one_line(fault: Fault, error: type[ModelError]) -> None:
    with (
        ScriptedServer({"judge": lambda r: fault}) as server,
        open_test_gateway(scripted_config(server.url)) as gateway,
    ):
        with pytest.raises(error) as caught:
            ask(gateway)
        message = str(caught.value)
        assert server.url in message
    assert message.startswith("role judge: ") and message.count("role judge") == 1
    assert caught.value.fix and message.endswith(caught.value.fix)
    assert "\n" not in message and len(message) < 600


def test_a_servers_own_words_come_in_one_short_line() -> None:
    said = json.dumps({"error": {"message": "context\nlength\texceeded " + "x" * 5000}})
    with ScriptedServer({"judge": lambda r: status(400, body=said)}) as server:
        with open_test_gateway(scripted_config(server.url)) as gateway:
            with pytest.raises(EndpointRefused, match="HTTP 400: context length exceeded xxx") as caught:
                ask(gateway)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_key_that_is_no_header_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key read from a file often ends in a newline."""
    monkeypatch.setenv("TEST_MODEL_KEY", "sk-secret\n")
    with ScriptedServer({"judge": lambda r: VERDICT}) as server:
        config = scripted_config(server.url, endpoints={"main": {"api_key_env": "TEST_MODEL_KEY"}})
        try:
            with open_test_gateway(config) as gateway:
                assert ask(gateway).text == VERDICT
        except RriError as error:
            assert "TEST_MODEL_KEY" in str(error) and "sk-secret" not in str(error)


def test_pauses_double_with_jitter_up_to_the_cap(pauses: list[float]) -> None:
    endpoint = {"retries": 8, "retry_wait_s": 1, "retry_wait_max_s": 20}
    with ScriptedServer({"judge": lambda r: status(500)}) as server:
        with open_test_gateway(scripted_config(server.url, endpoints={"main": endpoint})) as gateway:
            with pytest.raises(EndpointFailed):
                ask(gateway)
    steps = [1, 2, 4, 8, 16, 20, 20, 20]
    assert len(pauses) == len(steps)
    assert all(step / 2 <= pause <= step for pause, step in zip(pauses, steps, strict=True)), pauses
    assert pauses != steps, "without jitter all clients come back at once"


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize(
    ("said", "at_least", "at_most"), [("7", 7, 20), ("3600", 10, 20), ("0", 0.5, 1), ("-5", 0.5, 1)]
)
def test_retry_after_is_kept_to_within_the_cap(
    pauses: list[float], code: int, said: str, at_least: float, at_most: float
) -> None:
    """No try before the server's time, unless that is beyond `retry_wait_max_s`; 0 leaves the usual pause."""
    endpoint = {"retries": 1, "retry_wait_s": 1, "retry_wait_max_s": 20}
    with ScriptedServer({"judge": first(1, status(code, retry_after=said))}) as server:
        with open_test_gateway(scripted_config(server.url, endpoints={"main": endpoint})) as gateway:
            ask(gateway)
    (pause,) = pauses
    assert at_least <= pause <= at_most


@pytest.mark.parametrize("said", ["soon", "Fri, 31 Dec 2100 23:59:59 GMT", "nan", "inf", "1e999"])
def test_a_retry_after_that_is_no_number_of_seconds_never_outlasts_the_cap(pauses: list[float], said: str) -> None:
    endpoint = {"retries": 1, "retry_wait_s": 1, "retry_wait_max_s": 20}
    with ScriptedServer({"judge": first(1, status(429, retry_after=said))}) as server:
        with open_test_gateway(scripted_config(server.url, endpoints={"main": endpoint})) as gateway:
            ask(gateway)
    assert 0.5 <= pauses[0] <= 20
