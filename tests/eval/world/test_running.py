"""One cell: what is there already is kept, and what fails says where to look. The whole of it: test_whole.py."""

import json
from pathlib import Path

import pytest

from eval.world import running
from eval.world.cells import Cell
from eval.world.results import CELL, read_result
from eval.world.running import CELLS, main, run_cell
from eval.world.scale import Scale
from rri.errors import InputError, TrainerFailed
from tests.eval.world.finished import cell as finished
from tests.eval.world.small import HASTY

TINY = Scale(entities=12, relations=4, values=5, cycles=1, tasks=32, pretraining=HASTY)
CELL_0 = Cell("rri", 0)


def test_a_finished_cell_is_read_and_not_run(tmp_path: Path) -> None:
    name, result = finished("rri", 0)
    folder = tmp_path / CELLS / name
    folder.mkdir(parents=True)
    result.write(folder)
    said: list[str] = []
    assert run_cell(tmp_path, CELL_0, TINY, said.append) == result == read_result(folder)
    assert said == ["finished before"]
    assert [path.name for path in folder.iterdir()] == [CELL]


def test_a_result_that_cannot_be_read_is_not_run_over(tmp_path: Path) -> None:
    folder = tmp_path / CELLS / CELL_0.name
    folder.mkdir(parents=True)
    (folder / CELL).write_text('{"name": "rri-0"}')
    with pytest.raises(InputError, match="is no result of a cell"):
        run_cell(tmp_path, CELL_0, TINY)


def test_a_run_that_fails_is_told_with_its_log_and_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "base_model", lambda world, **given: tmp_path / "no such model")
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(TrainerFailed, match=r"cell rri-0 ended with exit code 2") as caught:
            run_cell(tmp_path, CELL_0, TINY, said.append)
    log = tmp_path / CELLS / "rri-0" / "run.log"
    assert str(log) in str(caught.value)
    assert log.read_text().count("error: solver.base_model") == 2
    assert any("error: solver.base_model" in line for line in said)
    assert (log.parent / "starts").read_text() == "start\nstart\n"
    assert read_result(log.parent) is None


def test_each_start_draws_anew(tmp_path: Path) -> None:
    assert [running._count_start(tmp_path) for _ in range(3)] == ["", "start 1", "start 2"]


@pytest.mark.parametrize(
    ("name", "scale", "line"),
    [
        ("rri", "{}", "error: no cell 'rri'"),
        ("rri-0", '{"cycles": 0}', "error: --scale: cycles"),
        ("rri-0", "x", "--scale"),
    ],
)
def test_bad_arguments_are_one_line(
    name: str, scale: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), name, "--scale", scale]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1


def test_scale_travels_as_json() -> None:
    assert Scale.model_validate_json(json.dumps(TINY.model_dump(mode="json"))) == TINY
