"""The run's config: pydantic settings with the method's numbers as named fields."""

from rri.config.loading import list_presets, load_config, parse_config, set_dotted
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
from rri.config.run import LoopConfig, RunConfig, ServiceConfig, SolverConfig
from rri.domain import DomainConfig, UseCase

__all__ = [
    "EMBEDDED",
    "ROLES",
    "AdmissionConfig",
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
