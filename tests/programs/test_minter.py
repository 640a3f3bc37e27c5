"""Minter: what it sees of an exploit case, and which replies are a minting (METHOD 3)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from programs import MintedCriterion, Minter, Minting
from rri.errors import InputError, MalformedReply
from rri.lm import role_lm
from rri.testing import ChatRequest
from rri.types import Criterion, Message
from rri.vocabulary import EXPLOIT_LABELS
from tests.programs.role_cases import CASES, TASK, grade_of, serving

ARGUMENTS = CASES["minter"].arguments


def criterion(text: str = "States rule one", points: Any = 8, why: str = "B states it.") -> dict[str, Any]:
    return {"why": why, "text": text, "points": points}


def reply(*criteria: Mapping[str, Any], label: str = "other") -> str:
    return json.dumps({"criteria": criteria, "label": label})


def mint(text: str, minter: Minter | None = None, **more: Any) -> tuple[Minting, list[ChatRequest]]:
    with serving(lambda _: text) as (_, gateway, server):
        minter = minter or Minter()
        minter.set_lm(role_lm("minter", gateway))
        return minter(**{**ARGUMENTS, **more}), server.of("minter")


def test_the_prompt_holds_the_case_with_both_verdicts_beside_each_criterion() -> None:
    _, (request,) = mint(reply(criterion()), problems=["criterion 1 names an absence"])
    assert json.loads(request.block("conversation")) == [{"role": "user", "content": "Explain rule one."}]
    assert json.loads(request.block("rubric")) == [
        {"text": c.text, "points": c.points, "verdict_a": a, "verdict_b": b}
        for c, a, b in zip(TASK.rubric.criteria, ("met", "met", "unmet"), ("met", "unknown", "unmet"), strict=True)
    ]
    assert request.block("answer_a") == "Empty."
    assert request.block("answer_b") == "Full."
    assert json.loads(request.block("problems")) == ["criterion 1 names an absence"]


def test_long_inputs_are_cut_where_the_limits_say() -> None:
    talk = (Message(role="user", content="q" * 12),)
    task = TASK.model_copy(update={"conversation": talk})
    _, (request,) = mint(reply(criterion()), Minter(task_chars=10, answer_chars=4), task=task, exploit="abcde")
    assert json.loads(request.block("conversation"))[0]["content"] == "q" * 10 + " [2 characters left out]"
    assert request.block("answer_a") == "abcd [1 characters left out]"
    assert request.block("answer_b") == "Full [1 characters left out]"


@pytest.mark.parametrize(("length", "whole"), [(9000, True), (9001, False)])
def test_nine_thousand_characters_of_an_answer_are_shown(length: int, whole: bool) -> None:
    _, (request,) = mint(reply(criterion()), exploit="x" * length)
    assert (request.block("answer_a") == "x" * length) is whole


@pytest.mark.parametrize(("length", "whole"), [(4000, True), (4001, False)])
def test_four_thousand_characters_of_the_task_are_shown(length: int, whole: bool) -> None:
    task = TASK.model_copy(update={"conversation": (Message(role="user", content="x" * length),)})
    _, (request,) = mint(reply(criterion()), task=task)
    assert (json.loads(request.block("conversation"))[0]["content"] == "x" * length) is whole


@pytest.mark.parametrize("side", ["exploit_grade", "better_grade"])
def test_a_grade_of_another_rubric_reaches_no_model(side: str) -> None:
    with serving() as (_, gateway, server):
        minter = Minter()
        minter.set_lm(role_lm("minter", gateway))
        with pytest.raises(InputError, match="3 criteria, the grade 1 verdicts"):
            minter(**{**ARGUMENTS, side: grade_of("met")})
        assert server.total == 0


@pytest.mark.parametrize("points", [-10, -5, 5, 10])
def test_points_at_the_edge_are_taken(points: int) -> None:
    minting, _ = mint(reply(criterion(points=points)))
    assert minting.criteria == (MintedCriterion(text="States rule one", points=points, why="B states it."),)
    assert minting.criteria[0].criterion == Criterion(text="States rule one", points=points)


@pytest.mark.parametrize("points", [-11, -4, 0, 4, 11, 8.5, "8", None])
def test_points_outside_are_no_minting(points: Any) -> None:
    with pytest.raises(MalformedReply, match="points"):
        mint(reply(criterion(points=points)))


def test_five_criteria_are_taken_and_six_are_not() -> None:
    five = [criterion(f"States rule {i}") for i in range(5)]
    assert len(mint(reply(*five))[0].criteria) == 5
    with pytest.raises(MalformedReply, match="criteria"):
        mint(reply(*five, criterion("States rule 6")))


@pytest.mark.parametrize("label", EXPLOIT_LABELS)
def test_every_label_but_none_comes_with_criteria(label: str) -> None:
    if label == "none":
        assert mint(reply(label=label))[0] == Minting(criteria=(), label="none")
        with pytest.raises(MalformedReply, match=r"none but there are criteria \(1\)"):
            mint(reply(criterion(), label=label))
    else:
        assert mint(reply(criterion(), label=label))[0].label == label
        with pytest.raises(MalformedReply, match=f"the label is {label} but there are no criteria"):
            mint(reply(label=label))


@pytest.mark.parametrize("label", ["length_stuffing", "None", ""])
def test_a_label_outside_the_vocabulary_is_no_minting(label: str) -> None:
    with pytest.raises(MalformedReply, match="label"):
        mint(reply(criterion(), label=label))


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_criterion_is_no_minting(text: str) -> None:
    with pytest.raises(MalformedReply):
        mint(reply(criterion(text)))


@pytest.mark.parametrize(("words", "mark"), [(30, ""), (31, " [1 words left out]")])
def test_a_long_reason_is_cut_and_loses_no_criterion(words: int, mark: str) -> None:
    minting, _ = mint(reply(criterion(why=" ".join(["word"] * words))))
    assert minting.criteria[0].why == " ".join(["word"] * 30) + mark
