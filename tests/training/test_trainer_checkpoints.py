"""Which checkpoint is complete, and how the result appears."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from accelerate.utils.constants import FSDP_MODEL_NAME, OPTIMIZER_NAME

from rri.errors import ConfigError
from training.checkpoints import (
    FSDP,
    Checkpoint,
    check_resumable,
    final_step,
    newest_complete,
    publish_final,
    why_torn,
)

Damage = Callable[[Path], object]


def checkpoint(folder: Path, step: int, model: Path, *, zero_ranks: int = 0) -> Path:
    """A checkpoint as Trainer leaves it, with the weights of `model`."""
    path = folder / f"checkpoint-{step}"
    shutil.copytree(model, path)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step, "max_steps": 9}))
    torch.save({}, path / "scheduler.pt")
    if zero_ranks:
        (path / "latest").write_text(f"global_step{step}")
        (path / f"global_step{step}").mkdir()
        for rank in range(zero_ranks):
            torch.save({}, path / f"global_step{step}" / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
            torch.save({}, path / f"rng_state_{rank}.pth")
    else:
        torch.save({}, path / "optimizer.pt")
        torch.save({}, path / "rng_state.pth")
    return path


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def test_newest_complete(tmp_path: Path, tiny_model: Path) -> None:
    assert newest_complete(tmp_path / "absent", updates_per_cycle=1) is None
    for step in (9, 10):
        checkpoint(tmp_path, step, tiny_model)
    (tmp_path / "checkpoint-old").mkdir()
    found = newest_complete(tmp_path, updates_per_cycle=1)
    assert found is not None and (found.step, found.zero_ranks) == (10, 0), "by number, not by name"


def test_a_checkpoint_within_a_cycle_is_passed_over(tmp_path: Path, tiny_model: Path) -> None:
    for step in (4, 6):
        checkpoint(tmp_path, step, tiny_model)
    found = newest_complete(tmp_path, updates_per_cycle=4)
    assert found is not None and found.step == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: (path / "trainer_state.json").unlink(),
        lambda path: (path / "trainer_state.json").write_text('{"global_st'),
        lambda path: (path / "trainer_state.json").write_text('{"global_step": 3}'),
        lambda path: (path / "model.safetensors").unlink(),
        lambda path: cut(path / "model.safetensors"),
        lambda path: (path / "model.safetensors").write_bytes(b"12"),
        lambda path: (path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "part-1.safetensors"}}'),
        lambda path: (path / "model.safetensors.index.json").write_text("[]"),
        lambda path: (path / "optimizer.pt").unlink(),
        lambda path: cut(path / "optimizer.pt"),
        lambda path: (path / "scheduler.pt").unlink(),
        lambda path: cut(path / "rng_state.pth"),
        lambda path: (path / "latest").write_text("global_step2"),
    ],
)
def test_torn_is_skipped_for_the_one_before(tmp_path: Path, tiny_model: Path, damage: Damage) -> None:
    checkpoint(tmp_path, 1, tiny_model)
    torn = checkpoint(tmp_path, 2, tiny_model)
    assert not why_torn(torn)
    damage(torn)
    assert why_torn(torn)
    found = newest_complete(tmp_path, updates_per_cycle=1)
    assert found is not None and found.step == 1
    assert torn.exists(), "nothing is deleted"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: shutil.rmtree(path / "global_step2"),
        lambda path: cut(path / "global_step2" / "zero_pp_rank_1_mp_rank_00_optim_states.pt"),
        lambda path: cut(path / "rng_state_1.pth"),
    ],
)
def test_torn_zero_shards(tmp_path: Path, tiny_model: Path, damage: Damage) -> None:
    torn = checkpoint(tmp_path, 2, tiny_model, zero_ranks=2)
    found = newest_complete(tmp_path, updates_per_cycle=1)
    assert found is not None and found.zero_ranks == 2
    damage(torn)
    assert newest_complete(tmp_path, updates_per_cycle=1) is None


@pytest.fixture
def fsdp(tmp_path: Path, tiny_model: Path) -> Path:
    """A checkpoint of FSDP with a full state dict, under the names that accelerate gives."""
    path = checkpoint(tmp_path, 2, tiny_model)
    (path / "optimizer.pt").unlink()
    assert set(FSDP) == {f"{FSDP_MODEL_NAME}.bin", f"{OPTIMIZER_NAME}.bin"}
    for name in FSDP:
        torch.save({}, path / name)
    return path


def test_fsdp_without_an_optimizer_of_its_own_is_whole(fsdp: Path) -> None:
    found = newest_complete(fsdp.parent, updates_per_cycle=1)
    assert found is not None and (found.step, found.zero_ranks) == (2, 0)
    assert not set(FSDP) & {path.name for path in publish_final(found, fsdp.parent).iterdir()}


@pytest.mark.parametrize("name", [*FSDP, "scheduler.pt"])
def test_torn_fsdp(fsdp: Path, name: str) -> None:
    cut(fsdp / name)
    assert why_torn(fsdp) == f"{name} is missing or cut short"
    (fsdp / name).unlink()
    assert why_torn(fsdp) == f"{name} is missing or cut short"


@pytest.mark.parametrize(
    ("zero_ranks", "max_steps", "steps", "words"),
    [
        (4, 8, (8, 8), "written by 2 ZeRO ranks, but this start has 4"),
        (0, 8, (8,), "written by 2 ZeRO ranks, but this start has 0"),
        (2, 7, (8, 8), "past max_steps 7"),
        (2, 8, (8, 0), "would resume from updates 0, 8. Put --output_dir on a disk that all nodes share"),
    ],
)
def test_what_cannot_be_resumed_here(zero_ranks: int, max_steps: int, steps: tuple[int, ...], words: str) -> None:
    found = Checkpoint(Path("checkpoint-8"), 8, zero_ranks=2)
    check_resumable(found, zero_ranks=2, max_steps=8, steps=(8, 8))
    check_resumable(None, zero_ranks=0, max_steps=8, steps=(0, 0))
    with pytest.raises(ConfigError, match=words):
        check_resumable(found, zero_ranks=zero_ranks, max_steps=max_steps, steps=steps)


def test_final_is_replaced_whole(tmp_path: Path, tiny_model: Path) -> None:
    assert final_step(tmp_path) is None
    for step in (1, 2):
        checkpoint(tmp_path, step, tiny_model, zero_ranks=2)
        found = newest_complete(tmp_path, updates_per_cycle=1)
        assert found is not None
        (tmp_path / ".final.tmp").mkdir()  # left by a killed start
        final = publish_final(found, tmp_path)
        assert final_step(tmp_path) == step
    kept = {path.name for path in final.iterdir()}
    assert kept >= {"model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja", "trainer_state.json"}
    assert not kept & {"latest", "global_step2", "scheduler.pt", "rng_state_0.pth"}
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-1", "checkpoint-2", "final"}
