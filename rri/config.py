"""The run's config: pydantic settings with the method's numbers as named fields, in one place.

A preset (rri/presets/*.yaml) is a config file that ships with the package. A user's file may name one
under `preset:` and change what it likes. Unknown keys are refused with the nearest right key.
"""

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from rri.domain import DomainConfig, Section, UseCase
from rri.errors import ConfigError

__all__ = [
    "EMBEDDED",
    "ROLES",
    "AdmissionConfig",
    "BudgetConfig",
    "DomainConfig",
    "EndpointConfig",
    "GenerationConfig",
    "GradingConfig",
    "PoolConfig",
    "Role",
    "RoleConfig",
    "RunConfig",
    "ServiceConfig",
    "SolverConfig",
    "UseCase",
    "list_presets",
    "load_config",
    "parse_config",
    "set_dotted",
]

Role = Literal["proposer", "generator", "farmer", "honest", "judge", "rewriter"]
ROLES: tuple[Role, ...] = ("proposer", "generator", "farmer", "honest", "judge", "rewriter")

EMBEDDED = "embedded"
"""Name of the endpoint that the embedded model serves, and of the base model made from it."""


class EndpointConfig(Section):
    """One server that speaks the OpenAI chat API, or the embedded model (`url: embedded`)."""

    url: str = Field(description="base URL up to and without /chat/completions, or 'embedded'")
    model: str = Field(default="", description="model name sent to the server")
    api_key_env: str = Field(default="", description="environment variable that holds the key; keys are never saved")
    concurrency: int = Field(default=64, ge=1, description="requests under way at once")
    timeout_s: float = Field(default=120.0, gt=0, description="deadline of one try")
    deadline_s: float = Field(default=600.0, gt=0, description="deadline of one sample, tries and pauses together")
    retries: int = Field(default=5, ge=0, description="tries after the first, for 429, 5xx, timeouts and resets")
    retry_wait_s: float = Field(default=1.0, ge=0, description="first pause; doubles, with jitter")
    retry_wait_max_s: float = Field(default=60.0, ge=0, description="longest pause, caps Retry-After too")
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
    temperature: float | None = Field(default=None, ge=0, description="None sends none")
    max_tokens: int = Field(default=2048, ge=1)


def _check_odd(votes: int) -> None:
    if votes % 2 == 0:
        raise ValueError(f"votes must be odd so that a majority exists, got {votes}")


class GenerationConfig(Section):
    """METHOD 4."""

    tasks: int = Field(default=512, ge=1, description="tasks to admit over the run")
    requests_per_call: int = Field(default=6, ge=1, le=12, description="requests that one proposer call writes")
    seed_passages: int = Field(default=3, ge=1, description="passages shown to the proposer")
    passages_per_task: int = Field(default=8, ge=1, description="passages retrieved for the generator")
    positives: dict[int, float] = Field(
        default={2: 0.15, 3: 0.70, 4: 0.15}, description="count of positives -> probability (METHOD 4.4)"
    )
    negative_share: float = Field(default=0.75, ge=0, le=1, description="target share of tasks with a negative on top")
    min_task_chars: int = Field(default=30, ge=1, description="shortest request and shortest task that is usable")
    attempts: int = Field(default=3, ge=1, description="generator calls until a rubric passes the validator")
    recent_requests: int = Field(default=20, ge=0, description="latest requests that the proposer is told to avoid")
    concurrency: int = Field(default=16, ge=1, description="tasks generated at once")
    failures_in_a_row: int = Field(default=6, ge=1, description="failed tasks in a row after which the run stops")

    @model_validator(mode="after")
    def _positives_sum(self) -> Self:
        shares = self.positives.values()
        # Written so that a NaN fails too.
        if not (all(0 <= p <= 1 for p in shares) and abs(sum(shares) - 1) <= 1e-6):
            raise ValueError(
                f"positives must be probabilities that sum to 1, got {list(shares)}, whose sum is {sum(shares):g}"
            )
        if min(self.positives) < 1 or max(self.positives) > 5:
            raise ValueError(f"counts of positives must lie in 1..5, got {sorted(self.positives)}")
        return self


class AdmissionConfig(Section):
    """METHOD 5. `enabled: false` is the Generation Only arm: tasks are served as they were written."""

    enabled: bool = True
    margin: float = Field(default=0.20, gt=0, description="a probe passes at delta <= -margin")
    honest_min: float = Field(default=0.15, description="honest score below it: unsatisfiable")
    honest_max: float = Field(default=0.92, description="honest score above it: saturated")
    accept_drop: float = Field(default=0.15, gt=0, description="drop of delta that accepts a rewrite")
    rounds: int = Field(default=2, ge=0, description="rewrites at most")
    concurrency: int = Field(default=48, ge=1, description="repairs at once; more wait")
    min_answer_chars: int = Field(default=200, ge=0, description="a shorter answer makes a probe unmeasured")
    max_exploit_chars: int = Field(default=2500, ge=1, description="length that the farmer is asked to stay under")
    votes: int = Field(default=3, ge=1, description="odd")

    @model_validator(mode="after")
    def _band(self) -> Self:
        _check_odd(self.votes)
        if self.honest_min >= self.honest_max:
            raise ValueError(f"honest_min {self.honest_min:g} must be below honest_max {self.honest_max:g}")
        return self


