"""What a run's tasks are about."""

from pydantic import BaseModel, ConfigDict, Field

from rri.scoring import ScoreRule

__all__ = ["DomainConfig", "Section", "UseCase"]


class Section(BaseModel):
    """A part of a config: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class UseCase(Section):
    """One kind of request of a domain, drawn with its weight."""

    name: str
    weight: float = Field(gt=0)
    description: str = ""


class DomainConfig(Section):
    """What the tasks are about; the proposer sees `description`, the solver `system_prompt`."""

    name: str
    description: str
    expert: str = Field(description="role noun of the domain's expert, singular")
    system_prompt: str = Field(
        description="the solver's standing instructions; the honest answer is written under them"
    )
    use_cases: tuple[UseCase, ...] = Field(min_length=1)
    topics: tuple[str, ...] = ()
    red_team_share: float = Field(default=0.15, ge=0, le=1)
    score_rule: ScoreRule = "healthbench"
