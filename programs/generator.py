"""Task and rubric generator: request and passages -> a finished draft, in one call."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from programs.role import RoleModule
from rri.types import Criterion, Reference, Rubric
from signatures.generator import DraftCriterion, GenerateTask
from signatures.guidance import with_guidance

__all__ = ["Draft", "Generator", "rubric_of"]


@dataclass(frozen=True, slots=True)
class Draft:
    """What the generator wrote, not yet validated."""

    task: str
    rubric: Rubric
    specialty: str
    level: str


def rubric_of(criteria: Sequence[DraftCriterion]) -> Rubric:
    """A model's criteria as a rubric."""
    return Rubric(criteria=tuple(Criterion(text=c.text.strip() or c.text, points=c.points) for c in criteria))


class Generator(RoleModule[Draft]):
    """Writes a task with its rubric.

    Args:
        guidance: guidance block B; empty for the untuned prompt.
        memo: the exploit memo; likewise.

    Example:
        >>> Generator()(request="...", passages=passages, positives=3, negative=True)
    """

    signature = GenerateTask

    def __init__(self, guidance: str = "", memo: str = "") -> None:
        super().__init__()
        self.predict.signature = with_guidance(GenerateTask, guidance, memo)

    def fields(  # type: ignore[override]
        self,
        *,
        request: str,
        passages: Sequence[Reference],
        positives: int,
        negative: bool,
        red_team: bool = False,
        difficulty: str = "",
        problems: Sequence[str] = (),
    ) -> dict[str, Any]:
        return {
            "request": request,
            "passages": list(passages),
            "positives": positives,
            "negative": negative,
            "red_team": red_team,
            "difficulty": difficulty or None,
            "problems": list(problems) or None,
        }

    def result(self, prediction: Any) -> Draft:
        return Draft(
            task=prediction.task.strip(),
            rubric=rubric_of(prediction.criteria),
            specialty=prediction.specialty.strip(),
            level=prediction.level,
        )
