"""The reasoning channel of an answer: what the solver thought is removed before grading (METHOD 2 and 6)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rri.errors import ConfigError
from rri.types import Message
from rri.wire import ReasoningMarkers

__all__ = ["KNOWN", "NO_REASONING", "Reasoning", "Visible", "reasoning_of"]

KNOWN = (
    ReasoningMarkers(open="<think>", close="</think>"),  # Qwen3 and later, DeepSeek-R1, GLM-4.5, Nemotron
    ReasoningMarkers(open="[THINK]", close="[/THINK]"),  # Magistral
    ReasoningMarkers(open="<seed:think>", close="</seed:think>"),  # Seed-OSS
)
"""Markers by model family. A family is recognised by its vocabulary or its chat template."""

PARSED = ("reasoning_content", "reasoning", "thinking")
"""Where a message keeps its reasoning once a tokenizer's own parser has taken it out of the content."""


@dataclass(frozen=True)
class Visible:
    """What of an answer is judged; `closed` is false, and the text empty, when the reasoning never ended."""

    text: str
    closed: bool


@dataclass(frozen=True)
class Reasoning:
    """How one model marks its reasoning.

    Args:
        markers: pairs that open and close it.
        opened: the pair that the chat template opens at the end of the prompt, so that answers begin inside it.
    """

    markers: tuple[ReasoningMarkers, ...] = ()
    opened: ReasoningMarkers | None = None

    def visible(self, text: str) -> Visible:
        """`text` without reasoning. A closing marker alone ends reasoning that began with the text.

        What is left of a text that held reasoning has no white space around it; any other text stays as it is.
        """
        parts: list[str] = []
        inside: ReasoningMarkers | None = self.opened
        at = 0
        while True:
            if inside is not None:
                end = text.find(inside.close, at)
                if end < 0:
                    return Visible("", closed=False)
                at = end + len(inside.close)
                inside = None
                continue
            found = self._next(text, at)
            if found is None:
                break
            start, marker, opens = found
            if opens:
                parts.append(text[at:start])
                inside, at = marker, start + len(marker.open)
            else:
                parts, at = [], start + len(marker.close)
        if at == 0:
            return Visible(text, closed=True)
        return Visible(_joined([*parts, text[at:]]), closed=True)

    def visible_of(self, message: Mapping[str, Any]) -> Visible:
        """The same for an assistant message, whose reasoning a parser may have taken out already."""
        text = message.get("content") or ""
        if any(message.get(key) for key in PARSED):
            rest = Reasoning(self.markers).visible(text)
            return Visible(rest.text, closed=rest.closed and bool(rest.text.strip()))
        return self.visible(text)

    def _next(self, text: str, at: int) -> tuple[int, ReasoningMarkers, bool] | None:
        """The first marker at or after `at`: where, of which pair, and whether it opens."""
        found = [
            (start, -len(word), marker, opens)
            for marker in self.markers
            for word, opens in ((marker.open, True), (marker.close, False))
            if (start := text.find(word, at)) >= 0
        ]
        if not found:
            return None
        # Of two that begin alike the longer one is meant.
        start, _, marker, opens = min(found, key=lambda f: f[:2])
        return start, marker, opens


NO_REASONING = Reasoning()


def _joined(parts: Sequence[str]) -> str:
    """Parts on lines of their own: joined without a gap, two halves could make a new marker."""
    return "\n".join(part.strip() for part in parts if part.strip())


def reasoning_of(tokenizer: Any, markers: Sequence[ReasoningMarkers] | None, template_kwargs: Any = None) -> Reasoning:
    """How the model of `tokenizer` marks its reasoning.

    Args:
        tokenizer: with a chat template.
        markers: from the config; None takes those of KNOWN that the vocabulary or the chat template name.
        template_kwargs: what the trainer gives to the chat template, such as `{"enable_thinking": False}`.

    Raises:
        ConfigError: decoding drops a marker, so that reasoning could not be told from the answer.
    """
    template = str(tokenizer.chat_template)
    if markers is None:
        vocabulary = tokenizer.get_vocab()
        markers = [m for m in KNOWN if m.close in template or {m.open, m.close} <= vocabulary.keys()]
    for word in (word for marker in markers for word in (marker.open, marker.close)):
        ids = tokenizer.encode(word, add_special_tokens=False)
        if word not in tokenizer.decode(ids, skip_special_tokens=True):
            raise ConfigError(
                f"the reasoning marker {word!r} is lost when the tokenizer decodes an answer",
                "Name markers under solver.reasoning that are no special tokens of the model",
            )
    probe = [Message(role="user", content="?").model_dump()]
    prompt = tokenizer.apply_chat_template(probe, tokenize=False, add_generation_prompt=True, **(template_kwargs or {}))
    opened = next((marker for marker in markers if prompt.rstrip().endswith(marker.open)), None)
    return Reasoning(tuple(markers), opened)
