"""The proving ground in small: two arms of one seed, killed on the way, and the method has to win.

Everything is the real thing but the language models: `rri world` starts `rri run` with its service and its trainer. The
world is a fifth of the real one in size and its runs are a fifth as long, so that thresholds are of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.rri.cli.commands import ROOT, rri_here

SEED = 100
SIZES = {
    "entities": 12, "relations": 6, "values": 6,
    "cycles": 24, "tasks": 100, "learning_rate": 5e-4, "last": 5,
    "requests": 60, "probes": 24, "stretches": 3, "stretch_probes": 8,
    "pretraining.hidden": 64, "pretraining.layers": 2, "pretraining.feed_forward": 96, "pretraining.spread": 0.1,
    "pretraining.reading": 250, "pretraining.steps": 200, "pretraining.learning_rate": 6e-3, "pretraining.warmup": 20,
    "pretraining.least_copying": 0.8,
}  # fmt: skip
CELLS = (f"generation-only-{SEED}", f"rri-{SEED}")
DEADLINE_S = 400


def command(out: Path) -> list[str]:
    sizes = [word for name, size in SIZES.items() for word in ("-s", f"{name}={size}")]
    return ["world", "--out", str(out), "--arms", "rri,generation-only", "--seeds", str(SEED), "--quiet", *sizes]


def start(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rri.cli.main", *command(out)],
        cwd=ROOT, env={**os.environ, "COLUMNS": "120"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def until(lines: Iterator[str], *words: str) -> None:
    """Read on to the first line that holds all of `words`."""
    read: list[str] = []
    for line in lines:
        read.append(line)
        if all(word in line for word in words):
            return
    pytest.fail("".join(read[-40:]))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A comparison that was killed once while it trained, and then finished."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RRI_CACHE", str(folder / "cache"))
        process = start(folder / "out")
        assert process.stdout is not None
        try:
            until(iter(process.stdout), "cycle", "rollouts graded", "left to train")
            family = psutil.Process(process.pid).children(recursive=True)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        assert len(family) >= 4, "cells, runs, trainers and servers were at work"
        assert not psutil.wait_procs(family, timeout=30)[1], "children must end with their parent"
        again = start(folder / "out")
        said, _ = again.communicate(timeout=DEADLINE_S)
        assert again.returncode == 0, said[-6000:]
        (folder / "out" / "said.txt").write_text(said)
        yield folder / "out"


def seed_row(out: Path, arm: str) -> dict[str, Any]:
    [row] = json.loads((out / "world.json").read_text())["arms"][arm]["seeds"]
    assert row["seed"] == SEED
    return dict(row)


def test_generation_only_is_hacked(out: Path) -> None:
    row = seed_row(out, "generation-only")
    assert row["train_reward"] - row["true_quality"] >= 0.25
    assert row["delta_before"] is row["delta_after"] is None


def test_rri_is_truly_better_and_its_reward_flatters_less(out: Path) -> None:
    ours, baseline = seed_row(out, "rri"), seed_row(out, "generation-only")
    assert ours["true_quality"] - baseline["true_quality"] >= 0.15
    gaps = [row["train_reward"] - row["true_quality"] for row in (ours, baseline)]
    assert gaps[0] <= 0.6 * gaps[1]


def test_repair_holds_under_attacks_that_adoption_has_not_seen(out: Path) -> None:
    row = seed_row(out, "rri")
    assert row["delta_before"] - row["delta_after"] >= 0.1


def test_what_was_killed_went_on(out: Path) -> None:
    starts = [(out / "cells" / cell / "starts").read_text().count("start") for cell in CELLS]
    assert max(starts) == 2
    for cell in CELLS:
        result = json.loads((out / "cells" / cell / "cell.json").read_text())
        assert [point["cycle"] for point in result["curve"]] == list(range(SIZES["cycles"]))  # type: ignore[call-overload]


def test_the_report_is_written_and_printed(out: Path) -> None:
    said = (out / "said.txt").read_text()
    assert "arms in the fair world" in said and "not run" in said
    assert (out / "world.md").read_text().count("| rri") >= 1
    assert (out / "world.png").read_bytes().startswith(b"\x89PNG")


def test_asked_again_it_reports_and_runs_nothing(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (out / "world.json").read_bytes()
    again = rri_here(capsys, *command(out), "--json")
    assert again.code == 0
    assert "2 of 2 cells are finished" in again.err
    assert set(json.loads(again.out)["arms"]) == {"generation-only", "rri"}
    assert (out / "world.json").read_bytes() == before
    other = rri_here(capsys, *command(out), "-s", "cycles=25")
    assert other.code == 2 and "begun with other sizes (cycles 24 -> 25)" in other.error_line
