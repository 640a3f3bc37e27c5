"""Tasks: requests proposed, drafts written, admissions, and what was served where."""

import time
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from rri.evidence import Admission
from rri.store import tables as t
from rri.store.database import Database
from rri.store.rows import ServedRow
from rri.types import Task

__all__ = ["TaskRows", "add_version"]


class TaskRows(Database):
    """Tables task_versions, proposals, admissions, served."""

    async def add_draft(self, task: Task) -> None:
        """Keep a task as the generator wrote it, before it is attacked. A restart goes on from here."""
        await self._writer.write(lambda c: add_version(c, task))

    async def add_admission(self, admission: Admission) -> None:
        """Keep a task's admission with all evidence and every version it went through, in one commit."""

        def work(c: Connection) -> None:
            accepted = [r.task for r in admission.rewrites if r.outcome == "accepted" and r.task is not None]
            for task in [admission.original, *accepted, admission.task]:
                add_version(c, task)
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

    async def add_served(self, row: ServedRow) -> None:
        values = {"position": row.position, "task_id": row.task_id, "version": row.version, "source": row.source}
        await self._writer.write(lambda c: c.execute(insert(t.served).values(**values, at=time.time())))

    def served(self, start: int = 0) -> list[ServedRow]:
        """What was served from position `start` on, in order."""
        columns = (t.served.c.position, t.served.c.task_id, t.served.c.version, t.served.c.source)
        query = select(*columns).where(t.served.c.position >= start).order_by(t.served.c.position)
        return [ServedRow(*row) for row in self._read(lambda c: c.execute(query).all())]


def add_version(connection: Connection, task: Task) -> None:
    values = {
        "task_id": task.task_id,
        "version": task.version,
        "digest": task.digest,
        "body": task.model_dump_json(),
        "at": time.time(),
    }
    # A version is written once: as a draft, then named again by its admission.
    connection.execute(upsert(t.task_versions).values(**values).on_conflict_do_nothing())
