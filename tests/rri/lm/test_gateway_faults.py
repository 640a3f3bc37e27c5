"""The gateway when the endpoint or the reply is at fault: what is retried, how often, and what is raised."""

import asyncio
import json
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

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
from rri.lm import CallRecord, Gateway, ModelRequest, RecentCalls, Reply, Totals, output_spec
from rri.testing import ChatRequest, Fault, ScriptedServer, empty, garbage, hang, other_json, reset, status, truncated
from signatures import FarmAnswer, JudgeCriterion
from tests.rigs import open_test_gateway, scripted_config

VERDICT = '{"reason": "scripted", "met": true}'

Script = Callable[[ChatRequest], Fault | str]

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


class Rig(NamedTuple):
    """A scripted judge and a gateway on it."""

    server: ScriptedServer
    gateway: Gateway
    records: deque[CallRecord]

    @property
    def total(self) -> Totals:
        return self.gateway.ledger.total()

    def ask(self, signature: Any = JudgeCriterion) -> Reply:
        messages = [{"role": "user", "content": "?"}]
        return self.gateway.complete_sync(ModelRequest(role="judge", messages=messages, output=output_spec(signature)))


@contextmanager
def serve(script: Script, **endpoint: Any) -> Iterator[Rig]:
    sink = RecentCalls()
    with ScriptedServer({"judge": script}) as server:
        config = scripted_config(server.url, endpoints={"main": endpoint})
        with open_test_gateway(config, sink) as gateway:
            yield Rig(server, gateway, sink.records)


def first(n: int, fault: Fault) -> Script:
    """A model whose first `n` replies are a fault."""
    return lambda request: fault if request.number < n else VERDICT


def always(fault: Fault) -> Script:
    """For longer than any bound of the gateway, so that one that is gone shows as a good reply, not as a hang."""
    return first(30, fault)


def by_name(value: Any) -> str:
    if isinstance(value, Fault):
        return f"{value.kind}-{value.code}-{value.body[:24]!a}-{value.finish_reason}"
    return str(value.__name__)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The gateway's pauses between tries, recorded and not waited for."""
    seen: list[float] = []
    sleep = asyncio.sleep

    def record(seconds: float, *rest: Any) -> Coroutine[Any, Any, Any]:
        if sys._getframe(1).f_globals["__name__"] != "rri.lm.gateway":
            return sleep(seconds, *rest)
        seen.append(seconds)
        return sleep(0)

    monkeypatch.setattr(asyncio, "sleep", record)
    return seen


@pytest.mark.parametrize(("fault", "error"), RETRIED, ids=by_name)
def test_what_another_try_can_mend_is_tried_again(fault: Fault, error: type[ModelError]) -> None:
    """Twice after the first with `retries: 2`: the third answer counts, and a third failure is the end."""
    with serve(first(2, fault), retries=2) as rig:
        assert rig.ask().text == VERDICT
        assert rig.server.total == rig.total.calls == 3
        assert rig.total.failed == 2
    with serve(always(fault), retries=2) as rig:
        with pytest.raises(ModelError) as caught:
            rig.ask()
        assert type(caught.value) is error
        assert rig.server.total == rig.total.calls == rig.total.failed == 3


def test_no_answer_before_the_deadline_is_tried_again() -> None:
    with serve(always(hang()), timeout_s=0.1, retries=1) as rig:
        with pytest.raises(EndpointTimeout, match=r"no answer within 0\.1 s"):
            rig.ask()
        assert [r.error.split(":")[0] for r in rig.records] == ["EndpointTimeout"] * 2


def test_a_server_that_is_not_there_is_tried_again() -> None:
    with ScriptedServer({}) as gone:
        url = gone.url
    with serve(always(empty()), url=url) as rig:
        with pytest.raises(EndpointUnreachable, match=f"role judge: {url}"):
            rig.ask()
        assert len(rig.records) == rig.total.failed == 3


def test_no_retries_means_one_try() -> None:
    with serve(first(1, status(500)), retries=0) as rig:
        with pytest.raises(EndpointFailed):
            rig.ask()
        assert rig.server.total == 1


@pytest.mark.parametrize("code", REFUSED)
def test_a_wrong_request_is_not_tried_again(code: int) -> None:
    with serve(first(1, status(code))) as rig:
        with pytest.raises(EndpointRefused, match=f"HTTP {code}: scripted"):
            rig.ask()
        assert rig.server.total == rig.total.failed == len(rig.records) == 1


@pytest.mark.parametrize(("code", "word"), [(401, "api_key_env"), (403, "api_key_env"), (404, "model"), (400, "model")])
def test_the_fix_of_a_refusal_names_the_setting(code: int, word: str) -> None:
    with serve(always(status(code))) as rig, pytest.raises(EndpointRefused) as caught:
        rig.ask()
    assert word in caught.value.fix


@pytest.mark.parametrize(("fault", "error"), CONTENT, ids=by_name)
def test_an_unusable_reply_gets_exactly_one_fresh_sample(fault: Fault, error: type[ReplyError]) -> None:
    """A good second reply is the answer; a bad one raises the class that says why, and nothing more is asked."""
    with serve(first(1, fault)) as rig:
        assert rig.ask().text == VERDICT
        assert rig.server.total == 2
        assert (rig.total.calls, rig.total.failed) == (2, 1)
    with serve(always(fault)) as rig:
        with pytest.raises(ReplyError) as caught:
            rig.ask()
        assert type(caught.value) is error
        assert rig.server.total == rig.total.failed == 2
        kept = fault.body.encode("utf-8", "replace").decode()
        assert [r.reply for r in rig.records] == [kept] * 2, "the bad replies are kept, half characters marked"


def test_the_last_bad_reply_names_the_error() -> None:
    with serve(lambda r: truncated() if r.number else empty()) as rig, pytest.raises(TruncatedReply):
        rig.ask()


