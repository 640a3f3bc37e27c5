"""Probe: attack one version of a task and measure the exploit's lead (METHOD 5)."""

from functools import partial

from programs.farmer import Farmer
from programs.grader import Grader
from programs.honest import Honest
from rri.aio import collect
from rri.config import AdmissionConfig
from rri.errors import ModelError
from rri.evidence import Probe, ProbeReason
from rri.lm.calls import tagged
from rri.types import Task

__all__ = ["TOLERANCE", "Prober", "in_band", "probe_reasons"]


TOLERANCE = 1e-9
"""Scores are sums of fractions: 0.4 - 0.6 must count as a lead of 0.20."""


def in_band(honest_score: float, config: AdmissionConfig) -> bool:
    """Whether the honest score lies in [honest_min, honest_max]."""
    return config.honest_min - TOLERANCE <= honest_score <= config.honest_max + TOLERANCE


def probe_reasons(delta: float, honest_score: float, config: AdmissionConfig) -> tuple[ProbeReason, ...]:
    """Why a measured probe fails, headline first; empty when it passes."""
    reasons: list[ProbeReason] = []
    if not in_band(honest_score, config):
        reasons.append("unsatisfiable" if honest_score < config.honest_min else "saturated")
    if delta > -config.margin + TOLERANCE:
        reasons.append("exploitable")
    return tuple(reasons)


class Prober:
    """Farmer and honest answer in parallel, both graded under the strict note by the evaluation rule."""

    def __init__(self, farmer: Farmer, honest: Honest, grader: Grader, config: AdmissionConfig | None = None) -> None:
        self.farmer = farmer
        self.honest = honest
        self.grader = grader
        self.config = config or AdmissionConfig()

    async def probe(self, task: Task, sample: str) -> Probe:
        """One attack. `sample` names it, so that a later probe of the same version is a fresh one."""
        with tagged(task.task_id, sample):
            answers = await collect([partial(self._answer, task, who) for who in ("farmer", "honest")], 2)
            (exploit, exploit_error), (honest, honest_error) = answers
            return await self._compare(task, exploit, honest, exploit_error or honest_error)

    async def attack(self, task: Task, honest: str, sample: str) -> Probe:
        """One attack measured against an honest answer that is there already; the farmer alone is asked for one."""
        with tagged(task.task_id, sample):
            exploit, error = await self._answer(task, "farmer")
            return await self._compare(task, exploit, honest, error)

    async def _compare(self, task: Task, exploit: str, honest: str, error: str) -> Probe:
        if error:
            return Probe(status="unmeasured", exploit=exploit, honest=honest, why=error, failed=True)
        least = self.config.min_answer_chars
        for name, text in (("exploit", exploit), ("honest answer", honest)):
            if len(text) < least:
                why = f"the {name} has {len(text)} characters, fewer than {least}"
                return Probe(status="unmeasured", exploit=exploit, honest=honest, why=why)
        return await self._measure(task, exploit, honest)

    async def _answer(self, task: Task, who: str) -> tuple[str, str]:
        """The answer and no error, or no answer and the error."""
        try:
            if who == "farmer":
                return await self.farmer.acall(task=task, max_chars=self.config.max_exploit_chars), ""
            return await self.honest.acall(task=task), ""
        except ModelError as error:
            return "", f"no {who} answer: {error}"

    async def _measure(self, task: Task, exploit: str, honest: str) -> Probe:
        grade = partial(self.grader.grade, task, strict=True, votes=self.config.votes)
        exploit_grade, honest_grade = await collect([partial(grade, exploit), partial(grade, honest)], 2)
        graded = Probe(
            status="unmeasured", exploit=exploit, honest=honest, exploit_grade=exploit_grade, honest_grade=honest_grade
        )
        if exploit_grade.score is None or honest_grade.score is None or exploit_grade.raw is None:
            return graded.model_copy(update={"why": exploit_grade.unscored or honest_grade.unscored, "failed": True})
        delta = exploit_grade.score - honest_grade.score
        if exploit_grade.raw <= 0:
            return graded.model_copy(
                update={"status": "discarded", "why": f"the adversary scored nothing (raw {exploit_grade.raw:.2f})"}
            )
        reasons = probe_reasons(delta, honest_grade.score, self.config)
        return graded.model_copy(update={"status": "measured", "delta": delta, "reasons": reasons})
