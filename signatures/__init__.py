"""One file per role, `dspy.Signature` classes only. The docstring is the prompt."""

from signatures.analyst import DiagnoseCase, JudgedCriterion
from signatures.digests import prompt_digests
from signatures.farmer import FarmAnswer
from signatures.generator import DraftCriterion, GenerateTask
from signatures.guidance import with_guidance
from signatures.honest import HonestAnswer
from signatures.judge import JudgeCriterion, JudgeCriterionStrictly
from signatures.memo_optimizer import PastMemo, WriteMemo
from signatures.meta_optimizer import PastGuidance, WriteGuidance
from signatures.minter import ComparedCriterion, MintCriteria, SeparatingCriterion
from signatures.proposer import ProposeRequests, WantedRequest
from signatures.referee import LetteredAnswer, RankAnswers
from signatures.rewriter import RewriteTask
from signatures.summarizer import SummarizePassages

__all__ = [
    "ALL",
    "ComparedCriterion",
    "DiagnoseCase",
    "DraftCriterion",
    "FarmAnswer",
    "GenerateTask",
    "HonestAnswer",
    "JudgeCriterion",
    "JudgeCriterionStrictly",
    "JudgedCriterion",
    "LetteredAnswer",
    "MintCriteria",
    "PastGuidance",
    "PastMemo",
    "ProposeRequests",
    "RankAnswers",
    "RewriteTask",
    "SeparatingCriterion",
    "SummarizePassages",
    "WantedRequest",
    "WriteGuidance",
    "WriteMemo",
    "prompt_digests",
    "with_guidance",
]

ALL = (
    ProposeRequests,
    GenerateTask,
    FarmAnswer,
    HonestAnswer,
    JudgeCriterion,
    JudgeCriterionStrictly,
    RewriteTask,
    MintCriteria,
    RankAnswers,
    DiagnoseCase,
    WriteGuidance,
    WriteMemo,
    SummarizePassages,
)
"""Every role's signature."""
