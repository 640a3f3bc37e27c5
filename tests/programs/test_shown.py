"""Cuts leave a visible mark, lose nothing else, and never hide a message or a verdict."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.shown import latest, outcomes, shorten, shorten_words, shown_conversation
from rri.errors import InputError
from rri.types import Message
from tests.programs.role_cases import grade_of
from tests.rigs import make_task

LIGHT = settings(max_examples=80, deadline=None)
MARK = re.compile(r" ?\[(\d+) (?:characters|words) left out\]$")


def kept(text: str) -> tuple[str, int]:
    """The text before its mark, and how much the mark says was left out."""
    found = MARK.search(text)
    return (text[: found.start()], int(found.group(1))) if found else (text, 0)


@LIGHT
@given(st.text(alphabet="ab \n", max_size=40), st.integers(0, 50))
def test_a_cut_keeps_the_beginning_and_counts_the_rest(text: str, chars: int) -> None:
    before, left = kept(shorten(text, chars))
    assert before == text[:chars]
    assert left == max(0, len(text) - chars)


def test_a_text_of_exactly_the_length_is_whole_and_one_more_is_cut() -> None:
    assert shorten("abcd", 4) == "abcd"
    assert shorten("abcde", 4) == "abcd [1 characters left out]"
    assert shorten("abcde", 0) == "[5 characters left out]"
    assert shorten("", 0) == ""


def test_characters_are_counted_not_bytes() -> None:
    assert shorten("\u00e9\U0001f600x", 2) == "\u00e9\U0001f600 [1 characters left out]"


@LIGHT
@given(st.lists(st.sampled_from(["one", "two", "three"]), max_size=12), st.integers(1, 12))
def test_a_cut_by_words_keeps_the_first_and_counts_the_rest(words: list[str], most: int) -> None:
    before, left = kept(shorten_words(" ".join(words), most))
    assert before.split() == words[:most]
    assert left == max(0, len(words) - most)


def test_words_at_the_edge() -> None:
    assert shorten_words(" one\ttwo \n", 2) == "one\ttwo"
    assert shorten_words("one two three", 2) == "one two [1 words left out]"


def message(text: str, role: str = "user") -> Message:
    return Message.model_validate({"role": role, "content": text})


@LIGHT
@given(st.lists(st.text(alphabet="ab", max_size=12), min_size=1, max_size=5), st.integers(0, 40))
def test_a_conversation_keeps_every_message_and_as_much_text_as_allowed(texts: list[str], chars: int) -> None:
    shown = shown_conversation([message(t) for t in texts], chars)
    assert len(shown) == len(texts)
    parts = [kept(m.content) for m in shown]
    assert sum(len(text) for text, _ in parts) == min(chars, sum(map(len, texts)))
    assert [len(text) + left for text, left in parts] == [len(t) for t in texts]


def test_what_is_asked_now_is_shown_before_what_was_asked_earlier() -> None:
    talk = [message("a" * 6), message("b" * 4, "assistant"), message("c" * 5)]
    assert shown_conversation(talk, 15) == talk
    cut = shown_conversation(talk, 7)
    assert [m.role for m in cut] == ["user", "assistant", "user"]
    assert [m.content for m in cut] == ["[6 characters left out]", "bb [2 characters left out]", "ccccc"]
    assert shown_conversation(talk, 3)[-1].content == "ccc [2 characters left out]"


def test_the_latest_texts_are_kept_and_the_earlier_ones_counted() -> None:
    texts = ["one", "two", "three"]
    assert latest(texts, 3, 9) == texts
    assert latest(texts, 2, 3) == ["[1 earlier ones left out]", "two", "thr [2 characters left out]"]
    assert latest(texts, 0, 9) == ["[3 earlier ones left out]"]
    assert latest([], 0, 9) == []


def test_there_is_one_outcome_for_each_criterion() -> None:
    assert outcomes(make_task(8, 8, -6), grade_of("met", "unknown", "unmet")) == ["met", "unknown", "unmet"]


@pytest.mark.parametrize("found", [("met",), ("met", "unmet", "met")])
def test_a_grade_of_another_rubric_is_refused_with_both_numbers(found: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=rf"2 criteria, the grade {len(found)} verdicts"):
        outcomes(make_task(8, 8), grade_of(*found))  # type: ignore[arg-type]
