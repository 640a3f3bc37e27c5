"""Ways in which a model server misbehaves."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Fault", "FaultMix", "empty", "garbage", "hang", "other_json", "reset", "status", "truncated"]


@dataclass(frozen=True)
class Fault:
    """One misbehaviour. Make one with the functions of this module."""

    kind: Literal["status", "hang", "reset", "garbage", "content"]
    code: int = 200
    body: str = ""
    retry_after: str = ""
    finish_reason: str = "stop"


def status(code: int, body: str = '{"error": {"message": "scripted"}}', retry_after: str = "") -> Fault:
    """An HTTP error."""
    return Fault("status", code=code, body=body, retry_after=retry_after)


def hang() -> Fault:
    """No answer until the client hangs up."""
    return Fault("hang")


def reset() -> Fault:
    """The connection is dropped without an answer."""
    return Fault("reset")


def garbage(body: str = "<html>gateway</html>") -> Fault:
    """HTTP 200 with a body that is no chat completion."""
    return Fault("garbage", body=body)


def empty() -> Fault:
    """A chat completion without content."""
    return Fault("content", body="")


def truncated(text: str = '{"reason": "because the ans') -> Fault:
    """A chat completion cut at the token limit."""
    return Fault("content", body=text, finish_reason="length")


def other_json(text: str = '{"verdict": "yes"}') -> Fault:
    """A whole chat completion whose content is JSON of another shape."""
    return Fault("content", body=text)


@dataclass
class FaultMix:
    """Draws a fault for each request by share; the same seed gives the same sequence.

    Args:
        shares: fault -> share of requests, summing to at most 1.
        seed: of the draw.
    """

    shares: Mapping[Fault, float]
    seed: int = 0
    _random: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def draw(self) -> Fault | None:
        at = self._random.random()
        for fault, share in self.shares.items():
            if at < share:
                return fault
            at -= share
        return None
