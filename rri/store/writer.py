"""One writer with group commit: work that arrives while a commit is under way shares the next one."""

import asyncio
import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Table, insert
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from rri.errors import StoreError

__all__ = ["Append", "Writer"]

T = TypeVar("T")
Work = Callable[[Connection], Any]

GROUP = 512
"""Pieces of work at most in one transaction."""


class Writer:
    """Runs pieces of work in transactions on a thread of its own.

    A piece is done when its future is, and then it survives `kill -9` and a power cut. A piece that raises is
    rolled back alone; when the database itself fails, the whole group fails.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: queue.SimpleQueue[tuple[Work, Future[Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self._door = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="rri-store-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], T]) -> "Future[T]":
        future: Future[T] = Future()
        # What gets in before the door closes is done; nothing can slip in behind the closing mark.
        with self._door:
            if self._closed:
                raise StoreError("the store is closed", "Open it again")
            self._queue.put((work, future))
        return future

    def run(self, work: Callable[[Connection], T]) -> T:
        """`submit` and wait.

        Raises:
            StoreError: the database could not keep it.
        """
        return self.submit(work).result()

    async def write(self, work: Callable[[Connection], T]) -> T:
        """`run` for the event loop. Cancelling the caller does not undo the work."""
        return await asyncio.shield(asyncio.wrap_future(self.submit(work)))

    def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        with self._door:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while True:
            group, last = self._next_group()
            if group:
                self._commit(group)
            if last:
                return

    def _next_group(self) -> tuple[list[tuple[Work, Future[Any]]], bool]:
        group: list[tuple[Work, Future[Any]]] = []
        item = self._queue.get()
        while item is not None:
            if item[1].set_running_or_notify_cancel():
                group.append(item)
            if len(group) == GROUP:
                return group, False
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit(self, group: list[tuple[Work, Future[Any]]]) -> None:
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            with self._engine.begin() as connection:
                for table, run in itertools.groupby(group, key=lambda item: getattr(item[0], "table", None)):
                    pieces = list(run)
                    if table is None or len(pieces) == 1:
                        outcomes += [(future, *_run_one(connection, work)) for work, future in pieces]
                    else:
                        outcomes += _append_all(connection, table, pieces)
        except Exception as error:  # noqa: BLE001  (whatever fails here must reach those who wait)
            failure = _store_error(error) if isinstance(error, SQLAlchemyError) else error
            for _, future in group:
                future.set_exception(failure)
            return
        for future, value, raised in outcomes:
            if raised is None:
                future.set_result(value)
            else:
                future.set_exception(raised)


@dataclass(frozen=True)
class Append:
    """One row for one table. Rows that arrive together are inserted by one statement, which is ten times cheaper.

    `row` makes the values, on the writer's thread.
    """

    table: Table
    row: Callable[[], dict[str, Any]]

    def __call__(self, connection: Connection) -> None:
        connection.execute(insert(self.table), self.row())


def _append_all(
    connection: Connection, table: Table, pieces: Sequence[tuple[Any, Future[Any]]]
) -> list[tuple[Future[Any], None, BaseException | None]]:
    """Insert a run of appends by one statement; one whose values cannot be made fails alone."""
    rows: list[dict[str, Any]] = []
    failed: dict[Future[Any], BaseException] = {}
    for append, future in pieces:
        try:
            rows.append(append.row())
        except Exception as error:  # noqa: BLE001  (handed to whoever submitted the row)
            failed[future] = error

    def insert_rows(connection: Connection) -> None:
        if rows:
            connection.execute(insert(table), rows)

    _, raised = _run_one(connection, insert_rows)
    return [(future, None, failed.get(future, raised)) for _, future in pieces]


def _run_one(connection: Connection, work: Work) -> tuple[Any, BaseException | None]:
    """The work's value or what it raised, in a savepoint of its own.

    Raises:
        OperationalError: the database failed (disk full, I/O), so the whole group must.
    """
    savepoint = connection.begin_nested()
    try:
        value = work(connection)
        savepoint.commit()
    except OperationalError:
        # A full disk ends SQLite's transaction and its savepoints with it: rolling one back would hide the cause.
        raise
    except Exception as error:  # noqa: BLE001  (handed to whoever submitted the work)
        savepoint.rollback()
        return None, _store_error(error) if isinstance(error, SQLAlchemyError) else error
    return value, None


def _store_error(error: SQLAlchemyError) -> StoreError:
    cause = getattr(error, "orig", None) or error
    text = " ".join(str(cause).split())
    if "full" in text:
        return StoreError(f"the disk of the run directory is full ({text})", "Free some space and run again")
    return StoreError(f"the run's database failed: {text}", "Check the disk, then run again; nothing reported is lost")
