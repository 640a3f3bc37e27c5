"""The gateway at work: routing, sampling, bounds, tags, loops and threads."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from rri.config import EMBEDDED, ROLES
from rri.errors import ConfigError, EmbeddedModelError, StoreError
from rri.lm import CallRecord, Gateway, ModelRequest, RecentCalls, Reply, output_spec, resolve_routes, tagged
from rri.lm.calls import Tag
from rri.testing import ChatRequest, Fault, ScriptedServer, hang, status
from signatures import FarmAnswer, JudgeCriterion
from tests.rigs import open_test_gateway, scripted_config

Model = Callable[[ChatRequest], Fault | str]

VERDICT = '{"reason": "scripted", "met": true}'
MODELS: dict[str, Model] = {role: lambda r: VERDICT for role in ROLES}


def ask(role: str = "judge", text: str = "?", **sampling: Any) -> ModelRequest:
    output = output_spec(FarmAnswer if role in ("farmer", "honest") else JudgeCriterion)
    return ModelRequest(role=role, messages=[{"role": "user", "content": text}], output=output, **sampling)  # type: ignore[arg-type]


@contextmanager
def serve(models: Mapping[str, Model]) -> Iterator[tuple[ScriptedServer, Gateway, deque[CallRecord]]]:
    """A scripted server, a gateway on it, and the calls that it kept."""
    sink = RecentCalls()
    with ScriptedServer(models) as server, open_test_gateway(scripted_config(server.url), sink) as gateway:
        yield server, gateway, sink.records


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Wait for a condition; False at the deadline."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.002)
    return condition()


async def cancel(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def start(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(work)


def test_each_role_goes_to_its_route() -> None:
    """Endpoint and model by role; a role's model overrides its endpoint's, one without takes the endpoint's."""
    with ScriptedServer(MODELS) as first, ScriptedServer({"gpt-judge": lambda r: VERDICT}) as second:
        config = scripted_config(
            first.url,
            endpoints={"other": {"url": second.url + "/", "model": "gpt-judge"}},
            roles={"judge": {"endpoint": "other", "model": ""}},
            solver={"retrieval": True},
        )
        with open_test_gateway(config) as gateway:
            for role in ROLES:
                gateway.complete_sync(ask(role, f"from {role}"))
        assert [r.model for r in second.requests] == ["gpt-judge"]
        assert second.requests[0].messages == [{"role": "user", "content": "from judge"}]
        assert [r.model for r in first.requests] == [r for r in ROLES if r != "judge"]


def test_the_reply_is_checked_text_with_its_usage() -> None:
    with ScriptedServer(MODELS) as server, open_test_gateway(scripted_config(server.url)) as gateway:
        judged, farmed = gateway.complete_sync(ask("judge")), gateway.complete_sync(ask("farmer"))
    assert judged.value is not None and judged.value.model_dump() == {"reason": "scripted", "met": True}
    assert (farmed.text, farmed.value) == (VERDICT, None)
    assert judged.usage.tokens_in == 1 and judged.usage.tokens_out == 4


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ({}, {"temperature": 0.6, "max_tokens": 512}),
        ({"temperature": 0.0}, {"temperature": 0.0, "max_tokens": 512}),
        ({"temperature": 1.5, "max_tokens": 7}, {"temperature": 1.5, "max_tokens": 7}),
    ],
)
def test_sampling_is_the_roles_own_unless_the_call_says_otherwise(
    asked: dict[str, float], sent: dict[str, float]
) -> None:
    """Temperature 0 is an override, not an absence."""
    with ScriptedServer(MODELS) as server, open_test_gateway(scripted_config(server.url)) as gateway:
        gateway.complete_sync(ask(**asked))
        body = server.requests[0].body
    assert {k: body[k] for k in sent} == sent


def test_a_role_without_temperature_sends_none() -> None:
    with ScriptedServer(MODELS) as server:
        with open_test_gateway(scripted_config(server.url, roles={"judge": {"temperature": None}})) as gateway:
            gateway.complete_sync(ask())
        assert "temperature" not in server.requests[0].body


def test_endpoint_settings_shape_the_body() -> None:
    """Token field, extra body and strict schema; extra body never replaces what the gateway owns."""
    endpoint = {
        "max_tokens_field": "max_completion_tokens",
        "extra_body": {"seed": 3, "model": "other", "messages": []},
        "strict_schema": False,
    }
    with ScriptedServer({**MODELS, "judge": lambda r: VERDICT if r.number else '{"met": true}'}) as server:
        with open_test_gateway(scripted_config(server.url, endpoints={"main": endpoint})) as gateway:
            gateway.complete_sync(ask())
        body = server.requests[0].body
        assert server.total == 2, "the reply is checked where no schema is sent, too"
    assert body["max_completion_tokens"] == 512 and "max_tokens" not in body
    assert (body["seed"], body["model"], body["messages"][0]["content"]) == (3, "judge", "?")
    assert "response_format" not in body


