"""The loop's lines on the screen of a run: what happened takes a line, with the numbers of the store."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rri.cases import GuidanceVersion, MemoVersion, Preference
from rri.cli.loop_summary import loop_lines, loop_of
from rri.config import EndpointConfig, RunConfig
from rri.errors import EndpointUnreachable
from rri.lm.breaker import Breaker
from rri.store import Origin, RoundRow, Store
from tests.rri.cli.made import made_run
from tests.rri.store.evidence import admitted, case_of, numbered, ranking


def lines(store: Store, config: RunConfig) -> list[str]:
    return list(loop_lines(loop_of(store, config)))


def line(store: Store, config: RunConfig, opening: str) -> str:
    (found,) = [text for text in lines(store, config) if text.startswith(opening)]
    return found


def test_a_fresh_run_says_what_is_in_force_and_that_nothing_was_ranked(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, config):
        assert lines(store, config) == [
            "in force: guidance 0 (the first), memo 0 (the first)",
            "exploit cases: none yet; no group was ranked so far",
        ]


def test_texts_in_force_are_the_latest_with_the_cycle_from_which_they_hold(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, config):
        report = asyncio.run(store.add_report(4, step=1, metrics={}))
        made = (GuidanceVersion(version=1, cycle=4), MemoVersion(version=1, cycle=4, decision="new"))
        asyncio.run(store.add_round(RoundRow(report.id, 4, "evolution", "done", 1.0, {}), *made))
        assert line(store, config, "in force") == "in force: guidance 1 (since cycle 5), memo 1 (since cycle 5)"
        assert loop_of(store, config)["evolutions"] == 1


def test_the_referees_leaning_is_a_share_of_the_decisive_pairs(tmp_path: Path) -> None:
    task = numbered(1)
    counts = [Preference(pairs=10, longer=8, earlier=5), Preference(pairs=30, longer=20, earlier=5)]
    with made_run(tmp_path) as (store, _, config):
        ranked = [ranking(task, position=n).model_copy(update={"preference": p}) for n, p in enumerate(counts)]
        asyncio.run(store.add_cases(1, [*ranked, ranking(task, outcome="failed")], [(case_of(task), True)]))
        found = lines(store, config)
    assert "referee: of 40 decisive pairs the longer answer won 70%, the one shown earlier 25%" in found
    assert "exploit cases: 1 in 3 groups (1 failed)" in found
    assert "repair: 1 cases chosen; none yet; 0 criteria accepted" in found


def test_an_endpoint_that_went_away_and_came_back_is_one_outage(tmp_path: Path) -> None:
    """The messages are those that a breaker really sends."""
    said: list[str] = []
    breaker = Breaker("main", EndpointConfig(url="http://127.0.0.1:1/v1", breaker_failures=2), said.append)
    for _ in range(2):
        breaker.failed(EndpointUnreachable("connection refused"))
    breaker.answered()
    assert len(said) == 2
    with made_run(tmp_path) as (store, _, config):
        for message in said:
            store.log_sync("endpoint", message)
        found = line(store, config, "endpoint outages")
    assert found.startswith("endpoint outages: 1; the last one: endpoint 'main' failed 2 times in a row")


def test_failures_and_waiting_cycles_are_loud(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, config):
        for cycle in range(2):
            store.log_sync("loop_failed", f"cases of cycle {cycle}: the referee failed")
            asyncio.run(store.add_report(cycle, step=cycle, metrics={}))
        found = lines(store, config)
    assert "failed rounds of the loop: 2; the last one: cases of cycle 1: the referee failed" in found
    assert "finished cycles that wait for the loop: 2" in found


@pytest.mark.parametrize("evicted", [(1,), (1, 2)])
def test_evictions_are_counted_and_those_that_are_out_now(evicted: Sequence[int], tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, config):
        asyncio.run(store.add_admission(admitted(numbered(1), numbered(1, 2), "repaired")))
        for version in evicted:
            asyncio.run(store.add_eviction("000001-abc", version, 0.95, 0.0, 8))
        found = line(store, config, "evictions")
    out = int(2 in evicted)
    assert found == f"evictions from the difficulty band: {len(evicted)}; {out} tasks are out now"


def write_shapes(store: Store, n: int, *points: float) -> None:
    origin = Origin(guidance=0, memo=0, asked_positives=len(points), asked_negative=True)
    tasks = [numbered(number, 1, *points) for number in range(n)]
    asyncio.run(store.add_drafts(tasks, origin))


@pytest.mark.parametrize(("points", "saturated"), [((8, 8, 8), True), ((8, 8, 8, -6), False)])
def test_a_shape_control_at_its_end_is_told_with_what_it_misses(
    points: tuple[float, ...], saturated: bool, tmp_path: Path
) -> None:
    """A generator that never writes a negative is asked for one every time, in vain."""
    with made_run(tmp_path) as (store, _, config):
        write_shapes(store, 80, *points)
        shape: dict[str, Any] = loop_of(store, config)["shape"]
        found = [text for text in lines(store, config) if text.startswith("shape controls at their end: negatives")]
    assert ("negatives" in shape["saturated"]) == bool(found) == saturated
    assert not saturated or "the target is 0.75" in found[0]
