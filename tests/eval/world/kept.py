"""Small runs of the world, kept by hand in a real store."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rri.evidence import Admission
from rri.store import GradeRow, Place, Store
from rri.types import Grade, Task

__all__ = ["kept_run", "rolled"]


def rolled(
    task: Task, cycle: int, row: int, answer: str, score: float | None, *, finished: bool = True, position: int = 0
) -> GradeRow:
    """A training rollout; a cut one has a score and was not judged."""
    raw, unscored = score if finished else None, "" if score is not None else "unknown"
    grade = Grade(verdicts=(), score=score, raw=raw, unscored=unscored)
    return GradeRow(Place("train", cycle, position, row), task.task_id, task.version, answer, finished, grade)


@contextmanager
def kept_run(
    folder: Path, tasks: Sequence[Task], rows: Sequence[GradeRow] = (), admissions: Sequence[Admission] = ()
) -> Iterator[Store]:
    """A store with these tasks, rollouts and admissions."""
    store = Store(folder)

    async def keep() -> None:
        for task in tasks:
            await store.add_draft(task)
        for admission in admissions:
            await store.add_admission(admission)
        await store.add_grades(rows)

    try:
        asyncio.run(keep())
        yield store
    finally:
        store.close()
