"""Summarizer: what a search found goes in as it stands, and one brief of a bounded length comes out (METHOD 6)."""

import json
from typing import Any

import pytest

from programs import Summarizer
from rri.config import load_config
from rri.lm import role_lm
from rri.testing import ChatRequest
from rri.wire import ToolSettings
from tests.programs.role_cases import CASES, PASSAGE, serving

ARGUMENTS = CASES["summarizer"].arguments


def summed_up(reply: str, max_words: int = 400, **arguments: Any) -> tuple[str, ChatRequest]:
    with serving(lambda _: reply) as (_, gateway, server):
        summarizer = Summarizer(max_words)
        summarizer.set_lm(role_lm("summarizer", gateway))
        brief = summarizer(**{**ARGUMENTS, **arguments})
        return brief, server.of("summarizer")[0]


@pytest.mark.parametrize(
    ("reply", "brief"),
    [
        (" one two\nthree ", "one two\nthree"),
        ("one two three four", "one two three [1 words left out]"),
        ("a " * 200, "a a a [197 words left out]"),
    ],
)
def test_a_brief_beyond_its_words_is_cut_with_a_mark(reply: str, brief: str) -> None:
    found, request = summed_up(reply, 3)
    assert found == brief
    assert request.block("max_words") == "3"


def test_every_passage_is_shown_whole_and_in_its_order() -> None:
    long = PASSAGE.model_copy(update={"id": "p2", "text": "A long passage. " * 500})
    _, request = summed_up("x", passages=[long, PASSAGE])
    assert json.loads(request.block("passages")) == [long.model_dump(), PASSAGE.model_dump()]


def test_the_default_length_is_the_solvers_setting() -> None:
    assert Summarizer().max_words == ToolSettings().brief_words
    # Four hundred words of English, and their citations, fit into the role's tokens.
    assert load_config("default").roles["summarizer"].max_tokens >= 2 * ToolSettings().brief_words
