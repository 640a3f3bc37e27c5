"""The vocabulary: frozen models, points without 0 up to 10, digests that see content and nothing else."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from rri.types import (
    POINTS_LIMIT,
    Criterion,
    Grade,
    Labels,
    Message,
    Reference,
    Rubric,
    Task,
    Verdict,
    Vote,
    digest_of,
)

LIGHT = settings(max_examples=60, deadline=None)

TEXT = st.text('aB\u00e9\u221e" \n', max_size=5)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def task(**changes: object) -> Task:
    fields: dict[str, Any] = {
        "task_id": "t1",
        "conversation": (Message(role="user", content="What dose?"),),
        "rubric": Rubric(criteria=(Criterion(text="Names 500 mg", points=5),)),
    }
    return Task(**(fields | changes))


# --- points ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [-10, -9.5, -1, -0.25, 0.25, 1, 9.99, 10, 10.0])
def test_points_within_ten_are_kept_exactly(points: float) -> None:
    assert Criterion(text="Names a dose", points=points).points == points


@pytest.mark.parametrize("points", [0, 0.0, -0.0, 10.001, -10.001, 11, -11, math.inf, -math.inf, math.nan])
def test_points_zero_or_beyond_ten_are_refused(points: float) -> None:
    with pytest.raises(ValidationError, match="points"):
        Criterion(text="Names a dose", points=points)


@LIGHT
@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_criterion_exists_exactly_for_points_in_range(points: float) -> None:
    allowed = -POINTS_LIMIT <= points <= POINTS_LIMIT and points != 0
    try:
        Criterion(text="Names a dose", points=points)
    except ValidationError:
        assert not allowed
    else:
        assert allowed


def test_points_are_checked_when_a_stored_rubric_is_read() -> None:
    with pytest.raises(ValidationError):
        Rubric.model_validate_json('{"criteria": [{"text": "Names a dose", "points": 0}]}')


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(ValidationError):
        Criterion(text="", points=5)


# --- rubric ------------------------------------------------------------------------------------------


def test_positive_total_leaves_negatives_out() -> None:
    rubric = Rubric(criteria=tuple(Criterion(text=f"c{i}", points=p) for i, p in enumerate((5, -10, 2.5, -1))))
    assert rubric.positive_total == 7.5


def test_positive_total_of_negatives_alone_is_zero() -> None:
    assert Rubric(criteria=(Criterion(text="Invents a source", points=-5),)).positive_total == 0


def test_criteria_keep_their_order() -> None:
    texts = ["b", "a", "c"]
    rubric = Rubric(criteria=tuple(Criterion(text=t, points=5) for t in texts))
    assert [c.text for c in rubric.criteria] == texts


# --- frozen, closed models ---------------------------------------------------------------------------

MODELS: list[tuple[BaseModel, str, object]] = [
    (Message(role="user", content="hi"), "content", "bye"),
    (Reference(id="1", title="t", text="x", source="s"), "text", "y"),
    (Criterion(text="Names a dose", points=5), "points", 0),
    (Rubric(criteria=()), "criteria", ()),
    (Labels(), "red_team", True),
    (task(), "version", 2),
    (Vote(outcome="met"), "outcome", "unmet"),
    (Verdict(outcome="unknown"), "outcome", "unmet"),
    (Grade(verdicts=(), score=None, raw=None), "score", 0.0),
]


@pytest.mark.parametrize(("model", "field", "value"), MODELS, ids=lambda v: type(v).__name__)
def test_models_cannot_be_changed(model: BaseModel, field: str, value: object) -> None:
    with pytest.raises(ValidationError):
        setattr(model, field, value)


@pytest.mark.parametrize("model", [m for m, _, _ in MODELS], ids=lambda v: type(v).__name__)
def test_unknown_fields_are_refused(model: BaseModel) -> None:
    with pytest.raises(ValidationError):
        type(model).model_validate(model.model_dump() | {"surprise": 1})


@pytest.mark.parametrize("model", [m for m, _, _ in MODELS], ids=lambda v: type(v).__name__)
def test_models_survive_json(model: BaseModel) -> None:
    assert type(model).model_validate_json(model.model_dump_json()) == model


@pytest.mark.parametrize("outcome", ["met", "unmet", "unknown"])
def test_the_three_outcomes(outcome: str) -> None:
    assert Verdict.model_validate({"outcome": outcome}).outcome == outcome


@pytest.mark.parametrize("outcome", ["not met", "", None, True, False, "Met"])
def test_no_other_outcome_passes_for_a_verdict(outcome: object) -> None:
    with pytest.raises(ValidationError):
        Verdict.model_validate({"outcome": outcome})


def test_an_unscored_grade_holds_none_and_not_zero() -> None:
    grade = Grade(verdicts=(Verdict(outcome="unknown"),), score=None, raw=None, unscored="judge failed")
    assert grade.score is None
    assert grade.raw is None


def test_a_grade_needs_its_scores_said() -> None:
    with pytest.raises(ValidationError):
        Grade.model_validate({"verdicts": []})


# --- task --------------------------------------------------------------------------------------------


def test_a_task_starts_at_version_one() -> None:
    assert task().version == 1
    with pytest.raises(ValidationError):
        task(version=0)


def test_a_task_of_another_schema_is_refused() -> None:
    with pytest.raises(ValidationError):
        task(schema_version=2)


def test_a_task_needs_a_message() -> None:
    with pytest.raises(ValidationError):
        task(conversation=())


def test_the_request_is_the_last_user_message() -> None:
    turns = (
        Message(role="user", content="first"),
        Message(role="assistant", content="reply"),
        Message(role="user", content="second"),
        Message(role="assistant", content="prefill"),
    )
    assert task(conversation=turns).request == "second"


def test_a_conversation_without_user_has_an_empty_request() -> None:
    assert task(conversation=(Message(role="system", content="Be brief."),)).request == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"task_id": "t2"},
        {"version": 7},
        {"labels": Labels(red_team=True, specialty="nephrology")},
        {"references": (Reference(id="1", title="t", text="x", source="s"),)},
    ],
)
def test_the_digest_ignores_what_is_neither_asked_nor_graded(changes: dict[str, object]) -> None:
    assert task(**changes).digest == task().digest


@pytest.mark.parametrize(
    "changes",
    [
        {"conversation": (Message(role="user", content="What dose"),)},
        {"conversation": (Message(role="system", content="What dose?"),)},
        {"rubric": Rubric(criteria=(Criterion(text="Names 500 mg", points=6),))},
        {"rubric": Rubric(criteria=(Criterion(text="Names 500 mg", points=-5),))},
        {"rubric": Rubric(criteria=(Criterion(text="Names 50 mg", points=5),))},
        {"rubric": Rubric(criteria=())},
    ],
)
def test_the_digest_sees_what_is_asked_and_graded(changes: dict[str, object]) -> None:
    assert task(**changes).digest != task().digest


def test_the_digest_sees_the_order_of_criteria() -> None:
    a, b = Criterion(text="a", points=5), Criterion(text="b", points=5)
    assert task(rubric=Rubric(criteria=(a, b))).digest != task(rubric=Rubric(criteria=(b, a))).digest


def test_the_digest_survives_a_round_trip() -> None:
    before = task()
    assert Task.model_validate_json(before.model_dump_json()).digest == before.digest


# --- digest_of ---------------------------------------------------------------------------------------


@LIGHT
@given(st.dictionaries(TEXT, JSON, min_size=2, max_size=4))
def test_digest_is_independent_of_key_order(content: dict[str, Any]) -> None:
    assert digest_of(dict(reversed(content.items()))) == digest_of(content)


@LIGHT
@given(JSON)
def test_digest_is_sixteen_bytes_of_hex(content: Any) -> None:
    digest = digest_of(content)
    assert len(digest) == 32
    assert len(bytes.fromhex(digest)) == 16


@pytest.mark.parametrize(
    ("left", "right"),
    [([1, 2], [2, 1]), (["ab"], ["a", "b"]), ({"a": 1}, {"a": "1"}), (None, "null"), ([], {}), ("é", "e")],
)
def test_digest_tells_different_content_apart(left: object, right: object) -> None:
    assert digest_of(left) != digest_of(right)


def test_digest_is_stable_across_versions() -> None:
    # Stored digests name files and cache entries: a change of the encoding must not pass unnoticed.
    assert digest_of({"b": [1, "é"], "a": None}) == "bccb46da7f8860c9492baa4b6352ae16"
