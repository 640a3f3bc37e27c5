"""One text beside the one before it: what went, what came, what stayed. Pure but for the colours."""

import difflib
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rich.text import Text

from rri.types import Rubric, Task

__all__ = ["DiffLine", "coloured", "conversation_units", "diff_units", "rubric_units", "text_units"]

Sign = Literal[" ", "+", "-"]
STYLES: dict[Sign, str] = {" ": "", "+": "green", "-": "red"}

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class DiffLine(NamedTuple):
    """A unit of one of two texts: it came (+), went (-), or is in both."""

    sign: Sign
    text: str


def diff_units(before: Sequence[str], after: Sequence[str]) -> list[DiffLine]:
    """How `before` becomes `after`. Without the lines that came it is `before`, without those that went `after`."""
    lines: list[DiffLine] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += [DiffLine(" ", unit) for unit in before[a:b]]
        else:
            lines += [DiffLine("-", unit) for unit in before[a:b]]
            lines += [DiffLine("+", unit) for unit in after[c:d]]
    return lines


def text_units(text: str) -> list[str]:
    """The sentences of a text, since models write whole paragraphs on one line."""
    return [unit for line in text.splitlines() for unit in _SENTENCE_END.split(line.strip()) if unit]


def conversation_units(task: Task) -> list[str]:
    """The conversation, each message under its speaker."""
    return [unit for m in task.conversation for unit in (f"[{m.role}]", *text_units(m.content))]


def rubric_units(rubric: Rubric) -> list[str]:
    """One line a criterion, its points first."""
    return [f"{c.points:+4g}  {' '.join(c.text.split())}" for c in rubric.criteria]


def coloured(lines: Sequence[DiffLine]) -> Text:
    """The lines with their signs, for a terminal."""
    text = Text()
    for number, line in enumerate(lines):
        text.append(f"{chr(10) if number else ''}{line.sign} {line.text}", style=STYLES[line.sign])
    return text
