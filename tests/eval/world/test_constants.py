"""The constants: every one explained, in its range, and pinned where the method or the paper gives the figure."""

import pytest
from pydantic import ValidationError

from eval.world.constants import STRESSES, WorldConstants, markdown_table, stressed
from rri.errors import InputError

COUNTS = ("asked", "answer_tokens")


def test_every_constant_has_a_meaning_and_a_source_in_the_table() -> None:
    table = markdown_table()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()[2:]}
    assert set(rows) == set(WorldConstants.model_fields)
    for name, row in rows.items():
        _, value, meaning, source = row.removesuffix(" |").split(" | ")
        assert float(value) == getattr(WorldConstants(), name)
        assert len(meaning) > 10 and len(source) > 4, name


def test_the_table_is_in_the_docstring_and_shows_the_constants_it_is_given() -> None:
    assert WorldConstants.__doc__ is not None and markdown_table() in WorldConstants.__doc__
    assert "| judge_flip | 0.1 |" in markdown_table(WorldConstants(judge_flip=0.1))


def test_the_figure_of_the_method() -> None:
    assert WorldConstants().judge_flip == 0.027


def test_the_generator_delivers_what_the_shape_controls_need() -> None:
    assert min(WorldConstants().positive_delivery, WorldConstants().negative_delivery) >= 0.75


@pytest.mark.parametrize("name", [n for n in WorldConstants.model_fields if n not in COUNTS])
@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan")])
def test_a_share_lies_between_0_and_1(name: str, value: float) -> None:
    with pytest.raises(ValidationError):
        WorldConstants(**{name: value})  # type: ignore[arg-type]
    assert WorldConstants(**{name: 1.0}) != WorldConstants(**{name: 0.0})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_at_least_one(name: str) -> None:
    assert getattr(WorldConstants.model_validate({name: 1}), name) == 1
    with pytest.raises(ValidationError):
        WorldConstants.model_validate({name: 0})


def test_an_unknown_constant_is_refused() -> None:
    with pytest.raises(ValidationError, match="judge_flips"):
        WorldConstants.model_validate({"judge_flips": 0.1})


def test_values_rise_with_guidance_and_memo_and_most_with_both() -> None:
    rate = WorldConstants().value_rate
    assert rate(0, 0) == pytest.approx(WorldConstants().value_share)
    assert rate(0, 0) < rate(0.5, 0) < rate(1, 0) < rate(1, 1) < 1
    assert rate(0, 0) < rate(0, 0.5) < rate(0, 1) < rate(1, 1)
    assert rate(1, 0) == pytest.approx(1 - 0.95 * 0.75)
    assert rate(0, 0, base=0.15) == pytest.approx(0.15)


def test_a_stress_changes_what_it_names_and_nothing_else() -> None:
    for name, changes in STRESSES.items():
        fair, other = WorldConstants().model_dump(), stressed(name).model_dump()
        assert {k: v for k, v in other.items() if fair[k] != v} == dict(changes)
    assert stressed("noisy-judge").judge_flip == 0.10
    assert stressed("weak-honest").honest_errs == 0.5
    assert stressed("length-biased-referee").referee_by_length > 0


def test_an_unknown_stress_is_refused() -> None:
    with pytest.raises(InputError, match=r"no stress 'hard'.*noisy-judge"):
        stressed("hard")


def test_other_constants_have_another_digest() -> None:
    assert WorldConstants().digest == WorldConstants().digest != WorldConstants(judge_flip=0.1).digest
