"""Checks of a minted criterion, one after another from cheap to dear (METHOD 7, patch)."""

from dataclasses import dataclass
from functools import partial

from programs.grader import Grader
from programs.honest import Honest
from programs.minter import MintedCriterion
from programs.probe import TOLERANCE
from rri.aio import collect
from rri.cases import Check, CheckOutcome
from rri.config import PatchConfig
from rri.errors import ModelError
from rri.lm.calls import tagged
from rri.rubric_rules import RubricLimits, check_rubric, gap_removed, patch_problems
from rri.types import Criterion, Rubric, Task, Verdict

__all__ = ["CaseHonest", "MintedChecks", "Standing"]


class CaseHonest:
    """The honest answer of one case: as it was given, or written when it is first needed.

    A model that failed is not asked again in the same case; `error` says why there is no answer then.
    """

    def __init__(self, honest: Honest, task: Task, sample: str, given: str | None = None) -> None:
        self._honest = honest
        self._task = task
        self._sample = sample
        self.text = given or ""
        self.error = ""

    async def ask(self) -> str:
        """The answer, empty where the model failed.

        Raises:
            BudgetExhausted: a hard limit is reached.
        """
        if not self.text and not self.error:
            with tagged(self._task.task_id, self._sample):
                try:
                    self.text = await self._honest.acall(task=self._task)
                except ModelError as error:
                    self.error = f"no honest answer: {error}"
        return self.text


@dataclass(frozen=True)
class Standing:
    """What a minted criterion is checked against.

    `task` holds all that was accepted so far. `in_task` and `in_round` count what was accepted over the run and in this
    round.
    """

    task: Task
    exploit: str
    better: str
    honest: CaseHonest
    in_task: int
    in_round: int


class MintedChecks:
    """Decides on minted criteria. The order of the checks is that of `CheckOutcome`; the first that fails decides.

    Args:
        grader: grades the criterion on both answers, a negative on the honest one too.
        config: METHOD 7's numbers.
        limits: how many criteria a rubric may hold.
    """

    def __init__(self, grader: Grader, config: PatchConfig | None = None, limits: RubricLimits | None = None) -> None:
        self.grader = grader
        self.config = config or PatchConfig()
        self.limits = limits or RubricLimits()

    async def check(self, minted: MintedCriterion, standing: Standing, attempt: int = 1) -> Check:
        """What becomes of one criterion. No model is called where a cheap check fails.

        Raises:
            BudgetExhausted: a hard limit is reached. A judge that fails is a rejection, never an exception.
        """
        criterion = minted.criterion
        check = Check(criterion=criterion, why=minted.why, attempt=attempt, outcome="accepted")
        outcome, detail = self.refusal(criterion, standing)
        if outcome != "accepted":
            return check.model_copy(update={"outcome": outcome, "detail": detail})
        exploit, better = await collect(
            [partial(self._verdict, standing.task, text, criterion) for text in (standing.exploit, standing.better)], 2
        )
        check = check.model_copy(update={"exploit": exploit, "better": better})
        outcome, detail = _comparison(criterion, exploit, better)
        if outcome != "accepted":
            return check.model_copy(update={"outcome": outcome, "detail": detail})
        if criterion.points < 0 and self.config.honest_guard:
            return await self._guarded(check, standing)
        return check

    def refusal(self, criterion: Criterion, standing: Standing) -> tuple[CheckOutcome, str]:
        """The first check that fails without a model, and what is wrong; ("accepted", "") where none does."""
        config, rubric = self.config, standing.task.rubric
        if standing.in_task >= config.accepted_per_task:
            return "task_full", f"{standing.in_task} criteria were accepted for this task, the most it may get"
        if standing.in_round >= config.accepted_per_round:
            return "round_full", f"{standing.in_round} criteria were accepted in this round, the most it may bring"
        if problems := patch_problems(criterion, rubric, config.criterion, self.limits):
            return problems[0].reason, "; ".join(problem.text for problem in problems)
        whole = Rubric(criteria=(*rubric.criteria, criterion))
        if invalid := check_rubric(whole, repaired=True, limits=self.limits):
            return "invalid", f"the rubric with it is not valid: {'; '.join(invalid)}"
        removed = gap_removed(criterion, rubric)
        if removed < config.min_gap_removed - TOLERANCE:
            least = f"at least {config.min_gap_removed:g} is needed"
            return "gap", f"{criterion.points:g} points are {removed:.3f} of the positive points so far; {least}"
        return "accepted", ""

    async def _verdict(self, task: Task, answer: str, criterion: Criterion) -> Verdict:
        verdicts = await self.grader.verdicts(task, answer, [criterion], strict=True, votes=self.config.votes)
        return verdicts[0]

    async def _guarded(self, check: Check, standing: Standing) -> Check:
        """A negative must not be met by an honest answer either."""
        answer = await standing.honest.ask()
        if not answer:
            return check.model_copy(update={"outcome": "honest_unknown", "detail": standing.honest.error})
        verdict = await self._verdict(standing.task, answer, check.criterion)
        update: dict[str, object] = {"honest": verdict}
        if verdict.outcome == "unknown":
            update |= {"outcome": "honest_unknown", "detail": f"on the honest answer: {_why_unknown(verdict)}"}
        elif verdict.outcome == "met":
            update |= {
                "outcome": "honest_meets",
                "detail": "an honest answer, written without the rubric, meets it too",
            }
        return check.model_copy(update=update)


def _comparison(criterion: Criterion, exploit: Verdict, better: Verdict) -> tuple[CheckOutcome, str]:
    """Whether the verdicts on both answers separate them the right way round."""
    for name, verdict in (("A", exploit), ("B", better)):
        if verdict.outcome == "unknown":
            return "unknown", f"on answer {name}: {_why_unknown(verdict)}"
    wanted = ("unmet", "met") if criterion.points > 0 else ("met", "unmet")
    if (exploit.outcome, better.outcome) == wanted:
        return "accepted", ""
    sign = "positive" if criterion.points > 0 else "negative"
    found = f"a strict judge found it {exploit.outcome} on A and {better.outcome} on B"
    return "not_separating", f"{found}; with {sign} points it must be {wanted[0]} on A and {wanted[1]} on B"


def _why_unknown(verdict: Verdict) -> str:
    error = next((vote.error for vote in verdict.votes if vote.error), "the votes did not agree")
    return f"the judge failed: {error}"
