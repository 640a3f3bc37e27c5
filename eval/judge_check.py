"""A judge measured against labelled verdicts, before money is spent on it.

Every vote is cast on every item, none is saved by an early stop: how often votes differ needs them all.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from eval.agreement import Agreement, Flips, JudgedItem, measure_agreement, measure_flips
from eval.labelled import LabelledItem
from eval.length_bias import LengthBias, measure_length_bias
from eval.usability import Usability, judge_usability
from programs.grader import Grader, majority
from rri.aio import collect
from rri.config import CacheConfig, GradingConfig, RunConfig
from rri.errors import ModelError, RriError
from rri.lm import Gateway, Totals, tagged
from rri.types import Verdict, Vote

__all__ = ["Cost", "JudgeCheck", "JudgeReport", "Judging", "Step", "judge_alone", "judge_report"]


@dataclass(frozen=True, slots=True)
class Step:
    """The size of one training step (METHOD 6). Criteria are those of a typical generated rubric (METHOD 4)."""

    tasks: int = 64
    rollouts: int = 8
    criteria: int = 4
    votes: int = 3

    @property
    def cast(self) -> int:
        """Votes of the step when none is saved."""
        return self.tasks * self.rollouts * self.criteria * self.votes


@dataclass
class Judging:
    """What the judge has said so far. Filled while it works, so that a stop loses nothing that was paid for.

    `votes` counts votes that were cast, those of unfinished items too, `unknown` counts verdicts. `stopped` is why it
    ended early.
    """

    items: Sequence[LabelledItem]
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    votes: int = 0
    unknown: int = 0
    unknown_in_a_row: int = 0
    stopped: RriError | None = None

    def judged(self) -> list[JudgedItem]:
        """The items that have all their votes, in the order of the file."""
        return [
            JudgedItem(item.conversation_id, item.answer_id, len(item.answer), item.met, self.verdicts[number])
            for number, item in enumerate(self.items)
            if number in self.verdicts
        ]


@dataclass(frozen=True, slots=True)
class Cost:
    """What the votes cost. `call_seconds` sums the calls' own time, `wall_seconds` is the time that passed."""

    votes: int
    verdicts: int
    calls: int
    failed: int
    tokens_in: int
    tokens_out: int
    money: float
    call_seconds: float
    wall_seconds: float
    priced: bool
    """Whether the judge's endpoint has a price at all."""

    def of_step(self, step: Step, concurrency: int, flip_rate: float | None) -> dict[str, float]:
        """Calls, tokens, money and hours of one training step at the rate of these votes.

        Args:
            step: its size.
            concurrency: calls that the endpoint takes at once; hours assume that it keeps its pace under them.
            flip_rate: pairs of votes that differ. With three votes the third is cast only where the first two do.
        """
        share = step.cast / max(self.votes, 1)
        saved = (2 + flip_rate) / 3 if flip_rate is not None and step.votes == 3 else 1.0
        return {
            "votes": step.cast,
            "calls": self.calls * share,
            "tokens_in": self.tokens_in * share,
            "tokens_out": self.tokens_out * share,
            "money": self.money * share,
            "hours": self.call_seconds * share / concurrency / 3600,
            "share_with_early_stop": saved,
        }


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """Everything that was measured of a judge."""

    agreement: Agreement
    flips: Flips
    left: dict[int, float | None]
    """Votes of a majority -> share of pairs of such majorities that differ."""
    left_if_even: dict[int, float | None]
    """The same, were all items equally doubtful."""
    length: LengthBias
    failed_votes: int
    reason: str
    """One failed vote's error, of the commonest kind; empty where none failed."""
    reason_share: float
    """Share of the failed votes that are of that kind."""
    cost: Cost
    usability: Usability


def judge_alone(config: RunConfig) -> RunConfig:
    """`config` with the judge as its only role, without fallback and cache: one judge is measured, on fresh votes."""
    judge = config.roles["judge"].model_copy(update={"fallback": ""})
    return config.model_copy(update={"roles": {"judge": judge}, "cache": CacheConfig(enabled=False)})


