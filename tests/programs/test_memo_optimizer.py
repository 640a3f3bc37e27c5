"""Memo optimizer: bounded evidence in, a memo and a summary out (METHOD 3)."""

import json
from typing import Any

import pytest

from programs import MemoOptimizer, NewMemo
from rri.errors import MalformedReply
from rri.guidance_rules import GuidanceLimits, check_memo
from rri.lm import role_lm
from rri.testing import ChatRequest
from signatures import PastMemo
from tests.programs.role_cases import CASES, serving

ARGUMENTS = CASES["memo_optimizer"].arguments
REPLY = {"summary": "Fees.", "new_memo": "Ask for the fee."}


def ask(
    optimizer: MemoOptimizer | None = None, reply: dict[str, Any] | None = None, **more: Any
) -> tuple[NewMemo, ChatRequest]:
    with serving(lambda _: json.dumps(reply or REPLY)) as (_, gateway, server):
        optimizer = optimizer or MemoOptimizer()
        optimizer.set_lm(role_lm("memo_optimizer", gateway))
        memo = optimizer(**{**ARGUMENTS, **more})
        return memo, server.of("memo_optimizer")[0]


def test_the_current_memo_is_shown_whole_and_the_limits_are_told() -> None:
    limits = GuidanceLimits(memo_asked_chars=900, summary_chars=90)
    _, request = ask(MemoOptimizer(limits), memo="m" * 5000)
    assert request.block("memo") == "m" * 5000
    assert (request.block("max_chars"), request.block("summary_chars")) == ("900", "90")


@pytest.mark.parametrize(("length", "whole"), [(12_000, True), (12_001, False)])
def test_the_hackability_report_is_bounded(length: int, whole: bool) -> None:
    _, request = ask(hackability="h" * length)
    assert request.block("hackability") == "h" * 12_000 + ("" if whole else " [1 characters left out]")


def test_the_latest_minted_criteria_are_shown() -> None:
    minted = [f"States rule {i}" for i in range(21)]
    assert json.loads(ask(minted=minted[:20])[1].block("minted")) == minted[:20]
    assert json.loads(ask(minted=minted)[1].block("minted")) == ["[1 earlier ones left out]", *minted[1:]]
    assert json.loads(ask(minted=["c" * 220])[1].block("minted")) == ["c" * 220]


def test_modes_are_shown_commonest_first_however_they_were_counted() -> None:
    one, two = ({"b": 1, "a": 1, "c": 5}, {"c": 5, "a": 1, "b": 1})
    assert ask(modes=one)[1].block("modes") == ask(modes=two)[1].block("modes") == '{"c": 5, "a": 1, "b": 1}'
    assert ask(modes={})[1].block("modes") == "{}"


def test_the_latest_versions_are_shown_with_their_figures() -> None:
    history = [PastMemo(version=i, memo="m" * 1501, score=None if i == 8 else 0.1) for i in range(9)]
    shown = json.loads(ask(history=history)[1].block("history"))
    assert [(p["version"], p["score"]) for p in shown] == [(i, None if i == 8 else 0.1) for i in range(1, 9)]
    assert {p["memo"] for p in shown} == {"m" * 1500 + " [1 characters left out]"}


def test_an_empty_memo_proposes_nothing() -> None:
    memo, _ = ask(reply={"summary": "Tight enough.", "new_memo": " \n"})
    assert memo == NewMemo(memo="", summary="Tight enough.")
    assert check_memo(memo.memo) == ["the memo is empty"]


@pytest.mark.parametrize(("length", "mark"), [(200, ""), (201, " [1 characters left out]")])
def test_a_long_summary_is_cut_and_loses_no_memo(length: int, mark: str) -> None:
    memo, _ = ask(reply={**REPLY, "summary": "s" * length})
    assert memo == NewMemo(memo="Ask for the fee.", summary="s" * 200 + mark)


def test_problems_of_the_attempt_before_are_told() -> None:
    assert json.loads(ask(problems=["speaks of points"])[1].block("problems")) == ["speaks of points"]


@pytest.mark.parametrize("missing", REPLY)
def test_a_reply_without_a_part_is_no_memo(missing: str) -> None:
    for reply in ({k: v for k, v in REPLY.items() if k != missing}, {**REPLY, missing: None}, {**REPLY, missing: 3}):
        with pytest.raises(MalformedReply, match=missing):
            ask(reply=reply)
