"""Group commit: what is acknowledged is kept, what raises is undone alone, and a broken database fails loudly."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, create_engine, event, text

from rri.errors import StoreError
from rri.store.writer import GROUP, Append, Writer

GUARD = 20
"""Seconds after which a hung test fails; no test waits for it."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A SQLite engine that begins its transactions itself, as the store's does, with a few tables."""
    engine = create_engine(f"sqlite:///{tmp_path / 'test.db'}")

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    with engine.begin() as c:
        c.execute(text("CREATE TABLE kept (name TEXT PRIMARY KEY)"))
        c.execute(text("CREATE TABLE owed (name TEXT REFERENCES kept DEFERRABLE INITIALLY DEFERRED)"))
    yield engine
    engine.dispose()


@pytest.fixture
def writer(engine: Engine) -> Iterator[Writer]:
    writer = Writer(engine)
    yield writer
    writer.close()


def add(name: str) -> Callable[[Connection], str]:
    def work(c: Connection) -> str:
        c.execute(text("INSERT INTO kept VALUES (:name)"), {"name": name})
        return name

    return work


def add_then_raise(name: str) -> Callable[[Connection], str]:
    def work(c: Connection) -> str:
        add(name)(c)
        raise ValueError(f"{name} went wrong")

    return work


def break_database(c: Connection) -> None:
    """What a full disk or an I/O error looks like to SQLAlchemy: an OperationalError of the driver."""
    c.execute(text("INSERT INTO no_such_table VALUES (1)"))


def kept(engine: Engine) -> list[str]:
    """Names that a connection other than the writer's sees."""
    with sqlite3.connect(str(engine.url.database)) as other:
        return [name for (name,) in other.execute("SELECT name FROM kept ORDER BY rowid")]


@contextmanager
def busy(writer: Writer) -> Iterator[None]:
    """While the block runs, the writer is in the middle of a transaction; then it goes on."""
    started, go_on = threading.Event(), threading.Event()

    def hold(_: Connection) -> None:
        started.set()
        assert go_on.wait(GUARD)

    held = writer.submit(hold)
    assert started.wait(GUARD)
    try:
        yield
    finally:
        go_on.set()
        held.result(GUARD)


@contextmanager
def counted_commits(engine: Engine) -> Iterator[list[None]]:
    commits: list[None] = []

    def count(_: Connection) -> None:
        commits.append(None)

    event.listen(engine, "commit", count)
    try:
        yield commits
    finally:
        event.remove(engine, "commit", count)


def settle(futures: list["Future[Any]"]) -> list[Any]:
    """Values, with what was raised in their places."""
    return [f.exception(GUARD) or f.result() for f in futures]


