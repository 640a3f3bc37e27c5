"""Judge of one criterion."""

from typing import Any

from programs.role import RoleModule
from rri.types import Task, Vote
from signatures.judge import JudgeCriterion, JudgeCriterionStrictly

__all__ = ["REASON_WORDS", "Judge", "judge_fields", "judge_signature"]

REASON_WORDS = 60


def judge_signature(strict: bool) -> type[JudgeCriterion]:
    """The judge's signature, with or without the strict note."""
    return JudgeCriterionStrictly if strict else JudgeCriterion


def judge_fields(task: Task, answer: str, criterion: str | None, reason_words: int) -> dict[str, Any]:
    """Input values of the judge. The criterion comes last, so that a server's prefix cache holds all before it;
    None leaves it out, for who adds it behind (`rri.lm.adapter.extend`).
    """
    return {
        "reason_words": reason_words,
        "conversation": list(task.conversation),
        "answer": answer,
        "criterion": criterion,
    }


class Judge(RoleModule[Vote]):
    """One vote on one criterion. Sees no points.

    Args:
        strict: add the strict note (probes and patch validation only).
        reason_words: longest reason that is asked for.

    Example:
        >>> Judge(strict=True)(task=task, answer="...", criterion="States that ...").outcome
        'met'
    """

    signature = JudgeCriterion

    def __init__(self, strict: bool = False, reason_words: int = REASON_WORDS) -> None:
        super().__init__()
        self.predict.signature = judge_signature(strict)
        self.reason_words = reason_words

    def fields(self, *, task: Task, answer: str, criterion: str) -> dict[str, Any]:  # type: ignore[override]
        return judge_fields(task, answer, criterion, self.reason_words)

    def result(self, prediction: Any) -> Vote:
        return Vote(outcome="met" if prediction.met else "unmet", reason=prediction.reason)
