"""What a run is made from, read and checked before anything is written or paid for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rri.config import RunConfig
from rri.knowledge import Corpus, load_corpus
from rri.tokens import SolverTokenizer, weights_digest

__all__ = ["Material", "gather"]


@dataclass(frozen=True)
class Material:
    """The solver's base model with its tokenizer, and the passages that fit its prompt."""

    base_model: str | Path
    tokenizer: SolverTokenizer
    corpus: Corpus

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
        }


def gather(
    config: RunConfig, base_model: str | Path, progress: Callable[[str], None] = lambda message: None
) -> Material:
    """Load tokenizer and passages.

    Raises:
        ConfigError: the base model has no usable tokenizer.
        CorpusError: the passages file is missing or malformed.
    """
    tokenizer = SolverTokenizer(base_model)
    corpus = load_corpus(config.corpus, max_tokens=config.solver.max_prompt_tokens, count_tokens=tokenizer.count)
    for refused in corpus.refused:
        progress(f"passage {refused.id} (line {refused.line}) is left out: {refused.why}")
    return Material(base_model, tokenizer, corpus)
