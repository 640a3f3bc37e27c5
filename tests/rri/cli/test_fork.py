"""`rri fork`: a new run begins with another one's tasks, guidance and memo, whole or not at all."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rri.cli.fork import NAMED, fork_command
from rri.cli.import_ import import_command
from rri.rundir import RunDir
from rri.service.host import hosted
from rri.service.material import gather, solver_prompt
from rri.service.run import OpenRun
from rri.store import Origin, Store
from rri.types import Message, Task
from tests.rri.cli.commands import Outcome, rri_here
from tests.rri.cli.looped import Looped
from tests.rri.store.evidence import admitted, numbered

Fork = Callable[..., Outcome]


@pytest.fixture
def fork(looped: Looped, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Fork:
    """`rri fork` of the run that goes on, into tmp_path/new."""
    return lambda *options: rri_here(capsys, "fork", str(looped.folder), str(tmp_path / "new"), *options)


@contextmanager
def opened(folder: Path) -> Iterator[OpenRun]:
    """The new run as its first start opens it."""
    run_dir = RunDir.create_or_resume(folder, None)
    config = run_dir.config()
    run = OpenRun.open(run_dir, config, gather(config, config.solver.base_model))
    try:
        with hosted(run):
            yield run
    finally:
        run.close()
        run_dir.close()


def tasks_of(store: Store) -> dict[str, Task | None]:
    """Task id -> what is served of it now."""
    return {task_id: store.task(task_id, version) for task_id, version in store.servable()}


# --- what comes along ----------------------------------------------------------------------------------


def test_tasks_come_in_their_present_version_with_evidence_and_history(
    fork: Fork, looped: Looped, tmp_path: Path
) -> None:
    outcome = fork("-s", "generation.tasks=8")
    assert outcome.code == 0, outcome.err
    assert "6 tasks can be served at once, 0 are drafts to be attacked" in outcome.out
    assert "generation.tasks is 8: 2 more will be written" in outcome.out
    parent = looped.run.store
    with closing(Store(tmp_path / "new")) as new:
        assert tasks_of(new) == tasks_of(parent)
        assert list(new.servable()) == parent.servable(), "in the order of admission"
        for task_id in parent.task_ids():
            assert new.versions(task_id) == parent.versions(task_id)
            assert new.admission(task_id) == parent.admission(task_id)
            assert new.origin(task_id) == Origin(source="forked")
        assert new.proposals() == parent.proposals()


def test_the_texts_in_force_are_version_0_of_the_new_run(fork: Fork, looped: Looped, tmp_path: Path) -> None:
    outcome = fork()
    assert "guidance 2 and memo 1 there are version 0 here" in outcome.out
    guidance, memo = looped.run.store.guidance_versions()[-1], looped.run.store.memo_versions()[-1]
    run_id = looped.run.folder.manifest()["run_id"]
    with closing(Store(tmp_path / "new")) as new:
        (first,), (memo_first,) = new.guidance_versions(), new.memo_versions()
    assert (first.version, first.cycle) == (0, -1)
    assert (first.guidance_a, first.guidance_b) == (guidance.guidance_a, guidance.guidance_b)
    assert first.summary == f"version 2 of run {run_id}"
    assert (memo_first.version, memo_first.memo, memo_first.decision) == (0, memo.memo, "initial")


LEFT = ("served", "grades", "calls", "reports", "rounds", "rankings", "cases", "patches", "evictions", "events")


def test_nothing_of_its_training_comes_along(fork: Fork, tmp_path: Path) -> None:
    fork()
    with closing(sqlite3.connect(tmp_path / "new" / "rri.db")) as db:
        assert {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in LEFT} == dict.fromkeys(
            LEFT, 0
        )


def test_the_manifest_names_the_run_it_comes_from(fork: Fork, looped: Looped, tmp_path: Path) -> None:
    data = json.loads(fork("--json").out)
    manifest = RunDir.existing(tmp_path / "new").manifest()
    parent = looped.run.folder.manifest()
    assert manifest["forked_from"] == {
        "run_id": parent["run_id"],
        "path": str(looped.folder),
        "cycle": 3,
        "guidance": 2,
        "memo": 1,
        "servable": 6,
        "drafts": 0,
        "left_behind": 0,
        "held_out": [],
        "too_long": [],
    }
    assert data == {"directory": str(tmp_path / "new"), "arm": "rri", **manifest["forked_from"]}
    assert manifest["run_id"] != parent["run_id"]
    for fact in ("corpus", "weights"):
        assert manifest[fact] == parent[fact]
    assert "starts" not in manifest


def test_the_config_is_the_other_runs_with_the_changes(fork: Fork, looped: Looped, tmp_path: Path) -> None:
    outcome = fork("-c", "generation-only", "-s", "solver.cycles=9", "-s", "evolution.every_cycles=7")
    assert "arm generation-only" in outcome.out
    config, parent = RunDir.existing(tmp_path / "new").config(), looped.run.config
    assert (config.arm, config.solver.cycles, config.evolution.every_cycles) == ("generation-only", 9, 7)
    assert config.domain == parent.domain
    assert config.roles == parent.roles
    assert config.solver.model_copy(update={"cycles": parent.solver.cycles}) == parent.solver


def test_the_other_run_is_only_read(fork: Fork, looped: Looped) -> None:
    def rows() -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(looped.folder / "rri.db")) as db:
            names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return [(name, *db.execute(f"SELECT count(*) FROM {name}").fetchone()) for name in sorted(names)]

    config, manifest, before = looped.run.folder.config(), looped.run.folder.manifest(), rows()
    assert fork().code == 0
    assert {name: n for name, n in rows() if name != "events"} == {n: c for n, c in before if n != "events"}
    assert (looped.run.folder.config(), looped.run.folder.manifest()) == (config, manifest)


# --- how it goes on ------------------------------------------------------------------------------------


def test_the_new_run_serves_at_once_and_writes_the_rest_under_the_texts_that_came_along(
    fork: Fork, looped: Looped, tmp_path: Path
) -> None:
    fork("-s", "generation.tasks=8")
    before = looped.models.count("proposer")
    with opened(tmp_path / "new") as run:
        assert run.producer.admitted >= 6, "forked tasks count as admitted"
        loop = run.gateway.loop
        loop.run(run.finished_admitting())
        first = loop.run(run.served(0, 30))
        entries = looped.run.store.servable()
        assert (first.task_id, first.version) == entries[0]
        assert run.pool.size == run.producer.admitted == 8
        origins = [run.store.origin(i) for i in run.store.task_ids()]
        written = [o for o in origins if o is not None and o.source == "written"]
        assert [(o.guidance, o.memo) for o in written] == [(0, 0)] * 2
        asked = looped.models.of("proposer")[before:]
        assert any("Lean towards questions like those of round 2" in json.dumps(r.messages) for r in asked)
        avoided = "".join(json.dumps(r.messages) for r in asked)
        assert looped.run.store.recent_requests(1)[0] in avoided, "requests of the other run are not asked for again"
        numbers = [int(i[:6]) for i in run.store.task_ids()]
        assert len(set(numbers)) == len(numbers), "nor are its numbers given again"


def test_a_run_with_enough_tasks_writes_none(fork: Fork, tmp_path: Path) -> None:
    assert "generation.tasks is 6: 0 more will be written" in fork().out
    with opened(tmp_path / "new") as run:
        assert run.producer.finished


def test_as_drafts_every_task_is_attacked_again(fork: Fork, looped: Looped, tmp_path: Path) -> None:
    outcome = fork("--drafts")
    assert "0 tasks can be served at once, 6 are drafts to be attacked" in outcome.out
    present = tasks_of(looped.run.store)
    with opened(tmp_path / "new") as run:
        run.gateway.loop.run(run.finished_admitting())
        admissions = {a.task.task_id: a for a in run.store.admissions()}
        assert set(admissions) == set(present)
        for task_id, task in present.items():
            assert task is not None
            assert admissions[task_id].original == task.model_copy(update={"version": 1})
            assert admissions[task_id].probe is not None


def test_drafts_of_the_other_run_come_as_drafts(tmp_path: Path, tiny_model: Path, looped: Looped) -> None:
    """Imported tasks that had no room are what a fork makes room for."""
    file = tmp_path / "tasks.jsonl"
    lines = [{"prompt": f"Explain {n}.", "rubric": [{"criterion": f"States {n}", "points": 8}]} for n in range(3)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    parent, new = tmp_path / "parent", tmp_path / "new"
    config = str(looped.folder / "run.yaml")
    import_command(parent, file, [config], {"generation.tasks": 2}, skip_bad=False, quiet=True, as_json=True)
    fork_command(parent, new, [], {"generation.tasks": 3}, as_drafts=False, quiet=True, as_json=True)
    with closing(Store(parent)) as old, closing(Store(new)) as store:
        assert store.drafts() == old.drafts()
        assert [t.request for t in store.drafts()] == ["Explain 0.", "Explain 1.", "Explain 2."]
        assert store.guidance_versions() == [], "a run that never started has none to give"
    assert RunDir.existing(new).manifest()["forked_from"]["cycle"] is None


def quietly(directory: Path, new: Path, **overrides: object) -> dict[str, Any]:
    """`rri fork` with these changes, `__` standing for a dot; what the new manifest says of it."""
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    assert fork_command(directory, new, [], changes, as_drafts=False, quiet=True, as_json=True) == 0
    found: dict[str, Any] = RunDir.existing(new).manifest()["forked_from"]
    return found


def test_tasks_that_do_not_fit_the_new_solvers_prompt_stay_behind(looped: Looped, tmp_path: Path) -> None:
    tokenizer, config = looped.run.material.tokenizer, looped.run.config
    lengths = [
        tokenizer.count_prompt(solver_prompt(config, task.conversation))
        for task in tasks_of(looped.run.store).values()
        if task is not None
    ]
    counts = [
        quietly(looped.folder, tmp_path / str(limit), solver__max_prompt_tokens=limit)
        for limit in (max(lengths), min(lengths) - 1)
    ]
    assert [(c["servable"], c["left_behind"]) for c in counts] == [(6, 0), (0, 6)]
    assert [c["too_long"] for c in counts] == [[], [task_id for task_id, _ in looped.run.store.servable()]]


def test_what_the_new_run_validates_on_stays_behind_in_every_version(
    fork: Fork, looped: Looped, tmp_path: Path
) -> None:
    """The request as it was written, before its rewrite: the run's solver has been trained near it."""
    task_id = looped.run.store.servable()[0][0]
    first = looped.run.store.versions(task_id)[0]
    assert first.request != tasks_of(looped.run.store)[task_id].request  # type: ignore[union-attr]
    outcome = fork("-s", f"validation.file={asking(tmp_path, first.request)}")
    assert "5 tasks can be served at once" in outcome.out
    assert f"left behind: 1 task ({task_id}), asked in validation too\n" in outcome.out
    assert "longer than" not in outcome.out
    with opened(tmp_path / "new") as run:
        assert run.pool.version(task_id) is None
        forked = run.folder.manifest()["forked_from"]
        assert (forked["left_behind"], forked["held_out"], forked["too_long"]) == (1, [task_id], [])


