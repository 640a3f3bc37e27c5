"""What a run is made from, read and checked before anything is written or paid for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rri.config import RunConfig
from rri.knowledge import Corpus, load_corpus
from rri.service.validation import NOTHING_HELD_OUT, HeldOut, load_held_out
from rri.tokens import SolverTokenizer, weights_digest
from rri.types import Message

__all__ = ["Material", "gather", "solver_prompt"]


@dataclass(frozen=True)
class Material:
    """The solver's base model with its tokenizer, the passages that fit its prompt, and the validation tasks."""

    base_model: str | Path
    tokenizer: SolverTokenizer
    corpus: Corpus
    held_out: HeldOut = NOTHING_HELD_OUT

    def facts(self) -> dict[str, Any]:
        """What a resumed run must share with its start."""
        return {
            "corpus": {
                "name": self.corpus.name,
                "digest": self.corpus.digest,
                "passages": len(self.corpus.passages),
                "refused": [{"id": r.id, "line": r.line, "why": r.why} for r in self.corpus.refused],
            },
            "weights": weights_digest(self.base_model),
            **self.held_out.facts(),
        }


def solver_prompt(config: RunConfig, conversation: Sequence[Message]) -> list[Message]:
    """What the solver sees: its standing instructions, then the conversation."""
    return [Message(role="system", content=config.domain.system_prompt), *conversation]


def gather(
    config: RunConfig, base_model: str | Path, progress: Callable[[str], None] = lambda message: None
) -> Material:
    """Load tokenizer, passages and validation tasks.

    Raises:
        ConfigError: the base model has no usable tokenizer.
        CorpusError: the passages file is missing or malformed.
        TaskFileError: the validation file is.
    """
    tokenizer = SolverTokenizer(base_model)
    corpus = load_corpus(config.corpus, max_tokens=config.solver.max_prompt_tokens, count_tokens=tokenizer.count)
    for refused in corpus.refused:
        progress(f"passage {refused.id} (line {refused.line}) is left out: {refused.why}")
    held_out = load_held_out(
        config.validation,
        tokenizer,
        lambda conversation: solver_prompt(config, conversation),
        config.solver.max_prompt_tokens,
    )
    return Material(base_model, tokenizer, corpus, held_out)
