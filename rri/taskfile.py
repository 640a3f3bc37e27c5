"""Task files: JSONL (or one JSON object), in the versioned schema (DESIGN, data) or as benchmarks write tasks."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from rri.errors import TaskFileError
from rri.rubric_rules import RubricLimits, check_rubric
from rri.scoring import PROFBENCH_POINTS
from rri.types import TASK_SCHEMA, Criterion, Labels, Message, Rubric, Task, Text

__all__ = ["LIGHT_EXAMPLE", "TASK_ID_CHARS", "BroughtTask", "RefusedLine", "read_brought", "read_tasks"]

EXAMPLE = (
    '{"task_id": "t1", "conversation": [{"role": "user", "content": "..."}], '
    '"rubric": {"criteria": [{"text": "...", "points": 8}]}}'
)
LIGHT_EXAMPLE = '{"prompt": "...", "rubric": [{"criterion": "...", "points": 8}]}'

TASK_ID_CHARS = 64
"""Longest id that a run's database keeps."""

CONVERSATION = ("conversation", "prompt")
RUBRIC = ("rubric", "rubrics", "rubric_items")
CRITERION = ("criterion", "text", "criterion_text", "criterion_description")
IDS = ("task_id", "id", "prompt_id")
CANARIES = ("canary", "canary_string")
"""Fields in which benchmarks mark their rows, so that nobody trains on them unawares."""


def read_tasks(path: Path) -> Iterator[Task]:
    """The tasks of a file in the versioned schema, each checked before it is given out.

    Raises:
        TaskFileError: naming the file, the line, the key and what is wrong with it.
    """
    seen: dict[str, str] = {}
    for piece in _pieces(path):
        if isinstance(piece.data, TaskFileError):
            raise piece.data
        task = _checked(piece.where, _task(piece.where, piece.data), None)
        if task.task_id in seen:
            raise TaskFileError(
                f"{piece.where}: task_id {task.task_id!r} stands at {seen[task.task_id]} too", "Make ids unique"
            )
        seen[task.task_id] = piece.where
        yield task
    if not seen:
        raise TaskFileError(f"{path} holds no task", f"A task looks like {EXAMPLE}")


# -- tasks that a user brings ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BroughtTask:
    """A task that a run can take: version 1, its request last. `canary`: its row is marked as a benchmark's."""

    line: int
    task: Task
    canary: bool = False


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that a run cannot take, and why."""

    line: int
    why: str


def read_brought(path: Path, limits: RubricLimits | None = None) -> list[BroughtTask | RefusedLine]:
    """Every line of a file: a task of the versioned schema, or a row as benchmarks publish their rubrics.

    Such a row has `prompt` (a text or messages) or `conversation`, and `rubric`, a list of {criterion, points}. The
    names that HealthBench and ProfBench use for these are known too. Its id and labels may be missing, and an id then
    follows from the content. Further keys of a row are passed over.

    Args:
        path: the file.
        limits: how many criteria a rubric may hold; after repairs, since such a rubric may have seen some.

    Raises:
        TaskFileError: the file cannot be read, or it holds nothing.
    """
    rows = [_brought(piece, limits) for piece in _pieces(path)]
    if not rows:
        raise TaskFileError(f"{path} holds no task", f"A task looks like {LIGHT_EXAMPLE}")
    return rows


def _brought(piece: "_Piece", limits: RubricLimits | None) -> BroughtTask | RefusedLine:
    where, data = f"line {piece.line}", piece.data
    try:
        if isinstance(data, TaskFileError):
            raise data
        task = _row(where, data) if _is_light(data) else _task(where, data)
        task = _answerable(where, _checked(where, task, limits))
    except TaskFileError as error:
        return RefusedLine(piece.line, error.what.removeprefix(f"{where}: ").removeprefix(f"{piece.where}: "))
    canary = any(data.get(key) for key in CANARIES)
    return BroughtTask(piece.line, task.model_copy(update={"version": 1}), canary)


def _is_light(data: Any) -> bool:
    """A rubric of the versioned schema is a mapping; benchmarks write a list, mostly under another name."""
    return isinstance(data, Mapping) and not isinstance(data.get("rubric"), Mapping)


def _criteria(value: Any) -> Any:
    return [_criterion(item) for item in value] if isinstance(value, list) else value


def _criterion(item: Any) -> Any:
    """Text and points under our names; ProfBench writes a word for the points."""
    if not isinstance(item, Mapping):
        return item
    texts = [item[name] for name in CRITERION if name in item]
    found = {"text": texts[0]} if texts else {}
    if "points" in item:
        return {**found, "points": item["points"]}
    if item.get("criterion_weight") in PROFBENCH_POINTS:
        return {**found, "points": PROFBENCH_POINTS[item["criterion_weight"]]}
    return found


def _messages(value: Any) -> Any:
    """A lone text is the user's; HealthBench Professional wraps its messages once more."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if isinstance(value, list):
        return [_message(m) for m in value]
    return value


