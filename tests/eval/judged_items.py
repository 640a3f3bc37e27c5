"""Judged items for tests of the statistics."""

from collections.abc import Sequence

from hypothesis import strategies as st

from eval.agreement import JudgedItem
from programs.grader import majority
from rri.types import Outcome, Verdict, Vote

__all__ = ["item", "items_of", "labels_and_votes"]

OUTCOMES: tuple[Outcome, ...] = ("met", "unmet", "unknown")


def item(
    label: bool, *votes: Outcome, chars: int = 500, answer: str = "a", conversation: str | None = None
) -> JudgedItem:
    """An item whose verdict is the majority of `votes`."""
    outcome = majority([Vote(outcome=v) for v in votes], len(votes))
    assert outcome is not None
    verdict = Verdict(outcome=outcome, votes=tuple(Vote(outcome=v) for v in votes))
    return JudgedItem(answer if conversation is None else conversation, answer, chars, label, verdict)


def items_of(rows: Sequence[tuple[bool, Sequence[Outcome]]]) -> list[JudgedItem]:
    """One item a row, each in a conversation of its own."""
    return [item(label, *votes, answer=str(number)) for number, (label, votes) in enumerate(rows)]


def labels_and_votes(
    outcomes: Sequence[Outcome] = OUTCOMES, votes: int = 3
) -> st.SearchStrategy[list[tuple[bool, list[Outcome]]]]:
    """Labels with any votes on each."""
    row = st.tuples(st.booleans(), st.lists(st.sampled_from(outcomes), min_size=votes, max_size=votes))
    return st.lists(row, min_size=1, max_size=40)
