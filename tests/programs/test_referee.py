"""Referee: blind to rubric and scores, letters handed out in the caller's order, every letter once (METHOD 3)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs import Referee, Tiers
from rri.errors import InputError, MalformedReply
from rri.lm import Gateway, render, role_lm
from rri.testing import ChatRequest
from rri.types import Criterion, Message, Reference, Rubric
from signatures.referee import LETTERS
from tests.programs.role_cases import TASK, serving

ANSWERS = ["best", "worst", "good", "fair"]


def by_worth(request: ChatRequest) -> str:
    """Ranks by what the answers say, "best" first, equal ones together."""
    worth = {"best": 0, "good": 1, "fair": 1, "worst": 2}
    tiers: dict[int, list[str]] = {}
    for shown in json.loads(request.block("answers")):
        tiers.setdefault(worth[shown["text"]], []).append(shown["letter"])
    return json.dumps({"notes": "scripted", "tiers": [tiers[k] for k in sorted(tiers)]})


def bound(gateway: Gateway, **options: Any) -> Referee:
    referee = Referee("librarian", **options)
    referee.set_lm(role_lm("referee", gateway))
    return referee


def rank(tiers: Any, n: int = 3) -> Tiers:
    """What a reply with these tiers over `n` answers is read as."""
    with serving(lambda _: json.dumps({"notes": "n", "tiers": tiers})) as (_, gateway, _server):
        answers = [f"answer {i}" for i in range(n)]
        return bound(gateway)(task=TASK, answers=answers, order=list(range(n)))


def test_the_ranking_is_of_answers_not_of_places() -> None:
    """Whatever the order, the same answers stand in the same tiers, by their places in the caller's list."""

    @settings(max_examples=24, deadline=None)
    @given(st.permutations(range(4)))
    def ranked_alike(order: list[int]) -> None:
        assert referee(task=TASK, answers=ANSWERS, order=order).tiers == ((0,), (2, 3), (1,))

    with serving(by_worth) as (_, gateway, _server):
        referee = bound(gateway)
        ranked_alike()


def test_letters_follow_the_callers_order() -> None:
    with serving(by_worth) as (_, gateway, server):
        bound(gateway)(task=TASK, answers=ANSWERS, order=[3, 1, 0, 2])
        (request,) = server.of("referee")
    assert json.loads(request.block("answers")) == [
        {"letter": "A", "text": "fair"},
        {"letter": "B", "text": "worst"},
        {"letter": "C", "text": "best"},
        {"letter": "D", "text": "good"},
    ]


def test_nothing_of_the_rubric_or_its_scores_reaches_the_referee() -> None:
    """Only conversation and answers of a task may show; neither criteria, points, references nor labels."""
    secret = TASK.model_copy(
        update={
            "rubric": Rubric(criteria=(Criterion(text="Names the zebra fish", points=7.75),)),
            "references": (Reference(id="ref-77", title="Zebra title", text="Zebra text", source="zebra.org"),),
            "labels": TASK.labels.model_copy(update={"specialty": "zebras", "use_case": "zebra care"}),
        }
    )
    referee = Referee("librarian")
    fields = referee.fields(task=secret, answers=ANSWERS, order=[0, 1, 2, 3])
    text = render(referee.predict.signature, [], fields)[1]["content"]
    assert "zebra" not in text.lower() and "7.75" not in text and "ref-77" not in text
    assert "rubric" not in text and "score" not in text and "points" not in text
    plain = TASK.model_copy(update={"task_id": "other"})
    assert fields == referee.fields(task=plain, answers=ANSWERS, order=[0, 1, 2, 3])


def test_the_prompt_never_speaks_of_a_rubric() -> None:
    system = render(Referee("librarian").predict.signature, [], {})[0]["content"].lower()
    assert "rubric" not in system and "criteri" not in system and "score" not in system


def test_long_inputs_are_cut_where_the_limits_say() -> None:
    task = TASK.model_copy(update={"conversation": (Message(role="user", content="q" * 12),)})
    fields = Referee("x", task_chars=10, answer_chars=3).fields(task=task, answers=["abcd", "abc"], order=[0, 1])
    assert fields["conversation"][0].content == "q" * 10 + " [2 characters left out]"
    assert [a.text for a in fields["answers"]] == ["abc [1 characters left out]", "abc"]