async def turn() -> None:
    """Let the loop turn once, so that tasks that were just made have begun."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


# --- sharing a commit ------------------------------------------------------------------------------


def test_work_that_arrives_during_a_commit_shares_the_next_one(engine: Engine, writer: Writer) -> None:
    with counted_commits(engine) as commits:
        with busy(writer):
            futures = [writer.submit(add(f"n{i}")) for i in range(20)]
            assert commits == []
        assert settle(list(futures)) == [f"n{i}" for i in range(20)]
        assert len(commits) == 2
    assert kept(engine) == [f"n{i}" for i in range(20)]


def test_a_group_holds_no_more_than_its_bound(engine: Engine, writer: Writer) -> None:
    with counted_commits(engine) as commits:
        with busy(writer):
            futures = [writer.submit(add(f"n{i}")) for i in range(GROUP + 1)]
        settle(list(futures))
        assert len(commits) == 3
    assert len(kept(engine)) == GROUP + 1


def test_nothing_is_acknowledged_before_it_is_committed(engine: Engine, writer: Writer) -> None:
    """Inside the transaction nobody else sees the row; once the future is done everybody does."""
    seen_inside: list[list[str]] = []

    def work(c: Connection) -> None:
        add("a")(c)
        seen_inside.append(kept(engine))

    writer.run(work)
    assert (seen_inside, kept(engine)) == ([[]], ["a"])


# --- failures --------------------------------------------------------------------------------------


def test_a_piece_that_raises_is_undone_alone(engine: Engine, writer: Writer) -> None:
    with busy(writer):
        good, bad, last = (writer.submit(w) for w in (add("good"), add_then_raise("bad"), add("last")))
    assert good.result(GUARD) == "good"
    with pytest.raises(ValueError, match="bad went wrong"):
        bad.result(GUARD)
    assert last.result(GUARD) == "last"
    assert kept(engine) == ["good", "last"]


def test_a_row_that_breaks_a_constraint_fails_alone_and_as_a_store_error(engine: Engine, writer: Writer) -> None:
    with busy(writer):
        first, again, last = (writer.submit(w) for w in (add("a"), add("a"), add("b")))
    assert (first.result(GUARD), last.result(GUARD)) == ("a", "b")
    with pytest.raises(StoreError, match="UNIQUE"):
        again.result(GUARD)
    assert kept(engine) == ["a", "b"]


def test_a_broken_database_fails_the_whole_group_and_keeps_none_of_it(engine: Engine, writer: Writer) -> None:
    with busy(writer):
        futures: list[Future[Any]] = [writer.submit(w) for w in (add("a"), break_database, add("b"))]
    for failure in settle(futures):
        assert isinstance(failure, StoreError)
        assert "no_such_table" in failure.what
        assert "\n" not in str(failure)
    assert kept(engine) == []


def test_a_commit_that_fails_acknowledges_nothing(engine: Engine, writer: Writer) -> None:
    """The constraint is checked at COMMIT, when every piece of the group has run already."""
    with busy(writer):
        futures: list[Future[Any]] = [
            writer.submit(add("a")),
            writer.submit(lambda c: c.execute(text("INSERT INTO owed VALUES ('nobody')"))),
            writer.submit(add("b")),
        ]
    assert all(isinstance(f, StoreError) for f in settle(futures))
    assert kept(engine) == []


def test_the_writer_goes_on_after_any_failure(engine: Engine, writer: Writer) -> None:
    owing: Callable[[Connection], Any] = lambda c: c.execute(text("INSERT INTO owed VALUES ('y')"))  # noqa: E731
    for work in (break_database, add_then_raise("x"), owing):
        assert isinstance(settle([writer.submit(work)])[0], (StoreError, ValueError))
    assert writer.run(add("after")) == "after"
    assert kept(engine) == ["after"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kinds=st.lists(st.sampled_from(["good", "raises", "twice"]), max_size=12))
def test_whatever_is_in_a_group_exactly_the_good_pieces_are_kept(
    engine: Engine, writer: Writer, kinds: list[str]
) -> None:
    writer.run(lambda c: c.execute(text("DELETE FROM kept")))
    writer.run(add("taken"))
    works: dict[str, Callable[[str], Callable[[Connection], Any]]] = {
        "good": add,
        "raises": add_then_raise,
        "twice": lambda _: add("taken"),
    }
    with busy(writer):
        futures: list[Future[Any]] = [writer.submit(works[kind](f"n{i}")) for i, kind in enumerate(kinds)]
    expected = {"good": str, "raises": ValueError, "twice": StoreError}
    assert [type(outcome) for outcome in settle(futures)] == [expected[kind] for kind in kinds]
    assert kept(engine) == ["taken", *(f"n{i}" for i, kind in enumerate(kinds) if kind == "good")]


# --- cancelled waiters -----------------------------------------------------------------------------


def test_a_cancelled_waiter_undoes_nothing_and_disturbs_nobody(engine: Engine, writer: Writer) -> None:
    async def scene() -> list[Any]:
        with busy(writer):
            waiters = [asyncio.create_task(writer.write(add(f"n{i}"))) for i in range(3)]
            await turn()
            waiters[1].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiters[1]
        return [await asyncio.wait_for(waiters[i], GUARD) for i in (0, 2)]

    assert asyncio.run(scene()) == ["n0", "n2"]
    assert kept(engine) == ["n0", "n1", "n2"]


def test_a_loop_that_ends_while_work_waits_does_not_stop_the_writer(engine: Engine, writer: Writer) -> None:
    with busy(writer):

        async def leave() -> None:
            waiter = asyncio.create_task(writer.write(add("left behind")))
            await turn()
            assert not waiter.done()

        asyncio.run(leave())
    assert writer.run(add("after")) == "after"
    assert kept(engine) == ["left behind", "after"]


def test_work_cancelled_before_its_turn_is_never_run(engine: Engine, writer: Writer) -> None:
    with busy(writer):
        dropped, other = writer.submit(add("dropped")), writer.submit(add("other"))
        assert dropped.cancel()
    assert other.result(GUARD) == "other"
    with pytest.raises(FutureCancelled):
        dropped.result(GUARD)
    assert kept(engine) == ["other"]


# --- closing ---------------------------------------------------------------------------------------


def test_close_finishes_what_was_submitted(engine: Engine, writer: Writer) -> None:
    with busy(writer):
        futures = [writer.submit(add(f"n{i}")) for i in range(30)]
        closing = threading.Thread(target=writer.close)
        closing.start()
    closing.join(GUARD)
    assert not closing.is_alive()
    assert all(f.done() for f in futures)
    assert len(kept(engine)) == 30


def test_a_closed_writer_refuses_work_and_closes_again(writer: Writer) -> None:
    writer.close()
    writer.close()
    with pytest.raises(StoreError, match="closed"):
        writer.submit(add("late"))


def test_work_submitted_while_the_writer_closes_is_done_or_refused_but_never_forgotten(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is closed at the worst moment: after `submit` has looked and before it has queued the work."""
    writer = Writer(engine)

    class ClosingFuture(Future[Any]):
        def __init__(self) -> None:
            super().__init__()
            closer.start()
            closer.join(0.2)  # a writer that makes `close` wait for `submit` is right too

    closer = threading.Thread(target=writer.close)
    monkeypatch.setattr("rri.store.writer.Future", ClosingFuture)
    try:
        future = writer.submit(add("in between"))
    except StoreError:
        assert kept(engine) == []
        return
    closer.join(GUARD)
    try:
        assert future.result(2) == "in between"
    except StoreError:
        assert kept(engine) == []