def asking(folder: Path, *requests: str) -> Path:
    """A validation file with these requests."""
    rubric = [{"criterion": "States it", "points": 8}]
    file = folder / "held-out.jsonl"
    file.write_text("".join(json.dumps({"prompt": request, "rubric": rubric}) + "\n" for request in requests))
    return file


def test_drafts_and_tasks_attacked_again_stay_behind_too(fork: Fork, looped: Looped, tmp_path: Path) -> None:
    task_id = looped.run.store.servable()[2][0]
    file = asking(tmp_path, looped.run.store.versions(task_id)[-1].request, "Explain the first draft.")
    outcome = fork("--drafts", "-s", f"validation.file={file}")
    assert f"left behind: 1 task ({task_id}), asked in validation too\n" in outcome.out
    assert "0 tasks can be served at once, 5 are drafts" in outcome.out
    parent = tmp_path / "parent"
    RunDir.create_or_resume(parent, looped.run.config, facts={}).close()
    drafts = [drafted(numbered(1), "Explain the first draft."), drafted(numbered(2), "Explain the second draft.")]
    with closing(Store(parent)) as store:
        asyncio.run(store.add_drafts(drafts, Origin(source="imported")))
    found = quietly(parent, tmp_path / "other", validation__file=str(file))
    assert (found["drafts"], found["held_out"]) == (1, ["000001-abc"])
    with opened(tmp_path / "other") as run:
        assert "000001-abc" not in run.store.task_ids(), "and the run starts"


