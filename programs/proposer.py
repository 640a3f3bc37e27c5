"""Query proposer: seed passages -> requests."""

from collections.abc import Sequence
from typing import Any

from programs.role import RoleModule
from rri.types import Reference
from signatures.guidance import with_guidance
from signatures.proposer import ProposeRequests, WantedRequest

__all__ = ["Proposer"]


class Proposer(RoleModule[list[str]]):
    """Writes requests that double as retrieval queries.

    Args:
        guidance: guidance block A; empty for the untuned prompt.

    Example:
        >>> Proposer()(domain="clinical questions", passages=passages, wanted=[WantedRequest(use_case="consult")])
    """

    signature = ProposeRequests

    def __init__(self, guidance: str = "") -> None:
        super().__init__()
        self.predict.signature = with_guidance(ProposeRequests, guidance)

    def fields(  # type: ignore[override]
        self,
        *,
        domain: str,
        passages: Sequence[Reference],
        wanted: Sequence[WantedRequest],
        avoid: Sequence[str] = (),
    ) -> dict[str, Any]:
        return {"domain": domain, "passages": list(passages), "avoid": list(avoid) or None, "wanted": list(wanted)}

    def result(self, prediction: Any) -> list[str]:
        # Blank ones stay, so that each request keeps the wish at its own place.
        return [text.strip() for text in prediction.requests]
