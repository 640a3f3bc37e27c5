"""The run's database: what was made, attacked, served, graded, and what it cost."""

import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, case, create_engine, event, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import SQLAlchemyError

from rri.errors import StoreError
from rri.evidence import Admission
from rri.lm.calls import CallRecord, Totals
from rri.store import tables as t
from rri.store.writer import Append, Writer
from rri.types import Grade, Split, Task, digest_of

__all__ = ["GradeRow", "KeptCall", "Place", "ServedRow", "Store"]

T = TypeVar("T")

DATABASE = "rri.db"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rollout stands: its split, cycle, position, and row within the group."""

    split: Split
    cycle: int
    position: int
    row: int


@dataclass(frozen=True, slots=True)
class GradeRow:
    """One graded rollout."""

    place: Place
    task_id: str
    version: int
    answer: str
    finished: bool
    grade: Grade


@dataclass(frozen=True, slots=True)
class ServedRow:
    """What was served at a position, and from where: replay, fresh or draw."""

    position: int
    task_id: str
    version: int
    source: str


@dataclass(frozen=True, slots=True)
class KeptCall:
    """A call as read back."""

    id: int
    at: float
    record: CallRecord


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


class Store:
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

    # -- tasks ---------------------------------------------------------------

    async def add_draft(self, task: Task) -> None:
        """Keep a task as the generator wrote it, before it is attacked. A restart goes on from here."""
        await self._writer.write(lambda c: _add_version(c, task))

    async def add_admission(self, admission: Admission) -> None:
        """Keep a task's admission with all evidence and every version it went through, in one commit."""

        def work(c: Connection) -> None:
            accepted = [r.task for r in admission.rewrites if r.outcome == "accepted" and r.task is not None]
            for task in [admission.original, *accepted, admission.task]:
                _add_version(c, task)
            c.execute(
                insert(t.admissions).values(
                    task_id=admission.task.task_id,
                    version=admission.task.version,
                    outcome=admission.outcome,
                    delta_before=admission.delta_before,
                    delta_after=admission.delta_after,
                    evidence=admission.model_dump_json(),
                    at=time.time(),
                )
            )

        await self._writer.write(work)

    def drafts(self) -> list[Task]:
        """Tasks that were written but not admitted when the run ended, oldest first."""
        query = (
            select(t.task_versions.c.body)
            .where(t.task_versions.c.task_id.not_in(select(t.admissions.c.task_id)))
            .order_by(t.task_versions.c.seq)
        )
        return [Task.model_validate_json(body) for body in self._read(lambda c: c.scalars(query).all())]

    def task(self, task_id: str, version: int) -> Task | None:
        query = select(t.task_versions.c.body).where(
            t.task_versions.c.task_id == task_id, t.task_versions.c.version == version
        )
        body = self._read(lambda c: c.scalar(query))
        return Task.model_validate_json(body) if body is not None else None

    async def add_proposals(self, draw: int, texts: Sequence[str]) -> list[int]:
        """Keep proposed requests; their numbers, which no later request gets again."""

        def work(c: Connection) -> list[int]:
            rows = [{"draw": draw, "text": text, "at": time.time()} for text in texts]
            query = insert(t.proposals).returning(t.proposals.c.id)
            return [int(c.execute(query.values(**row)).scalar_one()) for row in rows]

        return await self._writer.write(work)

    def last_draw(self) -> int:
        """The number of the latest proposer call, 0 before the first."""
        return int(self._read(lambda c: c.scalar(select(func.max(t.proposals.c.draw)))) or 0)

    def pool_entries(self, after: int = 0) -> list[tuple[int, str, int]]:
        """(admission number, task id, version) of the servable tasks in order of admission, from after `after`."""
        query = (
            select(t.admissions.c.seq, t.admissions.c.task_id, t.admissions.c.version)
            .where(t.admissions.c.seq > after, t.admissions.c.outcome != "refused")
            .order_by(t.admissions.c.seq)
        )
        return [(int(s), str(i), int(v)) for s, i, v in self._read(lambda c: c.execute(query).all())]

    def admissions(self) -> Iterator[Admission]:
        """Every admission with its evidence, in order."""
        query = select(t.admissions.c.evidence).order_by(t.admissions.c.seq)
        for evidence in self._read(lambda c: c.scalars(query).all()):
            yield Admission.model_validate_json(evidence)

    def admission_counts(self) -> dict[str, int]:
        """Outcome -> tasks."""
        query = select(t.admissions.c.outcome, func.count()).group_by(t.admissions.c.outcome)
        return {str(outcome): int(n) for outcome, n in self._read(lambda c: c.execute(query).all())}

    def mean_deltas(self) -> tuple[float | None, float | None, int]:
        """Mean delta before and after repair over the measured tasks, and how many they are."""
        c_ = t.admissions.c
        query = select(func.avg(c_.delta_before), func.avg(c_.delta_after), func.count(c_.delta_before))
        before, after, n = self._read(lambda c: c.execute(query).one())
        return before, after, int(n)

    def recent_requests(self, limit: int) -> list[str]:
        """The latest proposed requests, newest first."""
        query = select(t.proposals.c.text).order_by(t.proposals.c.id.desc()).limit(limit)
        return [str(text) for text in self._read(lambda c: c.scalars(query).all())]

    # -- serving -------------------------------------------------------------

    async def add_served(self, row: ServedRow) -> None:
        values = {"position": row.position, "task_id": row.task_id, "version": row.version, "source": row.source}
        await self._writer.write(lambda c: c.execute(insert(t.served).values(**values, at=time.time())))

    def served(self, start: int = 0) -> list[ServedRow]:
        """What was served from position `start` on, in order."""
        columns = (t.served.c.position, t.served.c.task_id, t.served.c.version, t.served.c.source)
        query = select(*columns).where(t.served.c.position >= start).order_by(t.served.c.position)
        return [ServedRow(*row) for row in self._read(lambda c: c.execute(query).all())]

    # -- grades --------------------------------------------------------------

    async def add_grades(self, rows: Sequence[GradeRow]) -> None:
        """Keep graded rollouts, all or none."""
        now = time.time()
        values = [
            {
                "split": r.place.split,
                "cycle": r.place.cycle,
                "position": r.place.position,
                "row": r.place.row,
                "task_id": r.task_id,
                "version": r.version,
                "answer": r.answer,
                "answer_digest": answer_digest(r.answer),
                "finished": r.finished,
                "score": r.grade.score,
                "raw": r.grade.raw,
                "unscored": r.grade.unscored,
                "verdicts": json.dumps([v.model_dump() for v in r.grade.verdicts]),
                "superseded": False,
                "at": now,
            }
            for r in rows
        ]
        if values:
            await self._writer.write(lambda c: c.execute(insert(t.grades), values))

    def find_grade(self, place: Place, answer: str) -> Grade | None:
        """The grade that this very rollout has already, so that a repeated request is not judged again."""
        g = t.grades.c
        query = select(g.score, g.raw, g.unscored, g.verdicts).where(
            g.split == place.split,
            g.cycle == place.cycle,
            g.position == place.position,
            g.row == place.row,
            g.answer_digest == answer_digest(answer),
            g.superseded.is_(False),
        )
        row = self._read(lambda c: c.execute(query).first())
        if row is None:
            return None
        return Grade.model_validate(
            {"score": row.score, "raw": row.raw, "unscored": row.unscored, "verdicts": json.loads(row.verdicts)}
        )

    def group_scores(self, split: Split, cycle: int, position: int) -> dict[int, float | None]:
        """Row -> score of the kept rollouts of one group; truncated ones have none of their own."""
        g = t.grades.c
        query = select(g.row, case((g.raw.is_(None), None), else_=g.score)).where(
            g.split == split, g.cycle == cycle, g.position == position, g.superseded.is_(False)
        )
        return {int(row): score for row, score in self._read(lambda c: c.execute(query).all())}

    async def supersede(self, cycle: int) -> int:
        """Training resumes at `cycle`: its rows and later ones are out of every window, but kept. Their number."""

        def work(c: Connection) -> int:
            done = c.execute(
                update(t.grades)
                .where(t.grades.c.split == "train", t.grades.c.cycle >= cycle, t.grades.c.superseded.is_(False))
                .values(superseded=True)
            )
            c.execute(insert(t.resumes).values(cycle=cycle, superseded=done.rowcount, at=time.time()))
            return done.rowcount

        return await self._writer.write(work)

    def score_summary(self, last: int | None = None) -> dict[str, Any]:
        """Count, mean score, unscored and cycles of the training split's rollouts, superseded ones left out."""
        g = t.grades.c
        rows = select(g.score, g.cycle).where(g.split == "train", g.superseded.is_(False)).order_by(g.id.desc())
        inner = (rows.limit(last) if last else rows).subquery()
        figures = (func.count(), func.avg(inner.c.score), func.count(inner.c.score), func.max(inner.c.cycle))
        total, mean, scored, last_cycle = self._read(lambda c: c.execute(select(*figures).select_from(inner)).one())
        return {
            "rollouts": int(total),
            "mean_score": mean,
            "unscored": int(total) - int(scored),
            "cycles": 0 if last_cycle is None else int(last_cycle) + 1,
        }

    def cycle_scores(self) -> list[tuple[int, int, float | None]]:
        """(cycle, rollouts, mean score) of the training split in order."""
        g = t.grades.c
        query = (
            select(g.cycle, func.count(), func.avg(g.score))
            .where(g.split == "train", g.superseded.is_(False))
            .group_by(g.cycle)
            .order_by(g.cycle)
        )
        return [(int(cycle), int(n), mean) for cycle, n, mean in self._read(lambda c: c.execute(query).all())]

    # -- calls and events ------------------------------------------------------

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


def answer_digest(answer: str) -> str:
    return digest_of(answer)


def _add_version(connection: Connection, task: Task) -> None:
    values = {
        "task_id": task.task_id,
        "version": task.version,
        "digest": task.digest,
        "body": task.model_dump_json(),
        "at": time.time(),
    }
    # A version is written once: as a draft, then named again by its admission.
    connection.execute(upsert(t.task_versions).values(**values).on_conflict_do_nothing())


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
