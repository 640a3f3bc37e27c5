"""`rri show DIR --task ID`: everything that ever happened to one task."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from rri.cases import ExploitCase, Patch
from rri.config import RunConfig
from rri.errors import InputError
from rri.evidence import Admission
from rri.store import EvictionRow, Origin, ServedRow, Store, VersionScores
from rri.types import Task

__all__ = ["CaseLife", "TaskLife", "find_task", "life_of", "why_no_case"]

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class CaseLife:
    """An exploit case and what became of it."""

    number: int
    chosen: bool
    case: ExploitCase
    patch: Patch | None


@dataclass(frozen=True, slots=True)
class TaskLife:
    """A task with all evidence, oldest first. `now` is the version in the pool, None where it is not in it.

    `ranked`: outcome -> groups of it that came before the referee. `notes` says of what is missing why it is.
    """

    task_id: str
    now: int | None
    origin: Origin | None
    versions: tuple[Task, ...]
    admission: Admission | None
    cases: tuple[CaseLife, ...]
    ranked: dict[str, int]
    served: tuple[ServedRow, ...]
    scores: tuple[VersionScores, ...]
    evictions: tuple[EvictionRow, ...]
    notes: dict[str, str]


def find_task(ids: Sequence[str], wanted: str) -> str:
    """The one id that is `wanted` or starts with it.

    Raises:
        InputError: none or several do; the nearest ones are named.
    """
    if wanted in ids:
        return wanted
    found = [task_id for task_id in ids if task_id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        shown = ", ".join(found[:MOST_NAMED]) + more
        raise InputError(f"{len(found)} tasks start with {wanted!r}: {shown}", "Give more of the id")
    if not ids:
        raise InputError(f"no task {wanted!r}: the run holds no task yet", "Start it with: rri run DIR")
    near = difflib.get_close_matches(wanted, ids, MOST_NAMED, cutoff=0.4) or ids[:MOST_NAMED]
    raise InputError(f"no task {wanted!r} among {len(ids)}", f"The nearest are {', '.join(near)}")


def life_of(store: Store, config: RunConfig, task_id: str) -> TaskLife:
    """What the store holds of a task.

    Raises:
        StoreError: the database cannot be read.
    """
    cases = tuple(
        CaseLife(row.number, row.chosen, case, store.patch_of(row.number))
        for row in store.case_rows(task_id)
        if (case := store.case(row.number)) is not None
    )
    life = TaskLife(
        task_id=task_id,
        now=dict(store.servable()).get(task_id),
        origin=store.origin(task_id),
        versions=tuple(store.versions(task_id)),
        admission=store.admission(task_id),
        cases=cases,
        ranked=store.ranked(task_id),
        served=tuple(store.served(task_id=task_id)),
        scores=tuple(store.version_scores(task_id)),
        evictions=tuple(store.evictions(task_id)),
        notes={},
    )
    life.notes.update(_missing(life, config))
    return life


def _missing(life: TaskLife, config: RunConfig) -> dict[str, str]:
    """What is not there yet -> why."""
    missing: dict[str, str] = {}
    if life.admission is None:
        missing["admission"] = "not admitted yet: it waits as a draft, which the next start attacks first"
    elif life.admission.probe is None:
        missing["admission"] = (
            f"not attacked: {life.admission.why}"
            if life.admission.outcome == "refused"
            else "not attacked: admission.enabled is false in this run"
        )
    if not life.cases:
        missing["cases"] = why_no_case(config, life.ranked)
    if not life.served:
        missing["served"] = "not served yet" if life.now is not None else "not served: it is not in the pool"
    if not life.scores:
        missing["scores"] = "no rollout of it is graded yet"
    if not life.evictions:
        missing["evictions"] = "it never left the difficulty band" if config.pool.evict else "pool.evict is false"
    return missing


def why_no_case(config: RunConfig, ranked: dict[str, int]) -> str:
    """Why there is no exploit case, from the groups that were ranked so far."""
    if not config.exploits.enabled:
        return "no exploit case: exploits.enabled is false in this run, so no group is ranked"
    groups = sum(ranked.values())
    if not groups:
        return "no exploit case yet; no group was ranked so far"
    others = {"flipped": "did not hold in the reverse order", "failed": "had no usable answer of the referee"}
    notes = [f"{ranked[outcome]} {what}" for outcome, what in others.items() if ranked.get(outcome)]
    asked = f"the referee was given {groups} {'group' if groups == 1 else 'groups'}"
    return f"no exploit case yet; {asked}" + (f", of which {' and '.join(notes)}" if notes else "")
