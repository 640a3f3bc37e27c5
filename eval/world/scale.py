"""How large a comparison is: the world, the runs, and what is measured of them."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, ValidationError

from eval.world.facts import World
from eval.world.pretraining import Pretraining
from rri.domain import Section
from rri.errors import InputError

__all__ = ["Scale"]


class Scale(Section):
    """Sizes of all cells alike. Defaults are the proving ground's."""

    entities: int = Field(default=40, ge=1)
    relations: int = Field(default=8, ge=1)
    values: int = Field(default=16, ge=2)
    cycles: int = Field(default=120, ge=1, description="training cycles of 8 tasks with 8 answers each")
    tasks: int = Field(default=600, ge=32, description="tasks to admit; training begins with 32 of them")
    learning_rate: float = Field(default=1e-4, gt=0, description="of the solver")
    last: int = Field(default=20, ge=1, description="cycles at the end whose training reward is averaged")
    requests: int = Field(default=500, ge=2, description="held-out requests")
    answers_each: int = Field(default=4, ge=1, description="answers to each")
    probes: int = Field(default=150, ge=0, description="beaten tasks that are confirmed before and after repair")
    stretches: int = Field(default=10, ge=1, description="stretches of cycles whose served rubrics are attacked afresh")
    stretch_probes: int = Field(default=24, ge=0, description="rubrics of each stretch")
    pretraining: Pretraining = Pretraining()

    @classmethod
    def read(cls, given: str | Mapping[str, Any], where: str) -> Self:
        """Sizes from JSON text or from data.

        Args:
            given: what differs from the proving ground's, or all.
            where: named in the error.

        Raises:
            InputError: it is no JSON, an unknown size, or a value out of range.
        """
        try:
            return cls.model_validate_json(given) if isinstance(given, str) else cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            what = ".".join(map(str, first["loc"])) or "JSON"
            raise InputError(f"{where}: {what}: {first['msg']}", f"Sizes are: {', '.join(cls.model_fields)}") from None

    def world(self, seed: int) -> World:
        """The world of a seed in these sizes.

        Raises:
            InputError: there are not so many words.
        """
        return World.make(seed, self.entities, self.relations, self.values)
