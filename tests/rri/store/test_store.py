"""What the store keeps comes back as it was: tasks, admissions, serving, grades, calls, events; and a full disk."""

import asyncio
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event

from rri.aio import collect
from rri.errors import StoreError
from rri.evidence import Admission, AdmissionOutcome, Probe, Rewrite
from rri.lm.calls import CallRecord, Tag, Totals, Usage
from rri.store import GradeRow, Place, ServedRow, Store, read_calls
from rri.types import Grade, Task, Verdict, Vote
from tests.rigs import make_task

MET = Verdict(outcome="met", votes=(Vote(outcome="met", reason="said so"), Vote(outcome="unknown", error="timeout")))
GRADE = Grade(verdicts=(MET, Verdict(outcome="unmet")), score=0.5, raw=-0.25)
UNSCORED = Grade(verdicts=(Verdict(outcome="unknown"),), score=None, raw=None, unscored="the judge failed")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def numbered(number: int, version: int = 1) -> Task:
    return make_task(8, 8, -6, task_id=f"{number:06}-abc").model_copy(update={"version": version})


def admission(task: Task, outcome: AdmissionOutcome = "passed", **fields: Any) -> Admission:
    return Admission(original=task, task=task, outcome=outcome, **fields)


def row(place: Place, answer: str = "an answer", grade: Grade = GRADE, **fields: Any) -> GradeRow:
    return GradeRow(place, fields.get("task_id", "000001-abc"), 1, answer, fields.get("finished", True), grade)


def call(role: str = "judge", task_id: str = "", **fields: Any) -> CallRecord:
    values = {
        "tag": Tag(task_id, "probe-0"),
        "endpoint": "main",
        "model": "m",
        "attempt": 0,
        "messages": [{"role": "user", "content": "Is it met?"}],
        "reply": "yes",
        "usage": Usage(10, 5, 4),
        "seconds": 0.5,
        "money": 0.25,
        **fields,
    }
    return CallRecord(role=role, **values)


def summary(store: Store, last: int | None = None) -> tuple[Any, Any, Any]:
    found = store.score_summary(last)
    return found["rollouts"], found["mean_score"], found["unscored"]


def keep(store: Store, *records: CallRecord) -> None:
    for record in records:
        asyncio.run(store.keep(record))


# --- tasks and admissions ----------------------------------------------------------------------------


def test_only_drafts_that_were_not_admitted_come_back_oldest_first(store: Store) -> None:
    for number in (3, 1, 2, 4):
        asyncio.run(store.add_draft(numbered(number)))
    asyncio.run(store.add_admission(admission(numbered(1))))
    asyncio.run(store.add_admission(admission(numbered(4), "refused", why="too long")))
    assert store.drafts() == [numbered(3), numbered(2)]


def test_a_task_comes_back_with_everything_it_has_and_only_in_its_own_version(store: Store) -> None:
    task = make_task(7.5, -0.5, task_id="x", red_team=True)
    asyncio.run(store.add_draft(task))
    assert store.task("x", 1) == task
    assert store.task("x", 2) is None
    assert store.task("y", 1) is None


def test_a_version_is_written_once_and_never_changed(store: Store) -> None:
    asyncio.run(store.add_draft(numbered(1)))
    asyncio.run(store.add_draft(numbered(1)))
    with pytest.raises(StoreError, match="000001-abc version 1 is kept with other content"):
        asyncio.run(store.add_draft(make_task(9, task_id="000001-abc")))
    assert store.task("000001-abc", 1) == numbered(1)


def test_an_admission_comes_back_with_its_evidence_and_every_accepted_version(tmp_path: Path, store: Store) -> None:
    first, second, third = (numbered(1, version) for version in (1, 2, 3))
    probe = Probe(
        status="measured",
        exploit="Consider all matters.",
        honest="Forty-two.",
        exploit_grade=GRADE,
        honest_grade=UNSCORED,
        delta=0.25,
        reasons=("exploitable",),
    )
    whole = Admission(
        original=first,
        task=third,
        outcome="repaired",
        probe=probe,
        rewrites=(
            Rewrite(round=1, outcome="accepted", why="fell", task=second, explanation="values", probes=(probe, probe)),
            Rewrite(round=2, outcome="rejected", why="rose", task=numbered(1, 4)),
            Rewrite(round=3, outcome="unusable", why="no rewrite"),
        ),
        delta_before=0.25,
        delta_after=-0.5,
        why="exploitable",
    )
    asyncio.run(store.add_admission(whole))
    store.close()
    again = Store(tmp_path)
    assert list(again.admissions()) == [whole]
    assert [again.task("000001-abc", version) for version in (1, 2, 3, 4)] == [first, second, third, None]
    assert again.pool_entries() == [(1, "000001-abc", 3)]
    again.close()


