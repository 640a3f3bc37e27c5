"""From presets, files and options to a checked config.

A preset (rri/presets/*.yaml) is a config file that ships with the package. A user's file may name one, or several,
under `preset:` and change what it likes. Unknown keys are refused with the nearest right key.
"""

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from rri.config.merging import merge
from rri.config.run import RunConfig
from rri.errors import ConfigError

__all__ = ["list_presets", "load_config", "parse_config", "set_dotted"]


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
    return merge(_read_layers(str(base), (*seen, name)), data) if base else data


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
