"""Which checkpoint is complete, and how the result appears."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from training.checkpoints import final_step, newest_complete, publish_final, why_torn

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
