"""The end of a cycle: the service is told, so that the loop's work on it can begin, and asked whether it is still there
(METHOD 7; DESIGN, seam 2).
"""

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from rri.client import ServiceClient
from rri.errors import ServiceUnavailable
from rri.wire import ReportRequest
from training.peers import Peers
from training.settings import Schedule

__all__ = ["UNREPORTED", "CycleReport", "deliver_unreported"]

log = logging.getLogger(__name__)

UNREPORTED = "unreported.json"
"""File beside the checkpoints with the report that the service could not take; absent otherwise."""


class CycleReport(TrainerCallback):
    """Reports each cycle after its last update. Where the service is away, all ranks save and stop there.

    Args:
        client: the service.
        schedule: which updates make a cycle.
        output: the folder of the checkpoints.
        peers: the other ranks.
        missing: why the tasks of the next cycle did not come, or None.
        figures: further figures of the cycle.
    """

    def __init__(
        self,
        client: ServiceClient,
        schedule: Schedule,
        output: Path,
        peers: Peers,
        missing: Callable[[], ServiceUnavailable | None],
        figures: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        self.client = client
        self.schedule = schedule
        self.output = output
        self.peers = peers
        self.missing = missing
        self.figures = figures
        self.away: ServiceUnavailable | None = None
        """Why training stopped early; the same on every rank."""

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report, then learn from all ranks whether training can go on."""
        if state.global_step % self.schedule.updates_per_cycle:
            return
        away = self.missing()
        if state.is_world_process_zero:
            away = self._report(state) or away
        self.away = next((found for found in self.peers.all(away) if found is not None), None)
        if self.away is not None:
            control.should_save = control.should_training_stop = True

    def _report(self, state: TrainerState) -> ServiceUnavailable | None:
        latest = state.log_history[-1] if state.log_history else {}
        numbers = {key: float(value) for key, value in latest.items() if isinstance(value, int | float)}
        # A mean over no scored answer is NaN, which JSON does not have.
        metrics = {key: value for key, value in numbers.items() if math.isfinite(value)}
        # What was logged last may be of the update before, and a round of validation belongs to its own cycle alone.
        metrics = {key: value for key, value in metrics.items() if not key.startswith("validation/")}
        cycle = self.schedule.cycle_of(state.global_step) - 1
        report = ReportRequest(cycle=cycle, step=state.global_step, metrics={**metrics, **self.figures()})
        try:
            taken = self.client.report(report.cycle, report.step, report.metrics)
        except ServiceUnavailable as error:
            self.output.mkdir(parents=True, exist_ok=True)
            (self.output / UNREPORTED).write_text(report.model_dump_json(), encoding="utf-8")
            return error
        if taken.alarm:
            log.warning("ALARM: %s", taken.alarm)
        return None


def deliver_unreported(client: ServiceClient, output: Path, step: int) -> None:
    """Send the report that an earlier start could not, if the cycle is part of what is resumed.

    Call it before training is announced: a resume would make an earlier report count again.

    Args:
        client: the service.
        output: the folder of the checkpoints.
        step: updates that the resumed checkpoint holds. A cycle past it is trained again, and reported then.

    Raises:
        ServiceUnavailable: the service did not take it now either.
    """
    file = output / UNREPORTED
    if not file.exists():
        return
    try:
        report = ReportRequest.model_validate_json(file.read_bytes())
    except ValueError:
        report = None  # torn by a kill, and so was the checkpoint that would have followed it
    if report is not None and report.step <= step:
        client.report(report.cycle, report.step, report.metrics)
    file.unlink()
