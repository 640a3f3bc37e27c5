"""The run's database: SQLite in WAL mode through SQLAlchemy Core (DESIGN, data)."""

from rri.store.call_log import read_calls
from rri.store.loop_rows import PatchRow, Report, RoundRow
from rri.store.rows import GradeRow, KeptCall, Origin, Place, ServedRow
from rri.store.store import Store

__all__ = [
    "GradeRow",
    "KeptCall",
    "Origin",
    "PatchRow",
    "Place",
    "Report",
    "RoundRow",
    "ServedRow",
    "Store",
    "read_calls",
]
