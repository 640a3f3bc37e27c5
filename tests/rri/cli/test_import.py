"""`rri import`: a user's rubrics become drafts, all or none, each content once; the next start admits them first."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rri.cli.import_ import sort_lines
from rri.config import RunConfig
from rri.rundir import RunDir
from rri.store import Store
from rri.taskfile import BroughtTask, RefusedLine
from rri.testing import ScriptedServer, role_models
from rri.types import Task
from tests.passages import write_passages
from tests.rigs import make_task, scripted_config
from tests.rri.cli.commands import Outcome, rri_here, write_config

Import = Callable[..., Outcome]


def line(prompt: str, *points: float, **changes: Any) -> dict[str, Any]:
    criteria = [
        {"criterion": f"States value {n} of {prompt}" if p > 0 else f"Claims that {prompt} was repealed", "points": p}
        for n, p in enumerate(points or (8, 8, -6))
    ]
    return {"prompt": f"Explain {prompt}.", "rubric": criteria, **changes}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def models() -> Iterator[ScriptedServer]:
    with ScriptedServer(role_models()) as server:
        yield server


@pytest.fixture
def config(tmp_path: Path, tiny_model: Path, models: ScriptedServer) -> RunConfig:
    corpus = str(write_passages(tmp_path / "passages.jsonl"))
    return scripted_config(models.url, corpus=corpus, solver={"base_model": str(tiny_model)})


@pytest.fixture
def bring(tmp_path: Path, config: RunConfig, capsys: pytest.CaptureFixture[str]) -> Import:
    """`rri import` of these lines into a run of four tasks, new or not."""

    def start(*lines: object, options: Sequence[str] = ()) -> Outcome:
        folder, file = tmp_path / "run", write(tmp_path / "tasks.jsonl", *lines)
        new = [] if folder.exists() else ["-c", write_config(tmp_path / "config.yaml", config)]
        return rri_here(capsys, "import", str(folder), str(file), *new, *options)

    return start


def drafts(folder: Path) -> list[Task]:
    store = Store(folder)
    try:
        return store.drafts()
    finally:
        store.close()


# --- into a run ----------------------------------------------------------------------------------------


def test_a_new_run_is_made_and_no_model_is_called(bring: Import, tmp_path: Path, models: ScriptedServer) -> None:
    before = models.total
    outcome = bring(line("rule one"), line("rule two", id="mine"))
    assert outcome.code == 0, outcome.err
    assert models.total == before
    assert "2 tasks imported into" in outcome.out
    assert "generation.tasks is 4: room for all of them, and 2 more will be written" in outcome.out
    found = drafts(tmp_path / "run")
    assert [t.request for t in found] == ["Explain rule one.", "Explain rule two."]
    assert found[1].task_id == "mine"
    manifest = RunDir.existing(tmp_path / "run").manifest()
    assert manifest["corpus"]["passages"] == 3
    assert manifest["arm"] == "rri"
    assert RunDir.existing(tmp_path / "run").owner() is None


def test_the_next_start_attacks_repairs_and_admits_them_first(
    bring: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = [{"criterion": f"Mentions topic {n} of rule one", "points": 8} for n in range(3)]
    assert bring({"prompt": "Explain rule one.", "rubric": topics}, line("rule two", id="mine")).code == 0
    out = tmp_path / "out.jsonl"
    outcome = rri_here(capsys, "generate", str(tmp_path / "run"), "--out", str(out), "--quiet")
    assert outcome.code == 0, outcome.err
    store = Store(tmp_path / "run")
    first, second, *others = store.admissions()
    assert {first.task.task_id[:9], second.task.task_id[:9]} == {"imported-", "mine"}
    topical = next(a for a in (first, second) if a.task.task_id != "mine")
    assert (topical.outcome, topical.task.version) == ("repaired", 2), "what an adversary games is rewritten"
    assert len(others) == 2
    assert store.origin_counts() == {"imported": 2, "written": 2}
    assert store.origins(9)[1] == 0 and len(store.origins(9)[0]) == 2, "shape controls count what was written here"
    store.close()
    assert len(out.read_text().splitlines()) == 4


def test_a_later_import_adds_to_the_run_and_knows_what_is_there(bring: Import, tmp_path: Path) -> None:
    first, second = line("rule one"), line("rule two")
    assert bring(first).code == 0
    outcome = bring(first, second, second, {**second, "id": "another-name"})
    assert outcome.code == 0, outcome.err
    assert "1 task imported" in outcome.out
    assert "3 left out as duplicates: 2 of another line, 1 of what the run has" in outcome.out
    assert len(drafts(tmp_path / "run")) == 2
    assert "0 tasks imported" in bring(first, second).out


def test_more_than_the_run_has_room_for_says_so_and_how_to_make_room(bring: Import, tmp_path: Path) -> None:
    outcome = bring(*(line(f"rule {n}") for n in range(6)))
    assert "generation.tasks is 4 and has room for 4 of them; the others stay drafts" in outcome.out
    assert f"rri fork {tmp_path / 'run'} NEW -s generation.tasks=6" in outcome.out
    assert len(drafts(tmp_path / "run")) == 6
    assert "has room for 0 of them" in bring(line("rule 7")).out


def test_a_run_that_is_open_elsewhere_is_refused(bring: Import, tmp_path: Path) -> None:
    assert bring(line("rule one")).code == 0
    owner = RunDir.create_or_resume(tmp_path / "run", None)
    try:
        outcome = bring(line("rule two"))
    finally:
        owner.close()
    assert outcome.code == 3
    assert "in use by process" in outcome.error_line
    assert len(drafts(tmp_path / "run")) == 1


def test_a_benchmarks_own_row_is_taken_with_a_warning(bring: Import) -> None:
    row = {"prompt_id": "p", "prompt": [{"role": "user", "content": "one"}], "canary": "made for this test"}
    outcome = bring({**row, "rubrics": line("rule one")["rubric"], "example_tags": []})
    assert "1 carry a benchmark's canary: a solver that trained on them cannot be measured" in outcome.out


def test_the_outcome_is_an_object_for_programs(bring: Import) -> None:
    data = json.loads(bring(line("rule one"), line("rule one"), "none", options=["--json", "--skip-bad"]).out)
    assert (data["imported"], data["duplicates"], data["canaries"]) == (1, {"in_file": 1, "in_run": 0}, 0)
    assert (data["target"], data["room"], len(data["task_ids"])) == (4, 4, 1)
    assert data["refused"] == [{"line": 3, "why": "not JSON (Expecting value)"}]


# --- bad lines -----------------------------------------------------------------------------------------


def test_one_bad_line_keeps_everything_out_and_no_directory_is_made(bring: Import, tmp_path: Path) -> None:
    outcome = bring(line("rule one"), line("rule two", -8), "none")
    assert outcome.code == 2
    assert f"{tmp_path / 'tasks.jsonl'}, line 2: rubric: no criterion with positive points" in outcome.err
    assert f"{tmp_path / 'tasks.jsonl'}, line 3: not JSON" in outcome.err
    assert "2 of 3 lines are refused, nothing was imported" in outcome.error_line
    assert "--skip-bad" in outcome.error_line
    assert not (tmp_path / "run").exists()


def test_bad_lines_can_be_left_out(bring: Import, tmp_path: Path) -> None:
    outcome = bring(line("rule one"), line("rule two", -8), options=["--skip-bad"])
    assert outcome.code == 0
    assert "1 line refused" in outcome.out
    assert "line 2: rubric: no criterion with positive points" in outcome.err
    assert len(drafts(tmp_path / "run")) == 1
    outcome = bring("none", options=["--skip-bad"])
    assert outcome.code == 2
    assert "1 of 1 lines are refused" in outcome.error_line


def test_a_long_rubric_names_the_setting_that_allows_it(bring: Import, tmp_path: Path) -> None:
    long = line("rule one", *[5.0] * 13)
    assert "a larger generation.rubric.max_criteria_repaired" in bring(long).error_line
    options = ["-s", "generation.rubric.max_criteria_repaired=13"]
    assert bring(long, options=options).code == 0
    assert len(drafts(tmp_path / "run")[0].rubric.criteria) == 13


def test_a_request_longer_than_the_solvers_prompt_is_refused_before_it_costs_anything(
    bring: Import, tmp_path: Path
) -> None:
    outcome = bring(line("rule one"), line("x" * 600))
    assert outcome.code == 2
    assert "tokens, the solver takes 496" in outcome.err
    assert drafts(tmp_path / "run") == []
    assert bring(line("rule one"), line("x" * 600), options=["--skip-bad"]).code == 0
    assert len(drafts(tmp_path / "run")) == 1


def test_what_the_run_validates_on_is_no_task_to_train_on(bring: Import, tmp_path: Path) -> None:
    file = write(tmp_path / "held-out.jsonl", line("rule one", 8))
    outcome = bring(line("rule one"), line("rule two"), options=["-s", f"validation.file={file}"])
    assert outcome.code == 2
    assert "line 1: it asks the same as validation task" in outcome.err
    assert drafts(tmp_path / "run") == []


def test_a_missing_file_and_a_run_without_config_are_one_line(
    bring: Import, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "tasks.jsonl", line("rule one"))
    outcome = rri_here(capsys, "import", str(tmp_path / "run"), str(file))
    assert outcome.code == 3
    assert "Name a config or preset with --config" in outcome.error_line
    assert bring(line("rule one")).code == 0
    outcome = rri_here(capsys, "import", str(tmp_path / "run"), str(tmp_path / "none.jsonl"))
    assert outcome.code == 2
    assert "no task file" in outcome.error_line


# --- sorting -------------------------------------------------------------------------------------------


def brought(number: int, task_id: str, content: int, canary: bool = False) -> BroughtTask:
    return BroughtTask(number, make_task(*[5.0] * (content + 1), task_id=task_id), canary)


def test_an_id_with_two_contents_is_refused_where_it_stands_again() -> None:
    rows = [brought(1, "a", 0), brought(2, "a", 1), brought(3, "b", 2), brought(4, "a", 0)]
    found = sort_lines(rows, {}, ["b"])
    assert [t.task_id for t in found.tasks] == ["a"]
    assert found.refused == (
        RefusedLine(2, "line 1 has another task of id 'a'"),
        RefusedLine(3, "the run has another task of id 'b'"),
    )
    assert found.in_file == 1


rows_strategy = st.lists(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 3), st.booleans()) | st.just(None),
    max_size=12,
)


@given(rows_strategy, st.sets(st.integers(0, 3)), st.sets(st.sampled_from("abcd")), st.sets(st.integers(0, 3)))
def test_every_line_becomes_one_thing_and_no_content_and_no_id_twice(
    drawn: list[Any], known: set[int], ids: set[str], too_long: set[int]
) -> None:
    digests = {brought(0, "", content).task.digest: content for content in range(4)}
    rows = [RefusedLine(n, "bad") if d is None else brought(n, *d) for n, d in enumerate(drawn, 1)]
    found = sort_lines(
        rows,
        {digest: "x" for digest, content in digests.items() if content in known},
        sorted(ids),
        lambda task: "too long" if digests[task.digest] in too_long else "",
    )
    assert len(found.tasks) + found.in_file + found.in_run + len(found.refused) == len(rows)
    contents = [digests[t.digest] for t in found.tasks]
    assert len(set(contents)) == len(contents)
    assert len({t.task_id for t in found.tasks}) == len(found.tasks)
    assert not set(contents) & (known | too_long)
    assert not {t.task_id for t in found.tasks} & ids
    assert found.canaries <= len(found.tasks)
