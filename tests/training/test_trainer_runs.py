"""Whole runs of the trainer in processes of their own, against the fake service."""

import json
import math
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import psutil  # type: ignore[import-untyped]
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rri.wire import GradeRequest, Row, RunInfo
from tests.training.fake_service import FakeService, Scorer, by_length
from tests.training.starts import DEADLINE_S, Launch, trainer


def nulls(*, rows: set[tuple[int, int]] = frozenset(), positions: set[int] = frozenset()) -> Scorer:  # type: ignore[assignment]
    """Scores by length, with None at these rows and at every row of these positions."""

    def score(row: Row) -> float | None:
        return None if (row.position, row.row) in rows or row.position in positions else by_length(row)

    return score


def logged(output: Path) -> list[dict[str, Any]]:
    """What the trainer logged, one entry per update."""
    entries: list[dict[str, Any]] = json.loads((output / "final" / "trainer_state.json").read_text())["log_history"]
    return [entry for entry in entries if "loss" in entry]


def same_weights(left: Path, right: Path) -> bool:
    models = [AutoModelForCausalLM.from_pretrained(path).state_dict() for path in (left, right)]
    assert models[0].keys() == models[1].keys()
    return all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def check_advantages(file: Path, service: FakeService, cycle: int, size: int) -> None:
    """Advantages of a generation batch are score minus the mean of the group's scored rows, and 0 for null rows."""
    table = pd.read_parquet(file)
    by_key = {(r.position, r.row): r for g in service.grades if g.cycle == cycle for r in g.rows}
    rows = [by_key[key] for key in sorted(by_key)]
    assert len(table) == len(rows)
    assert [completion[0]["content"] for completion in table["completion"]] == [row.answer for row in rows]
    for start in range(0, len(rows), size):
        scores = [service.score(row) for row in rows[start : start + size]]
        known = [score for score in scores if score is not None]
        expected = [0.0 if score is None else score - sum(known) / len(known) for score in scores]
        assert list(table["advantage"][start : start + size]) == pytest.approx(expected, abs=1e-6)


def test_killed_run_resumes_and_finishes(
    launch: Launch, make_info: Callable[..., RunInfo], tiny_model: Path, tmp_path: Path
) -> None:
    """Killed in the second of four cycles by the death of its launcher; the next start goes on from there."""
    info = make_info(cycles=4, tasks_per_cycle=4)
    output, reached, killed = tmp_path / "run" / "checkpoints", threading.Event(), threading.Event()
    service = FakeService(info, score=nulls(rows={(4, 1)}, positions={6, *range(12, 16)}), waits={2: 1})

    def hold(request: GradeRequest) -> bool:
        if request.cycle == 1:
            reached.set()
            killed.wait(DEADLINE_S)  # no answer before the kill, so that it always falls within the cycle
        return True

    service.on_grade = hold
    with service:
        first = trainer(launch, "cpu.yaml", tmp_path / "run", service.url)
        assert reached.wait(DEADLINE_S), first.output
        children = psutil.Process(first.process.pid).children(recursive=True)
        assert children
        first.process.kill()
        _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
        assert not alive
        killed.set()
        assert (output / "checkpoint-2" / "trainer_state.json").exists()
        torn = output / "checkpoint-4"
        shutil.copytree(output / "checkpoint-2", torn)
        (torn / "trainer_state.json").unlink()

        first_life = len(service.requests)
        second = trainer(launch, "cpu.yaml", tmp_path / "run", service.url, "--log_completions", "True")
        assert second.wait() == 0, second.output

    assert f"skipping {torn}" in second.output
    assert "pool is thin at 2" in first.output
    assert service.resumed == [0, 1]
    # Killed in its second cycle, the first life has reported one; each cycle ends with its second update.
    assert service.reported == [(0, 2), (1, 4), (2, 6), (3, 8)]
    lives = list(service.positions.values())
    assert [life[0] for life in lives] == [0, 4]
    assert lives[1] == list(range(4, 16)), "each once, none past the end"

    log = logged(output)
    assert [entry["step"] for entry in log] == list(range(1, 9))
    assert all(math.isfinite(entry["loss"]) and math.isfinite(entry["grad_norm"]) for entry in log)
    assert [entry["grad_norm"] > 0 for entry in log] == [True] * 6 + [False] * 2, "no gradient from a null batch"
    # Metrics of a generation batch belong to its first update.
    first_updates = [entry for entry in log if entry["step"] % 2]
    assert [entry.get("grade/unscored_share") for entry in first_updates] == [0, 5 / 16, 0, 1]
    assert "grade/score_mean" not in first_updates[-1] and first_updates[-1]["reward"] is None
    second_life = service.requests[first_life:]
    grades = [GradeRequest.model_validate(r.body) for r in second_life if r.path == "/v1/grade"]
    cut = [sum(not row.finished for row in grade.rows) / 16 for grade in grades]
    assert [entry["grade/truncated_share"] for entry in first_updates[1:]] == pytest.approx(cut)
    assert [entry["completions/clipped_ratio"] for entry in first_updates[1:]] == pytest.approx(cut)
    service.requests = second_life
    for cycle in (1, 2, 3):
        check_advantages(output / "completions" / f"completions_{2 * cycle + 1:05d}.parquet", service, cycle, 4)

    assert not same_weights(output / "final", tiny_model)
    assert same_weights(output / "final", output / "checkpoint-8")
    assert AutoTokenizer.from_pretrained(output / "final").chat_template
    assert {p.name for p in output.glob("checkpoint-*")} == {"checkpoint-6", "checkpoint-8"}


