"""Tasks: requests proposed, drafts written, admissions, and what was served where."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from rri.errors import StoreError
from rri.evidence import Admission
from rri.shape import ShapeRow
from rri.store import tables as t
from rri.store.database import Database
from rri.store.rows import Origin, ServedRow
from rri.types import Task

__all__ = ["TaskRows", "add_version"]


class TaskRows(Database):
    """Tables task_versions, proposals, admissions, origins, served."""

    async def add_draft(self, task: Task, origin: Origin | None = None) -> None:
        """Keep a task as it was written, before it is attacked. A restart goes on from here."""
        await self.add_drafts([task], origin or Origin())

    async def add_drafts(self, tasks: Sequence[Task], origin: Origin) -> None:
        """Keep several, all or none.

        Raises:
            StoreError: one of the ids is taken by another task.
        """

        def work(c: Connection) -> None:
            for task in tasks:
                add_version(c, task)
                c.execute(upsert(t.origins).values(**_origin_row(task, origin)).on_conflict_do_nothing())

        await self._writer.write(work)

    async def add_admission(self, admission: Admission) -> None:
        """Keep a task's admission with all evidence and every version it went through, in one commit."""

        def work(c: Connection) -> None:
            accepted = [r.task for r in admission.rewrites if r.outcome == "accepted" and r.task is not None]
            last = admission.task.version
            # A rewrite that was accepted and then outgrew the solver's prompt is evidence, no version of the task.
            for task in [admission.original, *(r for r in accepted if r.version < last), admission.task]:
                add_version(c, task)
            c.execute(insert(t.admissions).values(**_admission_row(admission, last)))

        await self._writer.write(work)

    async def add_forked(self, tasks: Sequence[tuple[Admission, Sequence[Task]]]) -> None:
        """Keep admitted tasks of another run, all or none: each with its evidence and its versions, oldest first.

        The last version is servable at once. It may be a later one than was admitted.

        Raises:
            StoreError: one of the ids is taken.
        """

        def work(c: Connection) -> None:
            for admission, versions in tasks:
                for task in versions:
                    add_version(c, task)
                c.execute(insert(t.origins).values(**_origin_row(versions[0], Origin(source="forked"))))
                c.execute(insert(t.admissions).values(**_admission_row(admission, versions[-1].version)))

        await self._writer.write(work)

    def drafts(self) -> list[Task]:
        """Tasks that were written but not admitted when the run ended, oldest first."""
        query = (
            select(t.task_versions.c.body)
            .where(t.task_versions.c.task_id.not_in(select(t.admissions.c.task_id)))
            .order_by(t.task_versions.c.seq)
        )
        return [Task.model_validate_json(body) for body in self._read(lambda c: c.scalars(query).all())]

    def task_ids(self) -> list[str]:
        """Every task of the run, drafts and refused ones too, in order of birth."""
        v = t.task_versions.c
        query = select(v.task_id).group_by(v.task_id).order_by(func.min(v.seq))
        return [str(task_id) for task_id in self._read(lambda c: c.scalars(query).all())]

    def digests(self) -> dict[str, str]:
        """Digest of content -> task id, over every version of every task; of equal ones the oldest."""
        v = t.task_versions.c
        query = select(v.digest, v.task_id).order_by(v.seq.desc())
        return {str(digest): str(task_id) for digest, task_id in self._read(lambda c: c.execute(query).all())}

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

    def proposals(self) -> list[tuple[int, str]]:
        """(draw, text) of every proposed request, in order of number."""
        p = t.proposals.c
        query = select(p.draw, p.text).order_by(p.id)
        return [(int(draw), str(text)) for draw, text in self._read(lambda c: c.execute(query).all())]

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

    def admissions(self, *, forked: bool = True) -> Iterator[Admission]:
        """Every admission with its evidence, in order; those of tasks that came from another run only if `forked`."""
        query = select(t.admissions.c.evidence).order_by(t.admissions.c.seq)
        if not forked:
            others = select(t.origins.c.task_id).where(t.origins.c.source == "forked")
            query = query.where(t.admissions.c.task_id.not_in(others))
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

    def origins(self, last: int) -> tuple[list[ShapeRow], int]:
        """What was asked of the generator and delivered for the latest `last` written tasks, oldest first, and how
        many came before them.
        """
        o = t.origins.c
        columns = (o.asked_positives, o.asked_negative, o.positives, o.negatives, o.red_team)
        query = select(*columns).where(o.source == "written", o.asked_positives.is_not(None))
        total = self._read(lambda c: c.scalar(select(func.count()).select_from(query.subquery())))
        rows = self._read(lambda c: c.execute(query.order_by(o.seq.desc()).limit(last)).all())
        return [ShapeRow(*row) for row in reversed(rows)], int(total or 0) - len(rows)

    def probes_by_memo(self) -> dict[int, tuple[list[float], list[float]]]:
        """Memo version -> deltas and honest scores of the first probes of the tasks written under it."""
        a, o = t.admissions.c, t.origins.c
        query = (
            select(o.memo, a.delta_before, a.honest_before)
            .join_from(t.admissions, t.origins, a.task_id == o.task_id)
            .where(o.memo.is_not(None), a.delta_before.is_not(None), a.honest_before.is_not(None))
            .order_by(a.seq)
        )
        found: dict[int, tuple[list[float], list[float]]] = {}
        for memo, delta, honest in self._read(lambda c: c.execute(query).all()):
            deltas, honests = found.setdefault(int(memo), ([], []))
            deltas.append(float(delta))
            honests.append(float(honest))
        return found

    def latest_deltas(self, limit: int) -> list[tuple[float, float]]:
        """(delta at birth, delta as admitted) of the latest measured tasks, oldest first."""
        a = t.admissions.c
        measured = a.delta_before.is_not(None) & a.delta_after.is_not(None)
        query = select(a.delta_before, a.delta_after).where(measured).order_by(a.seq.desc()).limit(limit)
        return [(float(b), float(d)) for b, d in reversed(self._read(lambda c: c.execute(query).all()))]

    def latest_tasks(self, limit: int) -> list[Task]:
        """The latest admitted tasks as they were written, oldest first."""
        a, v = t.admissions.c, t.task_versions.c
        ids = select(a.task_id).order_by(a.seq.desc()).limit(limit)
        query = select(v.body).where(v.task_id.in_(ids), v.version == 1).order_by(v.seq)
        return [Task.model_validate_json(body) for body in self._read(lambda c: c.scalars(query).all())]

    def versions(self, task_id: str) -> list[Task]:
        """Every version of a task, oldest first."""
        v = t.task_versions.c
        query = select(v.body).where(v.task_id == task_id).order_by(v.version)
        return [Task.model_validate_json(body) for body in self._read(lambda c: c.scalars(query).all())]

    def admission(self, task_id: str) -> Admission | None:
        query = select(t.admissions.c.evidence).where(t.admissions.c.task_id == task_id)
        evidence = self._read(lambda c: c.scalar(query))
        return Admission.model_validate_json(evidence) if evidence is not None else None

    def origin(self, task_id: str) -> Origin | None:
        """How a task came to be; None where that was not kept."""
        o = t.origins.c
        columns = (o.source, o.guidance, o.memo, o.asked_positives, o.asked_negative)
        row = self._read(lambda c: c.execute(select(*columns).where(o.task_id == task_id)).first())
        return Origin(*row) if row is not None else None

    def origin_counts(self) -> dict[str, int]:
        """Source -> tasks."""
        o = t.origins.c
        query = select(o.source, func.count()).group_by(o.source)
        return {str(source): int(n) for source, n in self._read(lambda c: c.execute(query).all())}

    async def add_served(self, row: ServedRow) -> None:
        values = {"position": row.position, "task_id": row.task_id, "version": row.version, "source": row.source}
        await self._writer.write(lambda c: c.execute(insert(t.served).values(**values, at=time.time())))

    def served(self, start: int = 0, *, task_id: str = "") -> list[ServedRow]:
        """What was served from position `start` on, in order; with `task_id` where that task was."""
        columns = (t.served.c.position, t.served.c.task_id, t.served.c.version, t.served.c.source)
        query = select(*columns).where(t.served.c.position >= start).order_by(t.served.c.position)
        if task_id:
            query = query.where(t.served.c.task_id == task_id)
        return [ServedRow(*row) for row in self._read(lambda c: c.execute(query).all())]