class GradingConfig(Section):
    """METHOD 6: three votes a criterion, majority; a row with any unknown criterion is unscored."""

    votes: int = Field(default=3, ge=1, description="odd")
    temperature_single: float = Field(default=0.0, ge=0, description="judge temperature where there is one vote")
    unknown_share_max: float = Field(
        default=0.0, ge=0, le=1, description="share of absolute points that may be unknown"
    )
    concurrency: int = Field(default=256, ge=1, description="judge calls under way at once for one request")
    unscored_in_a_row: int = Field(default=64, ge=1, description="unscored answers in a row after which the run stops")
    reason_words: int = Field(default=60, ge=1, description="words that the judge may spend on its reason")

    @model_validator(mode="after")
    def _odd(self) -> Self:
        _check_odd(self.votes)
        return self


class PoolConfig(Section):
    """Serving order is replay, then unserved in order of admission, then a seeded draw (DESIGN, seam 2)."""

    min_tasks: int = Field(default=64, ge=1, description="tasks admitted before position 0 is served")
    fresh_wait_s: float = Field(
        default=30.0, ge=0, description="wait for a new task before a served one is drawn again"
    )


class SolverConfig(Section):
    """METHOD 6, solver. What is not named here goes to TRL's GRPOConfig through `trl`."""

    base_model: str = Field(default=EMBEDDED, description="folder or name that transformers loads, or 'embedded'")
    launch: str = Field(default="cpu", description="accelerate config: a name in training/ or a path")
    cycles: int = Field(default=100, ge=0, description="generation batches; 0 admits and serves without training")
    tasks_per_cycle: int = Field(default=64, ge=1)
    tasks_per_update: int = Field(default=16, ge=1)
    rollouts_per_task: int = Field(default=8, ge=2)
    max_prompt_tokens: int = Field(default=6144, ge=1)
    max_completion_tokens: int = Field(default=8192, ge=1)
    learning_rate: float = Field(default=1e-6, gt=0)
    per_device_batch: int | None = Field(
        default=None,
        ge=1,
        description="rollouts in one forward pass of a rank; by default at most 8 that divide an update",
    )
    save_every_cycles: int = Field(default=1, ge=1)
    judge_truncated: bool = Field(default=False, description="judge answers cut at the token limit as they are")
    grade_timeout_s: float = Field(default=1500.0, gt=0, description="below torch's ddp timeout of 1800 s")
    serve_timeout_s: float = Field(default=3600.0, gt=0, description="how long a trainer waits for a task")
    trl: dict[str, Any] = Field(default_factory=dict, description="further GRPOConfig fields")

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.tasks_per_cycle % self.tasks_per_update:
            raise ValueError(
                f"tasks_per_cycle {self.tasks_per_cycle} must be a multiple of tasks_per_update {self.tasks_per_update}"
            )
        return self


class ServiceConfig(Section):
    """Loopback unless told otherwise; another host needs a token in RRI_SERVICE_TOKEN."""

    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535, description="0 takes a free one")


class BudgetConfig(Section):
    """Hard limits over the whole run, restarts included; None is no limit."""

    calls: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1, description="prompt and completion tokens together")
    money: float | None = Field(default=None, gt=0)


def _default_roles() -> dict[Role, RoleConfig]:
    # Temperatures and token limits where the paper is silent: the authors' development code.
    return {
        "proposer": RoleConfig(temperature=0.9, max_tokens=4096),
        "generator": RoleConfig(temperature=0.9, max_tokens=12288),
        "farmer": RoleConfig(temperature=0.6, max_tokens=2048),
        "honest": RoleConfig(temperature=0.6, max_tokens=2048),
        "judge": RoleConfig(temperature=0.6, max_tokens=512),
        "rewriter": RoleConfig(temperature=0.6, max_tokens=2048),
    }