def _message(value: Any) -> Any:
    return {key: value[key] for key in ("role", "content") if key in value} if isinstance(value, Mapping) else value


def _word(value: Any) -> Any:
    """A label is a word; what else stands under its name is no label."""
    return value if isinstance(value, str) else ""


def _number_too(value: Any) -> Any:
    """Some benchmarks count their rows instead of naming them."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Word = Annotated[str, BeforeValidator(_word)]


class _Row(BaseModel):
    """Further keys of a row are of no use here and are passed over: every key that is of use is required."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    task_id: Annotated[Text | None, BeforeValidator(_number_too)] = Field(
        default=None, validation_alias=AliasChoices(*IDS)
    )
    conversation: Annotated[tuple[Message, ...], BeforeValidator(_messages)] = Field(
        validation_alias=AliasChoices(*CONVERSATION), min_length=1
    )
    rubric: Annotated[tuple[Criterion, ...], BeforeValidator(_criteria)] = Field(validation_alias=AliasChoices(*RUBRIC))
    labels: Labels | None = None
    use_case: Word = ""
    specialty: Word = ""
    difficulty: Word = ""
    type: Word = ""

    @model_validator(mode="before")
    @classmethod
    def _one_of_each(cls, data: Any) -> Any:
        for names in (CONVERSATION, RUBRIC, IDS):
            given = [name for name in names if name in data]
            if len(given) > 1:
                raise ValueError(f"{' and '.join(given)} are both there; give one of them")
        return data

    def as_task(self) -> Task:
        labels = self.labels or Labels(
            use_case=self.use_case,
            specialty=self.specialty,
            difficulty=self.difficulty,
            red_team=self.type == "red_teaming",
        )
        task = Task(
            task_id=self.task_id or "",
            conversation=self.conversation,
            rubric=Rubric(criteria=self.rubric),
            labels=labels,
        )
        return task if self.task_id is not None else task.model_copy(update={"task_id": f"imported-{task.digest[:12]}"})


def _row(where: str, data: Mapping[str, Any]) -> Task:
    try:
        return _Row.model_validate(data).as_task()
    except ValidationError as error:
        raise _explained(where, error, LIGHT_EXAMPLE) from None


def _answerable(where: str, task: Task) -> Task:
    """Raises:
    TaskFileError: the solver could not answer it, or the database could not keep it.
    """
    last = task.conversation[-1]
    if last.role != "user":
        raise TaskFileError(f"{where}: the conversation ends with the {last.role}; it must end with the user's request")
    if not last.content.strip():
        raise TaskFileError(f"{where}: the request is blank")
    if not 0 < len(task.task_id) <= TASK_ID_CHARS:
        raise TaskFileError(f"{where}: task_id has {len(task.task_id)} characters; 1 to {TASK_ID_CHARS} are allowed")
    return task


# -- lines ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Piece:
    """One task of a file as it was read, or what is wrong with its JSON."""

    line: int
    where: str
    data: Any


def _pieces(path: Path) -> Iterator[_Piece]:
    """The file as one JSON object, else one for each line.

    Raises:
        TaskFileError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskFileError(f"no task file {path}", "Name a JSON or JSONL file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TaskFileError(f"cannot read {path}: {error}", "Give a UTF-8 JSON or JSONL file") from None
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        begun = sum(line.lstrip().startswith("{") for _, line in lines)
        if len(lines) > 1 and not _is_json(lines[0][1]) and 2 * begun <= len(lines):
            # No JSONL either: one object over several lines, with a slip in it.
            raise _not_json(path, error.lineno, error) from None
    else:
        yield _Piece(1, str(path), whole)
        return
    for number, line in lines:
        where = f"{path}, line {number}"
        try:
            yield _Piece(number, where, json.loads(line))
        except json.JSONDecodeError as error:
            yield _Piece(number, where, _not_json(path, number, error))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def _not_json(path: Path, line: int, error: json.JSONDecodeError) -> TaskFileError:
    return TaskFileError(f"{path}, line {line}: not JSON ({error.msg})", f"A task looks like {EXAMPLE}")


def _task(where: str, data: Any) -> Task:
    if isinstance(data, dict) and data.get("schema_version", TASK_SCHEMA) != TASK_SCHEMA:
        raise TaskFileError(
            f"{where}: schema_version {data['schema_version']!r}; this rri reads {TASK_SCHEMA}", "Convert the file"
        )
    try:
        return Task.model_validate(data)
    except ValidationError as error:
        raise _explained(where, error, EXAMPLE) from None


def _explained(where: str, error: ValidationError, example: str) -> TaskFileError:
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"])) or "task"
    message = str(first["msg"]).removeprefix("Value error, ")
    return TaskFileError(f"{where}: {key}: {message}", f"A task looks like {example}")


def _checked(where: str, task: Task, limits: RubricLimits | None) -> Task:
    if problems := check_rubric(task.rubric, repaired=True, limits=limits):
        raise TaskFileError(f"{where}: rubric: {'; '.join(problems)}", "Correct the rubric")
    return task
