"""Whether the disk has room for what training writes: checkpoints, and the result taken from the last one.

    a checkpoint   the trained numbers as they are loaded; Adam's two moments, of the same size; under ZeRO and FSDP
                   instead 4 bytes each for both moments and for the weights they move, and ZeRO 1 and 2 keep the
                   weights a second time
    at once        save_total_limit of them, and one more, because an old one goes only when the new one is there
    the result     the trained numbers once more

Small files are left out, and the states of other optimizers than Adam too: what is refused has no room for certain.
"""

import shutil
from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from rri.wire import LoraSettings
from training.model_shape import ModelShape

__all__ = ["DiskNeed", "checkpoint_bytes", "disk_need", "free_bytes", "why_no_room"]

GB = 1e9
FULL_BYTES = 4
"""Bytes of a number in full precision."""


class DiskNeed(NamedTuple):
    """What is still to be written at the worst moment: so many checkpoints of so many bytes, and the result's bytes."""

    checkpoints: int
    each: int
    result: int

    @property
    def total(self) -> int:
        return self.checkpoints * self.each + self.result


def checkpoint_bytes(
    shape: ModelShape, lora: LoraSettings | None, *, sharding: str, zero_stage: int, optim: str
) -> tuple[int, int]:
    """Bytes of a checkpoint, and of the weights in it.

    Args:
        shape: the base model.
        lora: adapters in place of whole weights.
        sharding: none, zero or fsdp.
        zero_stage: 0 where it is not ZeRO.
        optim: name of the optimizer.
    """
    # peft keeps adapters in full precision, whatever the base model has.
    weight = FULL_BYTES if lora is not None else shape.weight_bytes
    moments = 2 if optim.startswith("adamw_torch") else 0
    if sharding == "none":
        states = moments * weight
    else:
        states = (moments + 1) * FULL_BYTES + (weight if zero_stage in (1, 2) else 0)
    trained = shape.trained(lora)
    return trained * (weight + states), trained * weight


def disk_need(args: Any, each: int, result: int, steps: Iterable[int]) -> DiskNeed:
    """What the rest of training writes.

    Args:
        args: the GRPOConfig, or any object with its fields.
        each: bytes of a checkpoint.
        result: bytes of the result.
        steps: after how many updates the checkpoints that are there were taken.
    """
    there = sorted(steps)
    coming = ceil((args.max_steps - (there[-1] if there else 0)) / args.save_steps)
    limit = args.save_total_limit
    if not limit or limit < 1:
        return DiskNeed(coming, each, result)
    at_once = min(limit + 1, len(there) + coming)
    new = max(at_once - len(there), min(1, coming))
    # The result is made when the one too many is gone, so it needs room of its own only where there is none.
    return DiskNeed(new, each, 0 if new and at_once > limit else result)


def free_bytes(folder: Path) -> int:
    """Bytes free for this user where `folder` is, or will be made.

    Raises:
        OSError: the disk cannot be asked.
    """
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def why_no_room(args: Any, need: DiskNeed, free: int) -> str:
    """Why training cannot be written to the disk, with what to do; empty where it can.

    Args:
        args: the GRPOConfig, or any object with its fields.
        need: what is to be written.
        free: bytes that are free.
    """
    if need.total <= free:
        return ""
    parts = [f"{need.checkpoints} checkpoint{'' if need.checkpoints == 1 else 's'} of {need.each / GB:.3g} GB"]
    parts += [f"{need.result / GB:.3g} GB for the result"] if need.result else []
    limit = args.save_total_limit
    return (
        f"{args.output_dir} has {free / GB:.3g} GB free, and training needs {need.total / GB:.3g} GB there: "
        f"{' and '.join(parts)} (save_total_limit {limit}, and one more while it is written); free some, take a larger "
        "disk, lower save_total_limit, or train adapters (solver.lora)"
    )
