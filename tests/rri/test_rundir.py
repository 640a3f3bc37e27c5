"""The run directory: made whole or not at all, owned by one process, resumed only under the config it began with."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from rri.config import RunConfig, load_config, parse_config, set_dotted
from rri.errors import RunConfigChanged, RunDirError, RunLocked, RunVersionMismatch
from rri.rundir import LAYOUT, RunDir, write_atomically

CONFIG = load_config("smoke")


def changed(**overrides: Any) -> RunConfig:
    """The config with other values; `__` stands for a dot."""
    data = CONFIG.model_dump(mode="json")
    for key, value in overrides.items():
        set_dotted(data, key.replace("__", "."), value)
    return parse_config(data, where="test")


def start(path: Path, config: RunConfig | None = CONFIG, facts: Mapping[str, Any] | None = None) -> None:
    RunDir.create_or_resume(path, config, facts=facts).close()


@contextmanager
def child(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process whose first line of output has arrived; killed at the end."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


OWNER = """
import sys
from pathlib import Path
from rri.rundir import RunDir
run = RunDir.create_or_resume(Path(sys.argv[1]), None)
print("ready", flush=True)
sys.stdin.read()
"""


# --- beginning and resuming --------------------------------------------------------------------------


def test_a_new_run_keeps_its_config_and_its_facts(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run"
    start(path, facts={"seed": 11})
    run = RunDir.existing(path)
    assert run.config() == CONFIG
    manifest = run.manifest()
    assert (manifest["layout"], manifest["seed"]) == (LAYOUT, 11)
    assert len(manifest["run_id"]) == 12
    assert run.logs.is_dir()


def test_resuming_without_a_config_takes_the_saved_one(tmp_path: Path) -> None:
    start(tmp_path, changed(solver__cycles=5))
    before = RunDir.existing(tmp_path).manifest()
    run = RunDir.create_or_resume(tmp_path, None, facts={"seed": 99})
    assert run.config().solver.cycles == 5
    assert run.manifest() == before
    run.close()


def test_a_new_directory_needs_a_config(tmp_path: Path) -> None:
    with pytest.raises(RunDirError, match="holds no run yet") as caught:
        RunDir.create_or_resume(tmp_path / "new", None)
    assert "--config" in caught.value.fix
    start(tmp_path / "new")


def test_a_directory_without_a_manifest_is_a_run_that_never_began(tmp_path: Path) -> None:
    """Killed after the config was written: another config may take its place."""
    RunDir(tmp_path).save_config(changed(solver__cycles=7))
    (tmp_path / "run.lock").write_text("4242")
    with pytest.raises(RunDirError, match="no run directory"):
        RunDir.existing(tmp_path)
    start(tmp_path)
    assert RunDir.existing(tmp_path).config() == CONFIG


def test_two_runs_have_two_ids(tmp_path: Path) -> None:
    for name in ("a", "b"):
        start(tmp_path / name)
    ids = {RunDir.existing(tmp_path / name).manifest()["run_id"] for name in ("a", "b")}
    assert len(ids) == 2


def test_a_place_where_no_directory_can_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunDirError, match="cannot make") as caught:
            RunDir.create_or_resume(path, CONFIG)
        assert str(path) in caught.value.what


def test_each_start_adds_what_it_runs_with_and_changes_nothing_else(tmp_path: Path) -> None:
    start(tmp_path, facts={"seed": 1})
    run = RunDir.existing(tmp_path)
    before = run.manifest()
    run.add_start(routes={"judge": "a"})
    run.add_start(routes={"judge": "b"})
    manifest = RunDir.existing(tmp_path).manifest()
    assert [s["routes"]["judge"] for s in manifest["starts"]] == ["a", "b"]
    assert all(s["packages"]["rri"] != "not installed" for s in manifest["starts"])
    assert {k: v for k, v in manifest.items() if k != "starts"} == before


@pytest.mark.parametrize("facts", [{"corpus": {"digest": "other"}}, {"weights": "other"}])
def test_passages_and_weights_that_changed_under_their_names_are_noticed(tmp_path: Path, facts: dict[str, Any]) -> None:
    same = {"corpus": {"digest": "first"}, "weights": "first"}
    start(tmp_path, facts=same)
    start(tmp_path, None, facts=same)
    with pytest.raises(RunConfigChanged, match="have changed since its start"):
        start(tmp_path, None, facts={**same, **facts})


# --- the lock ----------------------------------------------------------------------------------------


def test_a_second_process_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    start(tmp_path)
    with child(OWNER, str(tmp_path)) as owner:
        with pytest.raises(RunLocked, match=f"process {owner.pid}"):
            RunDir.create_or_resume(tmp_path, None)
        assert RunDir.existing(tmp_path).owner() == owner.pid
        assert RunDir.existing(tmp_path).config() == CONFIG
        owner.kill()
        owner.wait()
        assert RunDir.existing(tmp_path).owner() is None
        run = RunDir.create_or_resume(tmp_path, None)
        assert RunDir.existing(tmp_path).owner() == os.getpid()
        run.close()


def test_the_lock_is_given_back_when_opening_fails_and_when_closed(tmp_path: Path) -> None:
    start(tmp_path)
    with pytest.raises(RunConfigChanged):
        RunDir.create_or_resume(tmp_path, changed(seed=5))
    run = RunDir.create_or_resume(tmp_path, None)
    with pytest.raises(RunLocked):
        RunDir.create_or_resume(tmp_path, None)
    run.close()
    run.close()
    assert RunDir.existing(tmp_path).owner() is None
    start(tmp_path)


def test_looking_at_an_owner_creates_nothing(tmp_path: Path) -> None:
    assert RunDir(tmp_path).owner() is None
    assert list(tmp_path.iterdir()) == []


# --- layout ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [LAYOUT + 1, 0, None, "1"])
def test_another_layout_version_is_refused_naming_both(tmp_path: Path, layout: object) -> None:
    start(tmp_path)
    manifest = RunDir.existing(tmp_path).manifest() | {"layout": layout}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    for use in (RunDir.existing, lambda path: RunDir.create_or_resume(path, CONFIG)):
        with pytest.raises(RunVersionMismatch) as caught:
            use(tmp_path)
        assert f"version {layout}, this rri reads version {LAYOUT}" in caught.value.what


@pytest.mark.parametrize("text", ["", '{"layout": 1'])
def test_a_damaged_manifest_is_a_clear_error(tmp_path: Path, text: str) -> None:
    start(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RunDirError, match=r"manifest\.json"):
        RunDir.create_or_resume(tmp_path, CONFIG)


def test_a_damaged_config_is_a_clear_error(tmp_path: Path) -> None:
    start(tmp_path)
    (tmp_path / "run.yaml").write_text("seed: [1")
    with pytest.raises(RunDirError, match=r"run\.yaml"):
        RunDir.existing(tmp_path).config()
    (tmp_path / "run.yaml").unlink()
    with pytest.raises(RunDirError, match=r"run\.yaml"):
        RunDir.create_or_resume(tmp_path, CONFIG)


# --- another config ----------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "seed": (5, "seed = 0, now it is 5"),
    "corpus": ("mine.jsonl", "corpus = 'starter', now it is 'mine.jsonl'"),
    "domain.system_prompt": ("Be brief.", "domain.system_prompt = "),
    "domain.red_team_share": (0.5, "domain.red_team_share = 0.0, now it is 0.5"),
    "domain.use_cases": ([{"name": "other", "weight": 1.0}], "domain.use_cases = "),
    "roles.judge.model": ("another", "roles.judge.model = '', now it is 'another'"),
    "roles.judge.temperature": (0.1, "roles.judge.temperature = 0.6, now it is 0.1"),
    "generation.negative_share": (0.25, "generation.negative_share = 0.5, now it is 0.25"),
    "generation.positives": ({3: 1.0}, "generation.positives."),
    "admission.margin": (0.3, "admission.margin = 0.2, now it is 0.3"),
    "patches.enabled": (False, "patches.enabled = True, now it is False"),
    "grading.votes": (5, "grading.votes = 3, now it is 5"),
    "pool.min_tasks": (2, "pool.min_tasks = 4, now it is 2"),
    "solver.learning_rate": (1e-5, "solver.learning_rate = 1e-06, now it is 1e-05"),
    "solver.rollouts_per_task": (8, "solver.rollouts_per_task = 4, now it is 8"),
    "solver.trl": ({"epsilon": 0.3}, "solver.trl.epsilon = None, now it is 0.3"),
}
ALLOWED: dict[str, Any] = {
    "budget.money": 20.0,
    "budget.calls": 9,
    "budget.tokens": 10_000,
    "endpoints.main.url": "http://127.0.0.1:8000/v1",
    "endpoints.main.concurrency": 2,
    "endpoints.main.retries": 9,
    "endpoints.spare": {"url": "embedded"},
    "service.port": 8080,
    "generation.concurrency": 1,
    "admission.concurrency": 7,
    "grading.concurrency": 1,
    "pool.fresh_wait_s": 5.0,
    "solver.grade_timeout_s": 10.0,
    "solver.serve_timeout_s": 10.0,
}


@pytest.mark.parametrize("key", REFUSED)
def test_a_changed_config_is_refused_with_its_key_and_both_values(tmp_path: Path, key: str) -> None:
    value, message = REFUSED[key]
    start(tmp_path)
    with pytest.raises(RunConfigChanged) as caught:
        RunDir.create_or_resume(tmp_path, changed(**{key: value}))
    assert message in caught.value.what
    assert str(tmp_path) in caught.value.what
    assert caught.value.fix
    assert RunDir.existing(tmp_path).config() == CONFIG


@pytest.mark.parametrize("key", ALLOWED)
def test_budgets_endpoints_concurrency_and_waits_may_change_and_are_saved(tmp_path: Path, key: str) -> None:
    other = changed(**{key: ALLOWED[key]})
    assert other != CONFIG
    start(tmp_path)
    start(tmp_path, other)
    assert RunDir.existing(tmp_path).config() == other


def test_the_saved_config_is_yaml_that_holds_every_value(tmp_path: Path) -> None:
    start(tmp_path)
    data = yaml.safe_load((tmp_path / "run.yaml").read_text())
    assert set(data) == set(RunConfig.model_fields)
    assert parse_config(data, where="run.yaml") == CONFIG


# --- atomic files ------------------------------------------------------------------------------------


def test_a_write_that_fails_halfway_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "x" * 1_000_000 + "\ud800")
    assert path.read_text() == "old"
    write_atomically(path, "new é")
    assert path.read_text(encoding="utf-8") == "new é"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_kill_while_writing_leaves_the_old_file(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "file.txt"
    write_atomically(path, "old")
    code = (
        "import os, sys, pathlib, rri.rundir\n"
        "setattr(os, sys.argv[2], lambda *_: os.kill(os.getpid(), 9))\n"
        "rri.rundir.write_atomically(pathlib.Path(sys.argv[1]), 'new')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path), moment], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write_atomically(path, "newer")
    assert path.read_text() == "newer"
