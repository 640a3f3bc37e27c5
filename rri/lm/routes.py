"""Where each role's calls go, as resolved from the config."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rri.config import EMBEDDED, EndpointConfig, Role, RoleConfig, RunConfig
from rri.errors import ConfigError
from rri.lm.embedded import GGUF_SHA256

__all__ = ["Route", "resolve_routes"]


@dataclass(frozen=True)
class Route:
    """Where a role's calls go; saved with the run. `fallback` is called while `endpoint` fails."""

    role: Role
    endpoint: str
    model: str
    config: EndpointConfig
    sampling: RoleConfig
    fallback: "Route | None" = None

    def as_manifest(self) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint,
            "url": self.config.url,
            "model": self.model,
            "temperature": self.sampling.temperature,
            "max_tokens": self.sampling.max_tokens,
            **({"fallback": self.fallback.as_manifest()} if self.fallback else {}),
        }

    @cached_property
    def identity(self) -> str:
        """Everything but the request that decides what a reply may be: which server, which weights, which wire form."""
        config = self.config
        weights = config.revision or (GGUF_SHA256 if config.url == EMBEDDED else "")
        extra = {**config.extra_body, **self.sampling.extra_body}
        wire = (config.strict_schema, config.max_tokens_field, sorted(extra.items()))
        return repr((self.endpoint, config.url, self.model, weights, wire))

    @property
    def key(self) -> str:
        """The endpoint's API key, empty where none is configured."""
        name = self.config.api_key_env
        return os.environ.get(name, "") if name else ""


def resolve_routes(config: RunConfig) -> dict[Role, Route]:
    """Role -> route, of every role that must have one (`RunConfig.roles_routed`).

    Raises:
        ConfigError: an endpoint names no model, or its key's variable is unset.
    """
    routes = {}
    for role in config.roles_routed:
        sampling = config.roles[role]
        fallback = _route(config, role, sampling, sampling.fallback, "", None) if sampling.fallback else None
        routes[role] = _route(config, role, sampling, sampling.endpoint, sampling.model, fallback)
    return routes


def _route(config: RunConfig, role: Role, sampling: RoleConfig, name: str, model: str, fallback: Route | None) -> Route:
    endpoint = config.endpoints[name]
    model = model or endpoint.model
    if not model and endpoint.url != EMBEDDED:
        raise ConfigError(f"role {role}: endpoint {name!r} names no model", "Set endpoints.*.model")
    if endpoint.api_key_env and not os.environ.get(endpoint.api_key_env):
        raise ConfigError(
            f"endpoint {name!r}: environment variable {endpoint.api_key_env} is unset",
            "Export the key, or change api_key_env",
        )
    return Route(role, name, model or EMBEDDED, endpoint, sampling, fallback)
