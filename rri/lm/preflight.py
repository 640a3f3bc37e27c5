"""Ask every endpoint once before a run spends anything."""

from collections.abc import Sequence
from functools import partial

from pydantic import BaseModel, ConfigDict

from rri.aio import collect
from rri.config import ROLES, Role
from rri.lm.adapter import OutputSpec
from rri.lm.calls import tagged
from rri.lm.gateway import Gateway, ModelRequest
from rri.lm.routes import Route

__all__ = ["check_endpoints"]


class _Ready(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ready: bool


_SCHEMA = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}
_SPEC = OutputSpec("Ready", _Ready, _SCHEMA, ("ready",))
_MESSAGES = [{"role": "user", "content": 'Reply with the JSON object {"ready": true} and nothing else.'}]


async def check_endpoints(gateway: Gateway, roles: Sequence[Role] = ROLES) -> None:
    """One strict-schema call to each endpoint and model that one of `roles` uses, fallbacks included.

    Raises:
        ModelError: one of them does not answer as needed; the message names role, URL and what to do.
    """
    used = [route for role, route in gateway.routes.items() if role in roles]
    asked: dict[tuple[str, str], Route] = {}
    for route in [*used, *(route.fallback for route in used if route.fallback)]:
        asked.setdefault((route.endpoint, route.model), route)
    with tagged(sample="preflight"):
        await collect(
            [partial(gateway.complete_at, ModelRequest(r.role, _MESSAGES, _SPEC), r) for r in asked.values()], 8
        )
