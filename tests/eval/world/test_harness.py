"""Cells in processes of their own: what is finished stays, one that fails takes none along, an interrupt ends all."""

import threading
from pathlib import Path

import psutil
import pytest

from eval.world.cells import Cell
from eval.world.harness import SCALE, finished_cells, keep_scale, run_cells
from eval.world.running import CELLS
from eval.world.scale import Scale
from rri.errors import InputError, RunDirError
from tests.eval.world.finished import cell as finished

CELLS_0 = [Cell("generation-only", 0), Cell("rri", 0), Cell("rri", 1)]


@pytest.fixture
def no_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell fails at its base model: a file stands where the folder of base models would."""
    (tmp_path / "cache").write_text("")
    monkeypatch.setenv("RRI_CACHE", str(tmp_path / "cache"))


def put(out: Path, *names: Cell) -> None:
    for each in names:
        name, result = finished(each.arm, each.seed)
        (out / CELLS / name).mkdir(parents=True)
        result.write(out / CELLS / name)


@pytest.mark.usefixtures("no_base")
def test_cells_that_fail_are_told_and_the_others_are_still_tried(tmp_path: Path) -> None:
    out, said = tmp_path / "out", []
    put(out, CELLS_0[1])
    failed = run_cells(out, CELLS_0, Scale(), progress=said.append)
    assert [f.name for f in failed] == ["generation-only-0", "rri-1"]
    assert all("cannot write beside" in f.why for f in failed)
    assert said[0] == "1 of 3 cells are finished"
    assert {line.split(":")[0] for line in said[1:]} == {"generation-only-0", "rri-1"}
    assert "cannot write beside" in (out / CELLS / "rri-1.log").read_text()
    assert list(finished_cells(out)) == ["rri-0"]


def test_where_all_is_finished_nothing_starts(tmp_path: Path) -> None:
    put(tmp_path, *CELLS_0)
    assert run_cells(tmp_path, CELLS_0, Scale()) == []
    assert not list((tmp_path / CELLS).glob("*.log"))


@pytest.mark.usefixtures("no_base")
def test_an_interrupt_ends_every_cell(tmp_path: Path) -> None:
    """Of three cells two run at once; the interrupt comes with the first word of one of them."""
    heard = threading.Event()

    def interrupted(line: str) -> None:
        heard.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cells(tmp_path / "out", CELLS_0, Scale(), progress=interrupted)
    assert heard.is_set()
    assert psutil.Process().children(recursive=True) == []
    assert not (tmp_path / "out" / CELLS / "rri-1.log").exists(), "the third never began"


def test_a_folder_keeps_its_sizes(tmp_path: Path) -> None:
    keep_scale(tmp_path / "new", Scale(cycles=7))
    keep_scale(tmp_path / "new", Scale(cycles=7))
    with pytest.raises(InputError, match=r"begun with other sizes \(cycles 7 -> 8\)"):
        keep_scale(tmp_path / "new", Scale(cycles=8))
    (tmp_path / "new" / SCALE).write_text("{")
    with pytest.raises(InputError, match=r"scale\.json: JSON: "):
        keep_scale(tmp_path / "new", Scale(cycles=7))
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirError, match="cannot use"):
        keep_scale(tmp_path / "file", Scale())
