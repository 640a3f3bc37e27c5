"""The run's database: tables in portable SQL. Rows are appended; nothing that was reported is changed in place."""

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

__all__ = ["admissions", "calls", "events", "grades", "metadata", "proposals", "resumes", "served", "task_versions"]

metadata = MetaData()

task_versions = Table(
    "task_versions",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("task_id", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("digest", String(32), nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Float, nullable=False),
    UniqueConstraint("task_id", "version"),
)

proposals = Table(
    "proposals",
    metadata,
    # The number of a request is the number of the task made from it.
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("draw", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("at", Float, nullable=False),
)

admissions = Table(
    "admissions",
    metadata,
    # The order of admission is the order of serving.
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("task_id", String(64), nullable=False, unique=True),
    Column("version", Integer, nullable=False),
    Column("outcome", String(16), nullable=False, index=True),
    Column("delta_before", Float),
    Column("delta_after", Float),
    Column("evidence", Text, nullable=False),
    Column("at", Float, nullable=False),
)

served = Table(
    "served",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("task_id", String(64), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("source", String(16), nullable=False),
    Column("at", Float, nullable=False),
)

grades = Table(
    "grades",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("split", String(16), nullable=False),
    Column("cycle", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("row", Integer, nullable=False),
    Column("task_id", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("answer", Text, nullable=False),
    Column("answer_digest", String(32), nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("score", Float),
    Column("raw", Float),
    Column("unscored", Text, nullable=False),
    Column("verdicts", Text, nullable=False),
    Column("superseded", Boolean, nullable=False, default=False),
    Column("at", Float, nullable=False),
    Index("grades_by_place", "split", "cycle", "position", "row"),
)

resumes = Table(
    "resumes",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("cycle", Integer, nullable=False),
    Column("superseded", Integer, nullable=False),
    Column("at", Float, nullable=False),
)

calls = Table(
    "calls",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("role", String(32), nullable=False),
    Column("task_id", String(64), nullable=False),
    Column("sample", String(64), nullable=False),
    Column("endpoint", String(64), nullable=False),
    Column("model", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("messages", LargeBinary, nullable=False),
    Column("reply", LargeBinary, nullable=False),
    Column("tokens_in", Integer, nullable=False),
    Column("tokens_out", Integer, nullable=False),
    Column("cached", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("money", Float, nullable=False),
    Column("error", Text, nullable=False),
    Column("at", Float, nullable=False),
    Index("calls_by_role", "role", "at"),
    Index("calls_by_task", "task_id"),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("kind", String(32), nullable=False, index=True),
    Column("message", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("at", Float, nullable=False),
)
