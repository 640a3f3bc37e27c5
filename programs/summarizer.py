"""Summarizer: a query and the passages that it found -> one evidence brief for the solver."""

from collections.abc import Sequence
from typing import Any

from programs.role import RoleModule
from programs.shown import shorten_words
from rri.types import Reference
from signatures.summarizer import SummarizePassages

__all__ = ["Summarizer"]

BRIEF_WORDS = 400
"""Longest brief: the authors' development code."""


class Summarizer(RoleModule[str]):
    """Sums up what a search found (METHOD 6). Frozen: no guidance ever reaches it.

    Args:
        max_words: longest brief. What a model writes beyond it is cut, with a mark.

    Example:
        >>> Summarizer()(query="interval between doses", passages=passages)
    """

    signature = SummarizePassages

    def __init__(self, max_words: int = BRIEF_WORDS) -> None:
        super().__init__()
        self.max_words = max_words

    def fields(self, *, query: str, passages: Sequence[Reference]) -> dict[str, Any]:  # type: ignore[override]
        return {"max_words": self.max_words, "query": query, "passages": list(passages)}

    def result(self, prediction: Any) -> str:
        return shorten_words(str(prediction.brief), self.max_words)
