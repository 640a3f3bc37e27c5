"""`rri show` as a user asks it, beside a run that goes on: the screen, its parts, JSON, and why a part is missing."""

import json
from pathlib import Path

import pytest

from rri.cli.show import Asked
from tests.rri.cli.commands import rri_here
from tests.rri.cli.looped import CYCLES, Looped
from tests.rri.cli.made import made_run

PARTS: dict[str, tuple[str, ...]] = {
    "cases": ("--cases",),
    "rounds": ("--rounds",),
    "round": ("--round", "3"),
    "memo": ("--memo",),
    "repair": ("--repair",),
    "task": ("--task", "000003"),
}


def shown(looped: Looped, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    outcome = rri_here(capsys, "show", str(looped.folder), *options)
    assert outcome.code == 0, outcome.err
    return outcome.out


def test_the_screen_says_what_the_loop_has_done(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    screen, loop = shown(looped, capsys), looped.run.stats()["loop"]
    cases = loop["rankings"]["case"]
    assert "arm rri" in screen
    assert f"guidance {loop['guidance']} (since cycle 4)" in screen
    assert f"memo {loop['memo']} (since cycle 2)" in screen
    assert f"exploit cases: {cases} in {CYCLES * 3} groups" in screen
    assert f"{loop['accepted']} criteria accepted" in screen
    assert f"of {loop['preference']['pairs']} decisive pairs the longer answer won" in screen
    for quiet in ("outage", "failed rounds", "evictions", "controls at their end", "off in this run"):
        assert quiet not in screen, "what never happened takes no line"


def test_the_screens_data_holds_the_same(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    data, stats = json.loads(shown(looped, capsys, "--json")), looped.run.stats()
    loop = data["loop"]
    assert (data["arm"], data["sources"], data["forked_from"]) == ("rri", {"written": 6}, None)
    for key in ("rankings", "patches", "accepted", "preference", "evolutions", "backlog", "failures"):
        assert loop[key] == stats["loop"][key]
    assert loop["cases"] == stats["loop"]["rankings"]["case"]
    assert set(loop["enabled"].values()) == {True}
    assert (loop["guidance"]["version"], loop["memo"]["version"]) == (2, 1)


def test_the_screens_tasks_are_as_they_are_served_now(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["task_id"]: row for row in json.loads(shown(looped, capsys, "--json"))["tasks"]}
    pool, store = looped.run.pool, looped.run.store
    assert {task_id: row["version"] for task_id, row in rows.items()} == {i: pool.version(i) for i in rows}
    assert max(row["version"] for row in rows.values()) > 2, "patched ones among them"
    for task_id, row in rows.items():
        task = store.task(task_id, row["version"])
        assert task is not None
        assert row["criteria"] == len(task.rubric.criteria)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_a_page_and_an_object(part: str, looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(shown(looped, capsys, *PARTS[part]).splitlines()) > 4
    assert json.loads(shown(looped, capsys, *PARTS[part], "--json"))


def test_one_part_is_asked_for_at_a_time(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "show", str(looped.folder), "--memo", "--round", "0")
    assert outcome.code == 2
    assert "--round and --memo are given together" in outcome.error_line
    assert Asked(round=0).names() == ["--round"], "cycle 0 is a cycle"


def test_a_folder_that_is_no_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "show", str(tmp_path), "--cases")
    assert outcome.code == 3
    assert "is no run directory" in outcome.error_line


# --- nothing to show -----------------------------------------------------------------------------------

MISSING: dict[str, tuple[dict[str, dict[str, object]], str]] = {
    "--cases": ({}, "no exploit case yet; no group was ranked so far"),
    "--rounds": (
        {},
        "no round yet: the trainer has reported no finished cycle; the first evolution round ends cycle 4",
    ),
    "--memo": ({}, "no memo round yet: one comes with each evolution round, every 5 cycles"),
    "--repair": ({}, "nothing to say of admission: no adopted rewrite of a beaten task yet"),
}
OFF: dict[str, tuple[dict[str, dict[str, object]], str]] = {
    "--cases": ({"exploits": {"enabled": False}, "patches": {"enabled": False}}, "exploits.enabled is false"),
    "--rounds": ({"solver": {"cycles": 0}}, "solver.cycles is 0"),
    "--memo": ({"memo": {"enabled": False}}, "memo.enabled is false in this run: the memo never changes"),
    "--repair": ({"admission": {"enabled": False}, "memo": {"enabled": False}}, "admission.enabled is false"),
}


@pytest.mark.parametrize("off", [False, True])
@pytest.mark.parametrize("option", MISSING)
def test_what_is_missing_says_why(option: str, off: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sections, expected = (OFF if off else MISSING)[option]
    with made_run(tmp_path / "run", **sections):
        outcome = rri_here(capsys, "show", str(tmp_path / "run"), option)
        assert outcome.code == 0
        assert expected in " ".join(outcome.out.split())
        assert json.loads(rri_here(capsys, "show", str(tmp_path / "run"), option, "--json").out) is not None


def test_a_run_that_never_started_can_be_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sections = {name: {"enabled": False} for name in ("admission", "exploits", "patches", "evolution", "memo")}
    with made_run(tmp_path / "run", started=False, **sections):
        outcome = rri_here(capsys, "show", str(tmp_path / "run"))
    assert outcome.code == 0
    assert "arm generation-only" in outcome.out
    assert "off in this run: admission, exploits, patches, evolution, memo" in outcome.out
    assert "tasks: none yet" in outcome.out
