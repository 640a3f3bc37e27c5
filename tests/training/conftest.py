"""Runs on the tiny model, and starts of the trainer in processes of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rri.wire import RunInfo
from tests.training.fake_service import FakeService
from tests.training.starts import ROOT, Launch, Start, Started


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "runs_first: takes so long that nothing should wait for it at the end")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests first, all others in their order: two workers then end at about the same time."""
    items.sort(key=lambda item: item.get_closest_marker("runs_first") is None)


@pytest.fixture
def make_info(tiny_model: Path) -> Callable[..., RunInfo]:
    """A run of 2 cycles of 2 tasks, one update a cycle, 4 answers a task, unless told otherwise."""

    def make(**changes: Any) -> RunInfo:
        solver = {"max_completion_length": 12, "learning_rate": 1e-3} | changes.pop("solver", {})
        values: dict[str, Any] = {
            "run_id": "test", "seed": 3, "base_model": str(tiny_model), "cycles": 2, "tasks_per_cycle": 2,
            "tasks_per_update": 2, "rollouts_per_task": 4, "save_every_cycles": 1, "judge_truncated": False,
            "grade_timeout_s": 30.0, "serve_timeout_s": 30.0, "solver": solver,
        }  # fmt: skip
        return RunInfo(**values | changes)

    return make


@pytest.fixture
def start(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Start:
    """Run main() on a service, with `tmp_path` as the run directory."""
    from training import grpo  # brings torch, which not all of these tests need

    monkeypatch.setattr(grpo, "die_with_parent", lambda: None)

    def run(service: FakeService | None, *flags: str) -> tuple[int, list[str]]:
        url = ("--service", service.url) if service else ()
        code = grpo.main(["--run", str(tmp_path), *url, *flags])
        return code, [line for line in capsys.readouterr().err.splitlines() if line.startswith("training.grpo:")]

    return run


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start a Python module in the background; what still runs at the end of the test is killed."""
    started: list[Started] = []

    def start(*arguments: str, **env: str) -> Started:
        log = tmp_path / f"process{len(started)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **env},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        started.append(Started(process, log))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