def test_the_fresh_sample_has_its_own_tries() -> None:
    """A bad reply, then a busy endpoint, then a good reply."""
    script: list[Fault | str] = [empty(), status(429), status(429), VERDICT]
    with serve(lambda r: script[r.number], retries=2) as rig:
        assert rig.ask().text == VERDICT
        assert [r.attempt for r in rig.records] == [0, 0, 1, 2]


@pytest.mark.parametrize("signature", [JudgeCriterion, FarmAnswer])
def test_a_truncated_reply_is_never_an_answer(signature: Any) -> None:
    """Not even where it is whole JSON of the right shape, or plain text."""
    with serve(always(truncated(VERDICT))) as rig:
        with pytest.raises(TruncatedReply, match="cut after 4 tokens"):
            rig.ask(signature)
        assert rig.server.total == 2


def completion(**changed: Any) -> str:
    choice = {"message": {"content": VERDICT}, "finish_reason": "stop", **changed.pop("choice", {})}
    return json.dumps({"choices": [choice], **changed})


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
    ids=lambda b: b[-40:],
)
def test_a_body_that_is_no_completion_is_an_endpoint_error(body: str) -> None:
    """Whatever 200 carries, the caller sees an error of ours, and every try is on record."""
    with serve(always(garbage(body)), retries=1) as rig:
        with pytest.raises(EndpointFailed):
            rig.ask()
        assert len(rig.records) == rig.server.total == 2


@pytest.mark.parametrize(
    "body", [completion(), completion(usage=None), completion(choice={"finish_reason": None}, usage={})]
)
def test_usage_and_finish_reason_may_be_missing(body: str) -> None:
    with serve(always(garbage(body))) as rig:
        assert rig.ask().text == VERDICT


@pytest.mark.parametrize(("fault", "error"), [*RETRIED, *CONTENT], ids=by_name)
def test_errors_name_role_url_and_remedy_in_one_line(fault: Fault, error: type[ModelError]) -> None:
    with serve(always(fault)) as rig:
        with pytest.raises(error) as caught:
            rig.ask()
        message = str(caught.value)
        assert rig.server.url in message
    assert message.startswith("role judge: ") and message.count("role judge") == 1
    assert caught.value.fix and message.endswith(caught.value.fix)
    assert "\n" not in message and len(message) < 600


def test_a_servers_own_words_come_in_one_short_line() -> None:
    """The message of a long error body is found, its spaces are folded, and it is cut."""
    said = json.dumps({"error": {"message": "context\nlength\texceeded " + "x" * 5000}})
    refused = pytest.raises(EndpointRefused, match="HTTP 400: context length exceeded xxx")
    with serve(always(status(400, body=said))) as rig, refused as caught:
        rig.ask()
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


def test_a_key_that_is_no_header_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key read from a file often ends in a newline: it works, or the error names its variable and not the key."""
    monkeypatch.setenv("TEST_MODEL_KEY", "sk-secret\n")
    try:
        with serve(lambda request: VERDICT, api_key_env="TEST_MODEL_KEY") as rig:
            assert rig.ask().text == VERDICT
    except RriError as error:
        assert "TEST_MODEL_KEY" in str(error) and "sk-secret" not in str(error)


def test_pauses_double_with_jitter_up_to_the_cap(pauses: list[float]) -> None:
    failed = pytest.raises(EndpointFailed)
    with serve(always(status(500)), retries=8, retry_wait_s=1, retry_wait_max_s=20) as rig, failed:
        rig.ask()
    steps = [1, 2, 4, 8, 16, 20, 20, 20]
    assert len(pauses) == len(steps)
    assert all(step / 2 <= pause <= step for pause, step in zip(pauses, steps, strict=True)), pauses
    assert pauses != steps, "without jitter all clients come back at once"


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize(("said", "low", "high"), [("7", 7, 20), ("3600", 10, 20), ("0", 0.5, 1), ("-5", 0.5, 1)])
def test_retry_after_is_kept_to_within_the_cap(
    pauses: list[float], code: int, said: str, low: float, high: float
) -> None:
    """No try before the server's time, unless that is beyond `retry_wait_max_s`; 0 leaves the usual pause."""
    script = first(1, status(code, retry_after=said))
    with serve(script, retries=1, retry_wait_s=1, retry_wait_max_s=20) as rig:
        rig.ask()
    (pause,) = pauses
    assert low <= pause <= high


@pytest.mark.parametrize("said", ["soon", "Fri, 31 Dec 2100 23:59:59 GMT", "nan", "inf", "1e999"])
def test_a_retry_after_that_is_no_number_of_seconds_never_outlasts_the_cap(pauses: list[float], said: str) -> None:
    script = first(1, status(429, retry_after=said))
    with serve(script, retries=1, retry_wait_s=1, retry_wait_max_s=20) as rig:
        rig.ask()
    assert len(pauses) == 1 and 0.5 <= pauses[0] <= 20


def test_tries_and_pauses_together_keep_to_the_deadline() -> None:
    """A try gets no more time than the sample has left, and no try begins after that."""
    with serve(always(hang()), timeout_s=0.1, deadline_s=0.25, retries=9) as rig:
        with pytest.raises(EndpointTimeout, match=r"given up at the deadline of 0\.25 s"):
            rig.ask()
        assert 2 <= rig.server.total <= 3


def test_a_pause_beyond_the_deadline_is_not_begun(pauses: list[float]) -> None:
    with serve(always(status(429, retry_after="5")), deadline_s=4.9, retries=9, retry_wait_max_s=60) as rig:
        with pytest.raises(EndpointBusy, match="given up at the deadline"):
            rig.ask()
        assert (rig.server.total, pauses) == (1, [])
