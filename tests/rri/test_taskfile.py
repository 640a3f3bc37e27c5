"""Task files: every slip is one line with path, line number, key and what to do; good files come back whole."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rri.errors import TaskFileError
from rri.taskfile import read_tasks
from rri.types import Message, Task
from tests.rigs import make_task


def record(**changes: Any) -> dict[str, Any]:
    """One task as a user would write it."""
    data: dict[str, Any] = {
        "task_id": "t1",
        "conversation": [{"role": "user", "content": "Explain rule one."}],
        "rubric": {"criteria": [{"text": "States the limit of rule one", "points": 8}]},
    }
    return {key: value for key, value in (data | changes).items() if value is not ...}


def with_criteria(*points: float) -> dict[str, Any]:
    criteria = [{"text": f"States limit {number} of rule one", "points": p} for number, p in enumerate(points)]
    return record(rubric={"criteria": criteria})


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def slip(path: Path) -> TaskFileError:
    with pytest.raises(TaskFileError) as caught:
        list(read_tasks(path))
    error = caught.value
    assert "\n" not in str(error)
    assert str(path) in error.what
    assert error.fix
    return error


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tasks.jsonl"


# --- good files ----------------------------------------------------------------------------------------


def test_tasks_come_back_in_order_with_everything_they_have(file: Path) -> None:
    tasks = [make_task(7.5, -0.5, task_id="a", red_team=True), make_task(8, task_id="b")]
    write(file, tasks[0].model_dump_json(), "", "   ", tasks[1].model_dump_json())
    assert list(read_tasks(file)) == tasks


def test_one_task_may_be_spread_over_lines(file: Path) -> None:
    write(file, json.dumps(record(), indent=2))
    (task,) = read_tasks(file)
    assert (task.task_id, task.version, task.rubric.criteria[0].points) == ("t1", 1, 8)


def test_a_repaired_rubric_may_hold_twelve_criteria_and_no_more(file: Path) -> None:
    write(file, with_criteria(*[5.0] * 12))
    assert len(next(read_tasks(file)).rubric.criteria) == 12
    write(file, with_criteria(*[5.0] * 13))
    assert "13 criteria" in slip(file).what


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(st.text(), min_size=1, max_size=3), escaped=st.booleans())
def test_any_text_comes_back_as_it_was(file: Path, contents: list[str], escaped: bool) -> None:
    tasks = [
        make_task(8, task_id=f"t{n}").model_copy(update={"conversation": (Message(role="user", content=text),)})
        for n, text in enumerate(contents)
    ]
    lines = [json.dumps(task.model_dump(mode="json"), ensure_ascii=escaped) for task in tasks]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert list(read_tasks(file)) == tasks


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_only_a_newline_ends_a_line(file: Path, mark: str) -> None:
    """JSON allows these marks inside a string as they are, and text from the web holds them."""
    said = [{"role": "user", "content": f"one{mark}two"}]
    lines = [json.dumps(record(task_id=name, conversation=said), ensure_ascii=False) for name in ("a", "b")]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert [task.request for task in read_tasks(file)] == [f"one{mark}two"] * 2


# --- slips ---------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(file: Path) -> None:
    assert "no task file" in slip(file).what


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file_is_shown_what_a_task_looks_like(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    error = slip(file)
    assert "holds no task" in error.what
    example = error.fix.removeprefix("A task looks like ")
    assert Task.model_validate_json(example).task_id == "t1"


def test_a_folder_or_a_binary_file_cannot_be_read(tmp_path: Path, file: Path) -> None:
    assert "cannot read" in slip(tmp_path).what
    file.write_bytes(b"\xff\xfe{}")
    assert "cannot read" in slip(file).what


@pytest.mark.parametrize("bad", ['{"task_id": ', "rubric: none", '{"task_id": "t2"} and more'])
def test_a_line_that_is_not_json_is_named(file: Path, bad: str) -> None:
    write(file, record(), bad)
    assert f"{file}, line 2: not JSON (" in slip(file).what


def test_a_slip_in_a_task_spread_over_lines_names_the_line_of_the_slip(file: Path) -> None:
    lines = json.dumps(record(), indent=2).splitlines()
    lines[1] = lines[1].rstrip(",")
    write(file, *lines)
    assert "line 3" in slip(file).what


BAD: dict[str, tuple[Any, str]] = {
    "no conversation": (record(conversation=...), "conversation: Field required"),
    "an empty conversation": (record(conversation=[]), "conversation: "),
    "no rubric": (record(rubric=...), "rubric: Field required"),
    "no id": (record(task_id=...), "task_id: Field required"),
    "a criterion without points": (record(rubric={"criteria": [{"text": "x"}]}), "rubric.criteria.0.points: Field"),
    "an empty criterion": (record(rubric={"criteria": [{"text": "", "points": 8}]}), "rubric.criteria.0.text: "),
    "points that are a word": (with_criteria(8, "many"), "rubric.criteria.1.points: "),  # type: ignore[arg-type]
    "0 points": (with_criteria(8, 0), "rubric.criteria.1.points: points must lie in [-10, 10] without 0, got 0"),
    "11 points": (with_criteria(11), "rubric.criteria.0.points: points must lie in [-10, 10] without 0, got 11"),
    "-10.5 points": (with_criteria(8, -10.5), "rubric.criteria.1.points: points must lie in [-10, 10]"),
    "points that are no number": (with_criteria(float("nan")), "rubric.criteria.0.points: "),
    "no positive criterion": (with_criteria(-8), "rubric: no criterion with positive points"),
    "no criterion": (with_criteria(), "rubric: 0 criteria"),
    "an unknown key": (record(rubrik={}), "rubrik: "),
    "an unknown speaker": (record(conversation=[{"role": "nurse", "content": "x"}]), "conversation.0.role: "),
    "half a character": (record(conversation=[{"role": "user", "content": "\ud83d"}]), "conversation.0.content: "),
    "version 0": (record(version=0), "version: "),
    "a later schema": (record(schema_version=2), "schema_version 2; this rri reads 1"),
    "a schema that is a word": (record(schema_version="1"), "schema_version '1'; this rri reads 1"),
    "a list": ([record()], "task: "),
    "null": ("null", "task: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_task_is_named_by_line_and_key(file: Path, name: str) -> None:
    bad, expected = BAD[name]
    write(file, record(), "", bad)
    assert f"{file}, line 3: {expected}" in slip(file).what


@pytest.mark.parametrize("points", [(10,), (0.5,), (1, -10), (10, -0.5)])
def test_points_at_the_edge_are_taken(file: Path, points: tuple[float, ...]) -> None:
    write(file, with_criteria(*points))
    assert tuple(c.points for c in next(read_tasks(file)).rubric.criteria) == points


def test_an_id_that_stands_twice_is_named_with_its_line(file: Path) -> None:
    write(file, record(), record(task_id="t2"), record())
    error = slip(file)
    assert "line 3" in error.what
    assert "'t1'" in error.what


def test_a_bad_task_does_not_hide_the_good_ones_before_it(file: Path) -> None:
    """Tasks are given out one by one, so a caller of the first needs no perfect file."""
    write(file, record(), "no json")
    assert next(read_tasks(file)).task_id == "t1"
