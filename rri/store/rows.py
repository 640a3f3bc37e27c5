"""Rows as they are written and read back."""

from dataclasses import dataclass
from typing import Literal

from rri.lm.calls import CallRecord
from rri.types import Grade, Split

__all__ = ["GradeRow", "KeptCall", "Origin", "Place", "ServedRow"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rollout stands: its split, cycle, position, and row within the group."""

    split: Split
    cycle: int
    position: int
    row: int


@dataclass(frozen=True, slots=True)
class GradeRow:
    """One graded rollout."""

    place: Place
    task_id: str
    version: int
    answer: str
    finished: bool
    grade: Grade


@dataclass(frozen=True, slots=True)
class ServedRow:
    """What was served at a position, and from where: replay, fresh or draw."""

    position: int
    task_id: str
    version: int
    source: str


@dataclass(frozen=True, slots=True)
class Origin:
    """How a task came to be: under which versions of guidance and memo, and the shape that was asked for."""

    source: Literal["written", "imported", "forked"] = "written"
    guidance: int | None = None
    memo: int | None = None
    asked_positives: int | None = None
    asked_negative: bool | None = None


@dataclass(frozen=True, slots=True)
class KeptCall:
    """A call as read back."""

    id: int
    at: float
    record: CallRecord
