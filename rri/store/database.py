"""The SQLite file of a run: how it is opened, read and written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from rri.errors import StoreError
from rri.store import tables as t
from rri.store.writer import Writer

__all__ = ["DATABASE", "Database"]

T = TypeVar("T")

DATABASE = "rri.db"


def _connect(path: Path) -> Engine:
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": 30})

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _: Any) -> None:
        # SQLAlchemy begins transactions itself: the driver's own habit breaks savepoints.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


class Database:
    """One run's database. Reads see every commit; writes go through one writer with group commit.

    Raises:
        StoreError: the database cannot be opened or a row cannot be kept.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / DATABASE
        self._engine = _connect(self.path)
        try:
            t.metadata.create_all(self._engine)
        except SQLAlchemyError as error:
            raise StoreError(
                f"cannot open {self.path}: {getattr(error, 'orig', error)}", "Check the folder's disk and rights"
            ) from None
        self._writer = Writer(self._engine)

    def close(self) -> None:
        self._writer.close()
        self._engine.dispose()

    def _read(self, work: Callable[[Connection], T]) -> T:
        try:
            with self._engine.connect() as connection:
                return work(connection)
        except SQLAlchemyError as error:
            raise StoreError(f"cannot read {self.path}: {getattr(error, 'orig', error)}", "Check the disk") from None
