"""What is kept of an attack and of a repair (METHOD 5). Frozen, written once to the store."""

from typing import Literal

from rri.types import Frozen, Grade, Task

__all__ = ["Admission", "AdmissionOutcome", "Probe", "ProbeReason", "Rewrite"]

ProbeReason = Literal["unsatisfiable", "saturated", "exploitable"]
"""Why a probe fails, in headline order."""

AdmissionOutcome = Literal[
    "passed", "repaired", "best_drop", "kept", "unmeasured", "discarded", "not_probed", "refused"
]
"""passed: the first probe passed. repaired: a rewrite cleared the bar. best_drop: the rewrite with the largest
measured drop. kept: no rewrite helped. unmeasured, discarded: the first probe gave no figure. not_probed:
admission is off. refused: the task does not fit the solver's prompt; it alone never enters the pool."""


class Probe(Frozen):
    """One attack on one version: the farmer's answer against the honest one.

    `delta` = score(exploit) - score(honest) under the evaluation rule, unclipped, set exactly when measured.
    """

    status: Literal["measured", "discarded", "unmeasured"]
    exploit: str = ""
    honest: str = ""
    exploit_grade: Grade | None = None
    honest_grade: Grade | None = None
    delta: float | None = None
    reasons: tuple[ProbeReason, ...] = ()
    why: str = ""
    failed: bool = False
    """Whether a model call failed, so that `unmeasured` is no property of the task."""

    @property
    def passed(self) -> bool:
        return self.status == "measured" and not self.reasons

    @property
    def honest_score(self) -> float | None:
        return self.honest_grade.score if self.honest_grade else None


class Rewrite(Frozen):
    """One repair round: what the rewriter proposed, its fresh probes, and what became of it.

    unusable: the rewrite breaks the rules. failed: the rewriter's model gave no usable reply.
    """

    round: int
    outcome: Literal["accepted", "rejected", "unusable", "failed"]
    why: str
    task: Task | None = None
    explanation: str = ""
    probes: tuple[Probe, ...] = ()


class Admission(Frozen):
    """How one task entered the pool. `original` is what the generator wrote, `task` what is served."""

    original: Task
    task: Task
    outcome: AdmissionOutcome
    probe: Probe | None = None
    rewrites: tuple[Rewrite, ...] = ()
    delta_before: float | None = None
    delta_after: float | None = None
    why: str = ""

    @property
    def failure(self) -> str:
        """What the first failed model call of this admission said; empty when all answered."""
        probes = [p for p in (self.probe, *(p for r in self.rewrites for p in r.probes)) if p is not None]
        failed = [p.why for p in probes if p.failed] + [r.why for r in self.rewrites if r.outcome == "failed"]
        return failed[0] if failed else ""
