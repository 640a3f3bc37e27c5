"""Labelled verdicts: what experts said of a criterion on an answer, against which a judge is measured.

A file is JSONL. A line is one of ours (`conversation` or `request`, `answer`, `criterion`, `met` or `labels`), or one
of HealthBench's meta-evaluation as published (`prompt`, `completion`, `rubric`, `binary_labels`).
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, model_validator

from rri.errors import InputError
from rri.types import Criterion, Message, Rubric, Task, Text, digest_of

__all__ = ["EXAMPLE", "LabelledFile", "LabelledItem", "draw", "read_labelled"]

EXAMPLE = '{"request": "...", "answer": "...", "criterion": "States the dose", "met": true}'

PUBLISHED = {"conversation": "prompt", "answer": "completion", "criterion": "rubric", "labels": "binary_labels"}
"""Our field -> its name in HealthBench's meta-evaluation."""


@dataclass(frozen=True, slots=True)
class LabelledItem:
    """One criterion on one answer, and the label that most of its experts gave."""

    conversation: tuple[Message, ...]
    answer: str
    criterion: str
    met: bool
    labels: int = 1

    @property
    def conversation_id(self) -> str:
        """Digest of the conversation."""
        return digest_of([m.model_dump() for m in self.conversation])

    @property
    def answer_id(self) -> str:
        """Digest of the conversation with the answer."""
        return digest_of([self.conversation_id, self.answer])

    @property
    def task(self) -> Task:
        """The item as a task of one criterion. Its points are no matter, the judge sees none."""
        rubric = Rubric(criteria=(Criterion(text=self.criterion, points=1),))
        return Task(task_id=self.answer_id, conversation=self.conversation, rubric=rubric)


@dataclass(frozen=True, slots=True)
class LabelledFile:
    """The items of a file in its order. Lines on the same criterion of the same answer are one item.

    `ties` counts items that were left out because their labels are split evenly. Of all pairs of labels on one
    item there are `label_pairs`, and `label_pairs_differ` of them disagree.
    """

    items: tuple[LabelledItem, ...]
    lines: int
    ties: int
    label_pairs: int
    label_pairs_differ: int

    @property
    def expert_disagreement(self) -> float | None:
        """Share of pairs of labels on one item that differ; None where no item has two labels."""
        return self.label_pairs_differ / self.label_pairs if self.label_pairs else None


class _Line(BaseModel):
    """Further keys are of no use here and are passed over: every key that is of use is required."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    conversation: tuple[Message, ...] | None = Field(default=None, min_length=1)
    request: Text | None = Field(default=None, min_length=1)
    answer: Text
    criterion: Text = Field(min_length=1)
    met: StrictBool | None = None
    labels: tuple[StrictBool, ...] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        for pair in (("conversation", "request"), ("met", "labels")):
            given = [name for name in pair if getattr(self, name) is not None]
            if len(given) != 1:
                found = "both are there" if given else "neither is there"
                raise ValueError(f"one of {pair[0]} and {pair[1]} is needed, {found}")
        if not self.criterion.strip():
            raise ValueError("criterion is blank")
        return self

    def messages(self) -> tuple[Message, ...]:
        return self.conversation or (Message(role="user", content=self.request or ""),)

    def votes(self) -> tuple[bool, ...]:
        return self.labels if self.labels is not None else (bool(self.met),)


def read_labelled(path: Path) -> LabelledFile:
    """The labelled verdicts of a file. The majority of an item's labels is its label.

    Raises:
        InputError: naming the file, the line, the field and what is wrong with it, or the file holds no item.
    """
    lines = 0
    gathered: dict[tuple[str, str], tuple[_Line, list[bool]]] = {}
    for where, data in _objects(path):
        line = _line(where, data)
        lines += 1
        key = (digest_of([m.model_dump() for m in line.messages()]), digest_of([line.answer, line.criterion]))
        gathered.setdefault(key, (line, []))[1].extend(line.votes())
    if not lines:
        raise InputError(f"{path} holds no labelled verdict", f"A line looks like {EXAMPLE}")
    items, ties, pairs, differ = [], 0, 0, 0
    for line, labels in gathered.values():
        n, met = len(labels), sum(labels)
        pairs += n * (n - 1) // 2
        differ += met * (n - met)
        if 2 * met == n:
            ties += 1
        else:
            items.append(LabelledItem(line.messages(), line.answer, line.criterion, 2 * met > n, n))
    if not items:
        raise InputError(f"{path}: every item has its labels split evenly ({ties})", "Give an odd number of labels")
    return LabelledFile(tuple(items), lines, ties, pairs, differ)


def draw(items: Sequence[LabelledItem], limit: int | None, seed: int) -> tuple[LabelledItem, ...]:
    """At most `limit` items, drawn by `seed` and in the order they had, so that one answer's criteria stay together."""
    if limit is None or limit >= len(items):
        return tuple(items)
    chosen = random.Random(seed).sample(range(len(items)), limit)
    return tuple(items[i] for i in sorted(chosen))


def _objects(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"no file {path}", "Name a JSONL file of labelled verdicts") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}", "Give a UTF-8 JSONL file") from None
    # Only a newline ends a line: JSON allows other line marks inside a string.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"{path}, line {number}", json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}, line {number}: not JSON ({error.msg})", f"A line looks like {EXAMPLE}") from None


def _line(where: str, data: Any) -> _Line:
    published = isinstance(data, Mapping) and ("completion" in data or "binary_labels" in data)
    if published:
        data = {ours: data[theirs] for ours, theirs in PUBLISHED.items() if theirs in data}
    try:
        return _Line.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        name, *rest = (*map(str, first["loc"]), "")[:-1] or ("",)
        if published:
            name = PUBLISHED.get(name, name)
        key = ".".join(filter(None, (name, *rest)))
        message = str(first["msg"]).removeprefix("Value error, ")
        raise InputError(
            f"{where}: {key}: {message}" if key else f"{where}: {message}", f"A line looks like {EXAMPLE}"
        ) from None
