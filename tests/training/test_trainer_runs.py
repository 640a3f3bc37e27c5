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
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rri.wire import GradeRequest, LoraSettings, Row, RunInfo
from tests.training.fake_service import FakeService, Scorer, by_length
from tests.training.starts import DEADLINE_S, Launch, Start, Started, trainer

pytestmark = pytest.mark.runs_first

MakeInfo = Callable[..., RunInfo]
Answers = dict[tuple[int, int, int], str]

TWO_RANKS = """
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_GPU
downcast_bf16: 'no'
machine_rank: 0
main_process_port: 0
mixed_precision: 'no'
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
use_cpu: false
"""


def nulls(rows: set[tuple[int, int]], positions: set[int]) -> Scorer:
    """Scores by length, with None at these rows and at every row of these positions."""

    def score(row: Row) -> float | None:
        return None if (row.position, row.row) in rows or row.position in positions else by_length(row)

    return score


def logged(output: Path) -> list[dict[str, Any]]:
    """What the trainer logged, one entry per update."""
    entries: list[dict[str, Any]] = json.loads((output / "final" / "trainer_state.json").read_text())["log_history"]
    return [entry for entry in entries if "loss" in entry]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    return tensors


def gap(left: Path, right: Path) -> float:
    """Largest difference between two models' weights."""
    pair = weights(left), weights(right)
    assert pair[0].keys() == pair[1].keys()
    return max(float((pair[0][name] - pair[1][name]).abs().max()) for name in pair[0])


def answers(service: FakeService) -> Answers:
    """The answer at each cycle, position and row; the last one where a resumed start sent it again."""
    return {(grade.cycle, row.position, row.row): row.answer for grade in service.grades for row in grade.rows}


def check_advantages(output: Path, step: int, service: FakeService, cycle: int, size: int) -> None:
    """Advantages of a generation batch are score minus the mean of the group's scored rows, and 0 for null rows.

    Nothing divides them by a standard deviation.
    """
    table = pd.read_parquet(output / "completions" / f"completions_{step:05d}.parquet")
    by_key = {(r.position, r.row): r for g in service.grades if g.cycle == cycle for r in g.rows}
    rows = [by_key[key] for key in sorted(by_key)]
    assert len(table) == len(rows)
    assert [completion[0]["content"] for completion in table["completion"]] == [row.answer for row in rows]
    for start in range(0, len(rows), size):
        scores = [service.score(row) for row in rows[start : start + size]]
        known = [score for score in scores if score is not None]
        expected = [0.0 if score is None else score - sum(known) / len(known) for score in scores]
        assert list(table["advantage"][start : start + size]) == pytest.approx(expected, abs=1e-6)


def kill(started: Started) -> None:
    """SIGKILL to the launcher, with which its ranks die."""
    children = psutil.Process(started.process.pid).children(recursive=True)
    assert len(children) >= 2
    started.process.kill()
    _, alive = psutil.wait_procs(children, timeout=DEADLINE_S)
    assert not alive


