"""Sizes of a comparison."""

import pytest
from pydantic import ValidationError

from eval.world.scale import Scale
from rri.errors import InputError


def test_the_proving_ground_is_the_default() -> None:
    scale = Scale()
    assert (scale.entities, scale.relations, scale.values) == (40, 8, 16)
    assert scale.requests * scale.answers_each == 2000, "as many held-out answers as the comparison asks for"
    assert scale.world(7).seed == 7


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValidationError):
        Scale(cycles=0)
    with pytest.raises(InputError, match="a world of 99 relations"):
        Scale(relations=99).world(0)
