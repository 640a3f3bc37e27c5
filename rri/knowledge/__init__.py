"""Passages that tasks are grounded on: the file, its index, and search."""

from rri.knowledge.corpus import Corpus, load_corpus
from rri.knowledge.index import PassageIndex

__all__ = ["Corpus", "PassageIndex", "load_corpus"]
