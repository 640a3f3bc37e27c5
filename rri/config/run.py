"""Everything that a run needs, in one place."""

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from rri.config.loop import EvolutionConfig, ExploitConfig, MemoConfig, PatchConfig
from rri.config.merging import merge
from rri.config.method import AdmissionConfig, GenerationConfig, GradingConfig, PoolConfig
from rri.config.models import (
    EMBEDDED,
    ROLES,
    BudgetConfig,
    CacheConfig,
    EndpointConfig,
    Role,
    RoleConfig,
    default_roles,
)
from rri.config.validation import ValidationConfig
from rri.domain import DomainConfig, Section
from rri.wire import Generation, LoraSettings, ReasoningMarkers, ToolSettings

__all__ = ["ARMS", "Arm", "LoopConfig", "RunConfig", "ServiceConfig", "SolverConfig"]

Arm = Literal["generation-only", "evolution-only", "co-evolve-only", "rri"]
"""An arm of the paper's comparison (METHOD 8)."""
ARMS: tuple[Arm, ...] = get_args(Arm)


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
    retrieval: bool = Field(default=False, description="the solver searches with tools while it answers")
    tools: ToolSettings = Field(default=ToolSettings(), description="how it searches, where `retrieval` is true")
    generation: Generation = Field(
        default="transformers", description="what writes the rollouts; a server is named by trl.vllm_server_base_url"
    )
    lora: LoraSettings | None = Field(
        default=None, description="train low-rank adapters, which take a higher learning_rate; None trains all weights"
    )
    reasoning: tuple[ReasoningMarkers, ...] | None = Field(
        default=None,
        description="markers of the reasoning channel, which is removed before grading; None takes those that the "
        "base model's own vocabulary and chat template name",
    )
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

    @field_validator("reasoning", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        """One pair of markers may stand without a list."""
        return [value] if isinstance(value, Mapping) else value

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.tasks_per_cycle % self.tasks_per_update:
            raise ValueError(
                f"tasks_per_cycle {self.tasks_per_cycle} must be a multiple of tasks_per_update {self.tasks_per_update}"
            )
        return self


class LoopConfig(Section):
    """The loop's background work."""

    failures_in_a_row: int = Field(default=3, ge=1, description="failed rounds in a row after which the run stops")
    max_backlog: int = Field(
        default=1,
        ge=0,
        description="finished cycles that may wait for the loop's work; new positions wait beyond",
    )


class ServiceConfig(Section):
    """Loopback unless told otherwise; another host needs a token in RRI_SERVICE_TOKEN."""

    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535, description="0 takes a free one")


