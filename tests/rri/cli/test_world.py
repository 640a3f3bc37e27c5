"""`rri world`: what it refuses, what it reports of finished cells, and what a failed cell leaves. A whole comparison is
run in tests/eval/world/test_whole.py.
"""

import json
from pathlib import Path

import pytest

from eval.world.cells import ABLATIONS, ablation_cells, stress_cells
from eval.world.constants import STRESSES
from eval.world.heldout import write_answers
from eval.world.results import ANSWERS
from eval.world.running import CELLS
from tests.eval.world.finished import Answers, Results, answers_of
from tests.eval.world.finished import cell as finished
from tests.rri.cli.commands import rri_here


def put(out: Path, results: Results, answers: Answers) -> None:
    for name, result in results.items():
        folder = out / CELLS / name
        folder.mkdir(parents=True)
        result.write(folder)
        write_answers(answers[name], folder / ANSWERS)


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both arms of seed 0; any further cell fails at its base model."""
    (tmp_path / "cache").write_text("")
    monkeypatch.setenv("RRI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    results = dict([finished("generation-only", quality=0.4), finished("rri", reward=0.6, quality=0.6)])
    put(tmp_path / "out", results, {"generation-only-0": answers_of(0.4, 0.4), "rri-0": answers_of(0.6, 0.7)})
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--arms", "rri,evolution-only"], "no arm 'evolution-only'. Arms are: generation-only, co-evolve-only, rri"),
        (["--arms", " , "], "nothing to run"),
        (["--seeds", "0,one"], "--seeds '0,one' holds no seeds"),
        (["--seeds", "-1"], "--seeds '-1' holds no seeds"),
        (["-s", "cycles=0"], "--set: cycles: "),
        (["-s", "cyles=3"], "cyles"),
        (["-s", "pretraining.steps=x"], "--set: pretraining.steps: "),
    ],
)
def test_what_cannot_be_run_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = rri_here(capsys, "world", "--out", str(tmp_path / "new"), *arguments)
    assert outcome.code == 2
    assert said in outcome.error_line
    assert not (tmp_path / "new").exists()


def test_finished_cells_are_reported(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "world", "--out", str(out), "--seeds", "0", "--arms", "rri,generation-only")
    assert outcome.code == 0
    assert "2 of 2 cells are finished" in outcome.err
    assert "arms in the fair world" in outcome.out
    assert max(map(len, outcome.out.splitlines()[:-1])) <= 100
    assert "…" not in outcome.out, "no figure is cut where the output is narrow"
    for name in ("world.json", "world.md", "world.png"):
        assert str(out / name) in outcome.out and (out / name).stat().st_size


def test_a_cell_that_fails_is_named_after_the_report_on_the_others(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = rri_here(capsys, "world", "--out", str(out), "--seeds", "0,1", "--arms", "rri", "--json")
    assert outcome.code == 9
    assert "1 of 2 cells did not finish; rri-1 said: error: cannot write beside" in outcome.error_line
    assert str(out / CELLS / "rri-1.log") in outcome.error_line
    rows = json.loads(outcome.out)["arms"]["rri"]["seeds"]
    assert [row["seed"] for row in rows] == [0]
    assert (out / "world.json").exists()


def test_ablations_and_stresses_are_asked_for_by_seed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *there, missing = [*ablation_cells(0), *stress_cells(0)]
    put(out, dict(finished(*each) for each in there), {each.name: answers_of(0.5, 0.5) for each in there})
    every = ("--ablations", "0", "--stresses", "0", "--arms", "rri", "--seeds", "0")
    outcome = rri_here(capsys, "world", "--out", str(out), *every, "--json")
    assert outcome.code == 9
    assert f"1 of 12 cells did not finish; {missing.name} said" in outcome.error_line
    found = json.loads(outcome.out)
    assert set(found["ablations"]) == set(ABLATIONS)
    assert set(found["stresses"]) == set(STRESSES)
