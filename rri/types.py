"""The vocabulary of rri: frozen models without behaviour beyond derived figures (METHOD 1)."""

import hashlib
import json
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = [
    "POINTS_LIMIT",
    "TASK_SCHEMA",
    "Criterion",
    "Grade",
    "Labels",
    "Message",
    "Outcome",
    "Reference",
    "Rubric",
    "Split",
    "Task",
    "Verdict",
    "Vote",
    "digest_of",
]

POINTS_LIMIT = 10
"""Points of a criterion lie in [-10, 10] without 0 (METHOD 1)."""

TASK_SCHEMA: Literal[1] = 1
"""Version of the task file's JSONL schema."""

Outcome = Literal["met", "unmet", "unknown"]
"""What the judge found. `unknown` means that the judge failed; it is never read as unmet."""

Split = Literal["train", "validation"]


def digest_of(content: object) -> str:
    """Hex digest (16 bytes) of any JSON-able content, independent of key order."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _whole_characters(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"half a character (lone surrogate) at offset {error.start}") from None
    return text


Text = Annotated[str, AfterValidator(_whole_characters)]
"""Text that can be stored and sent: JSON escapes may hold half a surrogate pair, UTF-8 may not."""


class Message(Frozen):
    """One chat message of a request."""

    role: Literal["system", "user", "assistant"]
    content: Text


class Reference(Frozen):
    """A passage that a task was grounded on."""

    id: Text
    title: Text
    text: Text
    source: Text


def _points_in_range(points: float) -> float:
    if not -POINTS_LIMIT <= points <= POINTS_LIMIT or points == 0:
        raise ValueError(f"points must lie in [-{POINTS_LIMIT}, {POINTS_LIMIT}] without 0, got {points:g}")
    return points


class Criterion(Frozen):
    """One line of a rubric.

    `points` > 0 rewards required content, `points` < 0 penalises a named error. Generated points are
    integers; imported ones may be fractions.
    """

    text: Text = Field(min_length=1)
    points: Annotated[float, AfterValidator(_points_in_range)]


class Rubric(Frozen):
    """An ordered list of criteria. `rubric_rules.check_rubric` says whether it may grade anything."""

    criteria: tuple[Criterion, ...]

    @property
    def positive_total(self) -> float:
        """Sum of the positive points, the denominator of every score."""
        return sum(c.points for c in self.criteria if c.points > 0)


class Labels(Frozen):
    """What a task is about. `difficulty` is the generator's own word for it."""

    use_case: str = ""
    specialty: str = ""
    difficulty: str = ""
    red_team: bool = False


class Task(Frozen):
    """A request with its rubric. `task_id` is fixed at birth, `version` counts up with each repair."""

    schema_version: Literal[1] = TASK_SCHEMA
    task_id: Text
    version: int = Field(default=1, ge=1)
    conversation: tuple[Message, ...] = Field(min_length=1)
    rubric: Rubric
    references: tuple[Reference, ...] = ()
    labels: Labels = Labels()

    @property
    def digest(self) -> str:
        """Digest of what is asked and how it is graded."""
        return digest_of(self.model_dump(mode="json", include={"conversation", "rubric"}))

    @property
    def request(self) -> str:
        """The last user message."""
        return next((m.content for m in reversed(self.conversation) if m.role == "user"), "")


class Vote(Frozen):
    """One sample of the judge on one criterion; `error` says why it is unknown."""

    outcome: Outcome
    reason: str = ""
    error: str = ""


class Verdict(Frozen):
    """The majority over the votes on one criterion; `unknown` when no majority of known votes agrees."""

    outcome: Outcome
    votes: tuple[Vote, ...] = ()


class Grade(Frozen):
    """The verdicts of one answer, one per criterion in rubric order, and the scores that follow.

    `score` follows the run's score rule, `raw` is the signed fraction without a length term. Both are
    None when the answer is unscored, and then `unscored` says why. None is not zero.
    """

    verdicts: tuple[Verdict, ...]
    score: float | None
    raw: float | None
    unscored: str = ""
    protocol: Literal["ours", "official"] = "ours"
    """Whose judge prompt: ours, or a benchmark's own published one."""
