"""The gateway while a server is away: calls wait for it, or go to the fallback, and none is lost."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import pytest

from rri.aio import LoopThread, collect
from rri.config import BudgetConfig, Role
from rri.errors import BudgetExhausted, EndpointRefused, EndpointUnreachable, ModelError
from rri.lm import CallRecord, Gateway, ModelRequest, RecentCalls, Reply, ReplyCache, output_spec
from rri.testing import ChatRequest, Fault, ScriptedServer, garbage, hang, other_json, reset, status
from signatures import JudgeCriterion
from tests.rigs import open_test_gateway, scripted_config

VERDICT = '{"reason": "main", "met": true}'
SPARE = '{"reason": "backup", "met": true}'
BURST = 40
QUICK = {"breaker_failures": 5, "breaker_wait_s": 0.02, "breaker_wait_max_s": 0.04, "concurrency": 8}
"""A breaker that opens soon and tries often."""
NEVER_AGAIN = {"breaker_failures": 1, "breaker_wait_s": 600, "breaker_wait_max_s": 600}
"""A breaker that opens at once and lets no trial out while a test runs."""

Script = Callable[[ChatRequest], Fault | str]


class Rig(NamedTuple):
    """Two servers, a gateway whose roles all go to `main`, what it kept, and what it said."""

    main: ScriptedServer
    backup: ScriptedServer
    gateway: Gateway
    records: deque[CallRecord]
    said: list[str]

    def ask(self, text: str = "?", role: Role = "judge", sample: str = "") -> Reply:
        return self.gateway.complete_sync(request(text, role, sample))

    async def burst(self) -> list[Reply]:
        return await collect([partial(self.gateway.complete, request(str(i))) for i in range(BURST)], BURST)


def request(text: str, role: Role = "judge", sample: str = "") -> ModelRequest:
    messages = [{"role": "user", "content": text}]
    return ModelRequest(role, messages, output_spec(JudgeCriterion), sample=sample)


@contextmanager
def serve(main: Script, backup: Script = lambda r: SPARE, url: str = "", **sections: Any) -> Iterator[Rig]:
    """`endpoint` and `spare` are settings of the two endpoints, `roles` and `budget` sections of the config."""
    endpoint, spare = sections.pop("endpoint", {}), sections.pop("spare", {})
    models = {"judge": main, "farmer": main}
    with ScriptedServer(models) as first, ScriptedServer({"spare": backup}) as second:
        endpoints = {
            "main": {**QUICK, "url": url or first.url, **endpoint},
            "backup": {**QUICK, "url": second.url, "model": "spare", "retries": 0, **spare},
        }
        config = scripted_config(first.url, endpoints=endpoints, **sections)
        with open_test_gateway(config, sink := RecentCalls()) as gateway:
            gateway.say = (said := list[str]()).append
            yield Rig(first, second, gateway, sink.records, said)


with_fallback = partial(serve, roles={"judge": {"fallback": "backup"}})


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for a condition, and fail at the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came about"
        await asyncio.sleep(0.002)


def most_trials(seconds: float) -> float:
    """How many trials `QUICK` allows in an outage of that length."""
    return 1 + seconds / QUICK["breaker_wait_s"]


# --- an outage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [status(500), status(503), reset(), garbage()], ids=lambda f: f"{f.kind}-{f.code}")
def test_no_call_of_a_burst_is_lost_while_the_server_fails(fault: Fault) -> None:
    down = [True]
    with serve(lambda r: fault if down[0] else VERDICT) as rig:

        async def main() -> list[Reply]:
            started = time.monotonic()
            burst = asyncio.ensure_future(rig.burst())
            await until(lambda: rig.main.total >= QUICK["breaker_failures"] + QUICK["concurrency"] + 3)
            assert rig.gateway.paused.startswith("endpoint 'main' is away: ")
            assert rig.main.url in rig.gateway.paused
            down[0] = False
            most = QUICK["breaker_failures"] + QUICK["concurrency"] + most_trials(time.monotonic() - started)
            replies = await asyncio.wait_for(burst, 20)
            assert rig.gateway.ledger.total().failed <= most
            return replies

        replies = asyncio.run(main())
        assert [r.text for r in replies] == [VERDICT] * BURST
        assert {r.messages[0]["content"] for r in rig.records if not r.error} == {str(i) for i in range(BURST)}
        assert rig.gateway.paused == ""
        pause = rig.gateway.paused_s("judge")
        assert pause > 0 and rig.gateway.paused_s("judge") == pause, "it is over"
        assert rig.gateway.paused_s("farmer") == 0, "it made no calls"
    assert len(rig.said) == 2 and "calls wait" in rig.said[0] and "calls go on" in rig.said[1]


class Relay:
    """A port that can be shut and opened again, and leads to a server."""

    def __init__(self, upstream: str) -> None:
        self.host, _, port = upstream.removeprefix("http://").removesuffix("/v1").partition(":")
        self.upstream_port, self.port = int(port), 0
        self.loop = LoopThread("relay")
        self.server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut()
        self.loop.close()

    def open(self) -> str:
        self.loop.run(self._open())
        return f"http://{self.host}:{self.port}/v1"

    def shut(self) -> None:
        if self.server is not None:
            self.loop.run(self._shut(self.server))

    async def _open(self) -> None:
        self.server = await asyncio.start_server(self._connect, self.host, self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _shut(self, server: asyncio.Server) -> None:
        server.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, out = await asyncio.open_connection(self.host, self.upstream_port)
        await collect([partial(self._pump, reader, out), partial(self._pump, back, writer)], 2)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


def test_no_call_of_a_burst_is_lost_while_nobody_listens() -> None:
    """A closed port, and later a server behind the same one."""
    with ScriptedServer({"judge": lambda r: VERDICT}) as server, Relay(server.url) as relay:
        url = relay.open()
        relay.shut()
        with serve(lambda r: VERDICT, url=url) as rig:

            def failed() -> int:
                return rig.gateway.ledger.total().failed

            async def main() -> list[Reply]:
                started = time.monotonic()
                burst = asyncio.ensure_future(rig.burst())
                await until(lambda: failed() >= QUICK["breaker_failures"] + QUICK["concurrency"] + 3)
                assert "Cannot connect" in rig.gateway.paused
                await asyncio.to_thread(relay.open)
                replies = await asyncio.wait_for(burst, 20)
                lasted = time.monotonic() - started
                assert failed() <= QUICK["breaker_failures"] + QUICK["concurrency"] + most_trials(lasted)
                return replies

            assert len(asyncio.run(main())) == server.total == BURST
            assert {r.error.split(":")[0] for r in rig.records} == {"EndpointUnreachable", ""}
            assert rig.gateway.paused == ""


def test_a_server_that_hangs_is_away_too() -> None:
    down = [True]
    with serve(lambda r: hang() if down[0] else VERDICT, endpoint={"timeout_s": 0.1}) as rig:

        async def main() -> list[Reply]:
            burst = asyncio.ensure_future(rig.burst())
            await until(lambda: rig.gateway.paused)
            down[0] = False
            return await asyncio.wait_for(burst, 20)

        assert len(asyncio.run(main())) == BURST
        assert rig.main.most_concurrent <= QUICK["concurrency"]


def test_failed_trials_are_no_tries_of_the_call_that_makes_them() -> None:
    """One call alone makes every trial: patience bounds it, not `retries`; each trial is on record all the same."""
    endpoint = {"breaker_failures": 2, "breaker_wait_s": 0.001, "breaker_wait_max_s": 0.001, "retries": 2}
    with serve(lambda r: status(503) if r.number < 9 else VERDICT, endpoint=endpoint) as rig:
        assert rig.ask().text == VERDICT
        assert [r.attempt for r in rig.records] == list(range(10))
        assert rig.gateway.ledger.total().failed == 9


def test_tries_before_the_outage_count() -> None:
    with serve(lambda r: status(503), endpoint={"breaker_failures": 4, "retries": 2}) as rig:
        with pytest.raises(ModelError, match="HTTP 503"):
            rig.ask()
        assert rig.main.total == 3 and rig.gateway.paused == ""


def test_patience_ends_with_the_endpoint_and_the_reason() -> None:
    """Every call of a burst fails, soon and alike, and the next one at once."""
    endpoint = {**QUICK, "breaker_patience_s": 0.1, "retries": 5}
    with serve(lambda r: status(503), endpoint=endpoint) as rig:

        async def main() -> None:
            calls = [asyncio.ensure_future(rig.gateway.complete(request(str(i)))) for i in range(BURST)]
            done, pending = await asyncio.wait(calls, timeout=20)
            assert not pending
            for call in done:
                error = call.exception()
                assert isinstance(error, EndpointUnreachable)
                assert error.what.startswith("role judge: endpoint 'main' has been away for")
                assert "HTTP 503" in error.what and "\n" not in error.what

        asyncio.run(main())
        with pytest.raises(EndpointUnreachable, match="has been away"):
            rig.ask()


@pytest.mark.parametrize("fault", [status(429), status(400), other_json()], ids=["429", "400", "malformed"])
def test_a_server_that_answers_anything_is_not_away(fault: Fault) -> None:
    with serve(lambda r: fault, endpoint={"breaker_failures": 2, "retries": 5}) as rig:
        for _ in range(3):
            with pytest.raises(ModelError):
                rig.ask()
        assert (rig.gateway.paused, rig.gateway.paused_s("judge"), rig.said) == ("", 0, [])


def test_a_budget_that_ends_in_the_trial_does_not_leave_the_endpoint_shut() -> None:
    endpoint = {"breaker_failures": 2, "retries": 9}
    with serve(lambda r: status(503) if r.number < 3 else VERDICT, endpoint=endpoint, budget={"calls": 3}) as rig:
        with pytest.raises(BudgetExhausted, match=r"budget\.calls"):
            rig.ask()
        assert rig.gateway.paused and rig.main.total == 3
        rig.gateway.ledger.budget = BudgetConfig()
        assert rig.ask().text == VERDICT
        assert rig.gateway.paused == ""


def test_a_cancelled_trial_does_not_leave_the_endpoint_shut() -> None:
    script = {0: status(503), 1: hang()}
    with serve(lambda r: script.get(r.number, VERDICT), endpoint={"breaker_failures": 1, "timeout_s": 60}) as rig:

        async def main() -> Reply:
            trial = asyncio.ensure_future(rig.gateway.complete(request("trial")))
            await until(lambda: rig.main.total == 2)
            waiting = asyncio.ensure_future(rig.gateway.complete(request("waiting")))
            trial.cancel()
            return await asyncio.wait_for(waiting, 20)

        assert asyncio.run(main()).text == VERDICT


# --- fallback --------------------------------------------------------------------------------------------


def test_while_the_first_endpoint_is_down_replies_come_from_the_fallback() -> None:
    """Endpoint and model of each record are those that were asked; the first one is left alone meanwhile."""
    with with_fallback(lambda r: status(503), endpoint=NEVER_AGAIN) as rig:
        assert {rig.ask(str(i)).text for i in range(9)} == {SPARE}
        assert rig.main.total == 1 and rig.backup.total == 9
        used = [(r.endpoint, r.model) for r in rig.records if not r.error]
        assert used == [("backup", "spare")] * 9
        assert rig.gateway.paused == "" and rig.gateway.paused_s("judge") == 0, "no call waits"


def test_a_call_does_not_sit_out_the_retries_of_an_endpoint_that_is_away() -> None:
    endpoint = {**NEVER_AGAIN, "retries": 5, "retry_wait_s": 600, "retry_wait_max_s": 600}
    with with_fallback(lambda r: reset(), endpoint=endpoint) as rig:

        async def main() -> list[Reply]:
            return await asyncio.wait_for(rig.burst(), 20)

        assert {r.text for r in asyncio.run(main())} == {SPARE}


def test_calls_return_to_the_first_endpoint_once_a_trial_finds_it() -> None:
    down = [True]
    with with_fallback(lambda r: status(503) if down[0] else VERDICT, endpoint={"breaker_failures": 1}) as rig:
        assert rig.ask().text == SPARE
        down[0] = False
        deadline = time.monotonic() + 20
        while rig.ask().text == SPARE:
            assert time.monotonic() < deadline
        before = rig.backup.total
        assert {rig.ask().text for _ in range(5)} == {VERDICT}
        assert rig.backup.total == before and "calls go on" in rig.said[-1]


@pytest.mark.parametrize("code", [400, 401, 403, 404])
def test_a_wrong_key_or_model_does_not_hide_behind_the_fallback(code: int) -> None:
    with with_fallback(lambda r: status(code)) as rig:
        with pytest.raises(EndpointRefused, match=f"HTTP {code}"):
            rig.ask()
        assert rig.backup.total == 0


def test_an_unusable_reply_is_asked_again_where_it_came_from() -> None:
    with with_fallback(lambda r: VERDICT if r.number else "no JSON") as rig:
        assert rig.ask().text == VERDICT
        assert rig.backup.total == 0


def test_when_both_fail_the_error_names_both() -> None:
    with with_fallback(lambda r: status(503), lambda r: status(500), endpoint={"retries": 0}) as rig:
        error = rig.gateway.loop.submit(rig.gateway.complete(request("?"))).exception(timeout=20)
        assert isinstance(error, ModelError)
        message = str(error)
    assert f"{rig.backup.url}/chat/completions answered HTTP 500" in message
    assert f"endpoint 'main' had failed: {rig.main.url}/chat/completions answered HTTP 503" in message
    assert message.startswith("role judge: ") and message.count("role judge") == 1 and "\n" not in message


def test_calls_wait_only_while_both_are_away() -> None:
    """Then they wait for the fallback, and `paused` names both; the fallback's return ends the pause."""
    down = [True]
    spare = {"breaker_failures": 1, "retries": 1}
    servers: tuple[Script, Script] = (lambda r: status(503), lambda r: status(502) if down[0] else SPARE)
    with with_fallback(*servers, endpoint=NEVER_AGAIN, spare=spare) as rig:

        async def main() -> Reply:
            call = asyncio.ensure_future(rig.gateway.complete(request("?")))
            await until(lambda: "'main'" in rig.gateway.paused and "'backup'" in rig.gateway.paused)
            await until(lambda: rig.gateway.paused_s("judge") > 0)
            down[0] = False
            return await asyncio.wait_for(call, 20)

        assert asyncio.run(main()).text == SPARE
        pause = rig.gateway.paused_s("judge")
        assert rig.gateway.paused == "" and rig.gateway.paused_s("judge") == pause