class JudgeCheck:
    """Casts votes on labelled items through the grader.

    Args:
        gateway: where the judge's calls go.
        config: votes, words of a reason, concurrency, and how many unknown verdicts in a row end it.
        strict: under the strict note of probes and patches instead of training's prompt.
    """

    def __init__(self, gateway: Gateway, config: GradingConfig, *, strict: bool = False) -> None:
        # Votes are asked one by one, so that none is saved. Each is still one of several: it samples as they do.
        alone = {} if config.votes == 1 else {"temperature_single": gateway.routes["judge"].sampling.temperature}
        self.grader = Grader(gateway, "equal-weights", config.model_copy(update=alone))
        self.config = config
        self.strict = strict

    async def run(self, judging: Judging, progress: Callable[[], None] = lambda: None) -> None:
        """Judge all items, into `judging`. What ends it early is kept there too, as `stopped`.

        Args:
            judging: the items, and where the verdicts go.
            progress: called after each verdict.
        """
        at_once = max(1, self.config.concurrency // self.config.votes)
        thunks = [partial(self._item, judging, number, progress) for number in range(len(judging.items))]
        try:
            await collect(thunks, at_once)
        except RriError as error:
            judging.stopped = error

    async def _item(self, judging: Judging, number: int, progress: Callable[[], None]) -> None:
        item = judging.items[number]
        cast = [partial(self._vote, judging, item, index) for index in range(self.config.votes)]
        votes = await collect(cast, self.config.votes)
        outcome = majority(votes, len(votes))
        assert outcome is not None, "a full count decides"
        judging.verdicts[number] = Verdict(outcome=outcome, votes=tuple(votes))
        judging.unknown += outcome == "unknown"
        judging.unknown_in_a_row = judging.unknown_in_a_row + 1 if outcome == "unknown" else 0
        progress()
        if judging.unknown_in_a_row >= self.config.unscored_in_a_row:
            why = next((vote.error for vote in votes if vote.error), "the votes did not agree")
            raise ModelError(f"{judging.unknown_in_a_row} verdicts in a row are unknown: {why}")

    async def _vote(self, judging: Judging, item: LabelledItem, index: int) -> Vote:
        with tagged(item.answer_id, f"vote-{index}"):
            grade = await self.grader.grade(item.task, item.answer, strict=self.strict, votes=1)
        judging.votes += 1
        return grade.verdicts[0].votes[0]


def judge_report(judging: Judging, spent: Totals, wall_seconds: float, config: RunConfig) -> JudgeReport:
    """Figures and verdict on what was judged so far.

    Args:
        judging: verdicts, of all items or of those before a stop.
        spent: what the calls behind them cost.
        wall_seconds: time that passed.
        config: the run's config; its judge was measured.
    """
    items = judging.judged()
    agreement, flips = measure_agreement(items, config.seed), measure_flips(items, config.seed)
    length, votes = measure_length_bias(items, config.seed), config.grading.votes
    majorities = sorted({3, 5, votes})
    errors = [vote.error for item in items for vote in item.verdict.votes if vote.outcome == "unknown"]
    reason, share = _commonest(errors)
    endpoint = config.endpoints[config.roles["judge"].endpoint]
    cost = Cost(
        votes=judging.votes,
        verdicts=len(items),
        calls=spent.calls,
        failed=spent.failed,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        money=spent.money,
        call_seconds=spent.seconds,
        wall_seconds=wall_seconds,
        priced=bool(endpoint.price_in or endpoint.price_out),
    )
    return JudgeReport(
        agreement=agreement,
        flips=flips,
        left={n: flips.left(n) for n in majorities},
        left_if_even={n: flips.left_if_even(n) for n in majorities},
        length=length,
        failed_votes=len(errors),
        reason=reason,
        reason_share=share,
        cost=cost,
        usability=judge_usability(agreement, flips, length, votes),
    )


def _commonest(errors: Sequence[str]) -> tuple[str, float]:
    """An error of the commonest kind and that kind's share; errors that differ in what they quote are of one kind."""
    if not errors:
        return "", 0.0
    kinds = Counter(_kind(error) for error in errors)
    kind, n = kinds.most_common(1)[0]
    return next(error for error in errors if _kind(error) == kind), n / len(errors)


def _kind(error: str) -> str:
    return re.sub(r"\d+", "#", re.sub(r"'[^']*'|\"[^\"]*\"", "...", error.partition("; got ")[0]))
