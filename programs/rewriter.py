"""Admission rewriter: task, rubric, exploit and honest answer -> task and rubric rewritten together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from programs.generator import rubric_of
from programs.role import RoleModule
from rri.types import Rubric, Task
from signatures.rewriter import RewriteTask

__all__ = ["Proposal", "Rewriter"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the rewriter wrote, not yet salvaged or checked."""

    task: str
    rubric: Rubric
    explanation: str


class Rewriter(RoleModule[Proposal]):
    """Rewrites a beaten task.

    Example:
        >>> Rewriter()(task=task, exploit=probe.exploit, honest=probe.honest)
    """

    signature = RewriteTask

    def fields(  # type: ignore[override]
        self, *, task: Task, exploit: str, honest: str, problems: Sequence[str] = ()
    ) -> dict[str, Any]:
        return {
            "conversation": list(task.conversation),
            "rubric": list(task.rubric.criteria),
            "exploit": exploit,
            "honest": honest,
            "red_team": task.labels.red_team,
            "problems": list(problems) or None,
        }

    def result(self, prediction: Any) -> Proposal:
        return Proposal(
            task=prediction.task.strip(),
            rubric=rubric_of(prediction.criteria),
            explanation=f"{prediction.exploit_fails.strip()} {prediction.honest_passes.strip()}",
        )
