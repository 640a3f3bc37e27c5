"""All roles of a run, each bound to its own route."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from programs.admission import Admitter
from programs.analyst import Analyst
from programs.evolution import EvolutionRound
from programs.exploits import CaseFinder
from programs.farmer import Farmer
from programs.generator import Generator
from programs.grader import Grader
from programs.honest import Honest
from programs.memo import MemoRound
from programs.memo_optimizer import MemoOptimizer
from programs.meta_optimizer import MetaOptimizer
from programs.minter import Minter
from programs.patching import Patcher
from programs.probe import Prober
from programs.proposer import Proposer
from programs.referee import Referee
from programs.rewriter import Rewriter
from programs.role import RoleModule
from programs.summarizer import Summarizer
from rri.cases import GuidanceVersion, MemoVersion
from rri.config import Role, RunConfig
from rri.errors import ConfigError
from rri.guidance_rules import GuidanceLimits
from rri.lm.engine import role_lm
from rri.lm.gateway import Gateway
from signatures.guidance import with_guidance

__all__ = ["MODULES", "Roles", "guidance_limits", "load_program"]


MODULES: tuple[Role, ...] = (
    "proposer",
    "generator",
    "farmer",
    "honest",
    "rewriter",
    "minter",
    "referee",
    "analyst",
    "meta_optimizer",
    "memo_optimizer",
    "summarizer",
)
"""Roles that are dspy modules of their own here; the judge's calls go through the grader."""


@dataclass(frozen=True)
class Roles:
    """The role modules with the gateway behind them. The judge's calls go through `grader`."""

    proposer: Proposer
    generator: Generator
    farmer: Farmer
    honest: Honest
    rewriter: Rewriter
    minter: Minter
    referee: Referee
    analyst: Analyst
    meta_optimizer: MetaOptimizer
    memo_optimizer: MemoOptimizer
    summarizer: Summarizer
    grader: Grader
    config: RunConfig
    gateway: Gateway

    @classmethod
    def bind(cls, config: RunConfig, gateway: Gateway) -> Self:
        """Every role under the config, its compiled program loaded where the config names one.

        Raises:
            ConfigError: a compiled program cannot be loaded.
        """
        domain, patches, evolution = config.domain, config.patches, config.evolution
        roles = cls(
            proposer=Proposer(),
            generator=Generator(),
            farmer=Farmer(),
            honest=Honest(domain.system_prompt),
            rewriter=Rewriter(),
            minter=Minter(patches.task_chars, patches.answer_chars),
            referee=Referee(domain.expert, config.exploits.task_chars, config.exploits.answer_chars),
            analyst=Analyst(domain.description, evolution.task_chars, evolution.answer_chars),
            meta_optimizer=MetaOptimizer(
                domain.description,
                guidance_limits(config),
                gaps=evolution.gaps,
                gap_chars=evolution.gap_chars,
                versions=evolution.history,
            ),
            memo_optimizer=MemoOptimizer(
                guidance_limits(config), minted=config.memo.minted, versions=config.memo.history
            ),
            summarizer=Summarizer(config.solver.tools.brief_words),
            grader=Grader(gateway, domain.score_rule, config.grading),
            config=config,
            gateway=gateway,
        )
        for name in MODULES:
            roles._prepare(name, getattr(roles, name))
        return roles

    def _prepare(self, name: Role, module: RoleModule[Any]) -> None:
        program = self.config.roles[name].program
        if program:
            load_program(module, name, Path(program))
        module.set_lm(role_lm(name, self.gateway))

    def guided(self, guidance: GuidanceVersion, memo: MemoVersion) -> tuple[Proposer, Generator]:
        """Proposer and generator under these texts, which stand below whatever a compiled program brings."""
        proposer, generator = Proposer(), Generator()
        self._prepare("proposer", proposer)
        self._prepare("generator", generator)
        for module, block, note in ((proposer, guidance.guidance_a, ""), (generator, guidance.guidance_b, memo.memo)):
            module.predict.signature = with_guidance(module.predict.signature, block, note)
        return proposer, generator

    def prober(self) -> Prober:
        return Prober(self.farmer, self.honest, self.grader, self.config.admission)

    def admitter(self) -> Admitter:
        return Admitter(self.prober(), self.rewriter, self.config.admission, self.config.generation.rubric)

    def finder(self) -> CaseFinder:
        return CaseFinder(self.referee, self.config.exploits, self.config.seed)

    def patcher(self) -> Patcher:
        return Patcher(self.minter, self.prober(), self.config.patches, self.config.generation.rubric)

    def evolution(self) -> EvolutionRound:
        config = self.config
        limits = guidance_limits(config)
        return EvolutionRound(
            self.analyst, self.meta_optimizer, config.evolution, limits, config.domain, config.generation
        )

    def memo(self) -> MemoRound:
        return MemoRound(self.memo_optimizer, self.config.memo)


def guidance_limits(config: RunConfig) -> GuidanceLimits:
    """How long evolved texts may be."""
    return GuidanceLimits(
        guidance_words=config.evolution.guidance_words,
        memo_chars=config.memo.max_chars,
        memo_asked_chars=config.memo.asked_chars,
        summary_chars=config.memo.summary_chars,
    )


def load_program(module: RoleModule[Any], role: str, path: Path) -> None:
    """Give a module the state that dspy saved to `path` (`module.save(path)` writes it).

    Raises:
        ConfigError: the file is missing or belongs to another program.
    """
    if not path.is_file():
        raise ConfigError(f"roles.{role}.program: no file {path}", "Give the file that `module.save(path)` wrote")
    try:
        module.load(str(path), allow_unsafe_lm_state=True)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"roles.{role}.program: {path} is no saved program of this role: {error}", "Save it again with this version"
        ) from None
