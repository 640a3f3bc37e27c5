"""Meta-optimizer: bounded evidence in, two blocks and a summary out (METHOD 3)."""

import json
from typing import Any

import pytest

from programs import MetaOptimizer
from rri.errors import MalformedReply
from rri.guidance_rules import GuidanceLimits
from rri.lm import role_lm
from rri.testing import ChatRequest
from signatures import PastGuidance
from tests.programs.role_cases import CASES, serving

ARGUMENTS = CASES["meta_optimizer"].arguments


def ask(optimizer: MetaOptimizer | None = None, reply: str = CASES["meta_optimizer"].reply, **more: Any) -> ChatRequest:
    with serving(lambda _: reply) as (_, gateway, server):
        optimizer = optimizer or MetaOptimizer()
        optimizer.set_lm(role_lm("meta_optimizer", gateway))
        optimizer(**{**ARGUMENTS, **more})
        return server.of("meta_optimizer")[0]


def past(version: int, **fields: Any) -> PastGuidance:
    return PastGuidance(version=version, summary="s", guidance_a="a", guidance_b="b").model_copy(update=fields)


def test_the_current_guidance_is_shown_whole_and_the_word_limit_is_told() -> None:
    limits = GuidanceLimits(guidance_words=120)
    request = ask(MetaOptimizer(limits=limits), guidance_a="a" * 20_000, guidance_b="b" * 20_000)
    assert request.block("guidance_a") == "a" * 20_000
    assert request.block("guidance_b") == "b" * 20_000
    assert request.block("max_words") == "120"


@pytest.mark.parametrize("name", ["statistics", "diagnoses", "exploits"])
@pytest.mark.parametrize(("length", "whole"), [(12_000, True), (12_001, False)])
def test_each_kind_of_evidence_is_bounded(name: str, length: int, whole: bool) -> None:
    request = ask(**{name: "e" * length})
    assert request.block(name) == "e" * 12_000 + ("" if whole else " [1 characters left out]")


def test_the_latest_gaps_are_shown() -> None:
    gaps = [f"gap {i}" for i in range(16)]
    assert json.loads(ask(gaps=gaps[:15]).block("gaps")) == gaps[:15]
    assert json.loads(ask(gaps=gaps).block("gaps")) == ["[1 earlier ones left out]", *gaps[1:]]
    assert json.loads(ask(gaps=["g" * 161]).block("gaps")) == ["g" * 160 + " [1 characters left out]"]
    assert ask(gaps=[]).block("gaps") == "[]"


def test_the_latest_versions_are_shown_with_their_means() -> None:
    history = [past(i, train_mean=None if i == 8 else i / 10) for i in range(9)]
    shown = json.loads(ask(history=history).block("history"))
    assert [(p["version"], p["train_mean"]) for p in shown] == [(i, None if i == 8 else i / 10) for i in range(1, 9)]
    assert ask(MetaOptimizer(versions=0), history=history).block("history") == "[]"


def test_long_earlier_versions_are_cut() -> None:
    history = [past(1, summary="s" * 301, guidance_a="a" * 801, guidance_b="b" * 800)]
    (shown,) = json.loads(ask(history=history).block("history"))
    assert shown["summary"] == "s" * 300 + " [1 characters left out]"
    assert shown["guidance_a"] == "a" * 800 + " [1 characters left out]"
    assert shown["guidance_b"] == "b" * 800
    assert history[0].guidance_a == "a" * 801, "the caller's own is left as it was"


def test_problems_of_the_attempt_before_are_told() -> None:
    assert json.loads(ask(problems=["301 words"]).block("problems")) == ["301 words"]


@pytest.mark.parametrize("missing", ["summary", "new_guidance_a", "new_guidance_b"])
def test_a_reply_without_a_part_is_no_guidance(missing: str) -> None:
    whole = json.loads(CASES["meta_optimizer"].reply)
    for reply in (
        {k: v for k, v in whole.items() if k != missing},
        {**whole, missing: None},
        {**whole, missing: ["x"]},
    ):
        with pytest.raises(MalformedReply, match=missing):
            ask(reply=json.dumps(reply))
