"""Tells the service when a cycle is finished, so that the loop's work on it can begin (METHOD 7)."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rri.client import ServiceClient
from training.settings import Schedule

__all__ = ["CycleReport"]


class CycleReport(TrainerCallback):
    """Reports each cycle after its last update, from the main process.

    Args:
        client: the service.
        schedule: which updates make a cycle.
    """

    def __init__(self, client: ServiceClient, schedule: Schedule) -> None:
        self.client = client
        self.schedule = schedule

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Raises:
        ServiceUnavailable: the service did not take the report within the client's patience.
        """
        if state.is_world_process_zero and state.global_step % self.schedule.updates_per_cycle == 0:
            latest = state.log_history[-1] if state.log_history else {}
            metrics = {key: float(value) for key, value in latest.items() if isinstance(value, int | float)}
            self.client.report(self.schedule.cycle_of(state.global_step) - 1, state.global_step, metrics)
