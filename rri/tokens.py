"""What the service must know of the solver's model: its tokenizer, for the prompt budget, and which one it is."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from rri.errors import ConfigError
from rri.types import Message

__all__ = ["SolverTokenizer", "weights_digest"]


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
            self._tokenizer = AutoTokenizer.from_pretrained(str(model), local_files_only=True)
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


EDGE_BYTES = 1 << 20


def weights_digest(model: str | Path) -> str | None:
    """Fingerprint of a local model folder's weights; None for a name on a hub.

    sha256 over name, size, first and last MiB of each file: reading tens of gigabytes at every start is too slow.
    """
    files = sorted(Path(model).glob("*.safetensors")) if Path(model).is_dir() else []
    whole = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        whole.update(f"{path.name}:{size}".encode())
        with path.open("rb") as file:
            whole.update(file.read(EDGE_BYTES))
            file.seek(max(0, size - EDGE_BYTES))
            whole.update(file.read())
    return whole.hexdigest() if files else None