def drafted(task: Task, request: str) -> Task:
    return task.model_copy(update={"conversation": (Message(role="user", content=request),)})


def test_of_many_tasks_left_behind_the_first_are_named(
    tmp_path: Path, looped: Looped, capsys: pytest.CaptureFixture[str]
) -> None:
    parent, many = tmp_path / "parent", [numbered(n) for n in range(1, NAMED + 3)]
    RunDir.create_or_resume(parent, looped.run.config, facts={}).close()
    with closing(Store(parent)) as store:
        for task in many:
            asyncio.run(store.add_admission(admitted(task)))
    file = asking(tmp_path, many[0].request)
    outcome = rri_here(capsys, "fork", str(parent), str(tmp_path / "new"), "-s", f"validation.file={file}")
    named = ", ".join(task.task_id for task in many[:NAMED])
    assert f"left behind: {NAMED + 2} tasks ({named} and 2 more), asked in validation too\n" in outcome.out
    held_out = RunDir.existing(tmp_path / "new").manifest()["forked_from"]["held_out"]
    assert held_out == [task.task_id for task in many], "the manifest has them all"


# --- texts of one's own --------------------------------------------------------------------------------


def test_a_file_of_texts_that_the_change_names_goes_first(fork: Fork, tmp_path: Path) -> None:
    start = tmp_path / "start.yaml"
    start.write_text("guidance_a: Vary who asks.\n")
    outcome = fork("-s", f"evolution.start={start}")
    assert outcome.code == 0, outcome.err
    assert "are version 0 here" not in outcome.out
    with opened(tmp_path / "new") as run:
        assert run.store.guidance_versions()[0].guidance_a == "Vary who asks."


