"""Admission: hack and patch a task before it may be served (METHOD 5)."""

from dataclasses import dataclass
from typing import NamedTuple

from programs.probe import TOLERANCE, Prober, in_band
from programs.rewriter import Rewriter
from rri.config import AdmissionConfig
from rri.errors import ModelError
from rri.evidence import Admission, AdmissionOutcome, Probe, Rewrite
from rri.lm.calls import tagged
from rri.rubric_rules import RubricLimits, check_rewrite, salvage_rewrite
from rri.types import Message, Task

__all__ = ["Admitter", "rewritten"]

REWRITE_ATTEMPTS = 2
"""Calls of the rewriter in one round: a rewrite that fails the checks is asked for once more, with the reasons."""


class Measured(NamedTuple):
    """A version with the probe that measured it."""

    task: Task
    probe: Probe
    delta: float


@dataclass(frozen=True)
class Round:
    """What one repair round left: its record, and the rewrite if its fresh probe measured it."""

    record: Rewrite
    candidate: Measured | None


def rewritten(task: Task, message: str, rubric: object) -> Task:
    """The next version of `task`: its last user message and its rubric replaced, everything else kept."""
    last = max(i for i, m in enumerate(task.conversation) if m.role == "user")
    conversation = [*task.conversation[:last], Message(role="user", content=message), *task.conversation[last + 1 :]]
    fresh = task.model_copy(update={"version": task.version + 1, "conversation": tuple(conversation), "rubric": rubric})
    return Task.model_validate(fresh.model_dump())


class Admitter:
    """Runs the probe and the repair rounds of one task. Keeps no state: everything it saw is in the result."""

    def __init__(
        self,
        prober: Prober,
        rewriter: Rewriter,
        config: AdmissionConfig | None = None,
        limits: RubricLimits | None = None,
    ) -> None:
        self.prober = prober
        self.rewriter = rewriter
        self.config = config or AdmissionConfig()
        self.limits = limits or RubricLimits()

    async def admit(self, task: Task) -> Admission:
        """The task as it enters the pool, with all evidence. Every task enters, beaten or not.

        Raises:
            BudgetExhausted: a hard limit is reached. Failing models are recorded, not raised.
        """
        if not self.config.enabled:
            return Admission(original=task, task=task, outcome="not_probed")
        first = await self.prober.probe(task, "probe-0")
        if first.status != "measured" or first.delta is None:
            outcome: AdmissionOutcome = "discarded" if first.status == "discarded" else "unmeasured"
            return Admission(original=task, task=task, outcome=outcome, probe=first, why=first.why)
        start = Measured(task, first, first.delta)
        if first.passed:
            return _admission(start, start, "passed", [])
        return await self._repair(start)

    async def _repair(self, start: Measured) -> Admission:
        current, records, candidates = start, list[Rewrite](), list[Measured]()
        for number in range(1, self.config.rounds + 1):
            done = await self._round(current, number)
            records.append(done.record)
            if done.candidate is None:
                continue
            candidates.append(done.candidate)
            if done.record.outcome == "accepted":
                current = done.candidate
            if done.candidate.probe.passed:
                break
        if current is not start:
            return _admission(start, current, "repaired", records)
        usable = [c for c in candidates if self._in_band(c.probe) and c.delta < start.delta - TOLERANCE]
        if usable:
            return _admission(start, min(usable, key=lambda c: c.delta), "best_drop", records)
        return _admission(start, start, "kept", records)

    def _in_band(self, probe: Probe) -> bool:
        return probe.honest_score is not None and in_band(probe.honest_score, self.config)

    async def _round(self, current: Measured, number: int) -> Round:
        """Rewrite `current` on its own exploit and attack the rewrite afresh."""
        with tagged(current.task.task_id, f"rewrite-{number}"):
            try:
                task, explanation, problem = await self._rewrite(current)
            except ModelError as error:
                return Round(Rewrite(round=number, outcome="failed", why=f"no rewrite: {error}"), None)
        if task is None:
            return Round(Rewrite(round=number, outcome="unusable", why=problem), None)
        probes = [await self.prober.probe(task, f"probe-{number}")]
        if probes[0].status == "discarded":
            probes.append(await self.prober.probe(task, f"probe-{number}-again"))
        last = probes[-1]

        def record(outcome: str, why: str) -> Rewrite:
            return Rewrite.model_validate(
                {
                    "round": number,
                    "outcome": outcome,
                    "why": why,
                    "task": task,
                    "explanation": explanation,
                    "probes": probes,
                }
            )

        if last.status != "measured" or last.delta is None:
            return Round(record("rejected", f"not measured: {last.why}"), None)
        candidate = Measured(task, last, last.delta)
        drop = current.delta - last.delta
        if not self._in_band(last):
            band = f"[{self.config.honest_min}, {self.config.honest_max}]"
            why = f"the honest score {last.honest_score:.2f} is outside {band}"
            return Round(record("rejected", why), candidate)
        if drop < self.config.accept_drop - TOLERANCE:
            why = f"delta fell by {drop:.2f}, less than {self.config.accept_drop}"
            return Round(record("rejected", why), candidate)
        return Round(record("accepted", f"delta fell from {current.delta:.2f} to {last.delta:.2f}"), candidate)

    async def _rewrite(self, current: Measured) -> tuple[Task | None, str, str]:
        """A salvaged rewrite that passes the checks with its explanation, or None and the problem.

        Raises:
            ModelError: the rewriter gave no usable reply.
        """
        problems: list[str] = []
        for _ in range(REWRITE_ATTEMPTS):
            proposal = await self.rewriter.acall(
                task=current.task, exploit=current.probe.exploit, honest=current.probe.honest, problems=problems
            )
            before, shape = current.task.rubric, self.config.rewrite
            rubric = salvage_rewrite(before, proposal.rubric, shape, self.limits)
            red_team = current.task.labels.red_team
            problems = check_rewrite(before, rubric, red_team=red_team, limits=shape, rubric_limits=self.limits)
            if not proposal.task:
                problems.append("the task is empty")
            if not problems:
                return rewritten(current.task, proposal.task, rubric), proposal.explanation, ""
        return None, "", "the rewrite breaks the rules: " + "; ".join(problems)


def _admission(start: Measured, adopted: Measured, outcome: str, rewrites: list[Rewrite]) -> Admission:
    return Admission.model_validate(
        {
            "original": start.task,
            "task": adopted.task,
            "outcome": outcome,
            "probe": start.probe,
            "rewrites": rewrites,
            "delta_before": start.delta,
            "delta_after": adopted.delta,
            "why": ", ".join(start.probe.reasons),
        }
    )
