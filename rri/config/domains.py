"""Domains by name, by path, or started from another one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rri.config.explaining import explain
from rri.config.files import read_mapping, shipped_names
from rri.config.merging import merge
from rri.domain import DomainConfig
from rri.errors import ConfigError

__all__ = ["is_whole", "list_domains", "load_domain", "merge_domain", "resolve_domain"]

PACKAGE = "rri.domains"

WHOLE_VALUES = ("languages", "reference")
"""Mappings of figures, which are replaced and never mixed with those of another domain."""


def list_domains() -> list[str]:
    """Names of the domains that ship with the package."""
    return shipped_names(PACKAGE)


def load_domain(source: str | Path | Mapping[str, Any]) -> DomainConfig:
    """A domain as a run uses it.

    Args:
        source: a shipped domain's name, a path to a YAML file, or a mapping, which may start from one with `base`.

    Raises:
        ConfigError: no such domain, bad YAML, unknown or invalid keys.
    """
    where = "domain" if isinstance(source, Mapping) else str(source)
    try:
        return DomainConfig.model_validate(resolve_domain(source))
    except ValidationError as error:
        raise ConfigError(f"{where}: {explain(error, DomainConfig)}", "Correct the domain") from None


def resolve_domain(value: Any, seen: tuple[str, ...] = ()) -> Any:
    """What stands under `domain:`, with names, paths and `base` replaced by what they stand for.

    Raises:
        ConfigError: no such domain, bad YAML, domains that start from each other, or a value of another kind.
    """
    if isinstance(value, str | Path):
        name = str(value)
        if name in seen:
            raise ConfigError(
                f"domains start from each other in a circle: {' -> '.join((*seen, name))}", "Break the circle"
            )
        return resolve_domain(read_mapping(name, PACKAGE, "domain"), (*seen, name))
    if isinstance(value, Mapping) and "base" in value:
        base = value["base"]
        if not isinstance(base, str | Path):
            raise _not_a_domain(f"domain.base must be the name of a domain or a path, got {base!r}")
        return merge_domain(resolve_domain(base, seen), {k: v for k, v in value.items() if k != "base"})
    if not isinstance(value, Mapping | DomainConfig):
        raise _not_a_domain(f"domain must be a mapping, the name of a domain, or a path, got {value!r}")
    return value


def _not_a_domain(what: str) -> ConfigError:
    return ConfigError(what, f"Domains are: {', '.join(list_domains())}")


def is_whole(value: Any) -> bool:
    """Whether what stands under `domain:` is a domain of its own: nothing of another one may shine through it."""
    return not isinstance(value, Mapping) or "base" in value or "name" in value


def merge_domain(below: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`top` over `below`, key by key."""
    return {**merge(dict(below), top), **{key: top[key] for key in WHOLE_VALUES if key in top}}
