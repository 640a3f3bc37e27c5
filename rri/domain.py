"""What a run's tasks are about: a config file of its own (METHOD 4 and 8)."""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rri.distribution import ReferenceFigures
from rri.scoring import ScoreRule

__all__ = ["DomainConfig", "Section", "UseCase"]

Name = Annotated[str, Field(min_length=1)]

_ROUNDING = 1e-9


class Section(BaseModel):
    """A part of a config: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class UseCase(Section):
    """One kind of request of a domain, drawn with its weight."""

    name: Name
    weight: float = Field(gt=0, allow_inf_nan=False, description="relative to the other use cases")
    description: str = ""
    topics: tuple[Name, ...] = Field(default=(), description="its own sub-topics; the domain's when empty")


class DomainConfig(Section):
    """What the tasks are about; the proposer sees `description`, the solver `system_prompt`."""

    name: Name
    description: str
    expert: str = Field(description="role noun of the domain's expert, singular")
    system_prompt: str = Field(
        description="the solver's standing instructions; the honest answer is written under them"
    )
    use_cases: tuple[UseCase, ...] = Field(min_length=1)
    topics: tuple[Name, ...] = Field(default=(), description="sub-topics, drawn evenly")
    red_team_share: float = Field(default=0.15, ge=0, le=1)
    languages: dict[Name, float] = Field(
        default_factory=dict, description="language -> share of the requests; the rest is English"
    )
    score_rule: ScoreRule = "healthbench"
    corpus: Name = Field(
        default="starter", description="passages file (JSONL) or 'starter', where the run names none itself"
    )
    reference: ReferenceFigures | None = Field(
        default=None, description="published figures of the target; never measured on its held-out rows"
    )

    @model_validator(mode="after")
    def _use_cases_once(self) -> Self:
        names = [use_case.name for use_case in self.use_cases]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"use_cases names {', '.join(map(repr, twice))} more than once; give each one name")
        mix = self.reference.use_cases if self.reference else None
        if mix is not None and set(mix) != set(names):
            raise ValueError(
                f"reference.use_cases is about {', '.join(sorted(mix))}, the domain's use_cases are "
                f"{', '.join(sorted(names))}; give the figures of these, or set reference to null"
            )
        return self

    @model_validator(mode="after")
    def _language_shares(self) -> Self:
        total = sum(self.languages.values())
        # Written so that a NaN fails too.
        if not (all(0 < share <= 1 for share in self.languages.values()) and total <= 1 + _ROUNDING):
            raise ValueError(
                f"languages must hold shares above 0 that sum to at most 1, got {list(self.languages.values())}, whose "
                f"sum is {total:g}"
            )
        if english := [name for name in self.languages if name.strip().casefold() == "english"]:
            raise ValueError(f"languages names {english[0]!r}, which takes the rest; leave it out")
        return self

    def topics_of(self, use_case: UseCase) -> tuple[str, ...]:
        """Sub-topics that requests of `use_case` are drawn from."""
        return use_case.topics or self.topics
