"""The recursive loop: cycles reported, groups ranked, exploit cases, patches, guidance, memos, rounds."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy import Connection, Select, Table, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from rri.cases import ExploitCase, GuidanceVersion, MemoVersion, Patch, Ranking
from rri.store import tables as t
from rri.store.database import Database
from rri.store.running import RunningSums
from rri.store.task_rows import add_version
from rri.types import Message, digest_of

__all__ = ["CaseRow", "EvictionRow", "LoopRows", "PatchRow", "Report", "RoundRow", "conversation_digest"]

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Report:
    """A cycle that the trainer has finished."""

    id: int
    cycle: int
    step: int


@dataclass(frozen=True, slots=True)
class CaseRow:
    """An exploit case without its evidence; `chosen` says whether it went to repair."""

    number: int
    cycle: int
    position: int
    task_id: str
    version: int
    gap: float
    chosen: bool


@dataclass(frozen=True, slots=True)
class EvictionRow:
    """A version that left the draw, with its latest training scores then: mean, population variance, how many."""

    task_id: str
    version: int
    mean: float
    variance: float
    rollouts: int


@dataclass(frozen=True, slots=True)
class PatchRow:
    """What became of a case, without its evidence."""

    seq: int
    case: int
    task_id: str
    version: int
    outcome: str
    accepted: int


@dataclass(frozen=True, slots=True)
class RoundRow:
    """Work of the loop that is over: `kind` is cases, patches, evolution, or cycle for all of a report's work."""

    report: int
    cycle: int
    kind: str
    outcome: str
    seconds: float
    data: Mapping[str, Any]


def conversation_digest(conversation: Sequence[Message]) -> str:
    return digest_of([m.model_dump() for m in conversation])


