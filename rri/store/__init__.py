"""The run's database: SQLite in WAL mode through SQLAlchemy Core (DESIGN, data)."""

from rri.store.call_log import read_calls
from rri.store.rows import GradeRow, KeptCall, Origin, Place, ServedRow
from rri.store.store import Store

__all__ = ["GradeRow", "KeptCall", "Origin", "Place", "ServedRow", "Store", "read_calls"]
