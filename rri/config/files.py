"""YAML files of configs: those that ship with the package go by name, the user's by path."""

import difflib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from rri.errors import ConfigError

__all__ = ["about_line", "read_mapping", "shipped_names"]


def shipped_names(package: str) -> list[str]:
    """Names of the YAML files that ship in `package`, without their ending."""
    return sorted(f.name.removesuffix(".yaml") for f in resources.files(package).iterdir() if f.name.endswith(".yaml"))


def about_line(package: str, name: str) -> str:
    """What a shipped file is for, in one line: the first sentence of its opening comment.

    Raises:
        ConfigError: it opens with no comment.
    """
    opening: list[str] = []
    for line in _shipped_text(package, name).splitlines():
        if not line.startswith("#"):
            break
        opening.append(line.removeprefix("#").strip())
    line = " ".join(opening).partition(". ")[0].rstrip(".")
    if not line:
        raise ConfigError(f"{package} {name} says nothing about itself", "Open the file with a comment")
    return line


def read_mapping(source: str, package: str, kind: str, *, hint: str = "") -> dict[str, Any]:
    """The mapping in a shipped file or in the user's.

    Args:
        source: a name in `package`, or a path. A name comes first.
        package: where the shipped files lie.
        kind: what such a file is called, e.g. "preset".
        hint: what to do when there is no such file; the nearest name by default.

    Raises:
        ConfigError: there is no such file, or it holds no mapping.
    """
    names = shipped_names(package)
    text = _shipped_text(package, source) if source in names else _user_text(source, kind, names, hint)
    try:
        data = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not valid YAML: {' '.join(str(error).split())}", "Correct the file") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{source} must hold a mapping, got {type(data).__name__}", "Correct the file")
    try:
        return {key: _unshared(value) for key, value in data.items()}
    except RecursionError:
        raise ConfigError(f"{source} holds an alias of what it is part of", "Remove the alias") from None


def _unshared(value: Any) -> Any:
    """A copy in which every alias has become a value of its own, so that changing one leaves the others."""
    if isinstance(value, dict):
        return {key: _unshared(inner) for key, inner in value.items()}
    return [_unshared(inner) for inner in value] if isinstance(value, list) else value


def _shipped_text(package: str, name: str) -> str:
    return resources.files(package).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _user_text(source: str, kind: str, names: Sequence[str], hint: str) -> str:
    path = Path(source)
    if not path.is_file():
        near = difflib.get_close_matches(source, names, 1)
        nearest = f"Did you mean the {kind} {near[0]!r}?" if near else f"{kind.capitalize()}s are: {', '.join(names)}"
        raise ConfigError(f"no file and no {kind} {source!r}", hint or nearest)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {source}: {error}", "Give a UTF-8 YAML file") from None