def test_a_task_is_admitted_once(store: Store) -> None:
    asyncio.run(store.add_admission(admission(numbered(1))))
    with pytest.raises(StoreError, match="UNIQUE"):
        asyncio.run(store.add_admission(admission(numbered(1), "kept")))
    assert store.admission_counts() == {"passed": 1}


def test_the_pool_is_given_in_order_of_admission_without_refused_tasks(store: Store) -> None:
    outcomes: dict[int, AdmissionOutcome] = {5: "passed", 2: "refused", 9: "kept", 1: "unmeasured"}
    for number, outcome in outcomes.items():
        asyncio.run(store.add_admission(admission(numbered(number), outcome)))
    entries = store.pool_entries()
    assert [task_id for _, task_id, _ in entries] == ["000005-abc", "000009-abc", "000001-abc"]
    assert store.pool_entries(after=entries[0][0]) == entries[1:]
    assert store.admission_counts() == {"passed": 1, "refused": 1, "kept": 1, "unmeasured": 1}


def test_mean_deltas_are_over_measured_tasks_only(store: Store) -> None:
    assert store.mean_deltas() == (None, None, 0)
    asyncio.run(store.add_admission(admission(numbered(1), "repaired", delta_before=0.5, delta_after=0.0)))
    asyncio.run(store.add_admission(admission(numbered(2), delta_before=-0.25, delta_after=-0.25)))
    asyncio.run(store.add_admission(admission(numbered(3), "unmeasured")))
    assert store.mean_deltas() == (0.125, -0.125, 2)


def test_proposed_requests_are_numbered_for_good(tmp_path: Path, store: Store) -> None:
    """A number is of one request and of the task made from it, also when no task came of it before a restart."""
    assert (store.last_draw(), store.recent_requests(2)) == (0, [])
    assert asyncio.run(store.add_proposals(1, ["a", "b"])) == [1, 2]
    assert asyncio.run(store.add_proposals(2, ["c"])) == [3]
    store.close()
    again = Store(tmp_path)
    assert (again.last_draw(), again.recent_requests(2)) == (2, ["c", "b"])
    assert asyncio.run(again.add_proposals(3, ["d"])) == [4]
    again.close()


# --- serving -----------------------------------------------------------------------------------------


def test_the_served_log_comes_back_in_order_and_a_position_is_decided_once(store: Store) -> None:
    rows = [ServedRow(n, f"t{n}", n + 1, source) for n, source in enumerate(("fresh", "draw", "replay"))]
    for served in (rows[1], rows[0], rows[2]):
        asyncio.run(store.add_served(served))
    assert store.served() == rows
    assert store.served(1) == rows[1:]
    with pytest.raises(StoreError):
        asyncio.run(store.add_served(ServedRow(1, "another", 1, "fresh")))
    assert store.served() == rows


# --- grades ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grade", [GRADE, UNSCORED, Grade(verdicts=(), score=0.0, raw=None)])
def test_a_grade_is_found_by_its_place_and_answer(store: Store, grade: Grade) -> None:
    place = Place("train", 1, 2, 3)
    asyncio.run(store.add_grades([row(place, "my answer", grade)]))
    assert store.find_grade(place, "my answer") == grade
    for other in (
        Place("validation", 1, 2, 3),
        Place("train", 0, 2, 3),
        Place("train", 1, 1, 3),
        Place("train", 1, 2, 2),
    ):
        assert store.find_grade(other, "my answer") is None
    assert store.find_grade(place, "my answer ") is None


