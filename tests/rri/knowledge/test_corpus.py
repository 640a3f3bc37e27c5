"""Passages files: every slip is one line with path, line number, key and what to do; what does not fit is counted."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rri.errors import CorpusError
from rri.knowledge import load_corpus
from rri.knowledge.corpus import STARTER, Refused
from rri.types import Reference


def passage(name: str = "p1", text: str = "Rule one has the value 41.", **changes: Any) -> dict[str, Any]:
    data = {"id": name, "title": "Rule one", "text": text, "source": "made for tests", **changes}
    return {key: value for key, value in data.items() if value is not ...}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def slip(source: Path, **options: Any) -> CorpusError:
    with pytest.raises(CorpusError) as caught:
        load_corpus(source, **options)
    error = caught.value
    assert "\n" not in str(error)
    assert str(source) in error.what
    assert error.fix
    return error


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "passages.jsonl"


# --- good files ----------------------------------------------------------------------------------------


def test_the_starter_corpus_is_whole_and_fits_a_small_solver() -> None:
    corpus = load_corpus(STARTER, max_tokens=512, count_tokens=words)
    assert corpus.name == STARTER
    assert len(corpus.passages) >= 50
    assert corpus.refused == ()
    assert len({p.id for p in corpus.passages}) == len(corpus.passages)
    assert all(p.title.strip() and p.text.strip() and p.source.strip() for p in corpus.passages)


def test_passages_come_back_in_the_order_of_the_file(file: Path) -> None:
    write(file, passage("b"), "", passage("a"), "   ", passage("c"))
    assert [p.id for p in load_corpus(file).passages] == ["b", "a", "c"]
    assert load_corpus(str(file)).passages == load_corpus(file).passages
    assert load_corpus(file).passages[0] == Reference(**passage("b"))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text().filter(str.strip), min_size=1, max_size=4), escaped=st.booleans())
def test_any_text_comes_back_as_it_was(file: Path, texts: list[str], escaped: bool) -> None:
    lines = [json.dumps(passage(f"p{n}", text), ensure_ascii=escaped) for n, text in enumerate(texts)]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert [p.text for p in load_corpus(file).passages] == texts


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_only_a_newline_ends_a_line(file: Path, mark: str) -> None:
    """JSON allows these marks inside a string as they are, and text from the web holds them."""
    file.write_text(json.dumps(passage(text=f"one{mark}two"), ensure_ascii=False) + "\n", encoding="utf-8")
    assert load_corpus(file).passages[0].text == f"one{mark}two"


def test_the_digest_is_of_the_content_and_its_order_not_of_the_file(tmp_path: Path) -> None:
    first = load_corpus(write(tmp_path / "1", passage("a"), passage("b"))).digest
    same = load_corpus(write(tmp_path / "2", passage("a"), "", json.dumps(passage("b"), indent=None))).digest
    assert first == same
    for other in (
        [passage("b"), passage("a")],
        [passage("a")],
        [passage("a"), passage("b", text="Rule one has the value 42.")],
        [passage("a"), passage("b", title="Rule 1")],
        [passage("a"), passage("b", source="elsewhere")],
    ):
        assert load_corpus(write(tmp_path / "3", *other)).digest != first


# --- slips ---------------------------------------------------------------------------------------------


def test_a_missing_file_is_named_with_the_corpus_that_is_always_there(file: Path) -> None:
    error = slip(file)
    assert "no passages file" in error.what
    assert "'starter'" in error.fix


@pytest.mark.parametrize("content", ["", "\n  \n"])
def test_an_empty_file_holds_no_passages(file: Path, content: str) -> None:
    file.write_text(content)
    error = slip(file)
    assert "holds no passages" in error.what
    assert "id, title, text, source" in error.fix


def test_a_folder_or_a_binary_file_cannot_be_read(tmp_path: Path, file: Path) -> None:
    assert "cannot read" in slip(tmp_path).what
    file.write_bytes(b"\xff\xfe{}")
    assert "cannot read" in slip(file).what


BAD: dict[str, tuple[object, str]] = {
    "half a line": ('{"id": "p2", ', "not JSON ("),
    "plain words": ("Rule one has the value 41.", "not JSON ("),
    "no text": (passage("p2", text=...), "text: Field required"),  # type: ignore[arg-type]
    "no source": (passage("p2", source=...), "source: Field required"),
    "a number as title": (passage("p2", title=7), "title: Input should be a valid string"),
    "half a character": (passage("p2", text="fine \ud83d"), "text: "),
    "an unknown key": (passage("p2", author="me"), "author: "),
    "an empty text": (passage("p2", text="  "), "id and text must not be empty"),
    "an empty id": (passage(" "), "id and text must not be empty"),
    "a list": ([passage("p2")], "passage: "),
    "null": ("null", "passage: "),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_passage_is_named_by_line_and_key(file: Path, name: str) -> None:
    bad, expected = BAD[name]
    write(file, passage(), "", bad)
    assert f"{file}, line 3: {expected}" in slip(file).what


def test_an_id_that_stands_twice_is_named_with_both_lines(file: Path) -> None:
    write(file, passage("a"), passage("b"), "", passage("a", text="Another text."))
    assert f"{file}, line 4: id 'a' stands on line 1 already" in slip(file).what


def test_an_id_of_a_refused_passage_may_not_stand_again(file: Path) -> None:
    write(file, passage("a", "one two three"), passage("a", "one"), passage("b", "one"))
    assert "line 2: id 'a'" in slip(file, max_tokens=2, count_tokens=words).what


# --- the solver's prompt -------------------------------------------------------------------------------


def test_passages_over_the_token_budget_are_refused_and_counted_and_the_rest_is_kept(file: Path) -> None:
    write(file, passage("a", "one two"), passage("b", "one two three"), "", passage("c", "one two three four"))
    corpus = load_corpus(file, max_tokens=3, count_tokens=words)
    assert [p.id for p in corpus.passages] == ["a", "b"]
    assert corpus.refused == (Refused("c", 4, "4 tokens; the solver's prompt holds 3"),)
    assert corpus.digest == load_corpus(write(file, passage("a", "one two"), passage("b", "one two three"))).digest


def test_without_a_budget_nothing_is_refused(file: Path) -> None:
    write(file, passage("a", "word " * 100_000))
    assert load_corpus(file).refused == ()


def test_a_file_of_which_nothing_fits_is_an_error_with_both_numbers(file: Path) -> None:
    write(file, passage("a", "one two three"), passage("b", "one two three"))
    error = slip(file, max_tokens=2, count_tokens=words)
    assert "none of 2 passages" in error.what
    assert "2 tokens" in error.what
    assert "solver.max_prompt_tokens" in error.fix
