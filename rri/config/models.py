"""Where model calls go, how they are sampled, and what happens when an endpoint fails."""

from typing import Any, Literal, get_args

from pydantic import Field

from rri.domain import Section

__all__ = ["EMBEDDED", "ROLES", "BudgetConfig", "CacheConfig", "EndpointConfig", "Role", "RoleConfig", "default_roles"]

Role = Literal[
    "proposer",
    "generator",
    "farmer",
    "honest",
    "judge",
    "rewriter",
    "minter",
    "referee",
    "analyst",
    "meta_optimizer",
    "memo_optimizer",
    "summarizer",
]
ROLES: tuple[Role, ...] = get_args(Role)

EMBEDDED = "embedded"
"""Name of the endpoint that the embedded model serves, and of the base model made from it."""


class EndpointConfig(Section):
    """One server that speaks the OpenAI chat API, or the embedded model (`url: embedded`)."""

    url: str = Field(description="base URL up to and without /chat/completions, or 'embedded'")
    model: str = Field(default="", description="model name sent to the server")
    revision: str = Field(
        default="", description="which weights the server has under that name; another one leaves the cache behind"
    )
    api_key_env: str = Field(default="", description="environment variable that holds the key; keys are never saved")
    concurrency: int = Field(default=64, ge=1, description="requests under way at once")
    timeout_s: float = Field(default=120.0, gt=0, description="deadline of one try")
    deadline_s: float = Field(default=600.0, gt=0, description="deadline of one sample, tries and pauses together")
    retries: int = Field(default=5, ge=0, description="tries after the first, for 429, 5xx, timeouts and resets")
    retry_wait_s: float = Field(default=1.0, ge=0, description="first pause; doubles, with jitter")
    retry_wait_max_s: float = Field(default=60.0, ge=0, description="longest pause, caps Retry-After too")
    breaker_failures: int = Field(
        default=32, ge=1, description="tries in a row that found no server, after which calls wait for its recovery"
    )
    breaker_wait_s: float = Field(default=5.0, gt=0, description="pause before one call tries the server; doubles")
    breaker_wait_max_s: float = Field(default=60.0, gt=0, description="longest such pause")
    breaker_patience_s: float = Field(
        default=3600.0, gt=0, description="how long calls wait for a server that is away before they fail"
    )
    strict_schema: bool = Field(default=True, description="send the JSON schema as strict; off where a server lacks it")
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    extra_body: dict[str, Any] = Field(default_factory=dict, description="sent along with every request")
    price_in: float = Field(default=0.0, ge=0, description="money per million prompt tokens")
    price_cached: float | None = Field(
        default=None, ge=0, description="per million cached prompt tokens; price_in if unset"
    )
    price_out: float = Field(default=0.0, ge=0, description="money per million completion tokens")


class RoleConfig(Section):
    """Where a role's calls go and how they are sampled."""

    endpoint: str = "main"
    model: str = Field(default="", description="overrides the endpoint's model")
    fallback: str = Field(default="", description="second endpoint, called while the first one fails; its own model")
    temperature: float | None = Field(default=None, ge=0, description="None sends none")
    max_tokens: int = Field(default=2048, ge=1)
    extra_body: dict[str, Any] = Field(
        default_factory=dict, description="sent along with every request of the role, over the endpoint's own"
    )
    program: str = Field(default="", description="compiled module of this role: a file that dspy saved")


class CacheConfig(Section):
    """Judge votes kept on disk, so that the same vote is never paid for twice. No other reply is ever reused."""

    enabled: bool = True
    folder: str = Field(default="", description="shared by all runs of this user when empty")
    max_mb: int = Field(default=2048, ge=1, description="size on disk at which the oldest votes go")


class BudgetConfig(Section):
    """Hard limits over the whole run, restarts included; None is no limit."""

    calls: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1, description="prompt and completion tokens together")
    money: float | None = Field(default=None, gt=0)
    hours: float | None = Field(default=None, gt=0, description="time that the run was open, over all starts")


def default_roles() -> dict[Role, RoleConfig]:
    """Temperatures and token limits where the paper is silent: the authors' development code."""
    return {
        "proposer": RoleConfig(temperature=0.9, max_tokens=4096),
        "generator": RoleConfig(temperature=0.9, max_tokens=12288),
        "farmer": RoleConfig(temperature=0.6, max_tokens=2048),
        "honest": RoleConfig(temperature=0.6, max_tokens=2048),
        "judge": RoleConfig(temperature=0.6, max_tokens=512),
        "rewriter": RoleConfig(temperature=0.6, max_tokens=2048),
        "minter": RoleConfig(temperature=0.6, max_tokens=1536),
        "referee": RoleConfig(temperature=0.3, max_tokens=3000),
        "analyst": RoleConfig(temperature=0.3, max_tokens=512),
        "meta_optimizer": RoleConfig(temperature=0.5, max_tokens=4096),
        "memo_optimizer": RoleConfig(temperature=0.5, max_tokens=2048),
        "summarizer": RoleConfig(temperature=0.2, max_tokens=1024),
    }
