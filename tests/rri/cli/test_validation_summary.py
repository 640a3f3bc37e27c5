"""Validation on the screen of `rri show`: the rounds beside training, the alarm, and nothing without a file."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rri.cli.summary import print_summary, summary_of
from rri.cli.validation_summary import SHOWN
from rri.rundir import RunDir
from rri.store import GradeRow, Place, Store
from rri.types import Grade
from tests.rigs import scripted_config
from tests.rri.cli.commands import rri_here

Scores = Sequence[tuple[float | None, float | None]]
"""For each cycle the training score and the validation score; None is an answer without a score."""

FALLING: Scores = [(0.25, 0.5), (0.5, 0.25)]


def graded(split: Any, cycle: int, score: float | None) -> GradeRow:
    grade = Grade(verdicts=(), score=score, raw=score, unscored="" if score is not None else "judge away")
    return GradeRow(Place(split, cycle, 0, 0), "t", 1, "an answer", True, grade)


def run_with(folder: Path, scores: Scores, *, held_out: int = 1) -> Path:
    """A run after these cycles, a validation round after each; `held_out` 0: it has no validation file."""
    config = scripted_config("http://127.0.0.1:9", corpus="starter", validation={"every_cycles": 1, "alarm_rounds": 1})
    facts = {"arm": config.arm} | ({"validation": {"tasks": held_out, "digest": "d"}} if held_out else {})
    RunDir.create_or_resume(folder, config, facts=facts).close()
    store = Store(folder)
    for cycle, (train, validation) in enumerate(scores):
        rows = [graded("train", cycle, train)] + ([graded("validation", cycle, validation)] if held_out else [])
        asyncio.run(store.add_grades(rows))
    store.close()
    return folder


def shown(capsys: pytest.CaptureFixture[str], folder: Path) -> str:
    return " ".join(rri_here(capsys, "show", str(folder)).out.split())


def data(capsys: pytest.CaptureFixture[str], folder: Path) -> Any:
    return json.loads(rri_here(capsys, "show", str(folder), "--json").out)["validation"]


def test_rounds_stand_beside_training_and_the_alarm_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = shown(capsys, run_with(tmp_path / "run", FALLING))
    assert "validation on 1 task cycle" in screen
    assert "0 1 0.500 0.250 - 1 1 0.250 0.500 yes" in screen
    assert "ALARM: training and validation part ways: over 1 round (after cycles 0 to 1)" in screen


def test_the_data_holds_the_latest_round_and_all_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, run_with(tmp_path / "run", FALLING))
    assert (found["tasks"], found["rounds"], found["cycle"], found["score"]) == (1, 2, 1, 0.25)
    first, second = found["history"]
    assert first == {"cycle": 0, "rollouts": 1, "score": 0.5, "train": 0.25, "alarm": ""}
    assert second["alarm"] == found["alarm"] != ""


def test_an_alarm_that_has_ended_is_still_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_with(tmp_path / "run", [*FALLING, (0.5, 0.5)])
    screen = shown(capsys, folder)
    assert "ALARM" not in screen
    assert "alarm after cycle 1, ended since: training and validation part ways" in screen
    assert data(capsys, folder)["alarm"] == ""


def test_without_an_alarm_there_is_no_line_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = shown(capsys, run_with(tmp_path / "run", [(None, None)]))
    assert "0 1 unscored unscored -" in screen
    assert "part ways" not in screen


def test_a_run_before_its_first_round_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "validation on 2 tasks: no round yet" in shown(capsys, run_with(tmp_path / "run", FALLING[:1], held_out=2))


def test_only_the_latest_rounds_are_on_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_with(tmp_path / "run", [(0.5, 0.125)] + [(0.5, 0.5)] * SHOWN)
    assert f"validation on 1 task (latest {SHOWN} of {SHOWN + 1} rounds)" in (screen := shown(capsys, folder))
    assert "0.125" not in screen
    assert len(data(capsys, folder)["history"]) == SHOWN + 1


def test_nothing_is_shown_without_a_validation_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_with(tmp_path / "run", FALLING, held_out=0)
    assert "validation" not in shown(capsys, folder)
    assert data(capsys, folder) is None


def test_the_closing_summary_of_a_run_is_the_same_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_with(tmp_path / "run", FALLING)
    store = Store(folder)
    print_summary(summary_of(store, RunDir.existing(folder)), as_json=False)
    store.close()
    assert "ALARM: training and validation part ways" in " ".join(capsys.readouterr().out.split())
