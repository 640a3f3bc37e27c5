"""Sums over tables that only grow, for figures that are asked for all the time."""

import threading
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

__all__ = ["RunningSums"]


class RunningSums:
    """Sums over the rows of a table by key. A row is read once, however often the sums are asked for.

    May be asked from any thread.

    Args:
        number: the column by which rows are appended.
        key: what rows are grouped by.
        sums: what is added up, as aggregates, such as `count` and `sum`.
        where: which rows count. It must not look like a reason to use an index, or that is read as a whole.
    """

    def __init__(
        self,
        number: ColumnElement[int],
        key: ColumnElement[Any],
        sums: Sequence[ColumnElement[Any]],
        where: Sequence[ColumnElement[bool]] = (),
    ) -> None:
        self._number = number
        self._query = select(key, *sums).where(*where).group_by(key)
        self._lock = threading.Lock()
        self._epoch = 0
        self._seen = 0
        self._sums: dict[Any, list[float]] = {}

    def read(self, connection: Connection, epoch: ColumnElement[Any] | None = None) -> dict[Any, list[float]]:
        """The sums by key as of now.

        Args:
            connection: of this call alone.
            epoch: a number that changes whenever rows that were summed have changed. All are then read again.
        """
        with self._lock:
            now = int(connection.scalar(select(epoch)) or 0) if epoch is not None else 0
            if now != self._epoch:
                self._epoch, self._seen, self._sums = now, 0, {}
            last = int(connection.scalar(select(func.max(self._number))) or 0)
            if last > self._seen:
                fresh = self._query.where(self._number > self._seen, self._number <= last)
                for key, *values in connection.execute(fresh):
                    known = self._sums.get(key, [0.0] * len(values))
                    self._sums[key] = [a + (b or 0) for a, b in zip(known, values, strict=True)]
                self._seen = last
            return dict(self._sums)
