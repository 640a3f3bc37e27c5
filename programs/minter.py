"""Minter: exploit and better answer -> new criteria that separate them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from programs.checked import CheckedRole
from programs.shown import outcomes, shorten, shorten_words, shown_conversation
from rri.types import Criterion, Grade, Task
from rri.vocabulary import ExploitLabel
from signatures.minter import ComparedCriterion, MintCriteria

__all__ = ["WHY_WORDS", "MintedCriterion", "Minter", "Minting"]

WHY_WORDS = 30


@dataclass(frozen=True, slots=True)
class MintedCriterion:
    """A proposed criterion, not yet checked or measured. `points` lie in -10..-5 or 5..10."""

    text: str
    points: int
    why: str

    @property
    def criterion(self) -> Criterion:
        return Criterion(text=self.text, points=self.points)


@dataclass(frozen=True, slots=True)
class Minting:
    """What one call proposed. No criteria exactly when the label is `none`: the exploit earned its score."""

    criteria: tuple[MintedCriterion, ...]
    label: ExploitLabel


class Minter(CheckedRole[Minting]):
    """Proposes one to five criteria that tell a better answer from an exploit (METHOD 3).

    A reply whose label and criteria contradict each other is asked for once more. A `why` that is longer than asked
    is cut with a mark: it is a note for the records and no reason to lose a criterion.

    Args:
        task_chars: characters of the conversation that are shown, its last message first.
        answer_chars: characters of each answer that are shown.
        why_words: longest explanation that is asked for.

    Example:
        >>> Minter()(task=task, exploit="...", better="...", exploit_grade=grade_a, better_grade=grade_b)
    """

    role = "minter"
    signature = MintCriteria

    def __init__(self, task_chars: int = 4000, answer_chars: int = 9000, why_words: int = WHY_WORDS) -> None:
        super().__init__()
        self.task_chars = task_chars
        self.answer_chars = answer_chars
        self.why_words = why_words

    def fields(  # type: ignore[override]
        self,
        *,
        task: Task,
        exploit: str,
        better: str,
        exploit_grade: Grade,
        better_grade: Grade,
        problems: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Raises:
        InputError: a grade belongs to another rubric.
        """
        verdicts = zip(task.rubric.criteria, outcomes(task, exploit_grade), outcomes(task, better_grade), strict=True)
        return {
            "why_words": self.why_words,
            "conversation": shown_conversation(task.conversation, self.task_chars),
            "rubric": [
                ComparedCriterion(text=c.text, points=c.points, verdict_a=a, verdict_b=b) for c, a, b in verdicts
            ],
            "answer_a": shorten(exploit, self.answer_chars),
            "answer_b": shorten(better, self.answer_chars),
            "problems": list(problems) or None,
        }

    def check(self, prediction: Any, **_: Any) -> list[str]:
        problems = [f"criterion {i} is empty" for i, c in enumerate(prediction.criteria, 1) if not c.text.strip()]
        if prediction.label == "none" and prediction.criteria:
            problems.append(
                f"the label is none but there are criteria ({len(prediction.criteria)}); "
                "leave them out, or name the trick"
            )
        if prediction.label != "none" and not prediction.criteria:
            problems.append(f"the label is {prediction.label} but there are no criteria; write one to five")
        return problems

    def read(self, prediction: Any, **_: Any) -> Minting:
        return Minting(
            criteria=tuple(
                MintedCriterion(c.text.strip(), c.points, shorten_words(c.why, self.why_words))
                for c in prediction.criteria
            ),
            label=prediction.label,
        )