KEPT = Table("kept", MetaData(), Column("name", String))


def append(name: str) -> Append:
    return Append(KEPT, lambda: {"name": name})


def broken() -> dict[str, Any]:
    raise ValueError("no values")


def test_rows_that_arrive_together_are_inserted_by_one_statement(engine: Engine, writer: Writer) -> None:
    """In their order among other work; one whose values cannot be made fails alone."""
    statements: list[Any] = []

    def note(_c: Any, _cursor: Any, statement: str, parameters: Any, _x: Any, many: bool) -> None:
        if statement.startswith("INSERT INTO kept"):
            statements.append(len(parameters) if many else 1)

    event.listen(engine, "before_cursor_execute", note)
    with busy(writer):
        works = [append("a"), append("b"), Append(KEPT, broken), append("c"), add("d"), append("e")]
        futures = [writer.submit(work) for work in works]
    values = settle(futures)
    event.remove(engine, "before_cursor_execute", note)
    assert [str(v) for v in values] == ["None", "None", "no values", "None", "d", "None"]
    assert statements == [3, 1, 1]
    with engine.connect() as c:
        assert set(c.scalars(text("SELECT name FROM kept"))) == {"a", "b", "c", "d", "e"}


def test_rows_that_clash_fail_together_and_spare_the_rest(engine: Engine, writer: Writer) -> None:
    with busy(writer):
        futures = [writer.submit(work) for work in (append("a"), append("a"), add("b"))]
    first, second, third = settle(futures)
    assert isinstance(first, StoreError)
    assert isinstance(second, StoreError)
    assert third == "b"
    with engine.connect() as c:
        assert list(c.scalars(text("SELECT name FROM kept"))) == ["b"]