def test_another_role_without_a_fallback_waits_meanwhile() -> None:
    """What waits is told by role: the judge's calls go on, the farmer's do not."""
    with with_fallback(lambda r: reset(), endpoint=NEVER_AGAIN) as rig:
        rig.ask()
        assert rig.gateway.paused == ""

        async def main() -> None:
            call = asyncio.ensure_future(rig.gateway.complete(request("?", "farmer")))
            await until(lambda: rig.gateway.paused.startswith("endpoint 'main' is away"))
            await until(lambda: rig.gateway.paused_s("farmer") > 0)
            assert rig.gateway.paused_s("judge") == 0
            call.cancel()
            await asyncio.wait([call])

        asyncio.run(main())


def test_roles_without_a_fallback_do_not_hold_up_those_that_have_one() -> None:
    """Their calls wait for the server without keeping its slots."""
    with with_fallback(lambda r: reset(), endpoint={**NEVER_AGAIN, "concurrency": 2}) as rig:

        async def main() -> Reply:
            waiting = [asyncio.ensure_future(rig.gateway.complete(request("?", "farmer"))) for _ in range(6)]
            await until(lambda: rig.gateway.paused)
            reply = await asyncio.wait_for(rig.gateway.complete(request("?")), 20)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            return reply

        assert asyncio.run(main()).text == SPARE


def test_a_vote_is_kept_under_the_endpoint_that_gave_it(tmp_path: Any) -> None:
    """The fallback's vote answers again while the first endpoint is away, and never for it."""
    down = [True]
    with with_fallback(lambda r: status(503) if down[0] else VERDICT, endpoint={"breaker_failures": 1}) as rig:
        rig.gateway.cache = ReplyCache(tmp_path)
        for _ in range(3):
            assert rig.ask(sample="#0").text == SPARE
        assert rig.backup.total == 1 and rig.gateway.ledger.total().reused == 2
        down[0] = False
        deadline = time.monotonic() + 20
        while rig.ask(sample="#0").text == SPARE:
            assert time.monotonic() < deadline
        assert rig.backup.total == 1
