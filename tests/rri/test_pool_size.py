"""A pool opens in time that follows the size of its run."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import create_engine, insert

from rri.config import PoolConfig
from rri.pool import Pool
from rri.store import Store
from rri.store import tables as t


def patched_run(folder: Path, tasks: int) -> Store:
    """Every task was admitted, served and patched, and waits for its next turn."""
    folder.mkdir()
    store = Store(folder)
    ids = [f"{number:06}-abc" for number in range(tasks)]
    admitted = [
        {"task_id": i, "version": 1, "outcome": "passed", "evidence": "", "at": 0.0, "seq": n}
        for n, i in enumerate(ids)
    ]
    served = [{"position": n, "task_id": i, "version": 1, "source": "fresh", "at": 0.0} for n, i in enumerate(ids)]
    patches = [
        {"case_id": n, "task_id": i, "version": 2, "outcome": "patched", "accepted": 1, "body": "", "at": 0.0}
        for n, i in enumerate(ids)
    ]
    engine = create_engine(f"sqlite:///{store.path}")
    with engine.begin() as c:
        for table, rows in ((t.admissions, admitted), (t.served, served), (t.patches, patches)):
            c.execute(insert(table), rows)
    engine.dispose()
    return store


def calls_of(work: Callable[[], object]) -> int:
    """Calls of functions, and turns of generators, in `work`."""
    calls = 0

    def count(frame: FrameType, kind: str, argument: Any) -> None:
        nonlocal calls
        calls += kind == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def test_opening_takes_ten_times_as_much_for_ten_times_the_patches(tmp_path: Path) -> None:
    def open_pool(store: Store) -> None:
        async def opened() -> int:
            return Pool(store, 7, PoolConfig(), lambda: False).replaying

        assert asyncio.run(opened()) > 0

    calls = {}
    for tasks in (100, 1000):
        store = patched_run(tmp_path / str(tasks), tasks)
        try:
            open_pool(store)
            calls[tasks] = calls_of(lambda store=store: open_pool(store))  # type: ignore[misc]
        finally:
            store.close()
    assert calls[1000] <= 10 * calls[100]
