"""One dspy.Module per role, and the programs that compose them."""

from programs.admission import Admitter
from programs.farmer import Farmer
from programs.generator import Draft, Generator
from programs.grader import Grader
from programs.honest import Honest
from programs.judge import Judge
from programs.probe import Prober
from programs.proposer import Proposer
from programs.rewriter import Proposal, Rewriter
from programs.roles import Roles
from programs.writing import TaskWriter

__all__ = [
    "Admitter",
    "Draft",
    "Farmer",
    "Generator",
    "Grader",
    "Honest",
    "Judge",
    "Prober",
    "Proposal",
    "Proposer",
    "Rewriter",
    "Roles",
    "TaskWriter",
]
