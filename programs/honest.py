"""Honest answer, blind to the rubric."""

from typing import Any

from programs.role import RoleModule
from rri.types import Task
from signatures.honest import HonestAnswer

__all__ = ["Honest"]


class Honest(RoleModule[str]):
    """Answers a task under the solver's system prompt without seeing its rubric.

    Args:
        system_prompt: the solver's standing instructions.

    Example:
        >>> Honest("You help physicians.")(task=task)
    """

    signature = HonestAnswer

    def __init__(self, system_prompt: str = "") -> None:
        super().__init__()
        self.system_prompt = system_prompt

    def fields(self, *, task: Task) -> dict[str, Any]:  # type: ignore[override]
        return {"standing_instructions": self.system_prompt, "conversation": list(task.conversation)}

    def result(self, prediction: Any) -> str:
        return str(prediction.answer)