def test_a_file_of_texts_that_cannot_be_used_is_refused_before_anything_is_made(fork: Fork, tmp_path: Path) -> None:
    outcome = fork("-s", "evolution.start=nowhere.yaml")
    assert outcome.code == 2
    assert "evolution.start: nowhere.yaml" in outcome.error_line
    assert list(tmp_path.iterdir()) == []


# --- refusals and kills --------------------------------------------------------------------------------


@pytest.mark.parametrize("there", ["file", "folder with something in it"])
def test_a_directory_that_is_not_empty_is_left_alone(there: str, fork: Fork, tmp_path: Path) -> None:
    new = tmp_path / "new"
    if there == "file":
        new.write_text("mine")
    else:
        new.mkdir()
        (new / "notes").write_text("mine")
    outcome = fork()
    assert outcome.code == 3
    assert "is there and not empty" in outcome.error_line
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


def test_an_empty_directory_is_taken(fork: Fork, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    assert fork().code == 0
    assert RunDir.existing(tmp_path / "new").owner() is None
    assert [p.name for p in tmp_path.iterdir()] == ["new"], "nothing else is left beside it"


def test_a_wrong_change_makes_nothing(fork: Fork, tmp_path: Path) -> None:
    outcome = fork("-s", "solver.cycle=4")
    assert outcome.code == 2
    assert "solver.cycles" in outcome.error_line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_tasks_cannot_be_forked(
    looped: Looped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    RunDir.create_or_resume(tmp_path / "parent", looped.run.config).close()
    outcome = rri_here(capsys, "fork", str(tmp_path / "parent"), str(tmp_path / "new"))
    assert outcome.code == 3
    assert "holds no task yet" in outcome.error_line
    assert not (tmp_path / "parent" / "rri.db").exists(), "looking makes no database"


KILLED = (
    "import os, sys, pathlib\n"
    "from rri.cli.fork import fork_command\n"
    "setattr(os, sys.argv[3], lambda *_, **__: os.kill(os.getpid(), 9))\n"
    "fork_command(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), [], {}, as_drafts=False, quiet=True, "
    "as_json=True)\n"
)


@pytest.mark.parametrize("moment", ["replace", "rename"])
def test_a_kill_leaves_no_run_and_the_same_command_goes_through(
    moment: str, fork: Fork, looped: Looped, tmp_path: Path
) -> None:
    """Killed at its first file, and with all done but the last step."""
    command = [sys.executable, "-c", KILLED, str(looped.folder), str(tmp_path / "new"), moment]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "new").exists()
    assert [p.name for p in tmp_path.iterdir()] == [".new.fork"]
    assert fork().code == 0
    assert [p.name for p in tmp_path.iterdir()] == ["new"]
    with closing(Store(tmp_path / "new")) as new:
        assert tasks_of(new) == tasks_of(looped.run.store)


def test_two_forks_into_one_directory_do_not_meet(fork: Fork, looped: Looped, tmp_path: Path) -> None:
    other = RunDir.create_or_resume(tmp_path / ".new.fork", looped.run.config)
    try:
        outcome = fork()
    finally:
        other.close()
    assert outcome.code == 3
    assert "is being made by process" in outcome.error_line
    assert (tmp_path / ".new.fork").is_dir()


def test_a_refused_task_stays_behind(tmp_path: Path, looped: Looped) -> None:
    parent = tmp_path / "parent"
    RunDir.create_or_resume(parent, looped.run.config, facts={}).close()
    with closing(Store(parent)) as store:
        asyncio.run(store.add_admission(admitted(numbered(1), outcome="refused", why="too long")))
        asyncio.run(store.add_admission(admitted(numbered(2))))
    fork_command(parent, tmp_path / "new", [], {}, as_drafts=False, quiet=True, as_json=True)
    with closing(Store(tmp_path / "new")) as new:
        assert new.task_ids() == ["000002-abc"]
