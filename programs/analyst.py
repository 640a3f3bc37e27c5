"""Analyst: one graded training case -> its diagnosis."""

from dataclasses import dataclass
from typing import Any

from programs.role import RoleModule
from programs.shown import outcomes, shorten, shorten_words, shown_conversation
from rri.types import Grade, Task
from rri.vocabulary import CaseVerdict, FailureMode, RubricDefect, TaskDefect
from signatures.analyst import DiagnoseCase, JudgedCriterion

__all__ = ["GAP_WORDS", "TRUNCATED", "Analyst", "Diagnosis"]

GAP_WORDS = 15


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What one case shows. `gap` is empty where nothing was missing."""

    failure_mode: FailureMode
    gap: str
    rubric_defect: RubricDefect
    task_defect: TaskDefect
    verdict: CaseVerdict


TRUNCATED = Diagnosis(
    failure_mode="non_answer",
    gap="",
    rubric_defect="none",
    task_defect="none",
    verdict="model_failed_fair_task",
)
"""Every truncated answer's diagnosis. Without a defect the generator is not at fault, and a cut answer is no success,
so one verdict is left. The gap is empty, because running out of tokens is nothing that more tasks could teach."""


class Analyst(RoleModule[Diagnosis]):
    """Tells a weakness of the solver from a flaw of the task or its rubric (METHOD 3).

    A truncated answer is diagnosed by rule, as `TRUNCATED`, without a model call.

    Args:
        domain: what the tasks are to be about; without it `off_domain` is guesswork.
        task_chars: characters of the conversation that are shown, its last message first.
        answer_chars: characters of the answer that are shown.
        gap_words: longest gap that is asked for; a longer one is cut with a mark.

    Example:
        >>> Analyst("questions about drugs")(task=task, answer="...", grade=grade).verdict
        'model_failed_fair_task'
    """

    signature = DiagnoseCase

    def __init__(
        self, domain: str = "", task_chars: int = 4000, answer_chars: int = 30_000, gap_words: int = GAP_WORDS
    ) -> None:
        super().__init__()
        self.domain = domain
        self.task_chars = task_chars
        self.answer_chars = answer_chars
        self.gap_words = gap_words

    def forward(self, *, truncated: bool = False, **arguments: Any) -> Diagnosis:
        """Raises:
        ModelError: no usable reply.
        """
        return TRUNCATED if truncated else super().forward(**arguments)

    async def aforward(self, *, truncated: bool = False, **arguments: Any) -> Diagnosis:
        """Raises:
        ModelError: no usable reply.
        """
        return TRUNCATED if truncated else await super().aforward(**arguments)

    def fields(self, *, task: Task, answer: str, grade: Grade) -> dict[str, Any]:  # type: ignore[override]
        """Raises:
        InputError: the grade belongs to another rubric.
        """
        verdicts = zip(task.rubric.criteria, outcomes(task, grade), strict=True)
        return {
            "domain": self.domain or None,
            "use_case": task.labels.use_case or None,
            "red_team": task.labels.red_team,
            "gap_words": self.gap_words,
            "conversation": shown_conversation(task.conversation, self.task_chars),
            "rubric": [JudgedCriterion(text=c.text, points=c.points, verdict=v) for c, v in verdicts],
            "score": None if grade.score is None else round(grade.score, 3),
            "answer": shorten(answer, self.answer_chars),
        }

    def result(self, prediction: Any) -> Diagnosis:
        return Diagnosis(
            failure_mode=prediction.failure_mode,
            gap=shorten_words(prediction.gap, self.gap_words),
            rubric_defect=prediction.rubric_defect,
            task_defect=prediction.task_defect,
            verdict=prediction.verdict,
        )