def test_a_killed_run_ends_as_the_unbroken_one(
    launch: Launch, make_info: MakeInfo, tiny_model: Path, tmp_path: Path
) -> None:
    """ZeRO-3, two ranks, three cycles of three updates. The group in the middle of a cycle is spread over both ranks.

    One run is left alone. The other is killed while its second cycle is graded, and finds a torn checkpoint.
    """
    info = make_info(cycles=3, tasks_per_cycle=3, tasks_per_update=1)
    scores = nulls({(1, 3), (3, 0)}, {6, 7, 8})
    # An empty folder for compiled ops: nothing may have to be compiled.
    extensions = {"TORCH_EXTENSIONS_DIR": str(tmp_path / "ops")}
    whole, broken = tmp_path / "whole" / "checkpoints", tmp_path / "broken" / "checkpoints"
    with FakeService(info, score=scores) as unbroken:
        only = trainer(launch, "zero3_cpu.yaml", whole.parent, unbroken.url, "--log_completions", "True", **extensions)
        assert only.wait() == 0, only.output
    assert not (tmp_path / "ops").exists()

    reached, killed = threading.Event(), threading.Event()

    def hold(request: GradeRequest) -> bool:
        if request.cycle == 1:
            reached.set()
            killed.wait(DEADLINE_S)  # no answer before the kill, so that it always falls within the cycle
        return True

    with FakeService(info, score=scores, on_grade=hold) as service:
        first = trainer(launch, "zero3_cpu.yaml", broken.parent, service.url, **extensions)
        assert reached.wait(DEADLINE_S), first.output
        kill(first)
        killed.set()
        torn = broken / "checkpoint-6"
        shutil.copytree(broken / "checkpoint-3", torn)
        (torn / "trainer_state.json").unlink()
        second = trainer(launch, "zero3_cpu.yaml", broken.parent, service.url, **extensions)
        assert second.wait() == 0, second.output

    assert f"skipping {torn}" in second.output
    assert service.resumed == [0, 1]
    assert service.reported == unbroken.reported == [(0, 3), (1, 6), (2, 9)]
    assert list(unbroken.positions.values()) == [list(range(9))] * 2, "each rank asks for all, once, none past the end"
    assert list(service.positions.values()) == [list(range(6))] * 2 + [list(range(3, 9))] * 2
    assert answers(service) == answers(unbroken)
    shares = [{(r.position, r.row) for r in g.rows} for g in unbroken.grades if g.cycle == 1]
    assert [len(share) for share in shares] == [6, 6] and not shares[0] & shares[1]

    log, other = logged(whole), logged(broken)
    assert [entry["step"] for entry in log] == [entry["step"] for entry in other] == list(range(1, 10))
    for key in ("loss", "grad_norm"):
        assert [entry[key] for entry in other] == pytest.approx([entry[key] for entry in log], abs=1e-6)
    assert gap(whole / "final", broken / "final") < 1e-6
    check_log(log, unbroken)
    for cycle in (0, 1):
        check_advantages(whole, 3 * cycle + 1, unbroken, cycle, 4)
    assert gap(whole / "final", tiny_model) > 1e-4
    assert gap(whole / "final", whole / "checkpoint-9") == 0
    assert AutoTokenizer.from_pretrained(whole / "final").chat_template
    assert {p.name for p in whole.glob("checkpoint-*")} == {"checkpoint-6", "checkpoint-9"}


def check_log(log: list[dict[str, Any]], service: FakeService) -> None:
    """Figures of a generation batch belong to its first update; the last batch has no score at all."""
    assert all(math.isfinite(entry["loss"]) and math.isfinite(entry["grad_norm"]) for entry in log)
    assert [entry["grad_norm"] > 0 for entry in log] == [True] * 6 + [False] * 3, "no gradient from a null batch"
    firsts = log[::3]
    assert [entry["grade/unscored_share"] for entry in firsts] == pytest.approx([1 / 12, 1 / 12, 1])
    assert "grade/score_mean" not in firsts[-1] and firsts[-1]["reward"] is None
    known = [service.score(row) for grade in service.grades if grade.cycle == 0 for row in grade.rows]
    mean = sum(score for score in known if score is not None) / 11
    assert firsts[0]["grade/score_mean"] == pytest.approx(mean), "over the rows of both ranks, not of their means"
    cut = [sum(not r.finished for g in service.grades if g.cycle == cycle for r in g.rows) / 12 for cycle in range(3)]
    assert [entry["grade/truncated_share"] for entry in firsts] == pytest.approx(cut)
    assert [entry["completions/clipped_ratio"] for entry in firsts] == pytest.approx(cut)


