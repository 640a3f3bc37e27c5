"""Confirming probes: rubrics attacked once more, by attacks that no decision of the run has seen.

Adoption picks the rewrite with the lowest delta, so its own figure flatters. Here the same prober attacks what was
written and what was admitted, on models that draw anew.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev
from typing import TypeVar

from eval.world.measuring import served_tasks
from eval.world.results import Probed, RubricPoint
from programs.roles import Roles
from rri.aio import collect
from rri.config import AdmissionConfig, RunConfig
from rri.evidence import Admission, Probe
from rri.lm import Gateway, resolve_routes
from rri.store import Store
from rri.types import Task

__all__ = ["BEATEN", "Confirmed", "confirm", "probed", "spread"]

BEATEN = ("repaired", "best_drop", "kept")
"""Admission outcomes of tasks whose first probe failed, so that they went to repair."""

CONCURRENCY = 24

T = TypeVar("T")


@dataclass(frozen=True)
class Confirmed:
    """Beaten tasks as they were written and as they were admitted, rubrics as they were served, and what adoption
    itself had measured of the same tasks before and after.
    """

    before: Probed | None
    after: Probed | None
    adopted: tuple[float, float] | None
    exploitable: tuple[RubricPoint, ...]


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` of `items`, evenly spaced over their order."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(most)]


def probed(probes: Sequence[Probe], config: AdmissionConfig) -> Probed | None:
    """Figures over the measured ones of `probes`; None where there are none."""
    found = [p for p in probes if p.status == "measured" and p.delta is not None and p.honest_score is not None]
    if not found:
        return None
    deltas = [p.delta for p in found if p.delta is not None]
    n = len(found)
    return Probed(
        probes=n,
        delta=fmean(deltas),
        standard_error=stdev(deltas) / math.sqrt(n) if n > 1 else None,
        honest_leads=sum(d < 0 for d in deltas) / n,
        exploitable=sum("exploitable" in p.reasons for p in found) / n,
        saturated=sum(p.honest_score is not None and p.honest_score > config.honest_max for p in found) / n,
    )


def confirm(
    store: Store,
    config: RunConfig,
    *,
    probes: int,
    stretches: int,
    stretch_probes: int,
    progress: Callable[[str], None] = lambda message: None,
) -> Confirmed:
    """Attack a finished run's rubrics afresh.

    Args:
        store: of the run.
        config: the run's, with endpoints whose models draw anew.
        probes: beaten tasks, attacked as they were written and as they were admitted.
        stretches: parts of equal length that the run's cycles are cut into.
        stretch_probes: rubrics of each part, as they were served.
        progress: is told how far it is.

    Raises:
        ModelError: an endpoint cannot be used. A single probe that fails is not measured, and left out.
    """
    chosen = spread([a for a in store.admissions() if a.outcome in BEATEN], probes)
    parts = [
        (first, last, spread(served_tasks(store, first, last), stretch_probes))
        for first, last in _cut(config, stretches)
    ]
    gateway = Gateway(resolve_routes(config))
    try:
        prober = Roles.bind(config, gateway).prober()

        async def attack(name: str, tasks: Sequence[Task]) -> list[Probe]:
            progress(f"attacking {len(tasks)} rubrics {name}")
            return await collect(
                [partial(prober.probe, task, f"confirm {name} {i}") for i, task in enumerate(tasks)], CONCURRENCY
            )

        async def work() -> Confirmed:
            before = await attack("as written", [a.original for a in chosen])
            after = await attack("as admitted", [a.task for a in chosen])
            points = [
                (first, last, await attack(f"of cycles {first} to {last}", tasks)) for first, last, tasks in parts
            ]
            return Confirmed(
                probed(before, config.admission),
                probed(after, config.admission),
                _adopted(chosen),
                tuple(
                    RubricPoint(first=first, last=last, probes=found.probes, exploitable=found.exploitable)
                    for first, last, done in points
                    if (found := probed(done, config.admission)) is not None
                ),
            )

        return gateway.loop.run(work())
    finally:
        gateway.close_sync()
        gateway.loop.close()


def _cut(config: RunConfig, stretches: int) -> list[tuple[int, int]]:
    """First and last cycle of each part."""
    cycles = config.solver.cycles
    parts = min(stretches, cycles)
    edges = [i * cycles // parts for i in range(parts + 1)]
    return [(edges[i], edges[i + 1] - 1) for i in range(parts)]


def _adopted(admissions: Sequence[Admission]) -> tuple[float, float] | None:
    pairs = [(a.delta_before, a.delta_after) for a in admissions]
    whole = [(before, after) for before, after in pairs if before is not None and after is not None]
    return (fmean(b for b, _ in whole), fmean(a for _, a in whole)) if whole else None
