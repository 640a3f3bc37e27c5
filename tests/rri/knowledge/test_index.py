"""The index finds passages by meaning, is built once, reopened as it is, and rebuilt when its passages change."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import rri.knowledge.index as module
from rri.knowledge import Corpus, PassageIndex
from rri.knowledge.index import Embedder
from rri.types import Reference

TEXTS = {
    "heart": "Atrial fibrillation is an irregular heart rhythm; anticoagulants lower the risk of stroke.",
    "rent": "A tenant may withhold rent when the landlord leaves the flat without heating in winter.",
    "bond": "The price of a bond falls when market interest rates rise, because its coupons are fixed.",
    "light": "Light travels through vacuum at about 300,000 kilometres per second.",
}
QUESTIONS = {
    "heart": "Which drugs prevent stroke in a patient whose pulse is irregular?",
    "rent": "My apartment is cold and the owner does nothing. Must I pay him?",
    "bond": "What happens to fixed income when the central bank raises rates?",
    "light": "How fast do photons move in space?",
}


def corpus(**changes: str) -> Corpus:
    texts = TEXTS | changes
    return Corpus("made for tests", tuple(Reference(id=i, title=i, text=t, source="s") for i, t in texts.items()))


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder()


@pytest.fixture(autouse=True)
def embedded(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every text that is embedded. The model is loaded once for all tests of this file."""
    texts: list[str] = []

    class Listening:
        def embed(self, batch: Sequence[str]) -> list[list[float]]:
            texts.extend(batch)
            return embedder.embed(batch)

    monkeypatch.setattr(module, "Embedder", Listening)
    yield texts


def ids(found: list[Reference]) -> list[str]:
    return [passage.id for passage in found]


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_passage_that_answers_is_found_though_it_shares_no_words(tmp_path: Path, on_disk: bool) -> None:
    index = PassageIndex(corpus(), tmp_path / "index" if on_disk else None)
    assert {name: ids(index.search(question, 1)) for name, question in QUESTIONS.items()} == {n: [n] for n in QUESTIONS}
    found = index.search(QUESTIONS["bond"], 2)
    assert found[0] == Reference(id="bond", title="bond", text=TEXTS["bond"], source="s")
    assert ids(asyncio.run(index.asearch(QUESTIONS["bond"], 2))) == ids(found)


def test_as_many_are_given_as_there_are_and_each_once() -> None:
    index = PassageIndex(corpus())
    assert [len(index.search("rent", k)) for k in (1, 3, 4, 99)] == [1, 3, 4, 4]
    assert set(ids(index.search("rent", 99))) == set(TEXTS)


@pytest.mark.parametrize("query", ["", "   ", "\n"])
def test_an_empty_query_finds_something_rather_than_failing(query: str) -> None:
    assert len(PassageIndex(corpus()).search(query, 2)) == 2


def test_a_long_query_is_no_problem() -> None:
    assert len(PassageIndex(corpus()).search("rent " * 2_000, 1)) == 1


def test_an_index_on_disk_is_reopened_without_embedding_its_passages_again(tmp_path: Path, embedded: list[str]) -> None:
    PassageIndex(corpus(), tmp_path)
    assert sorted(embedded) == sorted(f"{name}\n{text}" for name, text in TEXTS.items())
    embedded.clear()
    again = PassageIndex(corpus(), tmp_path)
    assert embedded == []
    assert ids(again.search(QUESTIONS["light"], 1)) == ["light"]


def test_the_index_is_rebuilt_when_a_passage_changes(tmp_path: Path, embedded: list[str]) -> None:
    PassageIndex(corpus(), tmp_path)
    embedded.clear()
    other = corpus(light="Sourdough bread rises because wild yeast ferments the sugar of the flour.")
    changed = PassageIndex(other, tmp_path)
    assert any("Sourdough" in text for text in embedded)
    assert changed.search("How does a loaf get its bubbles?", 1) == [other.passages[-1]]
    # The old passages are still another corpus: going back finds them.
    assert ids(PassageIndex(corpus(), tmp_path).search(QUESTIONS["light"], 1)) == ["light"]


def test_an_index_that_was_half_built_is_finished_when_reopened(tmp_path: Path, embedded: list[str]) -> None:
    """Killed between two batches: the count differs from the corpus, so the passages are embedded again."""
    import chromadb
    from chromadb.config import Settings

    PassageIndex(corpus(), tmp_path)
    client = chromadb.PersistentClient(str(tmp_path), Settings(anonymized_telemetry=False))
    (collection,) = client.list_collections()
    client.get_collection(collection.name).delete(ids=["rent", "heart"])
    embedded.clear()
    index = PassageIndex(corpus(), tmp_path)
    assert any("withhold rent" in text for text in embedded)
    assert ids(index.search(QUESTIONS["rent"], 1)) == ["rent"]
    assert len(index.search("rent", 99)) == len(TEXTS)


def test_the_index_is_rebuilt_when_the_embedding_model_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedded: list[str]
) -> None:
    """Vectors of two models must never be compared."""
    PassageIndex(corpus(), tmp_path)
    embedded.clear()
    monkeypatch.setattr(module, "EMBEDDING_MODEL", "another-model")
    PassageIndex(corpus(), tmp_path)
    assert len(embedded) == len(TEXTS)


def test_vectors_have_unit_length(embedder: Embedder) -> None:
    for vector in embedder.embed(["one", "a much longer text about rent"]):
        assert len(vector) == 384
        assert sum(x * x for x in vector) == pytest.approx(1, abs=1e-5)
