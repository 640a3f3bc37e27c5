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
    found = False
    for where, data in _objects(path, text):
        found = True
        yield _task(where, data)
    if not found:
        raise TaskFileError(f"{path} holds no task", f"A task looks like {EXAMPLE}")


def _objects(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    try:
        yield str(path), json.loads(text)
        return
    except json.JSONDecodeError:
        pass  # more than one line: JSONL
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield f"{path}, line {number}", json.loads(line)
            except json.JSONDecodeError as error:
                raise TaskFileError(
                    f"{path}, line {number}: not JSON ({error.msg})", f"A task looks like {EXAMPLE}"
                ) from None


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
