"""`kill -9` at several points of a commit: whatever was acknowledged is there afterwards, and nothing by halves."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from rri.store import GradeRow, Place, Store
from rri.types import Grade

ROOT = Path(__file__).parents[3]
ROWS = 3
"""Rows of one piece of work: all of them are kept or none."""
WRITERS = 6

# What kills the victim: its own hook at the n-th event of the engine, or its parent after n acknowledgements.
POINTS = {
    "after the first acknowledgement": ("parent", 1),
    "after many acknowledgements": ("parent", 40),
    "before the first commit": ("commit", 1),
    "before a later commit": ("commit", 6),
    "in the middle of a transaction": ("before_cursor_execute", 50),
    "after a commit that nobody heard of yet": ("checkin", 4),
}
ACKNOWLEDGED_BEFORE = {"before the first commit": 0}
"""Least number of acknowledgements at a point, where it is not one."""


# --- in the child: this module is imported there -----------------------------------------------------


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(kind: str, number: int) -> None:
    """Die at the `number`-th event of this kind from now on."""
    left = [number]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            die()

    event.listen(Engine, kind, count)


async def write_without_end(store: Store, pipe: int) -> None:
    """Several writers side by side; each tells the pipe which piece was acknowledged."""
    numbers = iter(range(10**6))

    async def writer() -> None:
        for number in numbers:
            places = [Place("train", 0, number, row) for row in range(ROWS)]
            grade = Grade(verdicts=(), score=0.5, raw=0.5)
            await store.add_grades([GradeRow(p, "t", 1, f"answer {number}", True, grade) for p in places])
            os.write(pipe, f"{number}\n".encode())

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())


def victim(folder: Path, kind: str, number: int) -> dict[str, Any]:
    """Fork a process that writes until it is killed; what it acknowledged, and how it ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            store = Store(folder)
            if kind != "parent":
                arm(kind, number)
            asyncio.run(write_without_end(store, writing))
        finally:
            os._exit(1)
    os.close(writing)
    acknowledged = []
    with open(reading, encoding="ascii") as lines:
        for line in lines:
            acknowledged.append(int(line))
            if kind == "parent" and len(acknowledged) == number:
                os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return {"acknowledged": acknowledged, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}


def run_victims(base: str) -> None:
    """One child for every point; one process imports for all of them."""
    results = {}
    for index, (name, (kind, number)) in enumerate(POINTS.items()):
        folder = Path(base, str(index))
        folder.mkdir()
        results[name] = {"folder": str(folder), **victim(folder, kind, number)}
    sys.stdout.write(json.dumps(results))


# --- in the test -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    base = tmp_path_factory.mktemp("killed")
    code = "import sys; from tests.rri.store.test_store_kill import run_victims; run_victims(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(base)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    yield json.loads(done.stdout)


@pytest.mark.parametrize("point", POINTS)
def test_what_was_acknowledged_survives_a_kill(killed: dict[str, Any], point: str) -> None:
    result = killed[point]
    assert result["signal"] == signal.SIGKILL
    acknowledged = set(result["acknowledged"])
    assert len(acknowledged) >= ACKNOWLEDGED_BEFORE.get(point, 1)

    store = Store(Path(result["folder"]))
    try:
        for number in acknowledged:
            found = store.find_grade(Place("train", 0, number, ROWS - 1), f"answer {number}")
            assert found == Grade(verdicts=(), score=0.5, raw=0.5)
        assert store.score_summary()["rollouts"] >= ROWS * len(acknowledged)
    finally:
        store.close()


@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_nothing_is_there_by_halves_and_writing_goes_on(killed: dict[str, Any], point: str) -> None:
    folder = Path(killed[point]["folder"])
    store = Store(folder)
    store.log_sync("reopened", "after a kill")
    assert [message for _, message, _ in store.events("reopened")] == ["after a kill"]
    store.close()
    with sqlite3.connect(folder / "rri.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        counts = db.execute("SELECT count(*) FROM grades GROUP BY position").fetchall()
    assert all(count == (ROWS,) for count in counts)


def test_a_kill_before_the_commit_leaves_no_trace_of_its_group(killed: dict[str, Any]) -> None:
    store = Store(Path(killed["before the first commit"]["folder"]))
    assert store.score_summary()["rollouts"] == 0
    store.close()


def test_a_commit_that_nobody_heard_of_is_kept_all_the_same(killed: dict[str, Any]) -> None:
    result = killed["after a commit that nobody heard of yet"]
    store = Store(Path(result["folder"]))
    assert store.score_summary()["rollouts"] > ROWS * len(result["acknowledged"])
    store.close()


def test_every_commit_is_synced_so_that_a_power_cut_loses_nothing_either(tmp_path: Path) -> None:
    """No test can pull the plug; what makes SQLite wait for the disk at each commit of a WAL is this setting."""
    seen: set[tuple[str, int]] = set()

    def look(connection: Connection) -> None:
        pragma = connection.exec_driver_sql
        seen.add((str(pragma("PRAGMA journal_mode").scalar()), int(pragma("PRAGMA synchronous").scalar() or 0)))

    store = Store(tmp_path)
    event.listen(Engine, "commit", look)
    try:
        store.log_sync("stage", "x")
    finally:
        event.remove(Engine, "commit", look)
        store.close()
    assert seen == {("wal", 2)}