class LoopRows(Database):
    """Tables reports, rankings, cases, patches, honest_answers, evictions, guidance, memos, rounds."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        r, p = t.rankings.c, t.patches.c
        won = (func.sum(r.pairs), func.sum(r.longer), func.sum(r.earlier))
        self._ranked = RunningSums(r.id, r.outcome, (func.count(), *won))
        self._patched = RunningSums(p.seq, p.outcome, (func.count(), func.sum(p.accepted)))

    # -- reports and rounds ---------------------------------------------------

    async def add_report(self, cycle: int, step: int, metrics: Mapping[str, float]) -> Report:
        """Keep a report; one that is sent again, with no resume between, is the one that is there."""
        values = {"cycle": cycle, "step": step, "metrics": json.dumps(dict(metrics)), "at": time.time()}
        r = t.reports.c
        resumed = select(func.coalesce(func.max(t.resumes.c.at), 0.0)).scalar_subquery()
        known = select(r.id).where(r.cycle == cycle, r.at >= resumed)

        def work(c: Connection) -> int:
            number = c.scalar(known)
            return int(number or c.execute(insert(t.reports).values(**values).returning(r.id)).scalar_one())

        return Report(await self._writer.write(work), cycle, step)

    def open_reports(self) -> list[Report]:
        """Reported cycles whose work is not over, oldest first."""
        r, done = t.reports.c, select(t.rounds.c.report).where(t.rounds.c.kind == "cycle")
        query = select(r.id, r.cycle, r.step).where(r.id.not_in(done)).order_by(r.id)
        return [Report(*row) for row in self._read(lambda c: c.execute(query).all())]

    def last_report(self) -> Report | None:
        """The latest cycle that was reported."""
        r = t.reports.c
        row = self._read(lambda c: c.execute(select(r.id, r.cycle, r.step).order_by(r.id.desc())).first())
        return Report(*row) if row is not None else None

    def superseded(self, report: int) -> bool:
        """Whether the trainer has gone back to the report's cycle or an earlier one since it reported."""
        r, s = t.reports.c, t.resumes.c
        later = (s.at > r.at) & (s.cycle <= r.cycle)
        query = select(func.count()).select_from(t.reports.join(t.resumes, later)).where(r.id == report)
        return bool(self._read(lambda c: c.scalar(query)))

    def round_done(self, report: int, kind: str) -> bool:
        query = select(func.count()).where(t.rounds.c.report == report, t.rounds.c.kind == kind)
        return bool(self._read(lambda c: c.scalar(query)))

    async def add_round(
        self, row: RoundRow, guidance: GuidanceVersion | None = None, memo: MemoVersion | None = None
    ) -> None:
        """A piece of the loop's work is over; what it put into force comes with it, in one commit."""

        def work(c: Connection) -> None:
            for table, made in ((t.guidance, guidance), (t.memos, memo)):
                if made is not None:
                    _add_text(c, table, made)
            c.execute(insert(t.rounds).values(**_round_row(row)))

        await self._writer.write(work)

    def rounds(self, kind: str) -> list[RoundRow]:
        """Rounds of a kind, oldest first."""
        r = t.rounds.c
        query = select(r.report, r.cycle, r.kind, r.outcome, r.seconds, r.data).where(r.kind == kind).order_by(r.id)
        rows = self._read(lambda c: c.execute(query).all())
        return [RoundRow(i, cycle, k, out, s, json.loads(data)) for i, cycle, k, out, s, data in rows]

    # -- rankings and cases -----------------------------------------------------

    async def add_cases(
        self,
        report: int,
        rankings: Sequence[Ranking],
        cases: Sequence[tuple[ExploitCase, bool]],
        row: RoundRow | None = None,
    ) -> None:
        """Keep what the referee found in a step, all or none; each case with whether it goes to repair. With `row`
        that piece of work is over.
        """
        ranked = [_ranking_row(report, ranking) for ranking in rankings]
        found = [_case_row(report, case, chosen) for case, chosen in cases]

        def work(c: Connection) -> None:
            for table, rows in ((t.rankings, ranked), (t.cases, found)):
                if rows:
                    c.execute(insert(table), rows)
            if row is not None:
                c.execute(insert(t.rounds).values(**_round_row(row)))

        await self._writer.write(work)

    def cases_of(self, report: int, *, chosen: bool) -> list[tuple[int, ExploitCase]]:
        """(number, case) of a step, in the order in which they were kept."""
        k = t.cases.c
        query = select(k.id, k.body).where(k.report == report, k.chosen.is_(chosen)).order_by(k.id)
        return [(int(i), ExploitCase.model_validate_json(body)) for i, body in self._read(_all(query))]

    def case(self, number: int) -> ExploitCase | None:
        body = self._read(lambda c: c.scalar(select(t.cases.c.body).where(t.cases.c.id == number)))
        return ExploitCase.model_validate_json(body) if body is not None else None

    def case_rows(self, task_id: str = "") -> list[CaseRow]:
        """Every case in order of number; with `task_id` those of that task."""
        k = t.cases.c
        query = select(k.id, k.cycle, k.position, k.task_id, k.version, k.gap, k.chosen).order_by(k.id)
        if task_id:
            query = query.where(k.task_id == task_id)
        return [CaseRow(*row) for row in self._read(_all(query))]

    def ranked(self, task_id: str) -> dict[str, int]:
        """Outcome -> groups of this task that came before the referee."""
        r = t.rankings.c
        query = select(r.outcome, func.count()).where(r.task_id == task_id).group_by(r.outcome)
        return {str(outcome): int(n) for outcome, n in self._read(_all(query))}

    def exploits_since(self, cycle: int) -> tuple[list[float], list[Patch]]:
        """Gaps of the cases of cycle `cycle` and later ones, and the patches made for them, oldest first."""
        k, p = t.cases.c, t.patches.c
        gaps = select(k.gap).where(k.cycle >= cycle).order_by(k.cycle, k.id)
        bodies = select(p.body).where(p.case_id.in_(select(k.id).where(k.cycle >= cycle))).order_by(p.seq)
        found = self._read(lambda c: (c.scalars(gaps).all(), c.scalars(bodies).all()))
        return [float(gap) for gap in found[0]], [Patch.model_validate_json(body) for body in found[1]]

    def loop_figures(self) -> dict[str, Any]:
        """Groups ranked and cases patched by outcome, criteria accepted, and the referee's preferences: decisive pairs
        with how often the longer and the earlier answer won them.
        """
        groups, cases = self._read(self._ranked.read), self._read(self._patched.read)
        pairs, longer, earlier = (int(sum(group[i] for group in groups.values())) for i in (1, 2, 3))
        return {
            "rankings": {str(outcome): int(group[0]) for outcome, group in groups.items()},
            "patches": {str(outcome): int(case[0]) for outcome, case in cases.items()},
            "accepted": int(sum(case[1] for case in cases.values())),
            "preference": {"pairs": pairs, "longer": longer, "earlier": earlier},
        }

    # -- patches ------------------------------------------------------------------

    async def add_patch(self, patch: Patch) -> None:
        """Keep what became of a case; a patched task's new version comes with it, in one commit."""

        def work(c: Connection) -> None:
            if patch.outcome == "patched":
                add_version(c, patch.task)
            values = {
                "case_id": patch.case,
                "task_id": patch.task.task_id,
                "version": patch.task.version,
                "outcome": patch.outcome,
                "accepted": len(patch.accepted),
                "lead_before": patch.lead_before,
                "lead_after": patch.lead_after,
                "body": patch.model_dump_json(),
                "at": time.time(),
            }
            c.execute(insert(t.patches).values(**values))

        await self._writer.write(work)

    def patch_of(self, case: int) -> Patch | None:
        body = self._read(lambda c: c.scalar(select(t.patches.c.body).where(t.patches.c.case_id == case)))
        return Patch.model_validate_json(body) if body is not None else None

    def patches(self, after: int = 0, *, patched: bool = False) -> list[PatchRow]:
        """Patches in order from after `after` on; with `patched` those alone that made a new version."""
        p = t.patches.c
        query = select(p.seq, p.case_id, p.task_id, p.version, p.outcome, p.accepted).where(p.seq > after)
        if patched:
            query = query.where(p.outcome == "patched")
        return [PatchRow(*row) for row in self._read(_all(query.order_by(p.seq)))]

    def all_patches(self) -> Iterator[Patch]:
        """Every patch with its evidence, patched or not, in order."""
        numbers = self._read(lambda c: c.scalars(select(t.patches.c.case_id).order_by(t.patches.c.seq)).all())
        # One at a time: the answers of a long run do not fit into memory together.
        for number in numbers:
            if (patch := self.patch_of(int(number))) is not None:
                yield patch

    def servable(self) -> list[tuple[str, int]]:
        """(task id, version served now) of the tasks in the pool, in order of admission, as of one moment."""
        a, p = t.admissions.c, t.patches.c
        admitted = select(a.task_id, a.version).where(a.outcome != "refused").order_by(a.seq)
        patched = select(p.task_id, p.version).where(p.outcome == "patched").order_by(p.seq)
        found = self._read(lambda c: (c.execute(admitted).all(), c.execute(patched).all()))
        latest = {str(task_id): int(version) for task_id, version in found[1]}
        return [(str(task_id), latest.get(task_id, int(version))) for task_id, version in found[0]]

    def latest_patches(self, limit: int) -> list[Patch]:
        """The latest patches with their evidence that made a new version, newest first."""
        p = t.patches.c
        query = select(p.body).where(p.outcome == "patched").order_by(p.seq.desc()).limit(limit)
        return [Patch.model_validate_json(body) for body in self._read(lambda c: c.scalars(query).all())]

    def accepted_before(self, task_id: str) -> int:
        """Criteria that patches have added to a task over the run."""
        query = select(func.sum(t.patches.c.accepted)).where(t.patches.c.task_id == task_id)
        return int(self._read(lambda c: c.scalar(query)) or 0)

    async def add_honest_answer(self, conversation: Sequence[Message], answer: str) -> None:
        values = {"conversation": conversation_digest(conversation), "answer": answer, "at": time.time()}
        query = upsert(t.honest_answers).values(**values).on_conflict_do_nothing()
        await self._writer.write(lambda c: c.execute(query))

    def honest_answer(self, conversation: Sequence[Message]) -> str | None:
        """The rubric-blind answer that was kept for a conversation."""
        h = t.honest_answers.c
        query = select(h.answer).where(h.conversation == conversation_digest(conversation))
        return self._read(lambda c: c.scalar(query))

    # -- evictions ------------------------------------------------------------------

    async def add_eviction(self, task_id: str, version: int, mean: float, variance: float, rollouts: int) -> None:
        """A version of a task leaves the draw."""
        values = {"task_id": task_id, "version": version, "mean": mean, "variance": variance, "rollouts": rollouts}
        query = upsert(t.evictions).values(**values, at=time.time()).on_conflict_do_nothing()
        await self._writer.write(lambda c: c.execute(query))

    def evicted(self) -> list[tuple[str, int]]:
        """(task id, version) of all that left, in order."""
        e = t.evictions.c
        return [(str(i), int(v)) for i, v in self._read(_all(select(e.task_id, e.version).order_by(e.seq)))]

    def evictions(self, task_id: str = "") -> list[EvictionRow]:
        """Every eviction in order; with `task_id` those of that task."""
        e = t.evictions.c
        query = select(e.task_id, e.version, e.mean, e.variance, e.rollouts).order_by(e.seq)
        if task_id:
            query = query.where(e.task_id == task_id)
        return [EvictionRow(*row) for row in self._read(_all(query))]

    # -- guidance and memo ------------------------------------------------------------

    def guidance_versions(self) -> list[GuidanceVersion]:
        """All guidance, oldest first; the first one is empty unless the run was started from another's."""
        return self._texts(t.guidance, GuidanceVersion)

    def memo_versions(self) -> list[MemoVersion]:
        """All memos, oldest first."""
        return self._texts(t.memos, MemoVersion)

    async def begin_texts(self, guidance: GuidanceVersion, memo: MemoVersion) -> None:
        """The texts that a run begins with; later calls change nothing."""

        def work(c: Connection) -> None:
            for table, made in ((t.guidance, guidance), (t.memos, memo)):
                if not c.scalar(select(func.count()).select_from(table)):
                    _add_text(c, table, made)

        await self._writer.write(work)

    def _texts(self, table: Table, model: type[M]) -> list[M]:
        query = select(table.c.body).order_by(table.c.version)
        return [model.model_validate_json(body) for body in self._read(lambda c: c.scalars(query).all())]


