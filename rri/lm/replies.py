"""From what an endpoint answered to a reply that may be used."""

from dataclasses import dataclass

from pydantic import BaseModel

from rri.errors import MalformedReply, TruncatedReply
from rri.lm.adapter import OutputSpec
from rri.lm.calls import Usage
from rri.lm.transport import Completion

__all__ = ["Reply", "usable", "without_reasoning"]

THINK = ("<think>", "</think>")
"""Marks around reasoning that a server without a reasoning parser leaves in the content."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A usable reply: `value` holds the checked model, None for plain text."""

    text: str
    value: BaseModel | None
    usage: Usage


def usable(completion: Completion, output: OutputSpec, url: str) -> Reply:
    """The reply, checked.

    Raises:
        ReplyError: it must not be used.
    """
    if completion.problem is not None:
        raise completion.problem
    text = without_reasoning(completion.text)
    try:
        value = output.validate(text)
    except MalformedReply as error:
        raise MalformedReply(f"{url}: {error.what}", "Use a server that holds replies to a JSON schema") from None
    return Reply(text, value, completion.usage)


def without_reasoning(text: str) -> str:
    """`text` without the reasoning that opens it, where a server leaves that in the content.

    Raises:
        TruncatedReply: the reasoning is not closed, so there is no answer.
    """
    opening, closing = THINK
    if not text.lstrip().startswith(opening):
        return text
    _, closed, answer = text.rpartition(closing)
    if not closed or not answer.strip():
        raise TruncatedReply("the reply holds reasoning and no answer", "Raise max_tokens, or turn reasoning off")
    return answer.lstrip()
