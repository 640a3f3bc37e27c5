"""All roles of a run, each bound to its own route."""

from dataclasses import dataclass
from typing import Self

from programs.admission import Admitter
from programs.farmer import Farmer
from programs.generator import Generator
from programs.grader import Grader
from programs.honest import Honest
from programs.probe import Prober
from programs.proposer import Proposer
from programs.rewriter import Rewriter
from rri.config import RunConfig
from rri.lm.engine import role_lm
from rri.lm.gateway import Gateway

__all__ = ["Roles"]


@dataclass(frozen=True)
class Roles:
    """The role modules with the gateway behind them. The judge's calls go through `grader`."""

    proposer: Proposer
    generator: Generator
    farmer: Farmer
    honest: Honest
    rewriter: Rewriter
    grader: Grader
    config: RunConfig

    @classmethod
    def bind(cls, config: RunConfig, gateway: Gateway) -> Self:
        roles = cls(
            proposer=Proposer(),
            generator=Generator(),
            farmer=Farmer(),
            honest=Honest(config.domain.system_prompt),
            rewriter=Rewriter(),
            grader=Grader(gateway, config.domain.score_rule, config.grading),
            config=config,
        )
        for name in ("proposer", "generator", "farmer", "honest", "rewriter"):
            getattr(roles, name).set_lm(role_lm(name, gateway))
        return roles

    def prober(self) -> Prober:
        return Prober(self.farmer, self.honest, self.grader, self.config.admission)

    def admitter(self) -> Admitter:
        return Admitter(self.prober(), self.rewriter, self.config.admission, self.config.generation.rubric)
