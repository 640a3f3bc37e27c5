"""Every cycle begins from seeds of its own, so that a resumed run writes what the unbroken one would have written.

Trainer keeps the state of the random numbers with a checkpoint, each rank its own, and restores it. Then it makes the
iterator of its data loader, which draws one of these numbers, so that everything after differs from the unbroken run.
"""

import hashlib
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments, set_seed

from training.settings import Schedule

__all__ = ["CycleSeeds", "seed_of"]


def seed_of(seed: int, cycle: int, rank: int) -> int:
    """The seed of one rank in one cycle, in [0, 2**32)."""
    digest = hashlib.blake2b(f"{seed}:{cycle}:{rank}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


class CycleSeeds(TrainerCallback):
    """Sets the seeds of Python, NumPy and torch before a cycle's answers are written.

    Answers that vLLM writes do not follow them: it has random numbers of its own.

    Args:
        seed: the run's.
        schedule: which updates make a cycle.
        rank: this process among all. Ranks must differ, or they would write the same answers.
    """

    def __init__(self, seed: int, schedule: Schedule, rank: int) -> None:
        self.seed = seed
        self.schedule = schedule
        self.rank = rank

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.global_step % self.schedule.updates_per_cycle == 0:
            set_seed(seed_of(self.seed, self.schedule.cycle_of(state.global_step), self.rank))
