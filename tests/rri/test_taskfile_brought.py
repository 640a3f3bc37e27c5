"""Rubrics that users bring: our schema, a light form, and rows as benchmarks publish them; each bad line by itself."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rri.errors import TaskFileError
from rri.rubric_rules import RubricLimits
from rri.taskfile import LIGHT_EXAMPLE, TASK_ID_CHARS, BroughtTask, RefusedLine, read_brought
from rri.types import Message, Task
from tests.rigs import make_task

TURNS = (("user", "one"), ("assistant", "two"), ("user", "three"))
CRITERION = {"criterion": "States the limit of rule one", "points": 8}


def light(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"prompt": "Explain rule one.", "rubric": [CRITERION]}
    return {key: value for key, value in (data | changes).items() if value is not ...}


def strict(**changes: Any) -> dict[str, Any]:
    return {**make_task(8, -6, task_id="t1").model_dump(mode="json"), **changes}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rubrics.jsonl"


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def one(path: Path, line: object) -> Task:
    (row,) = read_brought(write(path, line))
    assert isinstance(row, BroughtTask), row
    return row.task


def why(path: Path, line: object, limits: RubricLimits | None = None) -> str:
    """Why the line is refused, which stands between two good ones."""
    rows = read_brought(write(path, light(), line, light(prompt="Explain rule two.")), limits)
    assert [isinstance(row, BroughtTask) for row in rows] == [True, False, True]
    refused = rows[1]
    assert isinstance(refused, RefusedLine)
    assert refused.line == 2
    assert str(path) not in refused.why
    return refused.why


# --- forms ---------------------------------------------------------------------------------------------


def test_the_light_form_is_what_the_help_shows(file: Path) -> None:
    task = one(file, LIGHT_EXAMPLE.replace('"criterion": "..."', '"criterion": "States the limit"'))
    assert task.conversation == (Message(role="user", content="..."),)
    assert [(c.text, c.points) for c in task.rubric.criteria] == [("States the limit", 8)]


def test_a_task_without_an_id_is_named_by_its_content(file: Path) -> None:
    task, again, other = (one(file, light(prompt=p)) for p in ("a question", "a question", "another one"))
    assert task.task_id == again.task_id == f"imported-{task.digest[:12]}"
    assert other.task_id != task.task_id


@pytest.mark.parametrize("name", ["task_id", "id", "prompt_id"])
def test_an_id_that_is_given_stays(file: Path, name: str) -> None:
    assert one(file, light(**{name: "mine-7"})).task_id == "mine-7"


def test_a_number_may_be_an_id(file: Path) -> None:
    assert one(file, light(id=17)).task_id == "17"
    assert "id: " in why(file, light(id=True))


def test_labels_may_be_given(file: Path) -> None:
    labels = one(file, light(labels={"use_case": "consult", "red_team": True})).labels
    assert (labels.use_case, labels.red_team, labels.specialty) == ("consult", True, "")


def test_a_task_of_the_versioned_schema_begins_anew_at_version_1(file: Path) -> None:
    task = make_task(8, -6, task_id="t1").model_copy(update={"version": 4})
    assert one(file, task.model_dump_json()) == task.model_copy(update={"version": 1})


def test_a_healthbench_row_is_taken_as_published(file: Path) -> None:
    row = {
        "prompt_id": "p-1",
        "prompt": [{"role": role, "content": text} for role, text in TURNS],
        "example_tags": ["theme:hedging"],
        "rubrics": [{"criterion": "States the dose", "points": 7, "tags": ["axis:accuracy"]}],
        "ideal_completions_data": None,
        "canary": "made for this test",
    }
    (brought,) = read_brought(write(file, row))
    assert isinstance(brought, BroughtTask)
    assert (brought.task.task_id, brought.task.request, len(brought.task.conversation)) == ("p-1", "three", 3)
    assert brought.canary


def test_a_healthbench_professional_row_is_taken_as_published(file: Path) -> None:
    row = {
        "id": "q-1",
        "conversation": {"messages": [{"role": "user", "content": "one", "name": "somebody"}]},
        "rubric_items": [{"criterion_text": "States the dose", "points": 7.5}],
        "use_case": "consult",
        "type": "red_teaming",
        "difficulty": "difficult",
        "specialty": "cardiology",
        "canary_string": "",
    }
    (brought,) = read_brought(write(file, row))
    assert isinstance(brought, BroughtTask)
    labels = brought.task.labels
    assert (labels.use_case, labels.specialty, labels.difficulty) == ("consult", "cardiology", "difficult")
    assert labels.red_team
    assert not brought.canary
    assert brought.task.rubric.criteria[0].points == 7.5


def test_a_profbench_rows_weights_are_words(file: Path) -> None:
    weights = ["Critical", "Major", "Minor", "Additional"]
    rubrics = [{"criterion_description": f"States value {w}", "criterion_weight": w} for w in weights]
    task = one(file, {"task_id": "Chem-0", "domain": "Chemistry PhD", "prompt": "Explain.", "rubrics": rubrics})
    assert [c.points for c in task.rubric.criteria] == [4, 3, 2, 1]


def test_a_label_that_is_no_word_is_passed_over(file: Path) -> None:
    assert one(file, light(difficulty=0.7, type=3)).labels.difficulty == ""


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=st.text().filter(str.strip), points=st.integers(1, 10))
def test_any_request_comes_as_it_was(file: Path, request: str, points: int) -> None:
    task = one(file, light(prompt=request, rubric=[{**CRITERION, "points": points}]))
    assert (task.request, task.rubric.positive_total) == (request, points)


# --- refused lines -------------------------------------------------------------------------------------

BAD: dict[str, tuple[Any, str]] = {
    "no prompt": (light(prompt=...), "conversation: Field required"),
    "no rubric": (light(rubric=...), "rubric: Field required"),
    "an empty rubric": (light(rubric=[]), "rubric: 0 criteria"),
    "a rubric of words": (light(rubric=["States it"]), "rubric.0: "),
    "two conversations": (light(conversation=[]), "task: conversation and prompt are both there"),
    "two rubrics": (light(rubrics=[CRITERION]), "task: rubric and rubrics are both there"),
    "no points": (light(rubric=[{"criterion": "States it"}]), "rubric.0.points: Field required"),
    "no text": (light(rubric=[{"points": 8}]), "rubric.0.text: Field required"),
    "11 points": (light(rubric=[{**CRITERION, "points": 11}]), "rubric.0.points: points must lie in [-10, 10]"),
    "a weight of no class": (
        light(rubric=[{"criterion_description": "x", "criterion_weight": "Huge"}]),
        "rubric.0.points",
    ),
    "no positive": (light(rubric=[{**CRITERION, "points": -8}]), "rubric: no criterion with positive points"),
    "an unknown speaker": (light(prompt=[{"role": "nurse", "content": "x"}]), "prompt.0.role: "),
    "the assistant last": (
        light(prompt=[{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]),
        "the conversation ends with the assistant",
    ),
    "a blank request": (light(prompt=" \n"), "the request is blank"),
    "an empty id": (light(id=""), "task_id has 0 characters; 1 to 64 are allowed"),
    "a long id": (light(id="x" * (TASK_ID_CHARS + 1)), f"task_id has {TASK_ID_CHARS + 1} characters; 1 to 64"),
    "no JSON": ('{"prompt": ', "not JSON ("),
    "a list": ([light()], "task: "),
    "a later schema": (strict(schema_version=2), "schema_version 2; this rri reads 1"),
    "an unknown key of the schema": (strict(rubrik={}), "rubrik: "),
    "half a character": (light(prompt="\ud83d"), "prompt.0.content: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_refused_by_itself_with_its_reason(file: Path, name: str) -> None:
    line, expected = BAD[name]
    assert why(file, line).startswith(expected)


def test_ids_of_64_characters_are_kept(file: Path) -> None:
    assert len(one(file, light(id="x" * TASK_ID_CHARS)).task_id) == TASK_ID_CHARS


def test_the_runs_own_limit_of_criteria_counts(file: Path) -> None:
    criteria = [{"criterion": f"States the limit of rule {n}", "points": 5} for n in range(13)]
    assert one(file, light(rubric=criteria[:12])).rubric.positive_total == 60
    assert "13 criteria; between 1 and 12" in why(file, light(rubric=criteria))
    (row,) = read_brought(write(file, light(rubric=criteria)), RubricLimits(max_criteria_repaired=13))
    assert isinstance(row, BroughtTask)


def test_a_first_line_that_is_no_json_does_not_take_the_others_with_it(file: Path) -> None:
    rows = read_brought(write(file, "{nothing", light(), light(prompt="another")))
    assert [type(row) for row in rows] == [RefusedLine, BroughtTask, BroughtTask]


def test_lines_are_counted_as_an_editor_counts_them(file: Path) -> None:
    rows = read_brought(write(file, "", light(), "", "none"))
    assert [row.line for row in rows] == [2, 4]


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_shown_what_a_task_looks_like(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(TaskFileError, match="holds no task") as caught:
        read_brought(file)
    assert LIGHT_EXAMPLE in caught.value.fix


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(TaskFileError, match="no task file"):
        read_brought(file)