def test_grades_are_kept_all_or_none(store: Store) -> None:
    broken = row(Place("train", 0, 0, 1), task_id=None)
    with pytest.raises(StoreError):
        asyncio.run(store.add_grades([row(Place("train", 0, 0, 0)), broken]))
    assert summary(store) == (0, None, 0)
    asyncio.run(store.add_grades([]))


def test_superseded_rows_are_kept_but_out_of_every_window(tmp_path: Path, store: Store) -> None:
    rows = [row(Place("train", cycle, cycle, 0), grade=_scored(cycle / 10)) for cycle in range(4)]
    asyncio.run(store.add_grades(rows))
    assert asyncio.run(store.supersede(2)) == 2
    assert [store.find_grade(r.place, r.answer) is not None for r in rows] == [True, True, False, False]
    assert summary(store) == (2, pytest.approx(0.05), 0)
    assert summary(store, last=1) == (1, pytest.approx(0.1), 0)
    assert store.score_summary()["cycles"] == 2
    assert [cycle for cycle, _, _ in store.cycle_scores()] == [0, 1]
    with sqlite3.connect(tmp_path / "rri.db") as db:
        assert db.execute("SELECT count(*) FROM grades").fetchone() == (4,)

    # The cycle is trained again: its new rows count, the old ones stay out.
    asyncio.run(store.add_grades([row(Place("train", 2, 2, 0), "another answer", _scored(0.9))]))
    assert store.cycle_scores() == [(0, 1, 0.0), (1, 1, pytest.approx(0.1)), (2, 1, pytest.approx(0.9))]
    assert store.find_grade(Place("train", 2, 2, 0), rows[2].answer) is None


def test_supersede_counts_each_row_once(store: Store) -> None:
    asyncio.run(store.add_grades([row(Place("train", cycle, 0, 0)) for cycle in range(5)]))
    assert [asyncio.run(store.supersede(cycle)) for cycle in (4, 4, 1, 0, 9)] == [1, 0, 3, 1, 0]


def _scored(score: float) -> Grade:
    return Grade(verdicts=(), score=score, raw=score)


def test_unscored_is_counted_and_never_read_as_zero(store: Store) -> None:
    assert summary(store) == (0, None, 0)
    grades = [_scored(1.0), UNSCORED, _scored(0.0), UNSCORED]
    asyncio.run(store.add_grades([row(Place("train", 0, 0, n), grade=grade) for n, grade in enumerate(grades)]))
    asyncio.run(store.add_grades([row(Place("validation", 0, 0, 0), grade=_scored(-1.0))]))
    assert summary(store) == (4, 0.5, 2)
    assert summary(store, last=1) == (1, None, 1)
    assert summary(store, last=3) == (3, 0.0, 2)


# --- calls -------------------------------------------------------------------------------------------


def test_calls_are_read_back_by_role_task_and_number_beside_the_open_store(tmp_path: Path, store: Store) -> None:
    records = [call("judge", "a"), call("farmer", "a"), call("judge", "b", error="timeout"), call("judge", "a")]
    keep(store, *records)
    assert [k.record for k in read_calls(tmp_path)] == records
    assert [k.record for k in read_calls(tmp_path, role="farmer")] == [records[1]]
    assert [k.record for k in read_calls(tmp_path, role="judge", task_id="a")] == [records[0], records[3]]
    assert [k.record for k in read_calls(tmp_path, last=2)] == records[2:]
    assert [k.record for k in read_calls(tmp_path, role="judge", last=2)] == records[2:]
    assert list(read_calls(tmp_path, role="rewriter")) == []
    store.close()
    assert [k.record for k in read_calls(tmp_path)] == records


def test_since_is_a_time_from_which_calls_are_read(tmp_path: Path, store: Store) -> None:
    keep(store, call(), call())
    times = [k.at for k in read_calls(tmp_path)]
    assert times == sorted(times)
    assert [k.at for k in read_calls(tmp_path, since=times[1])] == [at for at in times if at >= times[1]]
    assert list(read_calls(tmp_path, since=times[1] + 1)) == []


def test_prompts_are_kept_compressed(tmp_path: Path, store: Store) -> None:
    keep(store, call(messages=[{"role": "user", "content": "rule " * 10_000}]))
    with sqlite3.connect(tmp_path / "rri.db") as db:
        ((blob,),) = db.execute("SELECT messages FROM calls").fetchall()
    assert len(blob) < 1_000
    assert b"rule rule" in zlib.decompress(blob)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(), reply=st.text())
