"""Model calls and events."""

import json
import time
import zlib
from typing import Any

from sqlalchemy import Connection, case, func, insert, select

from rri.lm.calls import CallRecord, Totals
from rri.store import tables as t
from rri.store.database import Database
from rri.store.writer import Append

__all__ = ["CallRows"]


class CallRows(Database):
    """Tables calls and events."""

    async def keep(self, record: CallRecord) -> None:
        """Keep a model call; the gateway's sink."""
        now = time.time()
        await self._writer.write(Append(t.calls, lambda: _call_row(record, now)))

    def call_totals(self) -> dict[str, Totals]:
        """Role -> what its calls have cost over all starts of the run."""
        k = t.calls.c
        query = select(
            k.role,
            func.count(),
            func.sum(case((k.error != "", 1), else_=0)),
            func.sum(k.tokens_in),
            func.sum(k.tokens_out),
            func.sum(k.cached),
            func.sum(k.seconds),
            func.sum(k.money),
        ).group_by(k.role)
        return {str(role): Totals(*sums) for role, *sums in self._read(lambda c: c.execute(query).all())}

    async def log(self, kind: str, message: str, **data: Any) -> None:
        """Keep something that happened, for `rri show` and `rri status`."""
        await self._writer.write(lambda c: _add_event(c, kind, message, data))

    def log_sync(self, kind: str, message: str, **data: Any) -> None:
        """`log` for callers outside the loop."""
        self._writer.run(lambda c: _add_event(c, kind, message, data))

    def log_soon(self, kind: str, message: str, **data: Any) -> None:
        """`log` without waiting, for a failure that is reported in another way as well."""
        self._writer.submit(lambda c: _add_event(c, kind, message, data))

    def events(self, kind: str, limit: int = 1000) -> list[tuple[float, str, dict[str, Any]]]:
        """(time, message, data) of the latest events of a kind, oldest first."""
        e = t.events.c
        query = select(e.at, e.message, e.data).where(e.kind == kind).order_by(e.id.desc()).limit(limit)
        rows = self._read(lambda c: c.execute(query).all())
        return [(float(at), str(message), json.loads(data)) for at, message, data in reversed(rows)]

    def hours_open(self) -> float:
        """Hours that the run has been open, over all starts so far."""
        e = t.events.c
        spans = select((func.max(e.at) - func.min(e.at)).label("span")).where(e.kind == "open").group_by(e.message)
        seconds = self._read(lambda c: c.scalar(select(func.sum(spans.subquery().c.span))))
        return float(seconds or 0.0) / 3600


def _add_event(connection: Connection, kind: str, message: str, data: dict[str, Any]) -> None:
    values = {"kind": kind, "message": message, "data": json.dumps(data), "at": time.time()}
    connection.execute(insert(t.events).values(**values))


def _call_row(record: CallRecord, at: float) -> dict[str, Any]:
    return {
        "role": record.role,
        "task_id": record.tag.task_id,
        "sample": record.tag.sample,
        "endpoint": record.endpoint,
        "model": record.model,
        "attempt": record.attempt,
        "messages": zlib.compress(json.dumps(record.messages).encode(), 1),
        "reply": zlib.compress(record.reply.encode("utf-8", "replace"), 1),
        "tokens_in": record.usage.tokens_in,
        "tokens_out": record.usage.tokens_out,
        "cached": record.usage.cached,
        "seconds": record.seconds,
        "money": record.money,
        "error": record.error,
        "at": at,
    }
