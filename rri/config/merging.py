"""One layer of a config over another."""

from collections.abc import Mapping
from typing import Any

__all__ = ["merge"]


def merge(base: dict[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    """`top` over `base`, section by section; neither is changed."""
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        # Only sections are merged. A mapping of values, with keys that are no names, is one value.
        if isinstance(below, dict) and isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
            value = merge(below, value)
        merged[key] = value
    return merged
