"""Garbage collection of a process that stays open for hours."""

import gc

__all__ = ["settle_heap"]

THRESHOLDS = (10_000, 10, 10)
"""Python's own (700, 10, 10) walk young objects so often that it costs a quarter of a judge call's CPU."""


def settle_heap() -> None:
    """Call once when everything is loaded: what is there now stays, and new objects are looked at less often.

    For processes that own a run. Nothing changes in what is freed, only when.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
