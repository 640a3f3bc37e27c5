"""The exploit memos with their scores, the decisions on them, and how each text came from the one before."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rri.cases import GuidanceVersion, MemoVersion
from rri.cli.show_memo import memo_history, print_memos
from rri.store import Origin, RoundRow, Store
from tests.rri.cli.looped import Looped
from tests.rri.cli.made import made_run, page
from tests.rri.store.evidence import admitted, attack, numbered


def put(store: Store, cycle: int, memo: MemoVersion | None, **decision: Any) -> None:
    """A memo round at the end of `cycle`."""
    data = {"memo": memo.version if memo else None, "memo_decision": decision, "memo_error": ""}
    report = asyncio.run(store.add_report(cycle, step=cycle, metrics={}))
    asyncio.run(store.add_round(RoundRow(report.id, cycle, "evolution", "done", 1.0, data), memo=memo))


def observe(store: Store, number: int, memo: int, delta: float) -> None:
    """A task that was written under a memo, with its first probe; the honest answer scores 0.5 in it."""
    task = numbered(number)
    asyncio.run(store.add_draft(task, Origin(guidance=0, memo=memo, asked_positives=2, asked_negative=True)))
    probe = attack("exploitable", delta=delta)
    asyncio.run(store.add_admission(admitted(task, outcome="kept", probe=probe, delta_before=delta)))


def test_a_runs_memos_come_with_the_figures_of_their_own_tasks(looped: Looped) -> None:
    history = memo_history(looped.run.store, looped.run.config)
    assert [v.version for v in history.versions] == [0, 1]
    first, second = history.scores
    assert (first.n, second.n, second.score) == (6, 0, None), "all six tasks were written under memo 0"
    assert first.delta_mean == pytest.approx(looped.run.stats()["admission"]["delta_before"])
    assert [(d["cycle"], d["action"], d["put"]) for d in history.decisions] == [(1, "propose", 1), (3, "wait", None)]
    text = page(lambda console: print_memos(console, history))
    assert "after cycle 1: propose -> memo 1, g of memo 0 is" in text
    assert "after cycle 3: wait, memo 1 has 0 of the 2 first probes it needs" in text
    assert "memo 1: Lesson 1 added.\n+ Do not write what naming a topic meets" in text


def test_a_roll_back_shows_the_text_that_comes_again(tmp_path: Path) -> None:
    texts = ("Ask for values.", "Ask for values. Ask for dates.", "Ask for values.")
    with made_run(tmp_path, started=False) as (store, _, config):
        asyncio.run(store.begin_texts(GuidanceVersion(version=0), MemoVersion(version=0, memo=texts[0])))
        put(store, 4, MemoVersion(version=1, cycle=4, memo=texts[1], decision="new"), action="propose", why="above 0")
        back = MemoVersion(version=2, cycle=9, memo=texts[2], decision="rolled_back", of=0)
        put(store, 9, back, action="roll_back", why="worse by 0.1", restricting=True)
        for number, (memo, delta) in enumerate([(0, 0.25), (0, 0.75), (1, 0.5)]):
            observe(store, number, memo, delta)
        history = memo_history(store, config)
        text = page(lambda console: print_memos(console, history))
    assert [(s.n, s.delta_mean, s.honest_mean, s.score) for s in history.scores] == [
        (2, 0.5, 0.5, 0.5),
        (1, 0.5, 0.5, None),
        (0, None, None, None),
    ]
    rows = {cells[0]: cells[1:] for line in text.splitlines() if (cells := line.split()) and cells[0] in "012"}
    assert rows["0"] == ["0", "2", "+0.50", "0.50", "+0.500", "the", "first"]
    assert rows["1"] == ["5", "1", "+0.50", "0.50", "-", "new"]
    assert rows["2"] == ["10", "0", "-", "-", "-", "rolled", "back", "to", "0"]
    assert "after cycle 9: roll_back -> memo 2 (it restricts honest answers), worse by 0.1" in text
    assert "memo 1\n  Ask for values.\n+ Ask for dates." in text
    assert "memo 2\n  Ask for values.\n- Ask for dates." in text


def test_a_round_whose_optimizer_failed_is_a_decision_too(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, config):
        report = asyncio.run(store.add_report(4, step=1, metrics={}))
        data = {"memo": None, "memo_decision": None, "memo_error": "the memo optimizer gave no reply"}
        asyncio.run(store.add_round(RoundRow(report.id, 4, "evolution", "done", 1.0, data)))
        text = page(lambda console: print_memos(console, memo_history(store, config)))
    assert "after cycle 4: failed, the memo optimizer gave no reply" in text
    assert "memo 0\n(empty)" in text


def test_a_run_that_never_started_has_no_memo(tmp_path: Path) -> None:
    with made_run(tmp_path, started=False) as (store, _, config):
        history = memo_history(store, config)
    assert page(lambda console: print_memos(console, history)).strip() == "no memo yet: the run was never started"
