"""Validation: tasks that are kept apart from training, and the alarm on their scores (METHOD 6)."""

from pydantic import Field

from rri.domain import Section

__all__ = ["ValidationConfig"]


class ValidationConfig(Section):
    """METHOD 6, validation. The policy answers at temperature 1.0, and the training judge grades.

    The alarm is ours: training scores that rise while validation scores fall mean that the reward is being hacked.
    """

    file: str = Field(default="", description="task file (JSON or JSONL) of the tasks; no validation when empty")
    every_cycles: int = Field(default=5, ge=1, description="cycles between rounds; one more follows the last cycle")
    rollouts_per_task: int = Field(default=1, ge=1)
    alarm_rounds: int = Field(
        default=3, ge=1, description="rounds in a row in which training rises and validation falls, until the alarm"
    )
    alarm_tolerance: float = Field(default=0.01, ge=0, description="a smaller change of a mean score is none")