def _all(query: Select[Any]) -> Any:
    return lambda c: c.execute(query).all()


def _add_text(connection: Connection, table: Table, made: GuidanceVersion | MemoVersion) -> None:
    values = {"version": made.version, "cycle": made.cycle, "body": made.model_dump_json(), "at": time.time()}
    connection.execute(insert(table).values(**values))


def _round_row(row: RoundRow) -> dict[str, Any]:
    return {
        "report": row.report,
        "cycle": row.cycle,
        "kind": row.kind,
        "outcome": row.outcome,
        "seconds": row.seconds,
        "data": json.dumps(dict(row.data)),
        "at": time.time(),
    }


def _ranking_row(report: int, ranking: Ranking) -> dict[str, Any]:
    preference = ranking.preference
    return {
        "report": report,
        "position": ranking.position,
        "task_id": ranking.task_id,
        "outcome": ranking.outcome,
        "pairs": preference.pairs,
        "longer": preference.longer,
        "earlier": preference.earlier,
        "body": ranking.model_dump_json(),
        "at": time.time(),
    }


def _case_row(report: int, case: ExploitCase, chosen: bool) -> dict[str, Any]:
    return {
        "report": report,
        "cycle": case.cycle,
        "position": case.position,
        "task_id": case.task.task_id,
        "version": case.task.version,
        "gap": case.gap,
        "chosen": chosen,
        "body": case.model_dump_json(),
        "at": time.time(),
    }
