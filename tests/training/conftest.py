"""Runs on the tiny model, and starts of the trainer in processes of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rri.wire import RunInfo
from tests.training.starts import ROOT, Launch, Started


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
