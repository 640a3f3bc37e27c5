"""What a role is shown of a case: texts cut to a length with a visible mark, and verdicts beside their criteria.

Every cut of a role's input, and of a free text that came back longer than asked, is made here.
"""

from collections.abc import Sequence

from rri.errors import InputError
from rri.types import Grade, Message, Outcome, Task

__all__ = ["latest", "outcomes", "shorten", "shorten_words", "shown_conversation"]


def shorten(text: str, chars: int) -> str:
    """The first `chars` characters, then a mark that says how many were left out; a shorter text as it is."""
    kept, left = text[:chars], len(text) - chars
    if left <= 0:
        return text
    mark = f"[{left} characters left out]"
    return f"{kept} {mark}" if kept else mark


def shorten_words(text: str, words: int) -> str:
    """The first `words` words, then a mark that says how many were left out; a shorter text stripped."""
    parts = text.split()
    left = len(parts) - words
    return text.strip() if left <= 0 else f"{' '.join(parts[:words])} [{left} words left out]"


def shown_conversation(conversation: Sequence[Message], chars: int) -> list[Message]:
    """The messages with `chars` characters of text between them, marks not counted.

    The last message is served first, then those before it: what is asked now must not be lost to a long history.
    No message disappears. One for which nothing is left is its mark alone.
    """
    shown: list[Message] = []
    for message in reversed(conversation):
        shown.append(message.model_copy(update={"content": shorten(message.content, chars)}))
        chars = max(0, chars - len(message.content))
    return shown[::-1]


def latest(texts: Sequence[str], most: int, chars: int) -> list[str]:
    """The last `most` texts, each cut to `chars` characters, behind a mark where earlier ones were left out."""
    left = max(0, len(texts) - most)
    marks = [f"[{left} earlier ones left out]"] if left else []
    return marks + [shorten(text, chars) for text in texts[left:]]


def outcomes(task: Task, grade: Grade) -> list[Outcome]:
    """One outcome for each criterion of the task's rubric.

    Raises:
        InputError: the grade belongs to another rubric.
    """
    criteria, verdicts = len(task.rubric.criteria), len(grade.verdicts)
    if criteria != verdicts:
        raise InputError(
            f"task {task.task_id} has {criteria} criteria, the grade {verdicts} verdicts",
            "Give the grade that was made under this version of the rubric",
        )
    return [verdict.outcome for verdict in grade.verdicts]