def test_adapters_whose_service_goes_away_for_one_rank(
    launch: Launch, make_info: MakeInfo, tiny_model: Path, tmp_path: Path
) -> None:
    """LoRA under ZeRO-3. The second cycle's answers of rank 0 alone get no grade; both ranks save, leave, and go on."""
    info = make_info(
        cycles=3, tasks_per_cycle=3, tasks_per_update=3, save_every_cycles=3, grade_timeout_s=0.5,
        lora=LoraSettings(r=4, alpha=8),
    )  # fmt: skip
    run, output = tmp_path / "run", tmp_path / "run" / "checkpoints"
    with FakeService(info) as service:
        service.on_grade = lambda request: request.cycle != 1 or request.rows[0].position != 3
        first = trainer(launch, "zero3_cpu.yaml", run, service.url)
        assert first.wait() != 0
        told = json.loads((run / "trainer_exit.json").read_text())
        assert told["code"] == 75 and "cycle 1: 6 answers not graded" in told["message"], first.output
        assert [path.name for path in output.glob("checkpoint-*")] == ["checkpoint-1"]
        service.on_grade = lambda request: True
        second = trainer(launch, "zero3_cpu.yaml", run, service.url)
        assert second.wait() == 0, second.output
    assert not (run / "trainer_exit.json").exists()
    assert service.resumed == [0, 1]
    assert service.reported == [(0, 1), (1, 2), (2, 3)]
    assert [entry["step"] for entry in logged(output)] == [1, 2, 3]
    early, late = (load_file(output / name / "adapter_model.safetensors") for name in ("checkpoint-1", "final"))
    assert early.keys() == late.keys() and len(late) == 14, "two halves for each of seven linear layers"
    assert all(tensor.shape[0 if "lora_A" in name else 1] == 4 for name, tensor in late.items())
    moved = [name for name in late if float((late[name] - early[name]).abs().max()) > 0]
    assert any("lora_A" in name for name in moved) and any("lora_B" in name for name in moved)
    assert not list((output / "final").glob("model*.safetensors")), "the base model is not copied"
    assert AutoModelForCausalLM.from_pretrained(output / "final").num_parameters() > 0


def test_two_ranks_do_what_one_does(launch: Launch, start: Start, make_info: MakeInfo, tmp_path: Path) -> None:
    """The same tasks, rows and rewards for the same answers, which top_k 1 makes.

    Equal answers of a group move no weight, because their advantages cancel; the weights are left out therefore.
    """
    info = make_info(cycles=2, tasks_per_cycle=3, tasks_per_update=3, solver={"top_k": 1})
    score: Scorer = lambda row: None if row.row == 3 else (3 * row.row + row.position) % 5 / 5  # noqa: E731
    config = tmp_path / "two_ranks.yaml"
    config.write_text(TWO_RANKS)
    one, two = tmp_path / "checkpoints", tmp_path / "two" / "checkpoints"
    with FakeService(info, score=score, patched={1, 4}) as alone:
        assert start(alone, "--log_completions", "True") == (0, [])
    with FakeService(info, score=score, patched={1, 4}) as shared:
        started = trainer(launch, str(config), two.parent, shared.url, "--log_completions", "True")
        assert started.wait() == 0, started.output
    assert list(shared.positions.values()) == [*alone.positions.values()] * 2
    assert [len(grade.rows) for grade in shared.grades] == [6] * 4
    assert answers(shared) == answers(alone)
    for service, output in ((alone, one), (shared, two)):
        for cycle in (0, 1):
            check_advantages(output, cycle + 1, service, cycle, 4)
    logs = logged(one), logged(two)
    assert logs[0][0].keys() == logs[1][0].keys()
    means = ("score_mean", "patched_score_mean", "unpatched_score_mean", "unscored_share", "truncated_share")
    for key in ("reward", "reward_std", *(f"grade/{name}" for name in means)):
        pair = [[entry[key] for entry in log] for log in logs]
        assert pair[0] == pytest.approx(pair[1], abs=1e-6), key
