"""Which checkpoint can be resumed from, and how the last one becomes the result.

Trainer writes a checkpoint file by file under its final name, so a killed run may leave a torn one, and
the highest number is not always the one to take.
"""

import json
import logging
import shutil
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rri.errors import ConfigError

__all__ = [
    "FINAL",
    "Checkpoint",
    "check_resumable",
    "final_step",
    "newest_complete",
    "publish_final",
    "steps_in",
    "why_torn",
]

log = logging.getLogger(__name__)

FINAL = "final"
"""Folder beside the checkpoints that holds the result: weights, config, tokenizer. Absent or complete."""

STATE = "trainer_state.json"
WEIGHTS = ("model.safetensors", "adapter_model.safetensors")
INDEX = "model.safetensors.index.json"
FSDP = ("pytorch_model_fsdp.bin", "optimizer.bin")
"""What FSDP resumes from, with a full state dict."""
# What only a resumed trainer needs.
RESUME_ONLY = shutil.ignore_patterns(
    "global_step*",
    "latest",
    "zero_to_*.py",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state*.pth",
    "training_args.bin",
    *FSDP,
)


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint. `zero_ranks` ranks wrote its ZeRO shards; 0 means that it has none."""

    path: Path
    step: int
    zero_ranks: int


def newest_complete(folder: Path, *, updates_per_cycle: int) -> Checkpoint | None:
    """The complete checkpoint with the most updates, or None.

    Torn ones are skipped, and so are those in the middle of a cycle: the rest of their generation batch
    died with the process. Nothing is deleted.
    """
    for step in reversed(steps_in(folder)):
        path = folder / f"checkpoint-{step}"
        why = why_torn(path)
        if not why and step % updates_per_cycle:
            why = f"{step} updates end within a cycle of {updates_per_cycle}"
        if not why:
            return Checkpoint(path, step, len(list(_zero_folder(path).glob("*_optim_states.pt"))))
        log.warning("skipping %s: %s", path, why)
    return None


def steps_in(folder: Path) -> list[int]:
    """After how many updates the checkpoints in `folder` were begun, in order, torn ones too."""
    return sorted(int(p.name.removeprefix("checkpoint-")) for p in folder.glob("checkpoint-*") if _numbered(p))


def why_torn(path: Path) -> str:
    """Why a checkpoint cannot be resumed from; empty when it can."""
    step = _step_of(path)
    if step is None:
        return f"{STATE} is missing or unreadable"
    if path.name != f"checkpoint-{step}":
        return f"{STATE} is of update {step}"
    if why := _why_no_weights(path):
        return why
    if (path / "latest").exists():
        states = list(_zero_folder(path).glob("*_optim_states.pt"))
        if not states:
            return "its ZeRO shards are missing"
    elif any((path / name).exists() for name in FSDP):
        states = [path / name for name in (*FSDP, "scheduler.pt")]
    else:
        states = [path / "optimizer.pt", path / "scheduler.pt"]
    for file in [*states, *path.glob("rng_state*.pth")]:
        # torch.save writes a zip archive, whose directory comes last.
        if not zipfile.is_zipfile(file):
            return f"{file.name} is missing or cut short"
    return ""


def check_resumable(
    checkpoint: Checkpoint | None, *, zero_ranks: int, max_steps: int, steps: Sequence[int] = ()
) -> None:
    """Refuse a checkpoint that these ranks cannot go on from.

    Args:
        checkpoint: what this rank would resume from.
        zero_ranks: ranks that hold ZeRO shards now; 0 when the launch file asks for no ZeRO.
        max_steps: updates of the whole run.
        steps: of each rank the updates that its checkpoint holds.

    Raises:
        ConfigError: naming what it was written by.
    """
    if len(set(steps)) > 1:
        raise ConfigError(
            f"the ranks would resume from updates {', '.join(map(str, sorted(set(steps))))}",
            "Put --output_dir on a disk that all nodes share",
        )
    if checkpoint is None:
        return
    if checkpoint.zero_ranks != zero_ranks:
        raise ConfigError(
            f"{checkpoint.path} was written by {checkpoint.zero_ranks} ZeRO ranks, but this start has {zero_ranks}",
            "Use the launch file and number of processes that the run was begun with",
        )
    if checkpoint.step > max_steps:
        raise ConfigError(f"{checkpoint.path} is past max_steps {max_steps}", "Leave --max_steps out")


def final_step(folder: Path) -> int | None:
    """After how many updates the result in `folder` was taken; None when there is no result."""
    return _step_of(folder / FINAL)


def publish_final(checkpoint: Checkpoint, folder: Path) -> Path:
    """Make the checkpoint's weights, config and tokenizer the result, replacing an earlier one.

    A checkpoint holds whole weights also under ZeRO-3, gathered over the ranks when it was saved. They
    are copied rather than linked, so that nothing done to the checkpoint later reaches the result.

    Returns:
        The result's folder, which `from_pretrained` loads.
    """
    final, scratch, old = folder / FINAL, folder / f".{FINAL}.tmp", folder / f".{FINAL}.old"
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(checkpoint.path, scratch, ignore=RESUME_ONLY)
    if final.exists():
        shutil.rmtree(old, ignore_errors=True)
        final.rename(old)
    scratch.rename(final)
    shutil.rmtree(old, ignore_errors=True)
    return final


def _numbered(path: Path) -> bool:
    return path.is_dir() and path.name.removeprefix("checkpoint-").isdecimal()


def _step_of(path: Path) -> int | None:
    try:
        return int(json.loads((path / STATE).read_text(encoding="utf-8"))["global_step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _zero_folder(path: Path) -> Path:
    try:
        return path / (path / "latest").read_text(encoding="utf-8").strip()
    except OSError:
        return path / "no-zero-shards"


def _why_no_weights(path: Path) -> str:
    try:
        index = json.loads((path / INDEX).read_text(encoding="utf-8"))
        names = sorted(set(index["weight_map"].values()))
    except FileNotFoundError:
        names = [name for name in WEIGHTS if (path / name).exists()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"{INDEX} is unreadable"
    if not names:
        return f"no {' or '.join(WEIGHTS)}"
    return next((f"{name} is missing or cut short" for name in names if not _is_whole(path / name)), "")


def _is_whole(file: Path) -> bool:
    """Whether a safetensors file is as long as its header says (8 bytes of length, JSON header, data)."""
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header = json.loads(stream.read(length))
        end: int = max(
            (entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"), default=0
        )
        return bool(file.stat().st_size == 8 + length + end)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error):
        return False
