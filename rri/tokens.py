"""The solver's tokenizer, for its prompt budget alone."""

from collections.abc import Sequence
from pathlib import Path

from rri.errors import ConfigError
from rri.types import Message

__all__ = ["SolverTokenizer"]


class SolverTokenizer:
    """Counts tokens as the solver will see them.

    Args:
        model: folder or name that transformers loads.

    Raises:
        ConfigError: there is no tokenizer, or it has no chat template.
    """

    def __init__(self, model: str | Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer = AutoTokenizer.from_pretrained(str(model))
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"solver.base_model {str(model)!r} has no tokenizer: {why}", "Name a local model folder"
            ) from None
        if not self._tokenizer.chat_template:
            raise ConfigError(f"the tokenizer of {str(model)!r} has no chat template", "Use a chat model as the solver")

    def count(self, text: str) -> int:
        """Tokens of a plain text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def count_prompt(self, messages: Sequence[Message]) -> int:
        """Tokens of a chat prompt under the solver's template."""
        chat = [m.model_dump() for m in messages]
        return len(
            self._tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
        )
