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

__all__ = [
    "admissions",
    "calls",
    "cases",
    "events",
    "evictions",
    "grades",
    "guidance",
    "honest_answers",
    "memos",
    "metadata",
    "origins",
    "patches",
    "proposals",
    "rankings",
    "reports",
    "resumes",
    "rounds",
    "served",
    "task_versions",
]

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
    # The honest answer's score in the first probe, where that gave one.
    Column("honest_before", Float),
    Column("evidence", Text, nullable=False),
    Column("at", Float, nullable=False),
)

origins = Table(
    "origins",
    metadata,
    # How a task came to be: under which guidance and memo, what was asked and what was delivered.
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("task_id", String(64), nullable=False, unique=True),
    Column("source", String(16), nullable=False),
    Column("guidance", Integer),
    Column("memo", Integer, index=True),
    Column("asked_positives", Integer),
    Column("asked_negative", Boolean),
    Column("positives", Integer, nullable=False),
    Column("negatives", Integer, nullable=False),
    Column("red_team", Boolean, nullable=False),
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

reports = Table(
    "reports",
    metadata,
    # A cycle that the trainer has finished. A resumed trainer reports its cycles anew.
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("cycle", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("at", Float, nullable=False),
)

rankings = Table(
    "rankings",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("report", Integer, nullable=False, index=True),
    Column("position", Integer, nullable=False),
    Column("task_id", String(64), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("pairs", Integer, nullable=False),
    Column("longer", Integer, nullable=False),
    Column("earlier", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Float, nullable=False),
)

cases = Table(
    "cases",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("report", Integer, nullable=False, index=True),
    Column("cycle", Integer, nullable=False, index=True),
    Column("position", Integer, nullable=False),
    Column("task_id", String(64), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("gap", Float, nullable=False),
    Column("chosen", Boolean, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Float, nullable=False),
)

patches = Table(
    "patches",
    metadata,
    # The order of patches is the order of replay.
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("case_id", Integer, nullable=False, unique=True),
    Column("task_id", String(64), nullable=False, index=True),
    Column("version", Integer, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("accepted", Integer, nullable=False),
    Column("lead_before", Float),
    Column("lead_after", Float),
    Column("body", Text, nullable=False),
    Column("at", Float, nullable=False),
)

honest_answers = Table(
    "honest_answers",
    metadata,
    Column("conversation", String(32), primary_key=True),
    Column("answer", Text, nullable=False),
    Column("at", Float, nullable=False),
)

evictions = Table(
    "evictions",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("task_id", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("mean", Float, nullable=False),
    Column("variance", Float, nullable=False),
    Column("rollouts", Integer, nullable=False),
    Column("at", Float, nullable=False),
    UniqueConstraint("task_id", "version"),
)

guidance = Table(
    "guidance",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("cycle", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Float, nullable=False),
)

memos = Table(
    "memos",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("cycle", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", Float, nullable=False),
)

rounds = Table(
    "rounds",
    metadata,
    # Work of the loop that is over for good; what has no row here is done again after a kill.
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("report", Integer, nullable=False),
    Column("cycle", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("seconds", Float, nullable=False),
    Column("data", Text, nullable=False),
    Column("at", Float, nullable=False),
    Index("rounds_by_report", "report", "kind"),
)
