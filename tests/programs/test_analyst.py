"""Analyst: what it sees of a graded case, what it may say, and the diagnosis that needs no model (METHOD 3)."""

import asyncio
import json
from typing import Any

import pytest

from programs import Analyst, Diagnosis
from programs.analyst import TRUNCATED
from rri.errors import InputError, MalformedReply
from rri.lm import role_lm
from rri.testing import ChatRequest
from rri.types import Message
from rri.vocabulary import CASE_VERDICTS, FAILURE_MODES, RUBRIC_DEFECTS, TASK_DEFECTS
from tests.programs.role_cases import CASES, TASK, grade_of, serving

ARGUMENTS = CASES["analyst"].arguments
GOOD = json.loads(CASES["analyst"].reply)


def diagnose(
    analyst: Analyst | None = None, reply: dict[str, Any] | None = None, **more: Any
) -> tuple[Diagnosis, ChatRequest]:
    with serving(lambda _: json.dumps(reply or GOOD)) as (_, gateway, server):
        analyst = analyst or Analyst("rules")
        analyst.set_lm(role_lm("analyst", gateway))
        diagnosis = analyst(**{**ARGUMENTS, **more})
        return diagnosis, server.of("analyst")[0]


def test_the_prompt_holds_the_case_with_its_verdicts() -> None:
    red = TASK.model_copy(update={"labels": TASK.labels.model_copy(update={"red_team": True})})
    _, request = diagnose(task=red)
    assert json.loads(request.block("conversation")) == [{"role": "user", "content": "Explain rule one."}]
    assert json.loads(request.block("rubric")) == [
        {"text": c.text, "points": c.points, "verdict": v}
        for c, v in zip(TASK.rubric.criteria, ("met", "unknown", "unmet"), strict=True)
    ]
    assert (request.block("use_case"), request.block("red_team")) == ("explain", "true")


def test_what_is_not_known_is_left_out() -> None:
    bare = TASK.model_copy(update={"labels": TASK.labels.model_copy(update={"use_case": ""})})
    unscored = grade_of("met", "unknown", "unmet", score=None)
    _, request = diagnose(Analyst(), task=bare, grade=unscored)
    text = request.messages[-1]["content"]
    assert "<domain>" not in text and "<use_case>" not in text and "<score>" not in text


def test_a_score_of_zero_or_below_is_shown() -> None:
    assert diagnose(grade=grade_of("met", "met", "met", score=0.0))[1].block("score") == "0.0"
    assert diagnose(grade=grade_of("met", "met", "met", score=-0.25))[1].block("score") == "-0.25"


@pytest.mark.parametrize(("task_chars", "answer_chars", "whole"), [(4000, 30_000, True), (4001, 30_001, False)])
def test_the_default_limits_at_their_edges(task_chars: int, answer_chars: int, whole: bool) -> None:
    task = TASK.model_copy(update={"conversation": (Message(role="user", content="q" * task_chars),)})
    fields = Analyst().fields(task=task, answer="a" * answer_chars, grade=ARGUMENTS["grade"])
    assert (fields["conversation"][0].content == "q" * task_chars) is whole
    assert (fields["answer"] == "a" * answer_chars) is whole


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_truncated_answer_is_diagnosed_without_a_model(asynchronous: bool) -> None:
    with serving() as (_, gateway, server):
        analyst = Analyst()
        analyst.set_lm(role_lm("analyst", gateway))
        arguments = {**ARGUMENTS, "truncated": True}
        diagnosis = asyncio.run(analyst.acall(**arguments)) if asynchronous else analyst(**arguments)
        assert server.total == 0
    assert diagnosis == TRUNCATED
    assert diagnosis == Diagnosis("non_answer", "", "none", "none", "model_failed_fair_task")


def test_an_answer_that_is_not_truncated_is_asked_about() -> None:
    assert diagnose(truncated=False)[0] == CASES["analyst"].result


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("failure_mode", FAILURE_MODES),
        ("rubric_defect", RUBRIC_DEFECTS),
        ("task_defect", TASK_DEFECTS),
        ("verdict", CASE_VERDICTS),
    ],
)
def test_every_word_of_a_vocabulary_is_taken_and_explained_and_no_other(field: str, words: tuple[str, ...]) -> None:
    instructions = Analyst().predict.signature.instructions
    for word in words:
        assert getattr(diagnose(reply={**GOOD, field: word})[0], field) == word
        assert f"{word}:" in instructions
    for other in ("unknown", words[0].upper(), "", None):
        with pytest.raises(MalformedReply, match=field):
            diagnose(reply={**GOOD, field: other})


@pytest.mark.parametrize(("words", "mark"), [(15, ""), (16, " [1 words left out]")])
def test_a_long_gap_is_cut(words: int, mark: str) -> None:
    diagnosis, _ = diagnose(reply={**GOOD, "gap": " ".join(["word"] * words)})
    assert diagnosis.gap == " ".join(["word"] * 15) + mark


def test_there_may_be_no_gap() -> None:
    assert diagnose(reply={**GOOD, "gap": " "})[0].gap == ""


def test_a_grade_of_another_rubric_reaches_no_model() -> None:
    with serving() as (_, gateway, server):
        analyst = Analyst()
        analyst.set_lm(role_lm("analyst", gateway))
        with pytest.raises(InputError, match="3 criteria, the grade 2 verdicts"):
            analyst(**{**ARGUMENTS, "grade": grade_of("met", "met")})
        assert server.total == 0
