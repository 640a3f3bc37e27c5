"""One dspy.Module per role, and the programs that compose them."""

from programs.admission import Admitter
from programs.analyst import Analyst, Diagnosis
from programs.farmer import Farmer
from programs.generator import Draft, Generator
from programs.grader import Grader
from programs.honest import Honest
from programs.judge import Judge
from programs.memo_optimizer import MemoOptimizer, NewMemo
from programs.meta_optimizer import MetaOptimizer, NewGuidance
from programs.minter import MintedCriterion, Minter, Minting
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
    "Diagnosis",
    "Draft",
    "Farmer",
    "Generator",
    "Grader",
    "Honest",
    "Judge",
    "MemoOptimizer",
    "MetaOptimizer",
    "MintedCriterion",
    "Minter",
    "Minting",
    "NewGuidance",
    "NewMemo",
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