class RunConfig(Section):
    """Everything that `rri run` needs. Saved as resolved in DIR/run.yaml."""

    seed: int = 0
    corpus: str = Field(default="", description="passages file (JSONL), or 'starter'; the domain's own when empty")
    domain: DomainConfig
    endpoints: dict[str, EndpointConfig] = Field(min_length=1)
    roles: dict[Role, RoleConfig] = Field(default_factory=default_roles)
    generation: GenerationConfig = GenerationConfig()
    admission: AdmissionConfig = AdmissionConfig()
    grading: GradingConfig = GradingConfig()
    pool: PoolConfig = PoolConfig()
    exploits: ExploitConfig = ExploitConfig()
    patches: PatchConfig = PatchConfig()
    evolution: EvolutionConfig = EvolutionConfig()
    memo: MemoConfig = MemoConfig()
    loop: LoopConfig = LoopConfig()
    solver: SolverConfig = SolverConfig()
    validation: ValidationConfig = ValidationConfig()
    service: ServiceConfig = ServiceConfig()
    budget: BudgetConfig = BudgetConfig()
    cache: CacheConfig = CacheConfig()

    @model_validator(mode="before")
    @classmethod
    def _roles_over_defaults(cls, data: Any) -> Any:
        """A role that is named in part, or not at all, keeps its own defaults."""
        given = data.get("roles", {}) if isinstance(data, dict) else None
        if not isinstance(given, dict):
            return data
        defaults: dict[str, Any] = {role: route.model_dump() for role, route in default_roles().items()}
        return {**data, "roles": merge(defaults, given)}

    @model_validator(mode="after")
    def _corpus_of_the_domain(self) -> Self:
        if not self.corpus:
            # The model is frozen for its users; the saved config must hold what the run uses.
            object.__setattr__(self, "corpus", self.domain.corpus)
        return self

    @model_validator(mode="after")
    def _switches(self) -> Self:
        """METHOD 8: switches that contradict each other are refused."""
        for on, needed, why in (
            ("memo", "admission", "the memo is scored on first probes, and there are none"),
            ("memo", "evolution", "the memo is rewritten in evolution rounds, and there are none"),
            ("patches", "exploits", "an exploit case is what gets patched, and there are none"),
        ):
            if getattr(self, on).enabled and not getattr(self, needed).enabled:
                raise ValueError(
                    f"{on}.enabled is true and {needed}.enabled is false: {why}; set {on}.enabled to false, or "
                    f"{needed}.enabled to true"
                )
        return self

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for role in self.roles_routed:
            route = self.roles[role]
            for endpoint in filter(None, (route.endpoint, route.fallback)):
                if endpoint not in self.endpoints:
                    raise ValueError(
                        f"role {role} names endpoint {endpoint!r}; configured are {', '.join(self.endpoints)}"
                    )
            if route.fallback == route.endpoint:
                raise ValueError(f"role {role} falls back from {route.endpoint!r} to itself; name another endpoint")
        if self.pool.min_tasks > self.generation.tasks:
            least, most = self.pool.min_tasks, self.generation.tasks
            raise ValueError(
                f"pool.min_tasks {least} is more than generation.tasks {most}: training would wait for ever"
            )
        if self.pool.min_tasks > self.pool.ahead:
            raise ValueError(
                f"pool.min_tasks {self.pool.min_tasks} is more than pool.ahead {self.pool.ahead}: training would wait "
                "for ever"
            )
        return self

    @property
    def arm(self) -> Arm | Literal["custom"]:
        """The arm whose switches these are (METHOD 8), or "custom".

        Retrieval tells Evolution Only and Co-evolve Only apart. In the other two arms it belongs to the setting.
        """
        others = {s.enabled for s in (self.admission, self.exploits, self.patches, self.memo)}
        if others == {self.evolution.enabled}:
            return "rri" if self.evolution.enabled else "generation-only"
        if others == {False}:
            return "co-evolve-only" if self.solver.retrieval else "evolution-only"
        return "custom"

    @property
    def roles_used(self) -> tuple[Role, ...]:
        """The roles that a run under these switches calls."""
        adversary = self.admission.enabled or self.patches.enabled
        used: dict[Role, bool] = {
            "farmer": adversary,
            "honest": adversary,
            "rewriter": self.admission.enabled,
            "minter": self.patches.enabled,
            "referee": self.exploits.enabled,
            "analyst": self.evolution.enabled,
            "meta_optimizer": self.evolution.enabled,
            "memo_optimizer": self.memo.enabled,
            "summarizer": self.solver.retrieval,
        }
        return tuple(role for role in ROLES if used.get(role, True))

    @property
    def roles_routed(self) -> tuple[Role, ...]:
        """The roles that must have an endpoint: all of them, called in the run or not, because commands apart from a
        run call them too. The summarizer alone serves nobody but a solver that retrieves.
        """
        return tuple(role for role in self.roles if role != "summarizer" or self.solver.retrieval)

    @property
    def uses_embedded(self) -> bool:
        """Whether any role is served by the embedded model."""
        routes = [self.roles[role] for role in self.roles_routed]
        endpoints = {name for r in routes for name in (r.endpoint, r.fallback) if name}
        return any(self.endpoints[name].url == EMBEDDED for name in endpoints)
