"""Bad input of every kind ends in one clear line, a code that is not 0, and a run directory that is intact."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rri.rundir import RunDir
from rri.store import Store
from rri.testing import (
    ChatRequest,
    ScriptedServer,
    empty,
    garbage,
    hang,
    other_json,
    reset,
    role_models,
    status,
    truncated,
)
from rri.testing.faults import Fault
from tests.passages import write_passages
from tests.rigs import make_task, scripted_config
from tests.rri.cli.commands import Outcome, rri_here, write_config


@pytest.fixture(scope="module")
def models() -> Iterator[ScriptedServer]:
    with ScriptedServer(role_models()) as server:
        yield server


@pytest.fixture
def run(
    tmp_path: Path, tiny_model: Path, models: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Outcome]:
    """`rri generate` of a small run with config sections changed."""

    def start(*extra: str, **sections: Any) -> Outcome:
        base: dict[str, Any] = {
            "corpus": str(write_passages(tmp_path / "passages.jsonl")),
            "solver": {"base_model": str(tiny_model)},
        }
        config = scripted_config(models.url, **base)
        config = scripted_config(models.url, **{**base, **sections}) if sections else config
        path = write_config(tmp_path / "config.yaml", config)
        out = str(tmp_path / "tasks.jsonl")
        return rri_here(capsys, "generate", str(tmp_path / "run"), "--config", path, "--out", out, *extra)

    return start


@contextmanager
def misbehaving(models: ScriptedServer, fault: Callable[[ChatRequest], Fault | None]) -> Iterator[None]:
    """While the block lasts, requests are answered by what `fault` says, if anything."""
    models.fault = fault
    try:
        yield
    finally:
        models.fault = lambda request: None


def intact(folder: Path) -> bool:
    """Whether the run directory can be opened and read again."""
    run_dir = RunDir.existing(folder)
    run_dir.config()
    store = Store(folder)
    store.admission_counts()
    store.close()
    return run_dir.owner() is None


ENDPOINT_FAULTS: list[tuple[str, Fault, str]] = [
    ("401", status(401, '{"error": {"message": "bad key"}}'), "api_key_env"),
    ("404", status(404, '{"error": {"message": "no such model"}}'), "no such model"),
    ("429", status(429, retry_after="0"), "concurrency"),
    ("500", status(500), "server's log"),
    ("reset", reset(), "Check that the server runs"),
    ("garbage", garbage(), "OpenAI-compatible"),
    ("empty", empty(), "the reply is empty"),
    ("truncated", truncated(), "max_tokens"),
    ("other JSON", other_json(), "Ready"),
    ("not JSON", Fault("content", body="sure, ready!"), "Ready"),
]


@pytest.mark.parametrize(
    ("fault", "hint"), [(f, h) for _, f, h in ENDPOINT_FAULTS], ids=[n for n, _, _ in ENDPOINT_FAULTS]
)
def test_an_endpoint_that_misbehaves(
    fault: Fault, hint: str, run: Callable[..., Outcome], models: ScriptedServer, tmp_path: Path
) -> None:
    with misbehaving(models, lambda request: fault):
        outcome = run()
    assert outcome.code == 5
    assert hint in outcome.error_line
    assert "role " in outcome.error_line
    assert intact(tmp_path / "run")
    assert run("--quiet").code == 0, "the same command goes on once the endpoint is well"


def test_an_endpoint_that_hangs(run: Callable[..., Outcome], models: ScriptedServer, tmp_path: Path) -> None:
    with misbehaving(models, lambda request: hang()):
        outcome = run(endpoints={"main": {"timeout_s": 0.2, "retries": 1}})
    assert outcome.code == 5
    assert "no answer within 0.2 s" in outcome.error_line
    assert intact(tmp_path / "run")


def test_an_endpoint_that_refuses_connections(run: Callable[..., Outcome], tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    outcome = run(endpoints={"main": {"url": url}})
    assert outcome.code == 5
    assert url in outcome.error_line
    assert intact(tmp_path / "run")


def test_a_model_that_breaks_in_the_middle_stops_the_run(
    run: Callable[..., Outcome], models: ScriptedServer, tmp_path: Path
) -> None:
    with misbehaving(models, lambda r: truncated() if r.model == "generator" and r.schema_name != "Ready" else None):
        outcome = run(generation={"failures_in_a_row": 3})
    assert outcome.code == 5
    assert "3 tasks in a row failed" in outcome.error_line
    assert "role generator" in outcome.error_line
    assert intact(tmp_path / "run")


def test_a_farmer_that_breaks_is_loud_and_its_tasks_are_kept(
    run: Callable[..., Outcome], models: ScriptedServer, tmp_path: Path
) -> None:
    with misbehaving(models, lambda r: status(500) if r.model == "farmer" and r.schema_name != "Ready" else None):
        outcome = run(generation={"failures_in_a_row": 3, "concurrency": 1})
    assert outcome.code == 5
    assert "no farmer answer" in outcome.error_line
    store = Store(tmp_path / "run")
    assert store.admission_counts()["unmeasured"] >= 3
    store.close()


def test_the_budget_ends_a_run_that_can_go_on(run: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = run(budget={"calls": 30})
    assert outcome.code == 6
    assert "budget.calls is used up: 30 of 30" in outcome.error_line
    assert intact(tmp_path / "run")
    assert run(budget={"calls": 1000}).code == 0


CORPORA = {
    "missing": (None, "no passages file"),
    "empty": ("", "holds no passages"),
    "not JSON": ('{"id": "a", "title": "t", "text": "x", "source": "s"}\nnonsense\n', "line 2: not JSON"),
    "missing key": ('{"id": "a", "title": "t", "source": "s"}\n', "line 1: text"),
    "repeated id": ('{"id": "a", "title": "t", "text": "x", "source": "s"}\n' * 2, "line 2: id 'a' stands on line 1"),
}


@pytest.mark.parametrize("name", CORPORA)
def test_a_bad_corpus(name: str, run: Callable[..., Outcome], tmp_path: Path) -> None:
    text, hint = CORPORA[name]
    path = tmp_path / "bad.jsonl"
    if text is not None:
        path.write_text(text)
    outcome = run(corpus=str(path))
    assert outcome.code == 2
    assert hint in outcome.error_line
    assert str(path) in outcome.error_line


def test_an_unknown_config_key_names_the_right_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("preset: smoke\nsolver: {cycels: 3}\n")
    outcome = rri_here(capsys, "run", str(tmp_path / "run"), "--config", str(path))
    assert outcome.code == 2
    assert "'solver.cycels', did you mean 'solver.cycles'?" in outcome.error_line
    assert not (tmp_path / "run").exists()


def test_a_directory_of_another_version(run: Callable[..., Outcome], tmp_path: Path) -> None:
    assert run().code == 0
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "layout": 99}))
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.suffix in (".yaml", ".json")}
    outcome = run()
    assert outcome.code == 3
    assert "layout version 99" in outcome.error_line
    assert before == {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir() if p.suffix in (".yaml", ".json")}


def test_a_resume_with_another_config(run: Callable[..., Outcome]) -> None:
    assert run().code == 0
    outcome = run(seed=7)
    assert outcome.code == 3
    assert "seed = 0, now it is 7" in outcome.error_line


def test_a_full_disk(run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is told that the disk ends after a few pages, which raises the same error as a full one."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def limit(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA max_page_count = 40")

    event.listen(Engine, "connect", limit)
    try:
        outcome = run()
    finally:
        event.remove(Engine, "connect", limit)
    assert outcome.code == 4
    assert "disk" in outcome.error_line
    assert "full" in outcome.error_line
    assert intact(tmp_path / "run")
    assert run().code == 0, "the run goes on once there is space"


RUBRICS = {
    "no positives": ([{"text": "Claims that the rule is new", "points": -5}], "no criterion with positive points"),
    "weight 0": ([{"text": "States the value", "points": 0}], "without 0"),
    "weight 11": ([{"text": "States the value", "points": 11}], "[-10, 10]"),
    "none": ([], "0 criteria"),
}


@pytest.mark.parametrize("name", RUBRICS)
def test_a_bad_rubric(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    criteria, hint = RUBRICS[name]
    task = {"task_id": "t", "conversation": [{"role": "user", "content": "q"}], "rubric": {"criteria": criteria}}
    path = tmp_path / "task.json"
    path.write_text(json.dumps(task))
    outcome = rri_here(capsys, "probe", str(path))
    assert outcome.code == 2
    assert hint in outcome.error_line
    assert str(path) in outcome.error_line


def test_a_traceback_only_with_debug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "--debug", "show", str(tmp_path))
    assert outcome.code == 3
    assert "Traceback" in outcome.err
    assert "Traceback" not in rri_here(capsys, "show", str(tmp_path)).err


def test_a_typo_at_the_first_start_can_be_corrected(
    run: Callable[..., Outcome], tmp_path: Path, models: ScriptedServer
) -> None:
    asked = models.total
    assert "no passages file" in run(corpus="typo.jsonl").error_line
    assert models.total == asked, "bad input reaches no model"
    assert run().code == 0


def test_passages_that_changed_under_their_name_are_noticed(run: Callable[..., Outcome], tmp_path: Path) -> None:
    path = write_passages(tmp_path / "own.jsonl")
    assert run(corpus=str(path)).code == 0
    write_passages(path, n=4)
    outcome = run(corpus=str(path))
    assert outcome.code == 3
    assert "passages" in outcome.error_line
    assert "changed since its start" in outcome.error_line


def test_a_rewriter_that_breaks_is_loud(run: Callable[..., Outcome], models: ScriptedServer) -> None:
    with misbehaving(models, lambda r: status(400) if r.model == "rewriter" and r.schema_name != "Ready" else None):
        outcome = run(generation={"failures_in_a_row": 3, "concurrency": 1})
    assert outcome.code == 5
    assert "3 tasks in a row failed" in outcome.error_line
    assert "no rewrite" in outcome.error_line


def test_a_base_model_that_is_not_here(run: Callable[..., Outcome]) -> None:
    outcome = run(solver={"base_model": "nobody/nothing"})
    assert outcome.code == 2
    assert "hf download nobody/nothing" in outcome.error_line


def test_a_probe_whose_judge_fails_is_no_beaten_rubric(
    tmp_path: Path, models: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path / "config.yaml", scripted_config(models.url))
    path = tmp_path / "task.json"
    path.write_text(make_task(8, 8, -6).model_dump_json())
    beaten = rri_here(capsys, "probe", str(path), "--config", config, "--json")
    assert beaten.code == 10
    assert json.loads(beaten.out)["reasons"] == ["exploitable"]
    with misbehaving(models, lambda r: status(400) if r.model == "judge" else None):
        outcome = rri_here(capsys, "probe", str(path), "--config", config)
    assert outcome.code == 5
    assert "not measured" in outcome.error_line


def test_a_wrong_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "run", "--nonsense")
    assert outcome.code == 2
    assert "No such option" in outcome.err
    assert rri_here(capsys, "--help").code == 0
