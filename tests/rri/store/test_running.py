"""Sums that are asked for all the time: right after every change, and no dearer in a long run than in a short one."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event, func

from rri.aio import collect
from rri.cases import ExploitCase, Patch, Preference, Ranking
from rri.store import GradeRow, Place, Store
from rri.store import tables as t
from rri.store.running import RunningSums
from rri.types import Grade, Split
from tests.rigs import make_task

TASK = make_task()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def grades(cycle: int, scores: list[float | None], split: Split = "train") -> list[GradeRow]:
    return [
        GradeRow(
            Place(split, cycle, 0, row),
            TASK.task_id,
            1,
            "an answer",
            True,
            Grade(verdicts=(), score=score, raw=score, unscored="" if score is not None else "the judge failed"),
        )
        for row, score in enumerate(scores)
    ]


def ranking(outcome: Any, pairs: int = 0) -> Ranking:
    seen = Preference(pairs=pairs, longer=pairs // 2, earlier=pairs // 3)
    return Ranking(cycle=0, position=0, task_id=TASK.task_id, version=1, outcome=outcome, preference=seen)


def keep(store: Store, *rows: GradeRow) -> None:
    asyncio.run(store.add_grades(rows))


# --- right -------------------------------------------------------------------------------------------

Step = tuple[str, int, list[float | None]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["train", "train", "validation", "resume", "ask"]),
        st.integers(0, 4),
        st.lists(st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=4),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_sums_are_those_of_the_rows_whenever_they_are_asked_for(steps: list[Step]) -> None:
    with TemporaryDirectory() as folder:
        store = Store(Path(folder))
        try:
            rows: list[tuple[int, float | None]] = []
            for kind, cycle, scores in steps:
                if kind == "resume":
                    asyncio.run(store.supersede(cycle))
                    rows = [row for row in rows if row[0] < cycle]
                elif kind != "ask":
                    keep(store, *grades(cycle, scores, "train" if kind == "train" else "validation"))
                    rows += [(cycle, score) for score in scores if kind == "train"]
                else:
                    check(store, rows)
            check(store, rows)
        finally:
            store.close()


def check(store: Store, rows: list[tuple[int, float | None]]) -> None:
    scored = [score for _, score in rows if score is not None]
    assert store.score_summary() == {
        "rollouts": len(rows),
        "mean_score": pytest.approx(sum(scored) / len(scored)) if scored else None,
        "unscored": len(rows) - len(scored),
        "cycles": max((cycle for cycle, _ in rows), default=-1) + 1,
    }
    by_cycle = [(cycle, [s for c, s in rows if c == cycle]) for cycle in sorted({cycle for cycle, _ in rows})]
    means = [(c, len(found), [s for s in found if s is not None]) for c, found in by_cycle]
    assert store.cycle_scores() == [(c, n, pytest.approx(sum(s) / len(s)) if s else None) for c, n, s in means]
    assert store.scored_by_cycle() == [(c, len(s), pytest.approx(sum(s) / len(s))) for c, _, s in means if s]


def test_figures_of_the_loop_add_up_over_several_looks(store: Store) -> None:
    assert store.loop_figures()["rankings"] == {}
    asyncio.run(store.add_cases(1, [ranking("case", 6), ranking("no_case")], []))
    assert store.loop_figures()["rankings"] == {"case": 1, "no_case": 1}
    asyncio.run(store.add_cases(1, [ranking("case", 9)], [(a_case(), True)]))
    asyncio.run(store.add_patch(Patch(case=1, before=TASK, task=TASK, outcome="unpatched")))
    figures = store.loop_figures()
    assert figures["rankings"] == {"case": 2, "no_case": 1}
    assert figures["preference"] == {"pairs": 15, "longer": 7, "earlier": 5}
    assert (figures["patches"], figures["accepted"]) == ({"unpatched": 1}, 0)


def a_case() -> ExploitCase:
    answered = {"row": 0, "answer": "x", "grade": Grade(verdicts=(), score=1.0, raw=1.0).model_dump()}
    fields = {"cycle": 0, "position": 0, "task": TASK.model_dump(), "gap": 0.5, "ranking": ranking("case").model_dump()}
    return ExploitCase.model_validate({**fields, "exploit": answered, "better": {**answered, "row": 1}})


def test_another_process_that_writes_is_seen(store: Store, tmp_path: Path) -> None:
    """`rri status` looks on beside the service."""
    other = Store(tmp_path)
    try:
        keep(store, *grades(0, [0.5]))
        assert other.score_summary()["rollouts"] == 1
        keep(store, *grades(0, [1.0]))
        assert other.score_summary()["mean_score"] == 0.75
        asyncio.run(store.supersede(0))
        assert other.score_summary()["rollouts"] == 0
    finally:
        other.close()


def test_threads_that_ask_at_once_count_every_row_once(store: Store) -> None:
    keep(store, *grades(0, [0.5] * 200))

    async def ask() -> list[dict[str, Any]]:
        return await collect([lambda: asyncio.to_thread(store.score_summary)] * 16, 16)

    assert {found["rollouts"] for found in asyncio.run(ask())} == {200}


# --- and cheap ---------------------------------------------------------------------------------------


def test_a_row_is_read_once_until_the_epoch_changes(store: Store, tmp_path: Path) -> None:
    sums = RunningSums(t.grades.c.id, t.grades.c.cycle, (func.count(), func.sum(t.grades.c.score)))
    resumed = func.max(t.resumes.c.id)
    keep(store, *grades(0, [0.5, 0.25]))
    with store._engine.connect() as c:
        assert sums.read(c, resumed) == {0: [2, 0.75]}
    with sqlite3.connect(tmp_path / "rri.db") as db:
        db.execute("UPDATE grades SET score = 1")
    keep(store, *grades(1, [1.0]))
    with store._engine.connect() as c:
        assert sums.read(c, resumed) == {0: [2, 0.75], 1: [1, 1.0]}
    asyncio.run(store.supersede(1))
    with store._engine.connect() as c:
        assert sums.read(c, resumed) == {0: [2, 2.0], 1: [1, 1.0]}


ASKED: dict[str, Callable[[Store], object]] = {
    "score_summary": lambda store: store.score_summary(),
    "latest scores": lambda store: store.score_summary(8),
    "cycle_scores": lambda store: store.cycle_scores(),
    "loop_figures": lambda store: store.loop_figures(),
    "exploits_since": lambda store: store.exploits_since(1),
}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Grows by one for each instruction of SQLite on connections made from now on."""
    done = [0]

    def count() -> None:
        done[0] += 1

    def connected(connection: Any, _: Any) -> None:
        connection.set_progress_handler(count, 1)

    event.listen(Engine, "connect", connected)
    yield done
    event.remove(Engine, "connect", connected)


@pytest.mark.parametrize("ask", ASKED)
def test_what_is_asked_all_the_time_costs_the_same_in_a_long_run(work: list[int], tmp_path: Path, ask: str) -> None:
    store = Store(tmp_path)

    def cost() -> int:
        before = work[0]
        ASKED[ask](store)
        return work[0] - before

    def grow(n: int) -> None:
        keep(store, *grades(0, [0.5] * n))
        asyncio.run(store.add_cases(1, [ranking("case", 6)] * n, [(a_case(), False)] * n))

    try:
        grow(20)
        ASKED[ask](store)
        short = cost()
        grow(2000)
        ASKED[ask](store)
        assert 0 < cost() <= short + 50
    finally:
        store.close()
