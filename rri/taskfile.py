"""Task files: JSONL (or one JSON object) of tasks in the versioned schema (DESIGN, data)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rri.errors import TaskFileError
from rri.rubric_rules import check_rubric
from rri.types import TASK_SCHEMA, Task

__all__ = ["read_tasks"]

EXAMPLE = (
    '{"task_id": "t1", "conversation": [{"role": "user", "content": "..."}], '
    '"rubric": {"criteria": [{"text": "...", "points": 8}]}}'
)


def read_tasks(path: Path) -> Iterator[Task]:
    """The tasks of a file, each checked before it is given out.

    Raises:
        TaskFileError: naming the file, the line, the key and what is wrong with it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise TaskFileError(f"no task file {path}", "Name a JSON or JSONL file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TaskFileError(f"cannot read {path}: {error}", "Give a UTF-8 JSON or JSONL file") from None
    seen: dict[str, str] = {}
    for where, data in _objects(path, text):
        task = _task(where, data)
        if task.task_id in seen:
            raise TaskFileError(
                f"{where}: task_id {task.task_id!r} stands at {seen[task.task_id]} too", "Make ids unique"
            )
        seen[task.task_id] = where
        yield task
    if not seen:
        raise TaskFileError(f"{path} holds no task", f"A task looks like {EXAMPLE}")


def _objects(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """(place, data) of each task: the file as one JSON object, else one for each line."""
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) > 1 and not _is_json(lines[0][1]):
            # No JSONL either: one object over several lines, with a slip in it.
            raise _not_json(path, error.lineno, error) from None
    else:
        yield str(path), whole
        return
    for number, line in lines:
        try:
            yield f"{path}, line {number}", json.loads(line)
        except json.JSONDecodeError as error:
            raise _not_json(path, number, error) from None


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
        task = Task.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "task"
        message = str(first["msg"]).removeprefix("Value error, ")
        raise TaskFileError(f"{where}: {key}: {message}", f"A task looks like {EXAMPLE}") from None
    if problems := check_rubric(task.rubric, repaired=True):
        raise TaskFileError(f"{where}: rubric: {'; '.join(problems)}", "Correct the rubric")
    return task
