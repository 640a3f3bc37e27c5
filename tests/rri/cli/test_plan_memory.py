"""`rri plan`: where the sizes come from, what is printed, and the exit code."""

import json
from pathlib import Path

import pytest

from rri.architecture import published
from rri.cli.plan_memory import architecture_for
from rri.errors import InputError
from tests.rri.cli.commands import rri_here


@pytest.fixture(autouse=True)
def no_models_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Models in the cache of whoever runs the tests must not decide them."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("COLUMNS", "140")


def test_the_paper_on_three_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "plan", "paper-9b")
    assert outcome.code == 0
    assert "9.41G parameters, all trained; published sizes" in outcome.out
    assert all(title in outcome.out for title in ("8 GPUs", "16 GPUs", "64 GPUs"))
    fits = next(line for line in outcome.out.splitlines() if line.split()[:1] == ["fits"])
    assert fits.split() == ["fits", "NO", "yes", "yes"]
    assert "8 GPUs: generation needs 101.0 GB of 71.8 GB; what would fit:" in outcome.out
    assert "-s solver.per_device_batch=4 -s solver.generation=vllm-server" in outcome.out
    assert "share of the GPU's operations in training (MFU) 0.35" in outcome.out
    assert "measured on no GPU" in outcome.out


def test_nothing_fits_is_exit_code_10(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "plan", "paper-27b", "--gpus", "8")
    assert outcome.code == 10
    wider = rri_here(capsys, "plan", "paper-27b", "--gpus", "64", "--gpu-memory-gb", "141")
    assert wider.code == 0


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--gpus", "8", "--gpus", "64", "--gpu-memory-gb", "141", "-s", "solver.lora={r: 16}", "--json")
    outcome = rri_here(capsys, "plan", "paper-27b", *options)
    found = json.loads(outcome.out)
    assert [row["gpus"] for row in found["plans"]] == [8, 64]
    assert found["model"]["parameters"] == 27_356_728_560 and found["trained"] < found["model"]["parameters"] / 50
    assert [row["fits"] for row in found["plans"]] == [False, True] and list(found["advice"]) == ["8"]
    assert all(row["peak"] == max(row["generation_peak"], row["training_peak"]) for row in found["plans"])


def test_sizes_of_the_model_that_lies_here_go_before_published_ones(tiny_model: Path, tmp_path: Path) -> None:
    assert architecture_for("Qwen/Qwen3.5-9B", None) == published("Qwen/Qwen3.5-9B")
    assert architecture_for("embedded", None) == published("embedded")
    tiny = architecture_for(str(tiny_model), None)
    assert (tiny.hidden, tiny.layers, tiny.tied, tiny.source) == (32, 1, True, str(tiny_model / "config.json"))
    assert architecture_for("Qwen/Qwen3.5-9B", tiny_model / "config.json") == tiny
    assert architecture_for("Qwen/Qwen3.5-9B", tiny_model) == tiny, "a model's folder will do"


def test_a_model_that_nobody_knows_needs_its_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = rri_here(capsys, "plan", "default", "-s", "solver.base_model=some/model")
    assert outcome.code == 2
    assert "the sizes of 'some/model' are unknown" in outcome.error_line and "--config FILE" in outcome.error_line
    with pytest.raises(InputError, match="cannot read"):
        architecture_for("some/model", tmp_path / "absent.json")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="cannot read"):
        architecture_for("some/model", tmp_path)
