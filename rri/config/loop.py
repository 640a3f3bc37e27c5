"""The numbers of the recursive loop (METHOD 7): exploit cases, patches, evolution, memo."""

from typing import Self

from pydantic import Field, model_validator

from rri.domain import Section
from rri.rubric_rules import PatchLimits

__all__ = ["EvolutionConfig", "ExploitConfig", "MemoConfig", "PatchConfig"]


class ExploitConfig(Section):
    """METHOD 7, exploit cases. The referee ranks each group's answers blind; scores are raw, without length term."""

    enabled: bool = True
    gap: float = Field(default=0.15, gt=0, description="lead of the top scorer over the better answer")
    cases_per_round: int = Field(default=8, ge=1, description="largest gaps of a step that go to repair")
    min_answers: int = Field(default=3, ge=2, description="scored answers that a group needs to be ranked")
    min_answer_chars: int = Field(default=32, ge=0, description="shorter answers are not ranked")
    concurrency: int = Field(default=16, ge=1, description="groups ranked at once")
    task_chars: int = Field(default=8000, ge=1, description="of the conversation shown to the referee")
    answer_chars: int = Field(default=6000, ge=1, description="of each answer shown to the referee")


class PatchConfig(Section):
    """METHOD 7, patches. Every check of a minted criterion, from cheap to dear, has its number here."""

    enabled: bool = True
    criterion: PatchLimits = PatchLimits()
    min_gap_removed: float = Field(
        default=0.05, ge=0, description="least |points| / sum of positive points before the criterion"
    )
    accepted_per_round: int = Field(default=5, ge=1, description="criteria accepted in one round at most")
    rounds: int = Field(default=2, ge=1, description="rounds a case; the farmer attacks between them")
    accepted_per_task: int = Field(default=6, ge=1, description="criteria accepted for one task over the run")
    reattack: bool = Field(default=True, description="attack every patched rubric afresh")
    honest_guard: bool = Field(default=True, description="reject a negative that the cached honest answer meets")
    votes: int = Field(default=3, ge=1, description="odd")
    attempts: int = Field(default=2, ge=1, description="calls of the minter in one round")
    concurrency: int = Field(default=8, ge=1, description="cases repaired at once")
    task_chars: int = Field(default=4000, ge=1, description="of the conversation shown to the minter")
    answer_chars: int = Field(default=9000, ge=1, description="of each answer shown to the minter")

    @model_validator(mode="after")
    def _odd(self) -> Self:
        if self.votes % 2 == 0:
            raise ValueError(f"votes must be odd so that a majority exists, got {self.votes}")
        return self


class EvolutionConfig(Section):
    """METHOD 7, evolution round: analyst, counts, one meta-optimizer call, new guidance."""

    enabled: bool = True
    start: str = Field(
        default="", description="YAML file with guidance_a, guidance_b and memo that the run begins with"
    )
    every_cycles: int = Field(default=5, ge=1, description="cycles between rounds, the validation interval")
    cases: int = Field(default=20, ge=1, description="graded answers that the analyst sees")
    worst_share: float = Field(default=0.5, ge=0, le=1)
    best_share: float = Field(default=0.25, ge=0, le=1, description="the rest is drawn at random")
    concurrency: int = Field(default=16, ge=1, description="analyst calls at once")
    gaps: int = Field(default=15, ge=0, description="gap strings shown to the meta-optimizer")
    gap_chars: int = Field(default=160, ge=1)
    history: int = Field(default=8, ge=0, description="earlier guidance versions shown")
    corpus_tasks: int = Field(default=150, ge=1, description="latest tasks whose figures are shown")
    guidance_words: int = Field(default=300, ge=1, description="longest guidance block")
    attempts: int = Field(default=2, ge=1, description="calls until the guidance passes its checks")
    task_chars: int = Field(default=4000, ge=1)
    answer_chars: int = Field(default=30000, ge=1)

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.worst_share + self.best_share > 1:
            raise ValueError(f"worst_share {self.worst_share:g} and best_share {self.best_share:g} exceed 1 together")
        return self


class MemoConfig(Section):
    """METHOD 7, memo: g = mean(delta) + honest_weight * max(0, mean(honest) - baseline - honest_slack)."""

    enabled: bool = True
    max_chars: int = Field(default=2400, ge=1)
    asked_chars: int = Field(default=1500, ge=1, description="length that the prompt asks for")
    summary_chars: int = Field(default=200, ge=1)
    honest_weight: float = Field(default=2.0, ge=0)
    honest_slack: float = Field(default=0.02, ge=0, description="rise of the honest score that is free")
    honest_penalty: bool = Field(default=True, description="off: g is the mean delta alone")
    min_observations: int = Field(default=2, ge=1, description="first probes under a version before a decision")
    rollback_margin: float = Field(default=0.02, ge=0, description="worse than the best by more: rolled back")
    restricting_below: float = Field(default=0.25, description="honest mean under it: not tightened further")
    attempts: int = Field(default=2, ge=1, description="calls until the memo passes its checks")
    history: int = Field(default=8, ge=0, description="earlier memo versions shown")
    minted: int = Field(default=20, ge=0, description="latest accepted criteria shown")
