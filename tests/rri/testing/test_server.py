"""The scripted server is what it says: the OpenAI protocol, by the official client, and faults on demand."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from rri.config import ROLES
from rri.testing import (
    ChatRequest,
    Fault,
    FaultMix,
    Reply,
    ScriptedServer,
    empty,
    garbage,
    hang,
    other_json,
    reset,
    role_models,
    status,
    truncated,
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer({"echo": lambda r: f"{r.number}: {r.messages[-1]['content']}"}) as running:
        yield running


def client(server: ScriptedServer, **options: Any) -> openai.OpenAI:
    plain = httpx.Client(trust_env=False, verify=False)  # loads no certificates, which would take most of the time
    return openai.OpenAI(base_url=server.url, api_key="sk-test", max_retries=0, http_client=plain, **options)


def until(condition: Callable[[], bool], seconds: float = 3.0) -> bool:
    """Wait for a condition; False at the deadline."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def ask(server: ScriptedServer, text: str = "hello there", model: str = "echo", **options: Any) -> Any:
    with client(server) as api:
        return api.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], **options)


def test_the_official_client_gets_a_chat_completion(server: ScriptedServer) -> None:
    answer = ask(server, temperature=0.5, max_tokens=9)
    assert answer.choices[0].message.content == "0: hello there"
    assert (answer.choices[0].finish_reason, answer.model) == ("stop", "echo")
    assert answer.usage.model_dump(include={"prompt_tokens", "completion_tokens", "total_tokens"}) == {
        "prompt_tokens": 2,
        "completion_tokens": 3,
        "total_tokens": 5,
    }


def test_the_official_client_lists_the_models() -> None:
    with ScriptedServer(role_models()) as server, client(server) as api:
        assert [model.id for model in api.models.list()] == list(ROLES)


def test_token_counts_are_the_scripts_where_it_gives_them(server: ScriptedServer) -> None:
    server.models["priced"] = lambda r: Reply("a b", tokens_in=100, tokens_out=20, cached=60)
    usage = ask(server, model="priced").usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (100, 20, 120)
    assert usage.prompt_tokens_details.cached_tokens == 60


def test_requests_are_kept_as_they_came(server: ScriptedServer) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "Shape", "schema": {"type": "object"}, "strict": True}}
    ask(server, "first", temperature=0.5)
    ask(server, "second", response_format=schema)
    first, second = server.requests
    assert (first.number, second.number) == (0, 1)
    assert (first.schema_name, second.schema_name) == ("", "Shape")
    assert first.body["temperature"] == 0.5 and second.body["response_format"] == schema
    assert first.key == "sk-test"
    assert second.messages == [{"role": "user", "content": "second"}]


def test_numbers_count_by_model(server: ScriptedServer) -> None:
    server.models["other"] = lambda r: str(r.number)
    for model in ("echo", "other", "echo", "other"):
        ask(server, model=model)
    assert [(r.model, r.number) for r in server.requests] == [("echo", 0), ("other", 0), ("echo", 1), ("other", 1)]
    assert (server.count("echo"), server.count("other"), server.count("none"), server.total) == (2, 2, 0, 4)
    assert [r.number for r in server.of("other")] == [0, 1]


def test_it_keeps_so_many_and_counts_all() -> None:
    with ScriptedServer({"echo": lambda r: "x"}, keep=2) as server:
        for _ in range(3):
            ask(server)
        assert (len(server.requests), server.total, server.count("echo")) == (2, 3, 3)


def test_an_unknown_model_is_404(server: ScriptedServer) -> None:
    with pytest.raises(openai.NotFoundError, match="no model 'missing'"):
        ask(server, model="missing")
    assert server.total == 1


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
def test_a_status_fault_is_that_status(server: ScriptedServer, code: int, error: type[openai.APIStatusError]) -> None:
    server.fault = lambda request: status(code, retry_after="7")
    with pytest.raises(error, match="scripted") as caught:
        ask(server)
    assert (caught.value.status_code, caught.value.response.headers["Retry-After"]) == (code, "7")


