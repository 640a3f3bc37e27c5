"""The run's config: pydantic settings with the method's numbers as named fields."""

from rri.config.domains import list_domains, load_domain
from rri.config.loading import (
    Preset,
    Sources,
    apply_overrides,
    describe_presets,
    list_presets,
    load_config,
    parse_config,
    set_dotted,
)
from rri.config.loop import EvolutionConfig, ExploitConfig, MemoConfig, PatchConfig
from rri.config.method import AdmissionConfig, GenerationConfig, GradingConfig, PoolConfig
from rri.config.models import (
    EMBEDDED,
    ROLES,
    BudgetConfig,
    CacheConfig,
    EndpointConfig,
    Role,
    RoleConfig,
)
from rri.config.run import ARMS, Arm, LoopConfig, RunConfig, ServiceConfig, SolverConfig
from rri.config.validation import ValidationConfig
from rri.domain import DomainConfig, UseCase

__all__ = [
    "ARMS",
    "EMBEDDED",
    "ROLES",
    "AdmissionConfig",
    "Arm",
    "BudgetConfig",
    "CacheConfig",
    "DomainConfig",
    "EndpointConfig",
    "EvolutionConfig",
    "ExploitConfig",
    "GenerationConfig",
    "GradingConfig",
    "LoopConfig",
    "MemoConfig",
    "PatchConfig",
    "PoolConfig",
    "Preset",
    "Role",
    "RoleConfig",
    "RunConfig",
    "ServiceConfig",
    "SolverConfig",
    "Sources",
    "UseCase",
    "ValidationConfig",
    "apply_overrides",
    "describe_presets",
    "list_domains",
    "list_presets",
    "load_config",
    "load_domain",
    "parse_config",
    "set_dotted",
]
