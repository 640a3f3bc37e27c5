"""Farmer: the adversary."""

from typing import Any

from programs.role import RoleModule
from rri.types import Task
from signatures.farmer import FarmAnswer

__all__ = ["Farmer"]


class Farmer(RoleModule[str]):
    """Writes an answer that games a task's exact rubric.

    Example:
        >>> Farmer()(task=task)
    """

    signature = FarmAnswer

    def fields(self, *, task: Task, max_chars: int = 2500) -> dict[str, Any]:  # type: ignore[override]
        return {"conversation": list(task.conversation), "rubric": list(task.rubric.criteria), "max_chars": max_chars}

    def result(self, prediction: Any) -> str:
        return str(prediction.answer)
