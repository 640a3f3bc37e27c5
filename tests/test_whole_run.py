"""The main job as a user runs it: `rri run` in a process of its own, a real trainer, kills at any moment.

The models are scripted over real HTTP and the solver is tiny; everything else is the real thing.
"""

import json
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from rri.testing import ChatRequest, Fault, ScriptedServer, hang, role_models
from rri.testing.roles import EXPLOIT_MARK, HONEST_MARK
from tests.passages import write_passages
from tests.rigs import scripted_config
from tests.rri.cli.commands import rri_here, start_rri, write_config

DEADLINE_S = 150

Row = tuple[Any, ...]


def config_file(folder: Path, url: str, model: Path, launch: str = "cpu") -> str:
    corpus = str(write_passages(folder / "passages.jsonl"))
    solver = {"base_model": str(model), "launch": launch, "learning_rate": 1e-3}
    endpoints = {"main": {"timeout_s": 120}}
    return write_config(folder / "config.yaml", scripted_config(url, corpus=corpus, solver=solver, endpoints=endpoints))


def finish(process: subprocess.Popen[bytes], log: Path) -> int:
    try:
        return process.wait(timeout=DEADLINE_S)
    finally:
        if process.poll() is None:
            process.kill()
            pytest.fail(f"not finished in time:\n{log.read_text()[-3000:]}")


def rows(folder: Path, table: str, columns: str) -> set[Row]:
    with sqlite3.connect(folder / "rri.db") as connection:
        return set(connection.execute(f"SELECT {columns} FROM {table}"))


REPORTED = {
    "task_versions": "task_id, version, digest, body",
    "admissions": "task_id, version, outcome, evidence",
    "served": "position, task_id, version, source",
    "grades": "cycle, position, row, task_id, version, answer, score, verdicts",
    "calls": "id, role, task_id, reply, money",
}


def reported(folder: Path) -> dict[str, set[Row]]:
    """Everything that the database holds, less what resuming may mark (superseded)."""
    return {table: rows(folder, table, columns) for table, columns in REPORTED.items()}


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("launch", ["cpu", "zero3_cpu"])
def test_a_run_from_description_to_trained_solver(
    launch: str, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, log = tmp_path / "run", tmp_path / "log"
    with ScriptedServer(role_models()) as models:
        config = config_file(tmp_path, models.url, tiny_model, launch)
        code = finish(start_rri(log, "run", str(folder), "--config", config), log)
    assert code == 0, log.read_text()[-3000:] + (folder / "logs" / "trainer.log").read_text()[-6000:]
    shown = json.loads(rri_here(capsys, "show", str(folder), "--json").out)
    assert shown["outcomes"] == {"repaired": 4}
    assert shown["delta_after"] < shown["delta_before"]
    assert [c["rollouts"] for c in shown["cycles"]] == [8, 8]
    assert set(shown["seconds"]) == {"models", "index", "admission", "training"}
    final, base = weights(folder / "checkpoints" / "final"), weights(tiny_model)
    assert any((final[name] != base[name]).any() for name in base), "rewards vary, so the weights must move"
    assert not (folder / "service.json").exists()
    assert rri_here(capsys, "status", str(folder)).code == 11
    call = json.loads(rri_here(capsys, "calls", str(folder), "--role", "farmer", "--last", "1", "--json").out)
    assert EXPLOIT_MARK in call["reply"]
    assert call["messages"][0]["role"] == "system"


class Trap:
    """Lets requests pass until one matches; that one and all later ones hang until the trap is set anew."""

    def __init__(self) -> None:
        self.caught = threading.Event()
        self._matches: Callable[[ChatRequest], bool] = lambda request: False

    def set(self, matches: Callable[[ChatRequest], bool]) -> None:
        self._matches = matches
        self.caught.clear()

    def __call__(self, request: ChatRequest) -> Fault | None:
        if not self.caught.is_set() and self._matches(request):
            self.caught.set()
        return hang() if self.caught.is_set() else None


def of_solver(request: ChatRequest) -> bool:
    """Whether the judge is asked about an answer of the solver."""
    answer = request.block("answer")
    return request.model == "judge" and bool(answer) and EXPLOIT_MARK not in answer and HONEST_MARK not in answer


def test_killed_at_any_moment_the_same_command_goes_on(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, log = tmp_path / "run", tmp_path / "log"
    first_checkpoint = folder / "checkpoints" / "checkpoint-1" / "trainer_state.json"
    moments: dict[str, Callable[[ChatRequest], bool]] = {
        "while the second task is written": lambda r: r.model == "generator" and r.number >= 1,
        "while a task is repaired": lambda r: r.model == "rewriter" and r.number >= 1,
        "while the first cycle is graded": of_solver,
        "after the first checkpoint": lambda r: of_solver(r) and first_checkpoint.exists(),
    }
    trap = Trap()
    kept: dict[str, set[Row]] = {table: set() for table in REPORTED}
    with ScriptedServer(role_models(), fault=trap) as models:
        config = config_file(tmp_path, models.url, tiny_model)
        command = ("run", str(folder), "--config", config)
        for moment, matches in moments.items():
            trap.set(matches)
            process = start_rri(log, *command)
            assert trap.caught.wait(DEADLINE_S), f"{moment} never came:\n{log.read_text()[-3000:]}"
            family = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            assert not psutil.wait_procs(family, timeout=30)[1], "children must end with their parent"
            for table, before in reported(folder).items():
                assert kept[table] <= before, f"{table} lost rows when killed {moment}"
                kept[table] = before
        trap.set(lambda request: False)
        assert finish(start_rri(log, *command), log) == 0, log.read_text()[-3000:]
    for table, after in reported(folder).items():
        assert kept[table] <= after, f"{table} lost rows"
    assert len(rows(folder, "served", "position")) == 4
    assert len(rows(folder, "admissions", "task_id")) == 4
    shown = json.loads(rri_here(capsys, "show", str(folder), "--json").out)
    assert [c["rollouts"] for c in shown["cycles"]] == [8, 8], "superseded rows are out, the others complete"
    assert shown["checkpoint"] is not None


def test_a_second_owner_is_refused(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, log = tmp_path / "run", tmp_path / "log"
    trap = Trap()
    with ScriptedServer(role_models(), fault=trap) as models:
        trap.set(lambda request: request.model == "generator")
        config = config_file(tmp_path, models.url, tiny_model)
        process = start_rri(log, "serve", str(folder), "--config", config)
        try:
            assert trap.caught.wait(DEADLINE_S), log.read_text()[-3000:]
            outcome = rri_here(capsys, "run", str(folder))
            assert outcome.code == 3
            assert f"in use by process {process.pid}" in outcome.error_line
            status = rri_here(capsys, "status", str(folder))
            assert status.code == 0
            assert f"process {process.pid}" in status.out
        finally:
            process.terminate()
            code = process.wait(timeout=DEADLINE_S)
    assert code == 130, "SIGTERM ends a service cleanly"
    assert "error: interrupted. Run the same command again to go on" in log.read_text()
    assert not (folder / "service.json").exists()
