"""Runs that were made by hand, for what a scripted run does not bring about, and pages as text."""

import asyncio
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from rri.cases import GuidanceVersion, MemoVersion
from rri.config import RunConfig
from rri.rundir import RunDir
from rri.store import Store
from tests.rigs import scripted_config

__all__ = ["made_run", "page"]


@contextmanager
def made_run(path: Path, *, started: bool = True, **sections: Any) -> Iterator[tuple[Store, RunDir, RunConfig]]:
    """A run directory with an empty store; `started`: the first guidance and memo are there."""
    config = scripted_config("http://127.0.0.1:1/v1", corpus="starter", **sections)
    RunDir.create_or_resume(path, config, facts={"arm": config.arm}).close()
    store = Store(path)
    if started:
        asyncio.run(store.begin_texts(GuidanceVersion(version=0), MemoVersion(version=0)))
    try:
        yield store, RunDir.existing(path), config
    finally:
        store.close()


def page(show: Callable[[Console], None], width: int = 160) -> str:
    """What is printed on a terminal of so many columns, without colours."""
    out = io.StringIO()
    show(Console(file=out, width=width, color_system=None))
    return out.getvalue()
