"""How much disk training takes, by hand and against a real checkpoint, and how much there is."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from rri.wire import LoraSettings
from training.disk_room import DiskNeed, checkpoint_bytes, disk_need, free_bytes, why_no_room
from training.model_shape import ModelShape

LINEARS = {"layers.0.q_proj": (8, 8), "layers.0.up_proj": (8, 32), "lm_head": (8, 100)}
SHAPE = ModelShape(parameters=1000, weight_bytes=2, modules=frozenset(LINEARS), linears=LINEARS)


@pytest.mark.parametrize(
    ("sharding", "stage", "optim", "each"),
    [
        ("none", 0, "adamw_torch", 2 + 4),
        ("none", 0, "adamw_torch_fused", 2 + 4),
        ("none", 0, "sgd", 2),
        ("zero", 3, "adamw_torch", 2 + 12),
        ("zero", 2, "adamw_torch", 2 + 12 + 2),
        ("zero", 1, "adamw_torch", 2 + 12 + 2),
        ("fsdp", 0, "adamw_torch", 2 + 12),
        ("zero", 3, "adafactor", 2 + 4),
    ],
)
def test_bytes_of_a_trained_number(sharding: str, stage: int, optim: str, each: int) -> None:
    found = checkpoint_bytes(SHAPE, None, sharding=sharding, zero_stage=stage, optim=optim)
    assert found == (1000 * each, 2000)


@pytest.mark.parametrize(
    ("targets", "numbers"), [((), 4 * (8 + 8) + 4 * (8 + 32)), (("q_proj",), 4 * 16), (("lm_head",), 4 * 108)]
)
def test_of_adapters_only_they_are_written_in_full_precision(targets: tuple[str, ...], numbers: int) -> None:
    lora = LoraSettings(r=4, targets=targets)
    assert SHAPE.trained(lora) == numbers
    found = checkpoint_bytes(SHAPE, lora, sharding="none", zero_stage=0, optim="adamw_torch")
    assert found == (numbers * 12, numbers * 4)


def test_a_real_checkpoint_is_as_large(tiny_model: Path, tmp_path: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
    optimizer = torch.optim.AdamW(model.parameters())
    model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    optimizer.step()
    model.save_pretrained(tmp_path)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    written = sum((tmp_path / name).stat().st_size for name in ("model.safetensors", "optimizer.pt"))
    shape = ModelShape(model.num_parameters(), 4, frozenset(), {})
    each, weights = checkpoint_bytes(shape, None, sharding="none", zero_stage=0, optim="adamw_torch")
    assert each <= written <= 1.2 * each
    assert weights <= (tmp_path / "model.safetensors").stat().st_size <= 1.2 * weights


def settings(max_steps: int = 100, save_steps: int = 10, limit: int | None = 2) -> SimpleNamespace:
    return SimpleNamespace(max_steps=max_steps, save_steps=save_steps, save_total_limit=limit, output_dir="OUT")


@pytest.mark.parametrize(
    ("args", "there", "checkpoints", "result"),
    [
        # One too many while it is written; the result comes after it has gone.
        (settings(), (), 3, 0),
        (settings(), (10,), 2, 0),
        (settings(), (10, 20), 1, 0),
        (settings(), (80, 90), 1, 0),
        (settings(), (90, 100), 0, 5),
        (settings(), (70, 80, 90), 1, 0),
        (settings(limit=1), (), 2, 0),
        # Fewer are written than may be kept.
        (settings(max_steps=20), (), 2, 5),
        (settings(max_steps=10), (), 1, 5),
        (settings(max_steps=25), (), 3, 0),
        (settings(limit=20), (50,), 5, 5),
        # All are kept.
        (settings(limit=None), (), 10, 5),
        (settings(limit=0), (10, 20), 8, 5),
    ],
)
def test_what_is_still_to_be_written(
    args: SimpleNamespace, there: Sequence[int], checkpoints: int, result: int
) -> None:
    assert disk_need(args, 30, 5, there) == DiskNeed(checkpoints, 30, result)


def test_room_that_just_suffices_is_room() -> None:
    need = DiskNeed(2, 40 * 10**9, 5 * 10**9)
    assert why_no_room(settings(), need, 85 * 10**9) == ""
    why = why_no_room(settings(), need, 85 * 10**9 - 1)
    assert why.startswith("OUT has 85 GB free, and training needs 85 GB there: ")
    assert "2 checkpoints of 40 GB and 5 GB for the result (save_total_limit 2, " in why


def test_the_disk_of_a_folder_that_is_not_there_yet_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def usage(path: Path) -> SimpleNamespace:
        asked.append(path)
        return SimpleNamespace(free=7)

    monkeypatch.setattr("shutil.disk_usage", usage)
    assert free_bytes(tmp_path / "run" / "checkpoints") == 7
    monkeypatch.chdir(tmp_path)
    assert free_bytes(Path("out")) == 7
    assert asked == [tmp_path, tmp_path]
