"""What pydantic found wrong in a config, as one line that names the key and the nearest right one."""

import difflib
import types
from collections.abc import Sequence
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

__all__ = ["explain"]

MOST = 5
"""Findings in one message; the rest shows once these are corrected."""


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first findings, joined by semicolons.

    Args:
        error: what validation against `model` raised.
        model: the config's class, in which the nearest right key is looked up.
    """
    return "; ".join(_finding(found, model) for found in error.errors()[:MOST])


def _finding(found: Any, model: type[BaseModel]) -> str:
    path = ".".join(str(p) for p in found["loc"])
    if found["type"] == "extra_forbidden":
        *parents, last = found["loc"]
        near = difflib.get_close_matches(str(last), _fields_at(parents, model), 1)
        return f"unknown key {path!r}" + (
            f", did you mean {'.'.join([*map(str, parents), near[0]])!r}?" if near else ""
        )
    message = str(found["msg"]).removeprefix("Value error, ")
    return f"{path}: {message}" if path else message


def _fields_at(path: Sequence[Any], model: type[BaseModel]) -> list[str]:
    """Field names of the section at `path`, stepping over keys of mappings and numbers of lists."""
    at: Any = model
    for part in path:
        if _is_section(at):
            at = at.model_fields[part].annotation if part in at.model_fields else None
        else:
            # dict[key, Section] or tuple[Section, ...]: one step leads to the section.
            at = next(filter(_is_section, get_args(at)), None)
        if get_origin(at) in (Union, types.UnionType):
            at = next(filter(_is_section, get_args(at)), at)
    return list(at.model_fields) if _is_section(at) else []


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
