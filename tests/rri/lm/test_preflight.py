"""Every endpoint is asked once before a run spends anything."""

import pytest

from rri.config import Role
from rri.errors import EndpointRefused
from rri.lm import check_endpoints
from rri.testing import ChatRequest, ScriptedServer
from tests.rigs import open_test_gateway, scripted_config


def ready(_: ChatRequest) -> str:
    return '{"ready": true}'


def ask(server: ScriptedServer, roles: tuple[Role, ...], judge: dict[str, str]) -> list[str]:
    """Models that were asked when `roles` are used and the judge is configured so."""
    endpoints = {"spare": {"url": server.url, "model": "spare", "retries": 0}}
    config = scripted_config(server.url, endpoints=endpoints, roles={"judge": judge})
    with open_test_gateway(config) as gateway:
        gateway.loop.run(check_endpoints(gateway, roles))
    return sorted(request.model for request in server.requests)


def test_only_what_the_roles_use_is_asked_and_each_once() -> None:
    with ScriptedServer({"judge": ready, "farmer": ready, "spare": ready}) as server:
        assert ask(server, ("judge", "farmer"), {}) == ["farmer", "judge"]


def test_a_fallback_is_asked_too() -> None:
    with ScriptedServer({"judge": ready, "spare": ready}) as server:
        assert ask(server, ("judge",), {"fallback": "spare"}) == ["judge", "spare"]


def test_a_fallback_that_does_not_work_is_no_surprise_of_an_outage() -> None:
    with ScriptedServer({"judge": ready}) as server, pytest.raises(EndpointRefused, match=r"role judge.*'spare'"):
        ask(server, ("judge",), {"fallback": "spare"})


def test_a_working_fallback_does_not_hide_a_broken_endpoint() -> None:
    with ScriptedServer({"spare": ready}) as server, pytest.raises(EndpointRefused, match=r"role judge.*'judge'"):
        ask(server, ("judge",), {"fallback": "spare"})
