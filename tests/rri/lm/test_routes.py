"""Routes: fallbacks as configured, the manifest's form, and what makes two routes the same for the cache."""

from typing import Any

import pytest

from rri.config import EMBEDDED, RunConfig
from rri.errors import ConfigError
from rri.lm import Route, resolve_routes
from tests.rigs import scripted_config

BACKUP = {"url": "http://backup/v1", "model": "spare"}


def config(endpoints: dict[str, Any] | None = None, **judge: Any) -> RunConfig:
    """Roles at `main`; a second endpoint `backup`; keywords are the judge's."""
    return scripted_config("http://main/v1", endpoints={"backup": BACKUP, **(endpoints or {})}, roles={"judge": judge})


def judge_route(endpoints: dict[str, Any] | None = None, **judge: Any) -> Route:
    return resolve_routes(config(endpoints, **judge))["judge"]


# --- fallback --------------------------------------------------------------------------------------------


def test_a_fallback_has_its_own_model_and_the_roles_sampling() -> None:
    route = judge_route(fallback="backup", model="big", temperature=0.25, max_tokens=77)
    assert (route.endpoint, route.model) == ("main", "big")
    spare = route.fallback
    assert spare is not None and spare.fallback is None
    assert (spare.role, spare.endpoint, spare.model, spare.config.url) == ("judge", "backup", "spare", BACKUP["url"])
    assert (spare.sampling.temperature, spare.sampling.max_tokens) == (0.25, 77)


def test_only_the_role_that_names_a_fallback_has_one() -> None:
    routes = resolve_routes(config(fallback="backup"))
    assert [role for role, route in routes.items() if route.fallback is not None] == ["judge"]


def test_a_fallback_that_is_not_configured_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"role judge names endpoint 'bakcup'; configured are main, backup"):
        config(fallback="bakcup")


def test_a_fallback_to_the_endpoint_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="role judge falls back from 'main' to itself"):
        config(fallback="main")


def test_a_fallback_that_names_no_model_is_refused() -> None:
    """The role's own model name means nothing to another server."""
    with pytest.raises(ConfigError, match=r"role judge: endpoint 'backup' names no model.*endpoints\.\*\.model"):
        judge_route({"backup": {"url": "http://backup/v1"}}, fallback="backup", model="big")


def test_a_fallback_whose_key_is_unset_is_refused_before_it_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"'backup'.*TEST_UNSET_KEY is unset"):
        judge_route({"backup": {**BACKUP, "api_key_env": "TEST_UNSET_KEY"}}, fallback="backup")


def test_an_embedded_fallback_needs_the_embedded_model() -> None:
    spare = {"spare": {"url": EMBEDDED}}
    assert config(spare, fallback="spare").uses_embedded
    assert not config(spare).uses_embedded
    route = judge_route(spare, fallback="spare")
    assert route.fallback is not None and route.fallback.model == EMBEDDED


# --- roles that need none --------------------------------------------------------------------------------


def test_only_a_solver_that_retrieves_needs_a_route_of_the_summarizer() -> None:
    """Its model and its key are no concern of another run."""
    sections: dict[str, Any] = {
        "endpoints": {"far": {"url": "http://far/v1", "api_key_env": "TEST_UNSET_KEY"}},
        "roles": {"summarizer": {"endpoint": "far"}},
    }
    without = scripted_config("http://main/v1", **sections)
    assert set(without.roles) - set(resolve_routes(without)) == {"summarizer"}
    with pytest.raises(ConfigError, match="TEST_UNSET_KEY is unset"):
        resolve_routes(scripted_config("http://main/v1", **sections, solver={"retrieval": True}))


# --- manifest --------------------------------------------------------------------------------------------


def test_the_manifest_holds_the_fallback_inside_its_route() -> None:
    sampling = {"temperature": 0.6, "max_tokens": 512}
    assert judge_route(fallback="backup").as_manifest() == {
        "endpoint": "main",
        "url": "http://main/v1",
        "model": "judge",
        **sampling,
        "fallback": {"endpoint": "backup", "url": "http://backup/v1", "model": "spare", **sampling},
    }
    assert "fallback" not in judge_route().as_manifest()


# --- identity --------------------------------------------------------------------------------------------


OTHER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "endpoint name": ({"renamed": {"url": "http://main/v1"}}, {"endpoint": "renamed"}),
    "url": ({"main": {"url": "http://elsewhere/v1"}}, {}),
    "model": ({}, {"model": "judge-2"}),
    "revision": ({"main": {"revision": "r2"}}, {}),
    "strict schema": ({"main": {"strict_schema": False}}, {}),
    "token field": ({"main": {"max_tokens_field": "max_completion_tokens"}}, {}),
    "extra body": ({"main": {"extra_body": {"seed": 1}}}, {}),
    "extra body of the role": ({}, {"extra_body": {"seed": 2}}),
}


@pytest.mark.parametrize("change", OTHER)
def test_what_decides_a_reply_makes_another_identity(change: str) -> None:
    endpoints, judge = OTHER[change]
    assert judge_route(endpoints, **judge).identity != judge_route().identity


def test_no_two_of_these_changes_look_the_same() -> None:
    identities = {judge_route(endpoints, **judge).identity for endpoints, judge in OTHER.values()}
    assert len(identities) == len(OTHER)


SAME: list[dict[str, Any]] = [
    {"concurrency": 3},
    {"timeout_s": 1, "deadline_s": 2, "retries": 0},
    {"price_in": 5, "price_out": 6},
    {"breaker_failures": 7, "breaker_patience_s": 8},
    {"api_key_env": "TEST_MODEL_KEY"},
]


@pytest.mark.parametrize("change", SAME, ids=lambda change: next(iter(change)))
def test_what_only_moves_bytes_and_money_does_not(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", "sk-secret")
    route = judge_route({"main": change})
    assert route.identity == judge_route().identity
    assert "sk-secret" not in route.identity


def test_the_order_of_the_extra_body_does_not_matter() -> None:
    one, two = {"seed": 1, "top_p": 0.9}, {"top_p": 0.9, "seed": 1}
    routes = [judge_route({"main": {"extra_body": body}}) for body in (one, two)]
    assert routes[0].identity == routes[1].identity


def test_the_roles_extra_body_goes_over_the_endpoints() -> None:
    """What counts is what is sent, wherever it was configured."""
    both = judge_route({"main": {"extra_body": {"seed": 1, "top_p": 0.9}}}, extra_body={"seed": 2})
    assert both.identity == judge_route(extra_body={"seed": 2, "top_p": 0.9}).identity


def test_a_fallback_does_not_change_its_routes_identity_and_has_its_own() -> None:
    route = judge_route(fallback="backup")
    assert route.identity == judge_route().identity
    assert route.fallback is not None
    assert route.fallback.identity == judge_route(endpoint="backup", model="").identity


def test_the_embedded_models_weights_are_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of the package brings another file under the same name."""
    before = judge_route({"main": {"url": EMBEDDED}}).identity
    monkeypatch.setattr("rri.lm.routes.GGUF_SHA256", "0" * 64)
    assert judge_route({"main": {"url": EMBEDDED}}).identity != before
