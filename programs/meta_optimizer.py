"""Meta-optimizer: the evidence of a round -> new guidance for the two generation prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from programs.role import RoleModule
from programs.shown import latest, shorten
from rri.guidance_rules import GuidanceLimits
from signatures.meta_optimizer import PastGuidance, WriteGuidance

__all__ = ["MetaOptimizer", "NewGuidance"]

SUMMARY_CHARS = 300


@dataclass(frozen=True, slots=True)
class NewGuidance:
    """Proposed guidance, not yet checked (`rri.guidance_rules.check_guidance`)."""

    guidance_a: str
    guidance_b: str
    summary: str


class MetaOptimizer(RoleModule[NewGuidance]):
    """Rewrites guidance block A (requests) and B (tasks and rubrics) from measured evidence (METHOD 3).

    The current guidance is shown whole, since it is what is rewritten. Earlier versions and evidence are bounded.

    Args:
        domain: what the tasks are to be about.
        limits: words that are asked for.
        evidence_chars: characters of statistics, diagnoses and exploits that are shown, each.
        gaps, gap_chars: how many gaps are shown, the latest, and characters of each.
        versions: how many earlier versions are shown, the latest.
        past_chars: characters of each earlier guidance block that are shown.

    Example:
        >>> MetaOptimizer()(score_formula="...", guidance_a="", guidance_b="", statistics="...", diagnoses="...",
        ...     gaps=["renal dose of metformin"], exploits="...", history=[])
    """

    signature = WriteGuidance

    def __init__(
        self,
        domain: str = "",
        limits: GuidanceLimits | None = None,
        evidence_chars: int = 12_000,
        gaps: int = 15,
        gap_chars: int = 160,
        versions: int = 8,
        past_chars: int = 800,
    ) -> None:
        super().__init__()
        self.domain = domain
        self.limits = limits or GuidanceLimits()
        self.evidence_chars = evidence_chars
        self.gaps = gaps
        self.gap_chars = gap_chars
        self.versions = versions
        self.past_chars = past_chars

    def fields(  # type: ignore[override]
        self,
        *,
        score_formula: str,
        guidance_a: str,
        guidance_b: str,
        statistics: str,
        diagnoses: str,
        gaps: Sequence[str],
        exploits: str,
        history: Sequence[PastGuidance],
        problems: Sequence[str] = (),
    ) -> dict[str, Any]:
        return {
            "domain": self.domain or None,
            "score_formula": score_formula,
            "max_words": self.limits.guidance_words,
            "guidance_a": guidance_a,
            "guidance_b": guidance_b,
            "statistics": shorten(statistics, self.evidence_chars),
            "diagnoses": shorten(diagnoses, self.evidence_chars),
            "gaps": latest(gaps, self.gaps, self.gap_chars),
            "exploits": shorten(exploits, self.evidence_chars),
            "history": [self._shown(past) for past in history[max(0, len(history) - self.versions) :]],
            "problems": list(problems) or None,
        }

    def _shown(self, past: PastGuidance) -> PastGuidance:
        return past.model_copy(
            update={
                "summary": shorten(past.summary, SUMMARY_CHARS),
                "guidance_a": shorten(past.guidance_a, self.past_chars),
                "guidance_b": shorten(past.guidance_b, self.past_chars),
            }
        )

    def result(self, prediction: Any) -> NewGuidance:
        return NewGuidance(
            guidance_a=prediction.new_guidance_a.strip(),
            guidance_b=prediction.new_guidance_b.strip(),
            summary=prediction.summary.strip(),
        )
