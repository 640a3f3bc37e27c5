"""The run's database: SQLite in WAL mode through SQLAlchemy Core (DESIGN, data)."""

from rri.store.call_log import read_calls
from rri.store.grade_rows import Rollout, VersionScores
from rri.store.loop_rows import CaseRow, EvictionRow, PatchRow, Report, RoundRow
from rri.store.rows import GradeRow, KeptCall, Origin, Place, ServedRow
from rri.store.store import Store
from rri.store.validation_rows import ValidationRow

__all__ = [
    "CaseRow",
    "EvictionRow",
    "GradeRow",
    "KeptCall",
    "Origin",
    "PatchRow",
    "Place",
    "Report",
    "Rollout",
    "RoundRow",
    "ServedRow",
    "Store",
    "ValidationRow",
    "VersionScores",
    "read_calls",
]
