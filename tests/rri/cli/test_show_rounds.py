"""The loop's work by cycle, and one evolution round: diagnoses, decision, what changed, where the rest lies."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rri.cases import GuidanceVersion
from rri.cli.show_rounds import print_round, print_rounds, round_of, worked_cycles
from rri.errors import InputError
from rri.rundir import RunDir
from rri.store import Report, RoundRow, Store
from tests.rri.cli.commands import rri_here
from tests.rri.cli.looped import CYCLES, Looped
from tests.rri.cli.made import made_run, page


def keep(store: Store, report: Report, kind: str, outcome: str = "done", **data: Any) -> None:
    asyncio.run(store.add_round(RoundRow(report.id, report.cycle, kind, outcome, 1.0, data)))


def reported(store: Store, cycle: int) -> Report:
    return asyncio.run(store.add_report(cycle, step=cycle, metrics={}))


def cells(text: str, first: str) -> list[str]:
    """The row of a table that begins with `first`."""
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [first])


# --- all cycles ----------------------------------------------------------------------------------------


def test_every_cycle_has_a_row_with_what_the_loop_did(looped: Looped) -> None:
    cycles = worked_cycles(looped.run.store)
    assert [c.cycle for c in cycles] == list(range(CYCLES))
    assert all(c.done for c in cycles)
    text = page(lambda console: print_rounds(console, cycles, looped.run.config))
    for done in cycles:
        row, found = cells(text, str(done.cycle)), done.data("cases")
        assert row[1:4] == [str(found[key]) for key in ("groups", "cases", "chosen")]
    assert cells(text, "0")[5:7] == ["-", "-"], "no evolution round ends cycle 0"
    assert cells(text, "1")[5:7] == ["1", "1"]
    assert cells(text, "3")[5:7] == ["2", "kept"]


def test_failed_rounds_and_open_cycles_say_so(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, config):
        first, second = reported(store, 0), reported(store, 1)
        keep(store, first, "cases", groups=4, cases=2, chosen=2, failed=0)
        keep(store, first, "patches", "failed", error="repair failed on all 2 cases")
        keep(store, first, "cycle", step=1)
        keep(store, second, "cases", groups=3, cases=1, chosen=1, failed=0)
        keep(store, second, "patches", unpatched=1)
        text = page(lambda console: print_rounds(console, worked_cycles(store), config))
    assert "patches: repair failed on all 2 cases" in text
    assert cells(text, "0")[:5] == ["0", "4", "2", "2", "-"]
    row = cells(text, "1")
    assert row[:5] == ["1", "3", "1", "1", "0"], "no case was patched, which is a number"
    assert "open" in row
    assert "1 unpatched" in text


def test_a_cycle_that_was_trained_twice_has_two_rows(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, _):
        keep(store, reported(store, 0), "cycle")
        asyncio.run(store.supersede(0))
        reported(store, 0)
        assert [(c.cycle, c.done) for c in worked_cycles(store)] == [(0, True), (0, False)]


# --- one round -----------------------------------------------------------------------------------------


def test_a_round_shows_its_diagnoses_its_decision_and_the_change(looped: Looped) -> None:
    shown = round_of(looped.run.store, looped.run.folder, looped.run.config, 3)
    text = page(lambda console: print_round(console, shown))
    counts = shown.kept["diagnoses"]["counts"]
    assert f"diagnoses: {counts['cases']} cases, 0 failed" in text
    for case in shown.kept["diagnoses"]["cases"]:
        assert case["task_id"] in text
    assert "guidance 1 -> 2: Gaps of round 2 go into the requests." in text
    assert "\n- Lean towards questions like those of round 1.\n" in text
    assert "\n+ Lean towards questions like those of round 2.\n" in text
    assert "memo 1 stays: wait, memo 1 has 0 of the 2 first probes it needs" in text
    assert shown.folder in text
    assert (Path(shown.folder) / "prompts.json").is_file()


def test_the_first_round_changes_guidance_from_nothing(looped: Looped) -> None:
    shown = round_of(looped.run.store, looped.run.folder, looped.run.config, 1)
    assert (shown.before.version, shown.after and shown.after.version) == (0, 1)
    assert (shown.memo_before.version, shown.memo_after and shown.memo_after.version) == (0, 1)
    text = page(lambda console: print_round(console, shown))
    assert "memo 0 -> 1: propose, g of memo 0 is" in text
    assert "\n+ Do not write what naming a topic meets" in text


def test_a_cycle_without_a_round_names_those_that_have_one(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "show", str(looped.folder), "--round", "2")
    assert outcome.code == 2
    assert outcome.error_line == "error: no evolution round ended cycle 2. Rounds ended cycles 1, 3"


@pytest.mark.parametrize(
    ("enabled", "said"),
    [
        (True, "There was none yet; one ends every 5 cycles, the first one cycle 4"),
        (False, "evolution.enabled is false"),
    ],
)
def test_before_the_first_round_it_says_when_one_comes(enabled: bool, said: str, tmp_path: Path) -> None:
    switches = {"evolution": {"enabled": enabled}, "memo": {"enabled": enabled}}
    with made_run(tmp_path, **switches) as (store, folder, config), pytest.raises(InputError) as caught:
        round_of(store, folder, config, 0)
    assert said in caught.value.fix


def test_a_round_whose_folder_is_gone_is_told_from_the_database(looped: Looped, tmp_path: Path) -> None:
    shown = round_of(looped.run.store, RunDir(tmp_path), looped.run.config, 3)
    assert shown.kept == {}
    text = page(lambda console: print_round(console, shown))
    assert "its folder is gone" in text
    assert "guidance 1 -> 2" in text
    copied = tmp_path / "rounds" / "cycle-00003"
    shutil.copytree(looped.folder / "rounds" / "cycle-00003", copied)
    (copied / "diagnoses.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot read .*diagnoses\.json"):
        round_of(looped.run.store, RunDir(tmp_path), looped.run.config, 3)


def test_what_was_rejected_and_why_nothing_changed_is_told(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, folder, config):
        report = reported(store, 4)
        decision = {"action": "propose", "why": "g of memo 0 is 0.3", "of": None, "restricting": False}
        why = "the new guidance breaks the rules"
        keep(store, report, "evolution", why=why, guidance=None, memo=None, memo_decision=decision, memo_error="")
        place = folder.path / "rounds" / "cycle-00004"
        place.mkdir(parents=True)
        rejected = [{"guidance_a": "x", "guidance_b": "", "summary": "", "problems": ["301 words"]}]
        (place / "decision.json").write_text(json.dumps({"rejected": rejected}))
        kept = {"why": "the memo optimizer proposes no change: it is fine", "rejected": [{"problems": ["2401 chars"]}]}
        (place / "memo-decision.json").write_text(json.dumps(kept))
        text = page(lambda console: print_round(console, round_of(store, folder, config, 4)))
    assert f"guidance 0 stays: {why}" in text
    assert "rejected: 301 words" in text
    assert "memo 0 stays: propose, g of memo 0 is 0.3" in text
    assert "the memo optimizer proposes no change: it is fine" in text
    assert "rejected: 2401 chars" in text


def test_a_failed_round_shows_its_error_and_the_one_that_came_after_it(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, folder, config):
        report = reported(store, 4)
        keep(store, report, "evolution", "failed", error="the analyst failed in 12 of 20 cases")
        asyncio.run(
            store.add_round(
                RoundRow(report.id, 4, "evolution", "done", 2.0, {"why": "", "memo_error": "no memo: 500"}),
                GuidanceVersion(version=1, cycle=4, guidance_a="Vary who asks.", summary="variety"),
            )
        )
        text = page(lambda console: print_round(console, round_of(store, folder, config, 4)))
    assert "failed in 1 s: the analyst failed in 12 of 20 cases" in text
    assert "done in 2 s" in text
    assert "guidance 0 -> 1: variety" in text
    assert "memo 0 stays: no memo: 500" in text