def test_a_reset_drops_the_connection(server: ScriptedServer) -> None:
    server.fault = lambda request: reset()
    with pytest.raises(openai.APIConnectionError) as caught:
        ask(server)
    assert not isinstance(caught.value, openai.APITimeoutError)


def test_a_hang_answers_nothing_and_ends_with_the_client(server: ScriptedServer) -> None:
    """`concurrent` counts who is being served, so it falls when the client has hung up."""
    server.fault = lambda request: hang()
    with client(server, timeout=0.2) as api, pytest.raises(openai.APITimeoutError):
        api.chat.completions.create(model="echo", messages=[])
    until(lambda: server.concurrent == 0)
    assert (server.concurrent, server.most_concurrent, server.total) == (0, 1, 1)


def test_garbage_is_200_with_any_body(server: ScriptedServer) -> None:
    server.fault = lambda request: garbage("<html>")
    answer = httpx.post(f"{server.url}/chat/completions", json={"model": "echo", "messages": []}, trust_env=False)
    assert (answer.status_code, answer.text) == (200, "<html>")


@pytest.mark.parametrize(
    ("fault", "content", "finish"),
    [
        (empty(), "", "stop"),
        (truncated("half an"), "half an", "length"),
        (other_json("[1]"), "[1]", "stop"),
        (Fault("content", body="x", finish_reason="content_filter"), "x", "content_filter"),
    ],
)
def test_a_content_fault_is_a_whole_completion(server: ScriptedServer, fault: Fault, content: str, finish: str) -> None:
    server.fault = lambda request: fault
    choice = ask(server).choices[0]
    assert (choice.message.content, choice.finish_reason) == (content, finish)


def test_a_model_may_return_a_fault_itself(server: ScriptedServer) -> None:
    server.models["echo"] = lambda r: status(500) if r.number == 0 else "well"
    with pytest.raises(openai.InternalServerError):
        ask(server)
    assert ask(server).choices[0].message.content == "well"


def test_concurrency_is_measured() -> None:
    """Three requests that all hang are three at once; leaving the server ends them."""

    def one(server: ScriptedServer) -> None:
        with client(server, timeout=30) as api, pytest.raises(openai.APIConnectionError):
            api.chat.completions.create(model="echo", messages=[])

    with ThreadPoolExecutor(3) as pool:
        with ScriptedServer({"echo": lambda r: hang()}) as server:
            waiting = [pool.submit(one, server) for _ in range(3)]
            assert until(lambda: server.concurrent == 3)
            assert server.most_concurrent == 3
        for future in waiting:
            future.result(timeout=10)


def request_with(text: str) -> ChatRequest:
    return ChatRequest("m", [{"role": "user", "content": text}], "", {}, 0, "")


def test_block_reads_an_input_of_the_prompt() -> None:
    request = request_with("<answer>\ntwo\nlines\n</answer>\n\n<max.chars>\n5\n</max.chars>")
    assert request.block("answer") == "two\nlines"
    assert request.block("max.chars") == "5"
    assert request.block("missing") == ""


def test_a_fault_mix_draws_by_share_and_repeats_with_its_seed() -> None:
    shares = {status(500): 0.2, empty(): 0.1}
    first, again, other = FaultMix(shares, seed=3), FaultMix(shares, seed=3), FaultMix(shares, seed=4)
    drawn = [first.draw() for _ in range(2000)]
    assert drawn == [again.draw() for _ in range(2000)]
    assert drawn != [other.draw() for _ in range(2000)]
    counts = Counter(drawn)
    assert counts[status(500)] == pytest.approx(400, abs=80)
    assert counts[empty()] == pytest.approx(200, abs=60)
    assert counts[None] == pytest.approx(1400, abs=90)


def test_a_fault_mix_without_faults_draws_none() -> None:
    mix = FaultMix({})
    assert {mix.draw() for _ in range(50)} == {None}
    assert {FaultMix({reset(): 1.0}).draw() for _ in range(50)} == {reset()}
