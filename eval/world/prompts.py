"""What a model of the world is given: the rendered prompt of one call, and nothing else."""

import hashlib
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from eval.world.facts import Question, read_question, read_statements

__all__ = ["Prompt", "draws_of"]

_GUIDANCE, _MEMO = "Guidance for this stage of training:", "Memo on known exploits:"
_END = "\n\nYou are given these blocks."


@dataclass(frozen=True)
class Prompt:
    """One call as it came over the wire.

    Attributes:
        model: the name under which the role is served.
        messages: the chat, a system message first.
        schema: name of the reply's schema, empty for plain text.
    """

    model: str
    messages: Sequence[dict[str, str]]
    schema: str = ""

    @property
    def system(self) -> str:
        return self.messages[0]["content"]

    def block(self, name: str) -> str:
        """Text of an input block, as a model reads it; empty when it was not given."""
        text = self.messages[-1]["content"]
        opening, closing = f"<{name}>\n", f"\n</{name}>"
        start = text.find(opening)
        end = text.find(closing, start)
        return text[start + len(opening) : end] if start >= 0 and end >= 0 else ""

    def data(self, name: str) -> Any:
        """Value of a block that holds JSON; None when it was not given."""
        text = self.block(name)
        return json.loads(text) if text else None

    @property
    def guidance(self) -> str:
        """The guidance block that was appended to the role's instructions; empty without one."""
        return self._appended(_GUIDANCE)

    @property
    def memo(self) -> str:
        """The exploit memo that was appended to the role's instructions; empty without one."""
        return self._appended(_MEMO)

    def _appended(self, title: str) -> str:
        found = re.search(
            rf"\n\n{re.escape(title)}\n(.*?)(?=\n\n{re.escape(_MEMO)}\n|{re.escape(_END)}|\Z)", self.system, re.DOTALL
        )
        return found.group(1) if found else ""

    @cached_property
    def request(self) -> str:
        """The last message of the conversation, which holds note and question."""
        return str(self.data("conversation")[-1]["content"])

    @cached_property
    def question(self) -> Question | None:
        """What the conversation asks for; None where it asks nothing of the world."""
        return read_question(self.request)

    @cached_property
    def known(self) -> dict[tuple[str, str], str]:
        """(entity, relation) -> value, as the conversation's note states it."""
        return {(s.entity, s.relation): s.value for s in read_statements(self.request) if s.value is not None}


def draws_of(*parts: str) -> random.Random:
    """A source of draws that depends on `parts` alone."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(f"{len(part)}:".encode())
        state.update(part.encode())
    return random.Random(int.from_bytes(state.digest(), "big"))