def test_two_zero3_ranks_pause_and_resume(
    launch: Launch, make_info: Callable[..., RunInfo], tiny_model: Path, tmp_path: Path
) -> None:
    """Three groups of four over two ranks: the middle one is cut in two, and one of its rows is null.

    In the first start the service stays away after one cycle.
    """
    info = make_info(tasks_per_cycle=3, tasks_per_update=3, grade_timeout_s=0.5)
    run, output = tmp_path / "run", tmp_path / "run" / "checkpoints"
    # An empty folder for compiled ops: nothing may have to be compiled.
    extensions = {"TORCH_EXTENSIONS_DIR": str(tmp_path / "ops")}
    with FakeService(info, score=nulls(rows={(1, 3), (3, 0)})) as service:
        service.on_grade = lambda request: request.cycle == 0
        first = trainer(launch, "zero3_cpu.yaml", run, service.url, "--log_completions", "True", **extensions)
        assert first.wait() != 0
        assert json.loads((run / "trainer_exit.json").read_text())["code"] == 75, first.output
        away, service.requests = service.requests, [r for r in service.requests if r.path == "/v1/resume"]

        service.on_grade = lambda request: True
        second = trainer(launch, "zero3_cpu.yaml", run, service.url, "--log_completions", "True", **extensions)
        assert second.wait() == 0, second.output

    assert not (tmp_path / "ops").exists() and not (run / "trainer_exit.json").exists()
    assert service.resumed == [0, 1]
    assert list(service.positions.values()) == [[3, 4, 5], [3, 4, 5]]
    service.requests = [r for r in away if r.path != "/v1/grade" or r.body["cycle"] == 0] + service.requests
    assert list(service.positions.values())[:2] == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]]
    for cycle in (0, 1):
        shares = [{(r.position, r.row) for r in g.rows} for g in service.grades if g.cycle == cycle]
        assert [len(share) for share in shares] == [6, 6]
        assert set.union(*shares) == {(3 * cycle + p, r) for p in range(3) for r in range(4)}
        check_advantages(output / "completions" / f"completions_{cycle + 1:05d}.parquet", service, cycle, 4)
    log = logged(output)
    assert [entry["step"] for entry in log] == [1, 2]
    assert all(math.isfinite(entry["loss"]) and entry["grad_norm"] > 0 for entry in log)
    assert not same_weights(output / "final", tiny_model)
    assert same_weights(output / "final", output / "checkpoint-2")