@pytest.mark.parametrize(("task_chars", "answer_chars", "whole"), [(8000, 6000, True), (8001, 6001, False)])
def test_the_default_limits_at_their_edges(task_chars: int, answer_chars: int, whole: bool) -> None:
    task = TASK.model_copy(update={"conversation": (Message(role="user", content="q" * task_chars),)})
    fields = Referee("x").fields(task=task, answers=["a" * answer_chars, ""], order=[0, 1])
    assert (fields["conversation"][0].content == "q" * task_chars) is whole
    assert (fields["answers"][0].text == "a" * answer_chars) is whole


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([["A", "B", "C"]], ((0, 1, 2),)),
        ([["C"], ["B"], ["A"]], ((2,), (1,), (0,))),
        ([["C", "A"], ["B"]], ((0, 2), (1,))),
    ],
)
def test_a_partition_is_read(tiers: Any, expected: Any) -> None:
    ranked = rank(tiers)
    assert ranked.tiers == expected
    assert ranked.best == expected[0]


@pytest.mark.parametrize(
    ("tiers", "problem"),
    [
        ([["A"], ["B"]], "C: missing"),
        ([["A", "B"], ["B", "C"]], "B: used more than once"),
        ([["A", "A", "B", "C"]], "A: used more than once"),
        ([["A", "B", "C", "D"]], "D: not the letter of any answer"),
        ([["A"], ["B", "Z"]], "C: missing.*Z: not the letter"),
    ],
)
def test_what_is_no_partition_is_refused_with_its_letters(tiers: Any, problem: str) -> None:
    with pytest.raises(MalformedReply, match=f"role referee: .*{problem}"):
        rank(tiers)


@pytest.mark.parametrize(
    "tiers",
    [[], [[]], [["A", "B", "C"], []], [["a"], ["b"], ["c"]], [["AB", "C"]], ["A", "B", "C"], [[1, 2, 3]], "ABC"],
)
def test_what_is_no_list_of_letters_is_refused(tiers: Any) -> None:
    with pytest.raises(MalformedReply, match="tiers"):
        rank(tiers)


@given(st.lists(st.lists(st.sampled_from(LETTERS[:5]), min_size=1, max_size=4), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_exactly_the_partitions_have_no_problem(tiers: list[list[str]]) -> None:
    used = sorted(letter for tier in tiers for letter in tier)
    prediction = type("Prediction", (), {"tiers": tiers, "notes": ""})
    problems = Referee("x").check(prediction, order=[0, 1, 2, 3])
    assert (problems == []) is (used == ["A", "B", "C", "D"])


@pytest.mark.parametrize("n", [2, 26])
def test_the_smallest_and_the_largest_comparison(n: int) -> None:
    ranked = rank([list(LETTERS[:n])], n)
    assert ranked.tiers == (tuple(range(n)),)


@pytest.mark.parametrize(
    ("n", "order", "problem"),
    [
        (0, [], "0 answers"),
        (1, [0], "1 answers"),
        (27, list(range(27)), "27 answers"),
        (3, [0, 1], r"order \[0, 1\] for 3 answers"),
        (3, [0, 1, 1], r"order \[0, 1, 1\]"),
        (3, [1, 2, 3], r"order \[1, 2, 3\]"),
        (2, [0, 1, 2], r"order \[0, 1, 2\]"),
    ],
)
def test_a_wrong_order_reaches_no_model(n: int, order: list[int], problem: str) -> None:
    with serving() as (_, gateway, server):
        with pytest.raises(InputError, match=problem):
            bound(gateway)(task=TASK, answers=["x"] * n, order=order)
        assert server.total == 0


@pytest.mark.parametrize(("words", "mark"), [(40, ""), (41, " [1 words left out]")])
def test_long_notes_are_cut(words: int, mark: str) -> None:
    text = json.dumps({"notes": " ".join(["word"] * words), "tiers": [["A", "B"]]})
    with serving(lambda _: text) as (_, gateway, _server):
        ranked = bound(gateway)(task=TASK, answers=["x", "y"], order=[0, 1])
    assert ranked.notes == " ".join(["word"] * 40) + mark
