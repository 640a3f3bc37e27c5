"""What repair has brought in a run, to be put beside the paper's figures (METHOD 7, repair report). Reads, never calls.

Admission is measured over the tasks that the adversary beat at birth and whose rewrite was adopted. What another run
did before this one was forked from it is no work of this run and is left out.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from statistics import fmean
from typing import Self

from rri.cases import Patch
from rri.evidence import Admission
from rri.rubric_rules import gap_removed
from rri.store import Store, VersionScores
from rri.types import Rubric

__all__ = ["PAPER", "Measure", "RepairReport", "repair_report"]

_TOLERANCE = 1e-9
"""Deltas are differences of fractions: 0.3 - 0.5 must count as a lead of 0.2."""

PAPER: dict[str, float] = {
    "positive_share": 1175 / 1451,
    "gap_removed": 0.23,
    "margin": 0.40,
    "new_exploit": 247 / 293,
    "delta_before": 0.43,
    "delta_after": 0.01,
    "honest_leads_before": 0.001,
    "honest_leads_after": 0.33,
    "reached": 0.22,
    "reward_before": 0.71,
    "reward_after": 0.55,
}
"""The same figures of the paper's 9B run."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A mean or a share over `n` things; None exactly where there is nothing to measure."""

    value: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """The mean of `values`; of truths it is their share."""
        found = list(values)
        return cls(fmean(found) if found else None, len(found))


@dataclass(frozen=True, slots=True)
class RepairReport:
    """Figures of METHOD 7. Scores are fractions of the positive points, shares lie in [0, 1].

    Patches: `positive_share` of the accepted criteria, the normalised `gap_removed` by each of them, the `margin` of
    the exploit in the cases that went to repair, and how often the attack after the first patch won (`new_exploit`).

    Admission, before and after: mean delta, share of tasks whose honest answer leads, and share that `reached` the
    margin of a probe.

    `reward_before`, `reward_after`: mean training score of a task under the version that was patched and under the one
    that came of it, over patches with scored rollouts on both sides.
    """

    positive_share: Measure
    gap_removed: Measure
    margin: Measure
    new_exploit: Measure
    delta_before: Measure
    delta_after: Measure
    honest_leads_before: Measure
    honest_leads_after: Measure
    reached: Measure
    reward_before: Measure
    reward_after: Measure

    @property
    def empty(self) -> bool:
        """Whether nothing could be measured at all."""
        return all(getattr(self, field.name).n == 0 for field in fields(self))


def repair_report(store: Store, margin: float = 0.20) -> RepairReport:
    """The report of a run as it stands.

    Args:
        store: the run's database.
        margin: delta at most `-margin` passes a probe (`admission.margin`).

    Raises:
        StoreError: the database cannot be read.
    """
    patches = _Patches()
    for patch in store.all_patches():
        patches.add(patch)
    deltas = [
        (a.delta_before, a.delta_after)
        for a in store.admissions(forked=False)
        if _rewritten(a) and a.delta_before is not None and a.delta_after is not None
    ]
    before, after = [b for b, _ in deltas], [a for _, a in deltas]
    rewards = patches.rewards(store.version_scores())
    return RepairReport(
        positive_share=Measure.of(patches.positive),
        gap_removed=Measure.of(patches.removed),
        margin=Measure.of(case.gap for case in store.case_rows() if case.chosen),
        new_exploit=Measure.of(patches.beaten_again),
        delta_before=Measure.of(before),
        delta_after=Measure.of(after),
        honest_leads_before=_share(before, lambda delta: delta < -_TOLERANCE),
        honest_leads_after=_share(after, lambda delta: delta < -_TOLERANCE),
        reached=_share(after, lambda delta: delta <= -margin + _TOLERANCE),
        reward_before=Measure.of(b for b, _ in rewards),
        reward_after=Measure.of(a for _, a in rewards),
    )


def _rewritten(admission: Admission) -> bool:
    """Whether the adversary beat the task at birth and a rewrite of it was adopted."""
    beaten = admission.probe is not None and "exploitable" in admission.probe.reasons
    return beaten and admission.outcome in ("repaired", "best_drop")


def _share(deltas: Sequence[float], holds: Callable[[float], bool]) -> Measure:
    return Measure.of(float(holds(delta)) for delta in deltas)


class _Patches:
    """Figures of the patches, taken in one by one: their answers need much memory together."""

    def __init__(self) -> None:
        self.positive: list[float] = []
        self.removed: list[float] = []
        self.beaten_again: list[float] = []
        self.steps: list[tuple[str, int, int]] = []

    def add(self, patch: Patch) -> None:
        rubric = patch.before.rubric
        for check in patch.accepted:
            self.positive.append(float(check.criterion.points > 0))
            self.removed.append(gap_removed(check.criterion, rubric))
            rubric = Rubric(criteria=(*rubric.criteria, check.criterion))
        attack = patch.rounds[0].attack if patch.rounds else None
        if attack is not None and attack.status == "measured":
            self.beaten_again.append(float("exploitable" in attack.reasons))
        if patch.outcome == "patched":
            self.steps.append((patch.task.task_id, patch.before.version, patch.task.version))

    def rewards(self, scores: Sequence[VersionScores]) -> list[tuple[float, float]]:
        """(mean before, mean after) of each patch whose versions both have scored rollouts."""
        means = {(s.task_id, s.version): s.mean for s in scores}
        pairs = [(means.get((task, old)), means.get((task, new))) for task, old, new in self.steps]
        return [(before, after) for before, after in pairs if before is not None and after is not None]
