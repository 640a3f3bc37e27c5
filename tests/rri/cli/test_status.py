"""`rri status`: while a run goes on, while an endpoint is away, and after the loop has ended it."""

import asyncio
import json
import threading
import time
from pathlib import Path

import pytest

from rri.errors import ModelError
from rri.testing import empty, status
from rri.wire import Row
from tests.rri.cli.commands import Outcome, rri_here
from tests.rri.cli.looped import Looped, looped_run
from tests.rri.cli.made import made_run

PATIENCE_S = 30


def asked(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Outcome:
    return rri_here(capsys, "status", str(folder), *options)


# --- going on ------------------------------------------------------------------------------------------


def test_a_run_that_goes_on_tells_its_loop_and_its_hours(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    outcome, loop = asked(looped.folder, capsys), looped.run.stats()["loop"]
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith("ok, process ")
    ranked, patched = loop["rankings"], loop["patches"]["patched"]
    assert (
        f"  groups ranked: {ranked['case']} case, {ranked['no_case']} no_case; cases: {patched} patched; "
        f"{loop['accepted']} criteria accepted"
    ) in lines
    assert "  guidance 2 and memo 1 in force after 2 rounds" in lines
    assert any(line.startswith("  open for ") and " of 5 h (0%), over all starts" in line for line in lines)
    assert "last error" not in outcome.out
    stats = json.loads(asked(looped.folder, capsys, "--json").out)["stats"]
    assert stats["loop"]["accepted"] == loop["accepted"]


# --- trouble -------------------------------------------------------------------------------------------


def paused(looped: Looped, capsys: pytest.CaptureFixture[str]) -> Outcome:
    """The status once the run has noticed that its endpoint is away."""
    deadline = time.monotonic() + PATIENCE_S
    while looped.client.health().status != "paused":
        assert time.monotonic() < deadline, "the run never paused"
    return asked(looped.folder, capsys)


def test_a_run_in_trouble_says_so_while_it_goes_on_and_after_it(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sections = {
        "endpoints": {"main": {"breaker_failures": 3, "breaker_wait_s": 0.05, "breaker_wait_max_s": 0.05}},
        "loop": {"failures_in_a_row": 2},
    }
    with looped_run(tmp_path, tiny_model, cycles=0, **sections) as looped:
        # The judge's server goes away and comes back.
        looped.client.served(0)
        looped.faults["judge"] = status(500)
        row = Row(position=0, row=0, answer="an answer that waits for its judge, which is away")
        grading = threading.Thread(target=lambda: asyncio.run(looped.client.grade(0, [row], timeout_s=PATIENCE_S)))
        grading.start()
        outcome = paused(looped, capsys)
        looped.faults.clear()
        grading.join()
        assert outcome.code == 0, "a pause is no end"
        assert outcome.out.startswith("paused, process ")
        assert "endpoint 'main'" in outcome.out.splitlines()[0]
        shown = rri_here(capsys, "show", str(looped.folder)).out
        assert "endpoint outages: 1; the last one: endpoint 'main'" in " ".join(shown.split())

        # The referee gives no usable answer, cycle after cycle.
        looped.faults["referee"] = empty()
        looped.cycle(0)
        outcome = asked(looped.folder, capsys)
        assert outcome.code == 0, "one failed round ends nothing"
        assert "last error of loop: cases of cycle 0: the referee failed on all" in outcome.out
        assert "loop: 1 failed" in outcome.out
        with pytest.raises(ModelError, match="paused after 2 failed rounds of the loop in a row"):
            looped.cycle(1)
        outcome = asked(looped.folder, capsys)
        assert outcome.out.startswith("failed, process ")

    outcome = asked(tmp_path / "run", capsys)
    assert outcome.code == 11
    lines = outcome.out.splitlines()
    assert lines[0] == "not running"
    assert "failed rounds of the loop: 2; the last one: cases of cycle 1: the referee failed" in outcome.out
    assert "1 finished cycle waits for the loop; the next start works them off" in outcome.out
    assert lines[-1].startswith("  it ended with: paused after 2 failed rounds of the loop in a row")
    assert "the referee failed on all" in lines[-1]
    data = json.loads(asked(tmp_path / "run", capsys, "--json").out)
    assert (data["loop"]["failures"], data["loop"]["backlog"]) == (2, 1)
    assert data["ended"].startswith("it ended with: paused after 2 failed rounds")


# --- how it ended --------------------------------------------------------------------------------------


def last_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    return asked(folder, capsys).out.splitlines()[-1].strip()


def test_an_older_end_is_not_told_of_a_start_that_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with made_run(tmp_path) as (store, _, _):
        assert last_line(tmp_path, capsys) == "it was never started"
        start = time.time()
        store.log_sync("open", f"{start - 10:.3f}")
        store.log_sync("ended", "the budget of 20 money is spent")
        assert last_line(tmp_path, capsys) == "it ended with: the budget of 20 money is spent"
        store.log_sync("open", f"{time.time() + 1:.3f}")
        assert last_line(tmp_path, capsys).startswith("it ended without a word (interrupted, killed")
        assert time.strftime("%Y-%m-%d", time.localtime(start))[:4] in last_line(tmp_path, capsys)


def test_hours_without_a_limit_are_told_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with made_run(tmp_path):
        assert "  open for 0 s, over all starts\n" in asked(tmp_path, capsys).out