def test_the_key_comes_from_the_environment_and_is_kept_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", "sk-secret")
    with ScriptedServer({"judge": lambda r: status(401)}) as server:
        config = scripted_config(server.url, endpoints={"main": {"api_key_env": "TEST_MODEL_KEY"}})
        with open_test_gateway(config, sink := RecentCalls()) as gateway:
            with pytest.raises(Exception, match="401") as caught:
                gateway.complete_sync(ask())
            manifest = [route.as_manifest() for route in gateway.routes.values()]
        assert server.requests[0].key == "sk-secret"
    assert "sk-secret" not in f"{caught.value!s} {list(sink.records)} {manifest} {config.model_dump()}"


def test_without_a_key_no_authorization_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ambient")
    with ScriptedServer(MODELS) as server, open_test_gateway(scripted_config(server.url)) as gateway:
        gateway.complete_sync(ask())
        assert server.requests[0].key == ""


def test_routes_that_cannot_work_are_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"judge.*'main' names no model"):
        resolve_routes(scripted_config("http://x/v1", roles={"judge": {"model": ""}}))
    with pytest.raises(ConfigError, match="TEST_UNSET_KEY is unset"):
        resolve_routes(scripted_config("http://x/v1", endpoints={"main": {"api_key_env": "TEST_UNSET_KEY"}}))


def test_the_manifest_says_where_each_role_goes() -> None:
    routes = resolve_routes(scripted_config("http://x/v1", solver={"retrieval": True}))
    assert set(routes) == set(ROLES)
    assert routes["judge"].as_manifest() == {
        "endpoint": "main",
        "url": "http://x/v1",
        "model": "judge",
        "temperature": 0.6,
        "max_tokens": 512,
    }


def test_an_endpoint_never_sees_more_than_its_concurrency() -> None:
    """The bound is the endpoint's: roles, loops and threads share it; another endpoint is not held up."""
    with (
        ScriptedServer({"judge": lambda r: hang(), "farmer": lambda r: hang()}) as full,
        ScriptedServer(MODELS) as free,
    ):
        config = scripted_config(
            full.url,
            endpoints={"main": {"concurrency": 3, "timeout_s": 60}, "other": {"url": free.url}},
            roles={"honest": {"endpoint": "other"}},
        )
        with open_test_gateway(config) as gateway:

            async def main() -> None:
                waiting = [start(gateway.complete(ask(role))) for role in ("judge", "farmer") * 4]
                assert await until(lambda: full.concurrent == 3)
                for _ in range(5):
                    await gateway.complete(ask("honest"))
                assert full.most_concurrent == full.total == 3
                await cancel(*waiting)

            asyncio.run(main())
        assert free.total == 5


def test_all_slots_are_used() -> None:
    """A bound of 4 lets 4 through at once, and every call gets its turn."""
    with ScriptedServer(MODELS, latency_s=0.02) as server:
        config = scripted_config(server.url, endpoints={"main": {"concurrency": 4}})
        with open_test_gateway(config) as gateway, ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(lambda i: gateway.complete_sync(ask()), range(32)))
        assert server.most_concurrent <= 4
        assert len(replies) == server.total == 32


def test_a_pause_between_tries_holds_no_slot() -> None:
    """With one slot, another call gets through while a failed one waits for its next try."""
    with ScriptedServer({**MODELS, "farmer": lambda r: status(503)}) as server:
        slow = {"concurrency": 1, "retry_wait_s": 600, "retry_wait_max_s": 600}
        with open_test_gateway(scripted_config(server.url, endpoints={"main": slow})) as gateway:

            async def main() -> None:
                failing = start(gateway.complete(ask("farmer")))
                assert await until(lambda: server.count("farmer") == 1)
                await asyncio.wait_for(gateway.complete(ask("judge")), 5)
                assert not failing.done()
                await cancel(failing)

            asyncio.run(main())


def test_a_cancelled_call_gives_its_slot_back() -> None:
    with ScriptedServer({**MODELS, "farmer": lambda r: hang()}) as server:
        endpoint = {"concurrency": 1, "timeout_s": 60}
        with open_test_gateway(scripted_config(server.url, endpoints={"main": endpoint})) as gateway:

            async def main() -> Reply:
                hanging = start(gateway.complete(ask("farmer")))
                assert await until(lambda: server.total == 1)
                await cancel(hanging)
                return await asyncio.wait_for(gateway.complete(ask("judge")), 5)

            assert asyncio.run(main()).text == VERDICT


def test_a_cancelled_try_is_counted_and_kept() -> None:
    """It reached the endpoint, so it is part of what the run has asked for."""
    with serve({"judge": lambda r: hang()}) as (server, gateway, records):

        async def main() -> bool:
            hanging = start(gateway.complete(ask()))
            assert await until(lambda: server.total == 1)
            await cancel(hanging)
            return await until(lambda: gateway.ledger.total().calls == 1 and len(records) == 1, 1)

        assert asyncio.run(main())