def test_any_text_of_a_call_comes_back_as_it_was(tmp_path: Path, store: Store, content: str, reply: str) -> None:
    keep(store, call(messages=[{"role": "user", "content": content}], reply=reply))
    (last,) = read_calls(tmp_path, last=1)
    assert (last.record.messages[0]["content"], last.record.reply) == (content, reply)


def test_half_a_character_in_a_reply_does_not_lose_the_call(tmp_path: Path, store: Store) -> None:
    """A server that cuts an emoji in two sends a lone surrogate, which JSON takes and UTF-8 does not."""
    keep(store, call(reply="fine \ud83d", error="not JSON"))
    (kept,) = read_calls(tmp_path)
    assert kept.record.reply.startswith("fine ")


def test_call_totals_sum_over_every_try_by_role(tmp_path: Path, store: Store) -> None:
    assert store.call_totals() == {}
    keep(store, call(error="timeout"), call(error="busy", usage=Usage()), call(), call("farmer"))
    store.close()
    again = Store(tmp_path)
    assert again.call_totals() == {
        "judge": Totals(calls=3, failed=2, tokens_in=20, tokens_out=10, cached=8, seconds=1.5, money=0.75),
        "farmer": Totals(calls=1, failed=0, tokens_in=10, tokens_out=5, cached=4, seconds=0.5, money=0.25),
    }
    again.close()


def test_events_come_back_by_kind_oldest_first_and_the_latest_ones(store: Store) -> None:
    asyncio.run(store.log("stage", "index", seconds=1.5))
    store.log_sync("stage", "models", seconds=2.0, path=None)
    store.log_sync("failed", "out of luck")
    assert [(m, d) for _, m, d in store.events("stage")] == [
        ("index", {"seconds": 1.5}),
        ("models", {"seconds": 2.0, "path": None}),
    ]
    assert [m for _, m, _ in store.events("stage", limit=1)] == ["models"]
    assert store.events("nothing of the kind") == []


# --- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two words", "run #1", "what?", "50%25", "ü", "a&mode=ro"])
def test_a_run_directory_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    store = Store(folder)
    keep(store, call())
    assert (folder / "rri.db").is_file()
    assert len(list(read_calls(folder))) == 1
    store.close()
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("use", [Store, read_calls])
def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path, use: Callable[[Path], Any]) -> None:
    (tmp_path / "rri.db").write_bytes(b"no database at all " * 100)
    with pytest.raises(StoreError, match="not a database"):
        use(tmp_path)
    with pytest.raises(StoreError, match=r"missing/rri\.db"):
        use(tmp_path / "missing")


@contextmanager
def disk_with(pages: int) -> Iterator[None]:
    """Databases opened in the block cannot grow beyond `pages` pages: SQLite says that the disk is full."""

    def limit(connection: sqlite3.Connection, _: Any) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")

    event.listen(Engine, "connect", limit)
    try:
        yield
    finally:
        event.remove(Engine, "connect", limit)


def test_a_full_disk_is_one_clear_error_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    Store(tmp_path).close()
    with disk_with(pages=80):
        store = Store(tmp_path)

        async def write(number: int) -> StoreError | None:
            try:
                await asyncio.wait_for(store.log("page", "x" * 5000, number=number), 20)
            except StoreError as error:
                return error
            return None

        async def fill() -> list[StoreError | None]:
            """One by one until the disk is full, then many at once."""
            outcomes = [await write(n) for n in range(60)]
            return outcomes + await collect([partial(write, n) for n in range(60, 200)], limit=140)

        outcomes = asyncio.run(fill())
        store.close()
    acknowledged = [n for n, failure in enumerate(outcomes) if failure is None]
    failures = [failure for failure in outcomes if failure is not None]
    assert 0 in acknowledged
    assert len(failures) > 140
    again = Store(tmp_path)
    assert [data["number"] for _, _, data in again.events("page")] == acknowledged
    again.log_sync("page", "there is space again")
    again.close()
    for failure in failures:
        assert "disk" in failure.what
        assert "full" in failure.what
        assert "space" in failure.fix
        assert "\n" not in str(failure)
