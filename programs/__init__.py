"""One dspy.Module per role, and the programs that compose them."""

from programs.admission import Admitter
from programs.analyst import Analyst, Diagnosis
from programs.evolution import EvolutionRound
from programs.exploits import CaseFinder
from programs.farmer import Farmer
from programs.generator import Draft, Generator
from programs.grader import Grader
from programs.honest import Honest
from programs.judge import Judge
from programs.memo import MemoRound
from programs.memo_optimizer import MemoOptimizer, NewMemo
from programs.meta_optimizer import MetaOptimizer, NewGuidance
from programs.minter import MintedCriterion, Minter, Minting
from programs.patching import Patcher
from programs.probe import Prober
from programs.proposer import Proposer
from programs.referee import Referee, Tiers
from programs.rewriter import Proposal, Rewriter
from programs.roles import Roles
from programs.summarizer import Summarizer
from programs.writing import TaskWriter

__all__ = [
    "Admitter",
    "Analyst",
    "CaseFinder",
    "Diagnosis",
    "Draft",
    "EvolutionRound",
    "Farmer",
    "Generator",
    "Grader",
    "Honest",
    "Judge",
    "MemoOptimizer",
    "MemoRound",
    "MetaOptimizer",
    "MintedCriterion",
    "Minter",
    "Minting",
    "NewGuidance",
    "NewMemo",
    "Patcher",
    "Prober",
    "Proposal",
    "Proposer",
    "Referee",
    "Rewriter",
    "Roles",
    "Summarizer",
    "TaskWriter",
    "Tiers",
]
