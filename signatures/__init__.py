"""One file per role, `dspy.Signature` classes only. The docstring is the prompt."""

from signatures.digests import prompt_digests
from signatures.farmer import FarmAnswer
from signatures.generator import DraftCriterion, GenerateTask
from signatures.guidance import with_guidance
from signatures.honest import HonestAnswer
from signatures.judge import JudgeCriterion, JudgeCriterionStrictly
from signatures.proposer import ProposeRequests, WantedRequest
from signatures.rewriter import RewriteTask

__all__ = [
    "ALL",
    "DraftCriterion",
    "FarmAnswer",
    "GenerateTask",
    "HonestAnswer",
    "JudgeCriterion",
    "JudgeCriterionStrictly",
    "ProposeRequests",
    "RewriteTask",
    "WantedRequest",
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
)
"""Every role's signature."""