class RunConfig(Section):
    """Everything that `rri run` needs. Saved as resolved in DIR/run.yaml."""

    seed: int = 0
    corpus: str = Field(default="starter", description="passages file (JSONL), or 'starter'")
    domain: DomainConfig
    endpoints: dict[str, EndpointConfig] = Field(min_length=1)
    roles: dict[Role, RoleConfig] = Field(default_factory=_default_roles)
    generation: GenerationConfig = GenerationConfig()
    admission: AdmissionConfig = AdmissionConfig()
    grading: GradingConfig = GradingConfig()
    pool: PoolConfig = PoolConfig()
    solver: SolverConfig = SolverConfig()
    service: ServiceConfig = ServiceConfig()
    budget: BudgetConfig = BudgetConfig()

    @model_validator(mode="before")
    @classmethod
    def _roles_over_defaults(cls, data: Any) -> Any:
        """A role that is named in part, or not at all, keeps its own defaults."""
        given = data.get("roles", {}) if isinstance(data, dict) else None
        if not isinstance(given, dict):
            return data
        defaults: dict[str, Any] = {role: route.model_dump() for role, route in _default_roles().items()}
        return {**data, "roles": _merge(defaults, given)}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for role, route in self.roles.items():
            if route.endpoint not in self.endpoints:
                raise ValueError(
                    f"role {role} names endpoint {route.endpoint!r}; configured are {', '.join(self.endpoints)}"
                )
        if self.pool.min_tasks > self.generation.tasks:
            least, most = self.pool.min_tasks, self.generation.tasks
            raise ValueError(
                f"pool.min_tasks {least} is more than generation.tasks {most}: training would wait for ever"
            )
        return self

    @property
    def uses_embedded(self) -> bool:
        """Whether any role is served by the embedded model."""
        return any(self.endpoints[r.endpoint].url == EMBEDDED for r in self.roles.values())


def list_presets() -> list[str]:
    """Names of the presets that ship with the package."""
    files = resources.files("rri.presets").iterdir()
    return sorted(f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml"))


def load_config(source: str | Path, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Read a preset by name or a config file by path.

    Args:
        source: a preset's name, or a path to a YAML file.
        overrides: values by dotted key ("solver.cycles"), applied last.

    Raises:
        ConfigError: no such preset or file, bad YAML, unknown or invalid keys.
    """
    data = _read_layers(source, seen=())
    for key, value in (overrides or {}).items():
        set_dotted(data, key, value)
    return parse_config(data, where=str(source))


def parse_config(data: Mapping[str, Any], where: str) -> RunConfig:
    """Validate a config.

    Raises:
        ConfigError: naming `where`, the key, and for an unknown key the nearest right one.
    """
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(
            f"{where}: " + "; ".join(_explain(e) for e in error.errors()[:5]), "Correct the config"
        ) from None


def _read_layers(source: str | Path, seen: tuple[str, ...]) -> dict[str, Any]:
    name = str(source)
    if name in seen:
        raise ConfigError(f"presets name each other in a circle: {' -> '.join((*seen, name))}", "Break the circle")
    presets = list_presets()
    if name in presets:
        text = resources.files("rri.presets").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    else:
        path = Path(source)
        if not path.is_file():
            near = difflib.get_close_matches(name, presets, 1)
            hint = f"Did you mean the preset {near[0]!r}?" if near else f"Presets are: {', '.join(presets)}"
            raise ConfigError(f"no config file and no preset {name!r}", hint)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {name}: {error}", "Give a UTF-8 YAML file") from None
    try:
        data = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{name} is not valid YAML: {' '.join(str(error).split())}", "Correct the file") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{name} must hold a mapping, got {type(data).__name__}", "Correct the file")
    base = data.pop("preset", None)
    return _merge(_read_layers(str(base), (*seen, name)), data) if base else data


def _merge(base: dict[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        # Only sections are merged. A mapping of values, with keys that are no names, is one value.
        if isinstance(below, dict) and isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
            value = _merge(below, value)
        merged[key] = value
    return merged


def set_dotted(data: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    node = data
    for parent in parents:
        child = node.setdefault(parent, {})
        if not isinstance(child, dict):
            raise ConfigError(f"{key}: {parent!r} holds a value, not a section", "Correct the option")
        node = child
    node[last] = value


def _explain(error: Any) -> str:
    path = ".".join(str(p) for p in error["loc"])
    if error["type"] == "extra_forbidden":
        *parents, last = error["loc"]
        near = difflib.get_close_matches(str(last), _fields_at(parents), 1)
        return f"unknown key {path!r}" + (
            f", did you mean {'.'.join([*map(str, parents), near[0]])!r}?" if near else ""
        )
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{path}: {message}" if path else message


def _fields_at(path: list[Any]) -> list[str]:
    """Field names of the section at `path`, stepping over keys of mappings and numbers of lists."""
    at: Any = RunConfig
    for part in path:
        if isinstance(at, type) and issubclass(at, BaseModel):
            at = at.model_fields[part].annotation if part in at.model_fields else None
        else:
            # dict[key, Section] or tuple[Section, ...]: one step leads to the section.
            at = next((a for a in get_args(at) if isinstance(a, type) and issubclass(a, BaseModel)), None)
    return list(at.model_fields) if isinstance(at, type) and issubclass(at, BaseModel) else []
