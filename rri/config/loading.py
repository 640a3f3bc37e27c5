"""From presets, files and options to a checked config.

A preset (rri/presets/*.yaml) is a config file that ships with the package. A complete one starts a run by itself. The
others are layers to put over one: an arm (METHOD 8) sets the switches, a setting routes the roles. A user's file may
name one, or several, under `preset:` and change what it likes. Later layers win. Unknown keys are refused with the
nearest right key. Paths are relative to the working directory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from rri.config.domains import is_whole, list_domains, merge_domain, resolve_domain
from rri.config.explaining import explain
from rri.config.files import about_line, read_mapping, shipped_names
from rri.config.merging import merge
from rri.config.run import ARMS, RunConfig
from rri.errors import ConfigError

__all__ = [
    "Preset",
    "PresetKind",
    "Sources",
    "apply_overrides",
    "describe_presets",
    "list_presets",
    "load_config",
    "parse_config",
    "set_dotted",
]

PACKAGE = "rri.presets"

PresetKind = Literal["complete", "arm", "setting"]

Source = str | Path
Sources = Source | Sequence[Source]


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset as it is listed. `about` is one line."""

    name: str
    kind: PresetKind
    about: str


def list_presets() -> list[str]:
    """Names of the presets that ship with the package."""
    return shipped_names(PACKAGE)


def describe_presets() -> list[Preset]:
    """The presets that ship: complete ones, then arms in the paper's order, then settings."""
    found = [Preset(name, _kind(name), about_line(PACKAGE, name)) for name in list_presets()]
    order: tuple[PresetKind, ...] = ("complete", "arm", "setting")
    arms: tuple[str, ...] = ARMS
    return sorted(found, key=lambda p: (order.index(p.kind), arms.index(p.name) if p.kind == "arm" else 0, p.name))


def _kind(name: str) -> PresetKind:
    if name in ARMS:
        return "arm"
    return "complete" if _is_complete(_read_layers(name, seen=())) else "setting"


def _is_complete(data: Mapping[str, Any]) -> bool:
    return "domain" in data and "endpoints" in data


def load_config(source: Sources, overrides: Mapping[str, Any] | None = None) -> RunConfig:
    """Read presets by name and config files by path.

    Args:
        source: a preset's name or a path to a YAML file, or several of them, later ones over earlier ones.
        overrides: values by dotted key ("solver.cycles"), applied last.

    Raises:
        ConfigError: no such preset or file, bad YAML, unknown or invalid keys, no complete preset or file.
    """
    sources = [source] if isinstance(source, str | Path) else list(source)
    if not sources:
        raise ConfigError("no config is named", f"Presets are: {', '.join(list_presets())}")
    where = " + ".join(map(str, sources))
    data: dict[str, Any] = {}
    for layer in sources:
        data = _lay(data, _read_layers(layer, seen=()))
    apply_overrides(data, overrides or {})
    partial = [str(s) for s in sources if str(s) in list_presets()]
    if len(partial) == len(sources) and not _is_complete(data):
        complete = [p.name for p in describe_presets() if p.kind == "complete"]
        raise ConfigError(
            f"{where}: this changes a config and is none by itself",
            f"Name a complete one first ({', '.join(complete)}), e.g. -c {complete[0]} -c {partial[-1]}",
        )
    return parse_config(data, where=where)


def parse_config(data: Mapping[str, Any], where: str) -> RunConfig:
    """Validate a config. `domain` may be a mapping, a domain's name, or a path.

    Raises:
        ConfigError: naming `where`, the key, and for an unknown key the nearest right one.
    """
    if "domain" in data:
        data = {**data, "domain": resolve_domain(data["domain"])}
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{where}: {explain(error, RunConfig)}", "Correct the config") from None


def _read_layers(source: Source, seen: tuple[str, ...]) -> dict[str, Any]:
    """A file over the presets that it names; its domain is resolved."""
    name = str(source)
    if name in seen:
        raise ConfigError(f"presets name each other in a circle: {' -> '.join((*seen, name))}", "Break the circle")
    hint = f"{name} is a domain, so name a preset and set domain={name}" if name in list_domains() else ""
    data = read_mapping(name, PACKAGE, "preset", hint=hint)
    below: dict[str, Any] = {}
    for preset in _presets_of(data.pop("preset", None), name):
        below = _lay(below, _read_layers(preset, (*seen, name)))
    return _lay(below, data)


def _presets_of(value: Any, where: str) -> list[str]:
    names = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"{where}: preset must be a preset's name, a path, or a list of them, got {value!r}", "Correct the file"
        )
    return names


def _lay(below: dict[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """One layer over another. A domain of its own replaces the one below; a part of one changes it."""
    merged = merge(below, top)
    if "domain" not in top:
        return merged
    given, old = top["domain"], below.get("domain")
    if is_whole(given) or not isinstance(old, Mapping):
        return {**merged, "domain": resolve_domain(given)}
    return {**merged, "domain": merge_domain(old, given)}


def apply_overrides(data: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Set values by dotted key, in order. Changes `data`.

    Raises:
        ConfigError: a key lies below a value, or there is no such domain.
    """
    for key, value in overrides.items():
        if key in ("domain", "domain.base"):
            given = value if key == "domain" else {"base": value}
            data["domain"] = _lay(data, {"domain": given})["domain"]
        else:
            set_dotted(data, key, value)


def set_dotted(data: dict[str, Any], key: str, value: Any) -> None:
    """Set one value by dotted key, making the sections on the way. Changes `data`.

    Raises:
        ConfigError: the key lies below a value.
    """
    *parents, last = key.split(".")
    node = data
    for parent in parents:
        child = node.setdefault(parent, {})
        if not isinstance(child, dict):
            raise ConfigError(f"{key}: {parent!r} holds a value, not a section", "Correct the option")
        node = child
    node[last] = value
