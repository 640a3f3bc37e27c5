"""The reasoning channel: what is cut out, what is left, and when an answer never came."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from rri.errors import ConfigError
from rri.wire import ReasoningMarkers
from training.reasoning import KNOWN, NO_REASONING, Reasoning, Visible, reasoning_of

THINK = ReasoningMarkers(open="<think>", close="</think>")
FREE = Reasoning((THINK,))
OPENED = Reasoning((THINK,), opened=THINK)

# Turns as Qwen's templates open them, thinking or not.
OPENS = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}[assistant]"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% else %}<think>\n"
    "{% endif %}{% endif %}"
)
CLOSED = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'].split('</think>')[-1] }}{% endfor %}[assistant]"

plain = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="<>[]"), max_size=30)
answers = plain.map(str.strip)
pieces = st.lists(st.sampled_from(["<think>", "</think>", "<th", "ink>", "</", "a", " ", "\n", "[THINK]"]), max_size=12)


@pytest.fixture
def tokenizer(tiny_model: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_model)


# --- splitting -----------------------------------------------------------------------------------------


@given(plain, answers)
def test_what_was_thought_never_shows_and_the_answer_is_whole(thought: str, answer: str) -> None:
    expected = Visible(answer, closed=True)
    assert FREE.visible(f"<think>{thought}</think>{answer}") == expected
    assert FREE.visible(f"{thought}</think>\n\n{answer}") == expected, "the prompt held the opening marker"
    assert OPENED.visible(f"{thought}</think>\n\n{answer}") == expected
    assert FREE.visible(f"<think>{thought}</think><think>{thought}</think>{answer}") == expected


@given(plain, plain)
def test_reasoning_that_never_ends_leaves_no_answer(before: str, thought: str) -> None:
    nothing = Visible("", closed=False)
    assert OPENED.visible(thought) == nothing
    assert FREE.visible(f"{before}<think>{thought}") == nothing
    assert OPENED.visible(f"{before}</think>answer<think>{thought}") == nothing


@given(plain)
def test_a_text_without_markers_is_left_as_it_is(text: str) -> None:
    assert FREE.visible(text) == NO_REASONING.visible(text) == Visible(text, closed=True)


@given(pieces, st.booleans())
def test_no_marker_is_left_and_a_second_pass_changes_nothing(parts: list[str], opened: bool) -> None:
    reasoning = Reasoning(KNOWN, opened=THINK if opened else None)
    found = reasoning.visible("".join(parts))
    assert not any(word in found.text for marker in KNOWN for word in (marker.open, marker.close))
    assert Reasoning(KNOWN).visible(found.text) == Visible(found.text, closed=True)


def test_an_answer_around_its_reasoning_keeps_both_halves() -> None:
    assert FREE.visible("First.<think>hm</think>\nThen.") == Visible("First.\nThen.", closed=True)
    assert FREE.visible("<th<think>x</think>ink>") == Visible("<th\nink>", closed=True), "no marker is put together"


def test_the_longer_of_two_markers_that_begin_alike_counts() -> None:
    short, long = ReasoningMarkers(open="<a", close="</a"), ReasoningMarkers(open="<a>", close="</a>")
    assert Reasoning((short, long)).visible("<a>x</a>y") == Visible("y", closed=True)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "b", "reasoning_content": "a"}, Visible("b", closed=True)),
        ({"content": "b", "thinking": "a"}, Visible("b", closed=True)),
        ({"content": None, "reasoning_content": "a"}, Visible("", closed=False)),
        ({"content": "b<think>c", "reasoning_content": "a"}, Visible("", closed=False)),
        ({"content": "a</think>b", "reasoning_content": None}, Visible("b", closed=True)),
        ({"content": "a"}, Visible("", closed=False)),
    ],
)
def test_messages_whose_reasoning_a_parser_took_out(message: dict[str, Any], expected: Visible) -> None:
    assert OPENED.visible_of({"role": "assistant", **message}) == expected


# --- the model's own markers ---------------------------------------------------------------------------


def test_a_template_that_opens_the_reasoning_in_the_prompt(tokenizer: Any) -> None:
    tokenizer.chat_template = OPENS
    assert reasoning_of(tokenizer, None) == OPENED
    assert reasoning_of(tokenizer, None, {"enable_thinking": False}) == FREE
    tokenizer.chat_template = CLOSED
    assert reasoning_of(tokenizer, None) == FREE


def test_a_model_without_reasoning_has_no_markers(tokenizer: Any) -> None:
    assert reasoning_of(tokenizer, None) == NO_REASONING


def test_markers_in_the_vocabulary_name_the_family(tokenizer: Any) -> None:
    tokenizer.add_tokens(["<think>"])
    assert reasoning_of(tokenizer, None) == NO_REASONING, "one of a pair is no pair"
    tokenizer.add_tokens(["</think>"])
    assert reasoning_of(tokenizer, None) == FREE


def test_markers_of_the_config_go_first(tokenizer: Any) -> None:
    tokenizer.chat_template = OPENS
    own = ReasoningMarkers(open="(think)", close="(/think)")
    assert reasoning_of(tokenizer, (own,)) == Reasoning((own,))
    assert reasoning_of(tokenizer, ()) == NO_REASONING


def test_a_marker_that_decoding_drops_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match=r"'<\|im_start\|>' is lost when the tokenizer decodes"):
        reasoning_of(tokenizer, (ReasoningMarkers(open="<|im_start|>", close="</x>"),))
