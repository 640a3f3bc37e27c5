"""Memo optimizer: measured hackability and its causes -> a new exploit memo."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from programs.role import RoleModule
from programs.shown import latest, shorten
from rri.guidance_rules import GuidanceLimits
from signatures.memo_optimizer import PastMemo, WriteMemo

__all__ = ["MemoOptimizer", "NewMemo"]

CRITERION_CHARS = 240


@dataclass(frozen=True, slots=True)
class NewMemo:
    """A proposed memo, not yet checked (`rri.guidance_rules.check_memo`). Empty: nothing is proposed."""

    memo: str
    summary: str


class MemoOptimizer(RoleModule[NewMemo]):
    """Rewrites the memo on known exploits that the generator reads (METHOD 3).

    The current memo is shown whole, since it is what is rewritten. A summary that is longer than asked is cut with a
    mark.

    Args:
        limits: characters that are asked for.
        evidence_chars: characters of the hackability report that are shown.
        minted: how many minted criteria are shown, the latest.
        versions: how many earlier memos are shown, the latest.
        past_chars: characters of each earlier memo that are shown.

    Example:
        >>> MemoOptimizer()(memo="", hackability="mean delta 0.40", modes={"breadth_padding": 3}, minted=[], history=[])
    """

    signature = WriteMemo

    def __init__(
        self,
        limits: GuidanceLimits | None = None,
        evidence_chars: int = 12_000,
        minted: int = 20,
        versions: int = 8,
        past_chars: int = 1500,
    ) -> None:
        super().__init__()
        self.limits = limits or GuidanceLimits()
        self.evidence_chars = evidence_chars
        self.minted = minted
        self.versions = versions
        self.past_chars = past_chars

    def fields(  # type: ignore[override]
        self,
        *,
        memo: str,
        hackability: str,
        modes: Mapping[str, int],
        minted: Sequence[str],
        history: Sequence[PastMemo],
        problems: Sequence[str] = (),
    ) -> dict[str, Any]:
        versions = history[max(0, len(history) - self.versions) :]
        return {
            "max_chars": self.limits.memo_asked_chars,
            "summary_chars": self.limits.summary_chars,
            "memo": memo,
            "hackability": shorten(hackability, self.evidence_chars),
            # The commonest first, so that equal counts give equal bytes however they were collected.
            "modes": dict(sorted(modes.items(), key=lambda item: (-item[1], item[0]))),
            "minted": latest(minted, self.minted, CRITERION_CHARS),
            "history": [past.model_copy(update={"memo": shorten(past.memo, self.past_chars)}) for past in versions],
            "problems": list(problems) or None,
        }

    def result(self, prediction: Any) -> NewMemo:
        return NewMemo(
            memo=prediction.new_memo.strip(), summary=shorten(prediction.summary.strip(), self.limits.summary_chars)
        )
