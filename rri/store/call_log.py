"""Reading kept calls back by role, task and time (DESIGN, seam 1)."""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Row, create_engine, select
from sqlalchemy.exc import SQLAlchemyError

from rri.errors import StoreError
from rri.lm.calls import CallRecord, Tag, Usage
from rri.store import tables as t
from rri.store.database import DATABASE
from rri.store.rows import KeptCall

__all__ = ["read_calls"]


def read_calls(
    folder: Path, *, role: str = "", task_id: str = "", since: float = 0.0, last: int | None = None
) -> Iterator[KeptCall]:
    """Kept calls in order of time; with `last`, the latest ones only. Reads beside a running service.

    Raises:
        StoreError: the database cannot be read.
    """
    k = t.calls.c
    query = select(t.calls).where(k.at >= since).order_by(k.id.desc())
    if role:
        query = query.where(k.role == role)
    if task_id:
        query = query.where(k.task_id == task_id)
    # Read only, so that looking at a folder never makes a database in it.
    uri = f"file:{quote(str(folder / DATABASE))}?mode=ro"
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(uri, uri=True))
    try:
        with engine.connect() as connection:
            rows = connection.execute(query.limit(last) if last else query).all()
    except SQLAlchemyError as error:
        raise StoreError(
            f"cannot read {folder / DATABASE}: {getattr(error, 'orig', error)}", "Is it a run directory?"
        ) from None
    finally:
        engine.dispose()
    return (_call(row) for row in reversed(rows))


def _call(row: Row[tuple[object, ...]]) -> KeptCall:
    record = CallRecord(
        role=row.role,
        tag=Tag(row.task_id, row.sample),
        endpoint=row.endpoint,
        model=row.model,
        attempt=row.attempt,
        messages=json.loads(zlib.decompress(row.messages)),
        reply=zlib.decompress(row.reply).decode(),
        usage=Usage(row.tokens_in, row.tokens_out, row.cached),
        seconds=row.seconds,
        money=row.money,
        error=row.error,
    )
    return KeptCall(row.id, row.at, record)