def test_calls_from_any_loop_and_thread() -> None:
    """The gateway's own loop, other loops one after another and at once, and threads without a loop."""
    with ScriptedServer(MODELS) as server, open_test_gateway(scripted_config(server.url)) as gateway:

        async def several() -> list[str]:
            tasks = [start(gateway.complete(ask(text=str(i)))) for i in range(3)]
            return [(await t).text for t in tasks]

        found = asyncio.run(several()) + asyncio.run(several())
        found += gateway.loop.run(several())
        with ThreadPoolExecutor(4) as pool:
            for texts in pool.map(lambda i: asyncio.run(several()), range(4)):
                found += texts
            found += [r.text for r in pool.map(lambda i: gateway.complete_sync(ask()), range(8))]
        assert found == [VERDICT] * (3 * 3 + 4 * 3 + 8)
        assert server.total == len(found)


def test_a_blocking_call_on_the_gateways_own_loop_is_refused() -> None:
    """It would wait for itself for ever."""
    with ScriptedServer(MODELS) as server, open_test_gateway(scripted_config(server.url)) as gateway:

        async def blocking() -> None:
            gateway.complete_sync(ask())

        with pytest.raises(RuntimeError, match="own loop"):
            gateway.loop.run(blocking())


def test_every_try_is_kept_with_tag_prompt_and_reply() -> None:
    """Failed tries as well, in order, numbered, and with what went wrong."""
    with serve({"judge": lambda r: status(500) if r.number < 2 else VERDICT}) as (_, gateway, records):
        with tagged("000001-abc", "probe-1"):
            gateway.complete_sync(ask(text="the prompt"))
        assert gateway.ledger.total().calls == 3 and gateway.ledger.total().failed == 2
    assert [r.attempt for r in records] == [0, 1, 2]
    assert [r.reply for r in records] == ["", "", VERDICT]
    assert [r.error.split(":")[0] for r in records] == ["EndpointFailed", "EndpointFailed", ""]
    for kept in records:
        assert (kept.role, kept.endpoint, kept.model) == ("judge", "main", "judge")
        assert kept.tag == Tag("000001-abc", "probe-1")
        assert kept.messages == [{"role": "user", "content": "the prompt"}]
        assert kept.seconds > 0


def test_tags_of_calls_made_at_once_stay_apart() -> None:
    """Through asyncio tasks on the caller's loop, and across the hop to the gateway's."""
    with serve(MODELS) as (_, gateway, records):

        async def vote(sample: str) -> None:
            with tagged(sample=sample):
                await gateway.complete(ask(text=sample))

        async def task(name: str) -> None:
            with tagged(name):
                await asyncio.wait([start(vote(f"{name}.{i}")) for i in range(3)])

        async def main() -> None:
            await asyncio.wait([start(task(name)) for name in ("a", "b", "c")])

        asyncio.run(main())
    kept = {r.messages[0]["content"]: r.tag for r in records}
    assert kept == {f"{name}.{i}": Tag(name, f"{name}.{i}") for name in "abc" for i in range(3)}


class FullDisk:
    """A sink that cannot keep anything."""

    async def keep(self, record: CallRecord) -> None:
        raise StoreError("disk is full", "Free some space")


def test_a_reply_that_cannot_be_kept_is_not_used() -> None:
    """What is not on record did not happen; the call still counts."""
    with ScriptedServer(MODELS) as server, open_test_gateway(scripted_config(server.url), FullDisk()) as gateway:
        with pytest.raises(StoreError, match="disk is full"):
            gateway.complete_sync(ask())
        assert gateway.ledger.total().calls == server.total == 1


def test_the_embedded_endpoint_asks_for_its_url_before_every_try() -> None:
    """So that a child that died and came back elsewhere is found."""
    asked: list[int] = []
    with ScriptedServer({EMBEDDED: lambda r: status(500) if r.number == 0 else VERDICT}) as server:
        config = scripted_config(EMBEDDED, roles={role: {"model": ""} for role in ROLES})

        async def url() -> str:
            asked.append(1)
            return server.url

        gateway = Gateway(resolve_routes(config), embedded_url=url)
        try:
            assert gateway.complete_sync(ask()).text == VERDICT
        finally:
            gateway.close_sync()
            gateway.loop.close()
    assert len(asked) == 2


def test_an_embedded_endpoint_that_nobody_started_is_an_error_that_says_so() -> None:
    said = pytest.raises(EmbeddedModelError, match=r"not running.*open_gateway")
    with open_test_gateway(scripted_config(EMBEDDED)) as gateway, said:
        gateway.complete_sync(ask())


def test_a_closed_gateway_opens_its_connections_again() -> None:
    with ScriptedServer(MODELS) as server, open_test_gateway(scripted_config(server.url)) as gateway:
        for _ in range(2):
            assert gateway.complete_sync(ask()).text == VERDICT
            gateway.close_sync()