def add_version(connection: Connection, task: Task) -> None:
    """Keep a version. It is written once: as a draft, then named again by its admission.

    Raises:
        StoreError: the version is known with other content.
    """
    values = {
        "task_id": task.task_id,
        "version": task.version,
        "digest": task.digest,
        "body": task.model_dump_json(),
        "at": time.time(),
    }
    if connection.execute(upsert(t.task_versions).values(**values).on_conflict_do_nothing()).rowcount:
        return
    v = t.task_versions.c
    known = connection.scalar(select(v.digest).where(v.task_id == task.task_id, v.version == task.version))
    if known != task.digest:
        raise StoreError(
            f"task {task.task_id} version {task.version} is kept with other content ({known}, now {task.digest})",
            "Give the task another id",
        )


def _origin_row(task: Task, origin: Origin) -> dict[str, Any]:
    positives = sum(c.points > 0 for c in task.rubric.criteria)
    return {
        "task_id": task.task_id,
        "source": origin.source,
        "guidance": origin.guidance,
        "memo": origin.memo,
        "asked_positives": origin.asked_positives,
        "asked_negative": origin.asked_negative,
        "positives": positives,
        "negatives": len(task.rubric.criteria) - positives,
        "red_team": task.labels.red_team,
        "at": time.time(),
    }


def _admission_row(admission: Admission, version: int) -> dict[str, Any]:
    return {
        "task_id": admission.task.task_id,
        "version": version,
        "outcome": admission.outcome,
        "delta_before": admission.delta_before,
        "delta_after": admission.delta_after,
        "honest_before": _honest_before(admission),
        "evidence": admission.model_dump_json(),
        "at": time.time(),
    }


def _honest_before(admission: Admission) -> float | None:
    """The honest answer's score in the first probe, where that measured anything."""
    return admission.probe.honest_score if admission.probe and admission.delta_before is not None else None
