"""A large store from a small one: the rows of a run that was really worked, copied under other numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Integer, Table, cast, create_engine, func, insert, literal, select

from rri.store import tables as t

__all__ = ["Seed", "fill"]

CALLS_A_TASK = 2
"""Model calls copied with a task: a run keeps sixty, which would be most of the file."""
GRADED_EVERY = 2
"""Every second block brings its grades along."""
EVOLVED_EVERY = 5

COPIED = (
    t.task_versions,
    t.origins,
    t.admissions,
    t.grades,
    t.rankings,
    t.cases,
    t.patches,
    t.evictions,
    t.events,
    t.proposals,
)


@dataclass(frozen=True)
class Seed:
    """The run that is copied: one cycle, in which every task was served once.

    `last` holds the number of its last row in each table, `patched` how many tasks have a version made by a patch.
    """

    tasks: int
    patched: int
    first_call: int
    last: Mapping[str, int]

    @classmethod
    def of(cls, c: Connection) -> "Seed":
        """Raises:
        ValueError: the run is none of one whole cycle.
        """
        tasks, served = (_scalar(c, select(func.count()).select_from(table)) for table in (t.admissions, t.served))
        cycles = _scalar(c, select(func.count()).select_from(t.reports))
        if served != tasks or cycles != 1:
            raise ValueError(f"a run of {tasks} tasks has served {served} in {cycles} cycles: give one whole cycle")
        return cls(
            tasks=tasks,
            patched=_scalar(c, select(func.count()).where(t.patches.c.outcome == "patched")),
            first_call=_scalar(c, select(func.min(t.calls.c.id)).where(t.calls.c.task_id != "")),
            last={table.name: _scalar(c, select(func.max(_number(table)))) for table in COPIED},
        )

    @property
    def positions(self) -> int:
        """Positions that a block takes: each task as it was admitted, then the patched ones again."""
        return self.tasks + self.patched


def fill(path: Path, tasks: int) -> None:
    """Copy the run in the database `path` until it holds `tasks` tasks.

    Every copied task has all its versions, its origin, its admission with the evidence, its places in the serving
    order, and what the loop found and repaired in its group. Every second block of them has grades.

    Raises:
        ValueError: `tasks` is no multiple of what the run holds, or the run is none of one whole cycle.
    """
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as c:
        # The file is of no use after a power cut anyway, so nothing waits for the disk.
        c.exec_driver_sql("PRAGMA synchronous=OFF")
        c.exec_driver_sql("PRAGMA journal_mode=DELETE")
        seed = Seed.of(c)
        if tasks % seed.tasks:
            raise ValueError(f"{tasks} tasks from a run of {seed.tasks}: give a multiple")
        blocks = tasks // seed.tasks - 1
        for block in range(1, blocks + 1):
            _Block(c, seed, block).copy()
        _copy_cycles(c, (seed.tasks + blocks * seed.positions) // seed.tasks)
        c.commit()
    engine.dispose()


def _scalar(c: Connection, query: Any) -> int:
    return int(c.scalar(query) or 0)


def _number(table: Table) -> Any:
    (column,) = table.primary_key
    return column


class _Block:
    """One copy of the seed's tasks under other numbers."""

    def __init__(self, c: Connection, seed: Seed, block: int) -> None:
        self.c, self.seed, self.block = c, seed, block
        self.position = seed.tasks + (block - 1) * seed.positions

    def shifted(self, table: Table, column: Any) -> Any:
        """A number that points into `table`, as it is in this block."""
        return column + self.block * self.seed.last[table.name]

    def renamed(self, column: Any) -> Any:
        """The task's id with its number shifted; that is the number of the request which it was made from."""
        number = self.shifted(t.proposals, cast(func.substr(column, 1, 6), Integer))
        return func.printf("%06d", number).concat(func.substr(column, 7))

    def rewritten(self, table: Table, body: str) -> Any:
        return func.replace(table.c[body], table.c.task_id, self.renamed(table.c.task_id))

    def insert(self, table: Table, where: Any, **changed: Any) -> None:
        """Rows of a table with these values changed, and the task's id. Rows are numbered anew by default."""
        if "task_id" in table.c:
            changed["task_id"] = self.renamed(table.c.task_id)
        _insert(self.c, table, where, **changed)

    def insert_all(self, table: Table, **changed: Any) -> None:
        self.insert(table, _number(table) <= self.seed.last[table.name], **changed)

    def copy(self) -> None:
        p, k, h = t.proposals.c, t.calls.c, t.honest_answers.c
        self.insert_all(t.task_versions, body=self.rewritten(t.task_versions, "body"))
        self.insert_all(t.origins)
        self.insert_all(t.admissions, evidence=self.rewritten(t.admissions, "evidence"))
        self.insert_all(t.proposals, id=self.shifted(t.proposals, p.id), draw=self.shifted(t.proposals, p.draw))
        self.insert_all(t.events)
        self.insert_all(t.evictions)
        last_call = self.seed.first_call + CALLS_A_TASK * self.seed.tasks - 1
        self.insert(t.calls, k.id.between(self.seed.first_call, last_call))
        # The key is a digest of the conversation; a copy is known by having no time.
        key = func.lower(func.hex(func.randomblob(16)))
        self.insert(t.honest_answers, h.at > 0, conversation=key, at=literal(0.0))
        self.serve()
        self.find()

    def serve(self) -> None:
        """Each task as it was admitted, then the patched ones in the order of their patches."""
        s, p = t.served.c, t.patches.c
        self.insert(t.served, s.position < self.seed.tasks, position=s.position + self.position)
        again = select(
            (func.row_number().over(order_by=p.seq) + (self.position + self.seed.tasks - 1)).label("position"),
            self.renamed(p.task_id).label("task_id"),
            p.version,
            literal("replay").label("source"),
            p.at,
        ).where(p.outcome == "patched", p.seq <= self.seed.last["patches"])
        self.c.execute(insert(t.served).from_select(["position", "task_id", "version", "source", "at"], again))

    def find(self) -> None:
        """Grades, rankings, cases and patches of the places where the tasks were served first."""
        for table in (t.grades, t.rankings, t.cases):
            if table is t.grades and self.block % GRADED_EVERY:
                continue
            position = table.c.position + self.position
            cycle = cast(func.floor(position / self.seed.tasks), Integer)
            moved = {"position": position, "cycle": cycle, "report": cycle + 1}
            moved = {name: value for name, value in moved.items() if name in table.c}
            if "body" in table.c:
                moved["body"] = self.rewritten(table, "body")
            if table is t.cases:
                moved["id"] = self.shifted(t.cases, t.cases.c.id)
            self.insert_all(table, **moved)
        body = self.rewritten(t.patches, "body")
        self.insert_all(t.patches, case_id=self.shifted(t.cases, t.patches.c.case_id), body=body)


def _copy_cycles(c: Connection, end: int) -> None:
    """Reports of the cycles before `end`, and their rounds, all like those of cycle 0."""
    for cycle in range(1, end):
        _insert(c, t.reports, t.reports.c.id == 1, id=literal(cycle + 1), cycle=literal(cycle), step=literal(cycle + 1))
        kinds = ["cases", "patches", "cycle", *(["evolution"] if (cycle + 1) % EVOLVED_EVERY == 0 else [])]
        of_first = (t.rounds.c.report == 1) & t.rounds.c.kind.in_(kinds)
        _insert(c, t.rounds, of_first, report=literal(cycle + 1), cycle=literal(cycle))


def _insert(c: Connection, table: Table, where: Any, **changed: Any) -> None:
    values = {k.name: changed.get(k.name, k) for k in table.c if k.name in changed or not k.primary_key}
    query = select(*(value.label(name) for name, value in values.items())).where(where)
    c.execute(insert(table).from_select(list(values), query))
