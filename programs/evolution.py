"""Evolution round: graded cases -> diagnoses -> counts -> new guidance (METHOD 7)."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from programs.analyst import Analyst
from programs.meta_optimizer import MetaOptimizer, NewGuidance
from programs.round_report import (
    diagnoses_text,
    difficulty_gauge,
    exploits_text,
    prompt_of,
    score_formula,
    statistics_text,
)
from rri.aio import collect
from rri.cases import CaseDiagnosis, GradedCase, GuidanceVersion
from rri.config import DomainConfig, EvolutionConfig, GenerationConfig
from rri.distribution import ReferenceFigures, distribution, drift
from rri.errors import ModelError
from rri.evolution_rules import count_diagnoses
from rri.guidance_rules import GuidanceLimits, check_guidance
from rri.lm.calls import tagged
from rri.rounds import Prompt, RejectedGuidance, RoundEvidence, RoundOutcome
from signatures.meta_optimizer import PastGuidance

__all__ = ["EvolutionRound"]


class EvolutionRound:
    """Diagnoses the cases, counts in code, and asks once for new guidance. Keeps no state between rounds.

    Args:
        analyst: diagnoses one case.
        meta_optimizer: writes the guidance.
        config: METHOD 7's numbers.
        limits: longest guidance that is taken; the same that `meta_optimizer` asks for.
        domain: its score rule is explained to the meta-optimizer.
        generation: its difficulty band is the gauge.
    """

    def __init__(
        self,
        analyst: Analyst,
        meta_optimizer: MetaOptimizer,
        config: EvolutionConfig,
        limits: GuidanceLimits,
        domain: DomainConfig,
        generation: GenerationConfig | None = None,
    ) -> None:
        self.analyst = analyst
        self.meta_optimizer = meta_optimizer
        self.config = config
        self.limits = limits
        self.domain = domain
        self.generation = generation or GenerationConfig()

    async def run(self, evidence: RoundEvidence) -> RoundOutcome:
        """One round. Guidance that breaks a rule is asked for again with the problems, `config.attempts` calls in all.

        The current guidance stays where nothing was graded, where every attempt broke a rule, and where the
        meta-optimizer kept it word for word.

        Raises:
            ModelError: the meta-optimizer gave no usable reply, or the analyst failed in more than half of the cases.
                What is left then would no longer be the sample that the counts are about. Fewer failures are counted.
            BudgetExhausted: a hard limit is reached.
            InputError: a case's grade belongs to another rubric.
        """
        work = [partial(self._diagnose, evidence.cycle, n, case) for n, case in enumerate(evidence.cases)]
        diagnoses = await collect(work, self.config.concurrency)
        _check_failures(evidence.cycle, diagnoses)
        outcome = self._evaluated(evidence, diagnoses)
        if not evidence.cases:
            return outcome.model_copy(update={"why": "no graded case to learn from"})
        return await self._write(outcome)

    async def _diagnose(self, cycle: int, number: int, case: GradedCase) -> CaseDiagnosis:
        with tagged(case.task.task_id, f"evolution-{cycle}-case-{number}"):
            try:
                found = await self.analyst.acall(
                    task=case.task, answer=case.answer, grade=case.grade, truncated=case.truncated
                )
            except ModelError as error:
                return CaseDiagnosis(case=case, failed=str(error))
        return CaseDiagnosis(
            case=case,
            failure_mode=found.failure_mode,
            gap=found.gap,
            rubric_defect=found.rubric_defect,
            task_defect=found.task_defect,
            verdict=found.verdict,
        )

    def _evaluated(self, evidence: RoundEvidence, diagnoses: Sequence[CaseDiagnosis]) -> RoundOutcome:
        """All that code can say before the meta-optimizer is asked."""
        counts = count_diagnoses(diagnoses, self.config)
        figures = distribution(evidence.tasks[-self.config.corpus_tasks :])
        # Self-similarity has limits of its own, so it is checked without a reference too.
        drifts = drift(figures, evidence.reference or ReferenceFigures())
        version = evidence.guidance.version
        current = next((p.train_mean for p in evidence.history if p.guidance.version == version), None)
        gauge = difficulty_gauge(evidence.train_mean, current, self.generation)
        return RoundOutcome(
            evidence=evidence,
            diagnoses=tuple(diagnoses),
            counts=counts,
            figures=figures,
            drifts=tuple(drifts),
            statistics=statistics_text(gauge, figures, drifts, evidence.reference),
            diagnosed=diagnoses_text(counts, self.config),
            exploits=exploits_text(evidence.exploits),
        )

    async def _write(self, outcome: RoundOutcome) -> RoundOutcome:
        """The outcome with new guidance, or with the reason why there is none."""
        evidence, current = outcome.evidence, outcome.evidence.guidance
        shown = self._shown(outcome)
        prompts, rejected = list[Prompt](), list[RejectedGuidance]()
        problems: list[str] = []

        def ended(**update: Any) -> RoundOutcome:
            return outcome.model_copy(update={"prompts": tuple(prompts), "rejected": tuple(rejected), **update})

        for attempt in range(1, self.config.attempts + 1):
            arguments = {**shown, "problems": problems}
            prompts.append(prompt_of(self.meta_optimizer, **arguments))
            with tagged("", f"evolution-{evidence.cycle}-guidance-{attempt}"):
                new = await self.meta_optimizer.acall(**arguments)
            if (new.guidance_a, new.guidance_b) == (current.guidance_a.strip(), current.guidance_b.strip()):
                return ended(why=f"the meta-optimizer kept the guidance as it is: {new.summary}")
            found = self._problems(new)
            if not found:
                return ended(guidance=_next(current, evidence.cycle, new))
            rejected.append(_rejected(new, found))
            problems = list(dict.fromkeys([*problems, *found]))
        return ended(why=f"the new guidance breaks the rules in all {len(rejected)} attempts: {'; '.join(problems)}")

    def _shown(self, outcome: RoundOutcome) -> dict[str, Any]:
        evidence, current = outcome.evidence, outcome.evidence.guidance
        earlier = [past for past in evidence.history if past.guidance.version != current.version]
        return {
            "score_formula": score_formula(self.domain.score_rule),
            "guidance_a": current.guidance_a,
            "guidance_b": current.guidance_b,
            "statistics": outcome.statistics,
            "diagnoses": outcome.diagnosed,
            "gaps": outcome.counts.gaps,
            "exploits": outcome.exploits,
            "history": [
                PastGuidance(
                    version=past.guidance.version,
                    summary=past.guidance.summary,
                    guidance_a=past.guidance.guidance_a,
                    guidance_b=past.guidance.guidance_b,
                    train_mean=None if past.train_mean is None else round(past.train_mean, 3),
                )
                for past in earlier[max(0, len(earlier) - self.config.history) :]
            ],
        }

    def _problems(self, new: NewGuidance) -> list[str]:
        blocks = {"new_guidance_a": new.guidance_a, "new_guidance_b": new.guidance_b}
        words = self.limits.guidance_words
        return [f"{name}: {problem}" for name, text in blocks.items() for problem in check_guidance(text, words)]


def _check_failures(cycle: int, diagnoses: Sequence[CaseDiagnosis]) -> None:
    """Raises:
    ModelError: more than half of the cases have no diagnosis.
    """
    failures = Counter(d.failed for d in diagnoses if d.failed)
    failed = failures.total()
    if 2 * failed > len(diagnoses):
        reason, times = failures.most_common(1)[0]
        raise ModelError(
            f"evolution round of cycle {cycle}: the analyst failed in {failed} of {len(diagnoses)} cases, "
            f"{times} times with: {reason}",
            "Mend its endpoint, or route the role analyst to a stronger model. The guidance stays as it is",
        )


def _next(current: GuidanceVersion, cycle: int, new: NewGuidance) -> GuidanceVersion:
    return GuidanceVersion(
        version=current.version + 1,
        cycle=cycle,
        guidance_a=new.guidance_a,
        guidance_b=new.guidance_b,
        summary=new.summary,
    )


def _rejected(new: NewGuidance, problems: Sequence[str]) -> RejectedGuidance:
    return RejectedGuidance(
        guidance_a=new.guidance_a, guidance_b=new.guidance_b, summary=new.summary, problems=tuple(problems)
    )
