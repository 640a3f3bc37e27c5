"""The numbers of the method, by section of METHOD."""

from typing import Self

from pydantic import Field, model_validator

from rri.domain import Section
from rri.rubric_rules import RewriteLimits, RubricLimits
from rri.shape import ShapeConfig

__all__ = ["AdmissionConfig", "GenerationConfig", "GradingConfig", "PoolConfig"]


def _check_odd(votes: int) -> None:
    if votes % 2 == 0:
        raise ValueError(f"votes must be odd so that a majority exists, got {votes}")


class GenerationConfig(Section):
    """METHOD 4."""

    tasks: int = Field(default=512, ge=1, description="tasks to admit over the run")
    requests_per_call: int = Field(default=6, ge=1, le=12, description="requests that one proposer call writes")
    seed_passages: int = Field(default=3, ge=1, description="passages shown to the proposer")
    passages_per_task: int = Field(default=8, ge=1, description="passages retrieved for the generator")
    positives: dict[int, float] = Field(
        default={2: 0.15, 3: 0.70, 4: 0.15}, description="count of positives -> probability (METHOD 4.4)"
    )
    negative_share: float = Field(default=0.75, ge=0, le=1, description="target share of tasks with a negative on top")
    red_team_positives: tuple[int, ...] = Field(
        default=(1, 2), min_length=1, description="counts of positives of a red-team task, drawn evenly"
    )
    shape: ShapeConfig = ShapeConfig()
    difficulty_low: float = Field(default=0.4, description="rolling mean score below it: write easier tasks")
    difficulty_high: float = Field(default=0.6, description="rolling mean score above it: write harder tasks")
    difficulty_window: int = Field(default=64, ge=1, description="latest rollouts in that mean")
    min_task_chars: int = Field(default=30, ge=1, description="shortest request and shortest task that is usable")
    attempts: int = Field(default=3, ge=1, description="generator calls until a rubric passes the validator")
    recent_requests: int = Field(default=20, ge=0, description="latest requests that the proposer is told to avoid")
    concurrency: int = Field(default=16, ge=1, description="tasks generated at once")
    failures_in_a_row: int = Field(default=6, ge=1, description="failed tasks in a row after which the run stops")
    rubric: RubricLimits = RubricLimits()

    @model_validator(mode="after")
    def _positives_sum(self) -> Self:
        shares = self.positives.values()
        # Written so that a NaN fails too.
        if not (all(0 <= p <= 1 for p in shares) and abs(sum(shares) - 1) <= 1e-6):
            raise ValueError(
                f"positives must be probabilities that sum to 1, got {list(shares)}, whose sum is {sum(shares):g}"
            )
        if min(self.positives) < 1 or max(self.positives) > 5:
            raise ValueError(f"counts of positives must lie in 1..5, got {sorted(self.positives)}")
        if min(self.red_team_positives) < 1 or max(self.red_team_positives) > 5:
            raise ValueError(f"red_team_positives must lie in 1..5, got {list(self.red_team_positives)}")
        if self.difficulty_low >= self.difficulty_high:
            low, high = self.difficulty_low, self.difficulty_high
            raise ValueError(f"difficulty_low {low:g} must be below difficulty_high {high:g}")
        return self


class AdmissionConfig(Section):
    """METHOD 5. `enabled: false`: tasks are served as they were written."""

    enabled: bool = True
    margin: float = Field(default=0.20, gt=0, description="a probe passes at delta <= -margin")
    honest_min: float = Field(default=0.15, description="honest score below it: unsatisfiable")
    honest_max: float = Field(default=0.92, description="honest score above it: saturated")
    accept_drop: float = Field(default=0.15, gt=0, description="drop of delta that accepts a rewrite")
    rounds: int = Field(default=2, ge=0, description="rewrites at most")
    concurrency: int = Field(default=48, ge=1, description="repairs at once; more wait")
    min_answer_chars: int = Field(default=200, ge=0, description="a shorter answer makes a probe unmeasured")
    max_exploit_chars: int = Field(default=2500, ge=1, description="length that the farmer is asked to stay under")
    votes: int = Field(default=3, ge=1, description="odd")
    rewrite: RewriteLimits = RewriteLimits()

    @model_validator(mode="after")
    def _band(self) -> Self:
        _check_odd(self.votes)
        if self.honest_min >= self.honest_max:
            raise ValueError(f"honest_min {self.honest_min:g} must be below honest_max {self.honest_max:g}")
        return self


class GradingConfig(Section):
    """METHOD 6: three votes a criterion, majority; a row with any unknown criterion is unscored."""

    votes: int = Field(default=3, ge=1, description="odd")
    temperature_single: float = Field(default=0.0, ge=0, description="judge temperature where there is one vote")
    unknown_share_max: float = Field(
        default=0.0, ge=0, le=1, description="share of absolute points that may be unknown"
    )
    concurrency: int = Field(default=256, ge=1, description="judge calls under way at once for one request")
    deadline_s: float = Field(
        default=1200.0, gt=0, description="for one answer; verdicts still missing are unknown. Pauses do not count"
    )
    strict_note: bool = Field(
        default=True, description="probes and checks of minted criteria ask the judge for substance (METHOD 3)"
    )
    warm_prefix: bool = Field(
        default=False, description="send one vote of an answer first, so that the server's prefix cache is warm"
    )
    unscored_in_a_row: int = Field(default=64, ge=1, description="unscored answers in a row after which the run stops")
    reason_words: int = Field(default=60, ge=1, description="words that the judge may spend on its reason")

    @model_validator(mode="after")
    def _odd(self) -> Self:
        _check_odd(self.votes)
        return self


class PoolConfig(Section):
    """METHOD 7, serving: replay, then unserved in order of admission, then a seeded draw (DESIGN, seam 2)."""

    min_tasks: int = Field(default=64, ge=1, description="tasks admitted before position 0 is served")
    ahead: int = Field(default=512, ge=1, description="unserved tasks at which admission waits for the trainer")
    fresh_wait_s: float = Field(
        default=30.0, ge=0, description="wait for a new task before a served one is drawn again"
    )
    band_rollouts: int = Field(default=4, ge=1, description="graded rollouts before a task may be evicted")
    band_window: int = Field(default=64, ge=1, description="latest rollouts of a task that decide")
    band_low: float = Field(default=0.05, description="mean training score below it: evicted")
    band_high: float = Field(default=0.88, description="mean training score above it: evicted")
    band_variance: float = Field(default=1e-4, ge=0, description="variance below it: evicted")
    evict: bool = True

    @model_validator(mode="after")
    def _bounds(self) -> Self:
        if self.band_low >= self.band_high:
            raise ValueError(f"band_low {self.band_low:g} must be below band_high {self.band_high:g}")
        if self.band_window < self.band_rollouts:
            raise ValueError(f"band_window {self.band_window} must hold band_rollouts {self.band_rollouts}")
        return self
