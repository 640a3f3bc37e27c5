"""Grader: votes on every criterion of an answer, and the score that follows (METHOD 6)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from programs.deadline import GradeDeadline
from programs.judge import judge_fields, judge_signature
from rri.aio import collect
from rri.config import GradingConfig
from rri.errors import ModelError
from rri.lm.adapter import extend, output_spec, render
from rri.lm.calls import current_tag
from rri.lm.gateway import Gateway, ModelRequest
from rri.scoring import ScoreRule, answer_score, raw_score, training_score, unknown_share
from rri.types import Criterion, Grade, Outcome, Task, Verdict, Vote

__all__ = ["Grader", "majority"]

ScoreFunction = Callable[[ScoreRule, Sequence[Criterion], Sequence[Outcome], int], float | None]


def majority(votes: Sequence[Vote], n: int) -> Outcome | None:
    """The verdict once more than n/2 known votes agree; `unknown` once they no longer can; else None."""
    need = n // 2 + 1
    met = sum(v.outcome == "met" for v in votes)
    unmet = sum(v.outcome == "unmet" for v in votes)
    left = n - len(votes)
    if met >= need:
        return "met"
    if unmet >= need:
        return "unmet"
    return "unknown" if max(met, unmet) + left < need else None


class Grader:
    """Grades answers through the gateway, a failed call being a vote that is unknown.

    Args:
        gateway: where the judge's calls go.
        rule: the benchmark's score rule.
        config: votes, quorum, concurrency.
    """

    def __init__(self, gateway: Gateway, rule: ScoreRule, config: GradingConfig | None = None) -> None:
        self.gateway = gateway
        self.rule = rule
        self.config = config or GradingConfig()

    async def grade(
        self, task: Task, answer: str, *, strict: bool = False, training: bool = False, votes: int | None = None
    ) -> Grade:
        """Verdict on every criterion, and the score.

        Args:
            task: conversation and rubric.
            answer: the answer's text, reasoning and tool spans removed.
            strict: add the strict note (probes, patches), unless the config switches it off.
            training: one-sided length term (rollouts) instead of the evaluation rule.
            votes: votes a criterion; the config's by default.

        Raises:
            BudgetExhausted: a hard limit is reached. A judge that fails is a verdict `unknown`, never an exception.
        """
        verdicts = await self.verdicts(task, answer, task.rubric.criteria, strict=strict, votes=votes)
        return self._score(task, answer, verdicts, training_score if training else answer_score)

    async def verdicts(
        self,
        task: Task,
        answer: str,
        criteria: Sequence[Criterion],
        *,
        strict: bool = False,
        votes: int | None = None,
    ) -> list[Verdict]:
        """Verdict on each of `criteria`, in order, whether or not the task's rubric holds them.

        Raises:
            BudgetExhausted: a hard limit is reached. A judge that fails is a verdict `unknown`, never an exception.
        """
        n = votes or self.config.votes
        deadline = GradeDeadline(self.gateway, self.config.deadline_s)
        requests = self._requests(task, answer, criteria, strict and self.config.strict_note, n)
        thunks = [partial(self._verdict, request, n, deadline) for request in requests]
        verdicts: list[Verdict] = []
        if self.config.warm_prefix and thunks:
            verdicts.append(await thunks[0]())
        return verdicts + await collect(thunks[len(verdicts) :], self.config.concurrency)

    def _requests(
        self, task: Task, answer: str, criteria: Sequence[Criterion], strict: bool, n: int
    ) -> list[ModelRequest]:
        """One request for each criterion; conversation and answer, the long part, are rendered once for all."""
        signature = judge_signature(strict)
        prefix = render(signature, [], judge_fields(task, answer, None, self.config.reason_words))
        # A role that sends no temperature sends none here either: some models refuse any.
        sends = self.gateway.routes["judge"].sampling.temperature is not None
        temperature = self.config.temperature_single if n == 1 and sends else None
        spec = output_spec(signature)
        return [
            ModelRequest("judge", extend(signature, prefix, "criterion", c.text), spec, temperature) for c in criteria
        ]

    def _score(self, task: Task, answer: str, verdicts: Sequence[Verdict], score: ScoreFunction) -> Grade:
        criteria = task.rubric.criteria
        outcomes = [v.outcome for v in verdicts]
        share = unknown_share(criteria, outcomes)
        raw, value = raw_score(criteria, outcomes), score(self.rule, criteria, outcomes, len(answer))
        if share > self.config.unknown_share_max or raw is None or value is None:
            return Grade(verdicts=tuple(verdicts), score=None, raw=None, unscored=_why_unscored(verdicts, share))
        return Grade(verdicts=tuple(verdicts), score=value, raw=raw)

    async def _verdict(self, request: ModelRequest, n: int, deadline: GradeDeadline) -> Verdict:
        votes: list[Vote] = []
        while (outcome := majority(votes, n)) is None:
            # As many votes at once as the verdict still needs at least, so none is asked for in vain.
            known = max(sum(v.outcome == side for v in votes) for side in ("met", "unmet"))
            batch = min(n - len(votes), n // 2 + 1 - known)
            numbers = range(len(votes), len(votes) + batch)
            votes += await deadline.keep([partial(self._vote, request, number) for number in numbers])
        return Verdict(outcome=outcome, votes=tuple(votes))

    async def _vote(self, request: ModelRequest, number: int) -> Vote:
        sample = f"{current_tag().sample}#{number}"
        try:
            reply = await self.gateway.complete(replace(request, sample=sample))
        except ModelError as error:
            return Vote(outcome="unknown", error=str(error))
        met = getattr(reply.value, "met")  # noqa: B009  (the model is made from the signature)
        reason = getattr(reply.value, "reason")  # noqa: B009
        return Vote(outcome="met" if met else "unmet", reason=reason)


def _why_unscored(verdicts: Sequence[Verdict], share: float) -> str:
    unknown = [v for v in verdicts if v.outcome == "unknown"]
    if not unknown:
        return "the rubric has no criterion with positive points"
    why = next((vote.error for verdict in unknown for vote in verdict.votes if vote.error), "the votes did not agree")
    return f"{len(unknown)} of {len(verdicts)} verdicts unknown ({share:.0%} of the points): {why}"
