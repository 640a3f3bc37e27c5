"""Referee: answers to one task -> tiers, blind to rubric and scores."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from programs.checked import CheckedRole
from programs.shown import shorten, shorten_words, shown_conversation
from rri.errors import InputError
from rri.types import Task
from signatures.referee import LETTERS, LetteredAnswer, RankAnswers

__all__ = ["NOTES_WORDS", "Referee", "Tiers"]

NOTES_WORDS = 40


@dataclass(frozen=True, slots=True)
class Tiers:
    """Answers by their place in the caller's list, best tier first. Within a tier, in the order of that list."""

    tiers: tuple[tuple[int, ...], ...]
    notes: str

    @property
    def best(self) -> tuple[int, ...]:
        return self.tiers[0]


class Referee(CheckedRole[Tiers]):
    """Sorts answers into tiers as an expert would, without sight of rubric or scores (METHOD 3).

    It sees letters only, handed out in the order that the caller draws, so that no place in the list is favoured.
    Tiers that do not hold every letter exactly once are asked for once more.

    Args:
        expert: role noun of the domain's expert.
        task_chars: characters of the conversation that are shown, its last message first.
        answer_chars: characters of each answer that are shown.
        notes_words: longest notes that are asked for; longer ones are cut with a mark.

    Example:
        >>> Referee("physician")(task=task, answers=["...", "...", "..."], order=[2, 0, 1]).tiers
        ((1,), (0, 2))
    """

    role = "referee"
    signature = RankAnswers

    def __init__(
        self, expert: str, task_chars: int = 8000, answer_chars: int = 6000, notes_words: int = NOTES_WORDS
    ) -> None:
        super().__init__()
        self.expert = expert
        self.task_chars = task_chars
        self.answer_chars = answer_chars
        self.notes_words = notes_words

    def fields(  # type: ignore[override]
        self, *, task: Task, answers: Sequence[str], order: Sequence[int], problems: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Raises:
        InputError: fewer than 2 or more than 26 answers, or `order` is no permutation of their places.
        """
        _check_order(len(answers), order)
        shown = [shorten(answers[place], self.answer_chars) for place in order]
        return {
            "expert": self.expert,
            "notes_words": self.notes_words,
            "conversation": shown_conversation(task.conversation, self.task_chars),
            "answers": [LetteredAnswer(letter=letter, text=text) for letter, text in zip(LETTERS, shown, strict=False)],
            "problems": list(problems) or None,
        }

    def check(  # type: ignore[override]
        self, prediction: Any, *, order: Sequence[int], **_: Any
    ) -> list[str]:
        known = LETTERS[: len(order)]
        used = Counter(letter for tier in prediction.tiers for letter in tier)
        found = {
            "missing": [letter for letter in known if not used[letter]],
            "used more than once": [letter for letter in known if used[letter] > 1],
            "not the letter of any answer": sorted(set(used) - set(known)),
        }
        return [
            f"{', '.join(letters)}: {what}; use each of {', '.join(known)} exactly once"
            for what, letters in found.items()
            if letters
        ]

    def read(self, prediction: Any, *, order: Sequence[int], **_: Any) -> Tiers:  # type: ignore[override]
        tiers = (tuple(sorted(order[LETTERS.index(letter)] for letter in tier)) for tier in prediction.tiers)
        return Tiers(tiers=tuple(tiers), notes=shorten_words(prediction.notes, self.notes_words))


def _check_order(answers: int, order: Sequence[int]) -> None:
    if not 2 <= answers <= len(LETTERS):
        raise InputError(f"{answers} answers to compare", f"Give between 2 and {len(LETTERS)}")
    if sorted(order) != list(range(answers)):
        raise InputError(
            f"order {list(order)} for {answers} answers", f"Give a permutation of the places 0 to {answers - 1}"
        )
