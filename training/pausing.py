"""A service that goes away costs the cycle that was begun, and nothing that was trained before (DESIGN, seam 2)."""

import logging
from typing import Any

from training.settings import Schedule

__all__ = ["save_before_leaving"]

log = logging.getLogger(__name__)


def save_before_leaving(trainer: Any, schedule: Schedule, resumed: int) -> bool:
    """Save after an error that all ranks had while a cycle's answers were graded; whether that was needed.

    No update of the cycle has been made by then, so the model is as it was at the end of the cycle before. Every rank
    must call it, because the weights are gathered.

    Args:
        trainer: the GRPOTrainer whose `train` has raised.
        schedule: which updates make a cycle.
        resumed: updates that this start began with.
    """
    step = trainer.state.global_step
    if step == resumed or step % schedule.updates_per_cycle or step % trainer.args.save_steps == 0:
        return False
    log.info("saving update %d before leaving", step)
    # Trainer saves from inside its loop alone, and has no other method that keeps the optimizer too.
    trainer._save_checkpoint(trainer.model, trial=None)
    return True
