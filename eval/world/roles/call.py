"""What a role of the world works from: its prompt, its draws, the constants, and the words of the language."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from eval.world.constants import WorldConstants
from eval.world.facts import Fact, Question
from eval.world.prompts import Prompt, draws_of
from rri.errors import InputError

__all__ = ["NEGATIVE_POINTS", "POSITIVE_POINTS", "Call", "Role", "readable"]

T = TypeVar("T")

POSITIVE_POINTS = (5, 6, 7, 8, 8, 8, 9, 10)
NEGATIVE_POINTS = (-5, -6, -7, -8, -8, -9, -10)
"""Points as they are drawn, mostly 8 (METHOD 3)."""


@dataclass(frozen=True)
class Call:
    """One call of a role.

    Attributes:
        prompt: all that the role is told.
        seed: of the world.
        identity: of the prompt: world, role and text. The same however often it is asked.
        number: how often this very prompt was asked before.
        constants: how the role behaves.
        values: relation -> the words that can be its value. Which of them an entity has is not known here.
    """

    prompt: Prompt
    seed: int
    identity: str
    number: int
    constants: WorldConstants
    values: Mapping[str, Sequence[str]]

    @cached_property
    def rng(self) -> random.Random:
        """Draws of this call; the next call of the same prompt has others."""
        return draws_of(self.identity, str(self.number))

    def reading(self, *texts: str) -> random.Random:
        """Draws of a text that is read: what a model misreads, it misreads again, whatever stands around it."""
        return draws_of(str(self.seed), self.prompt.model, *texts)

    def happens(self, share: float) -> bool:
        """One draw."""
        return self.rng.random() < share

    @property
    def question(self) -> Question:
        """What the conversation asks for.

        Raises:
            InputError: it asks nothing of the world.
        """
        return readable(self.prompt.question, self.prompt.request)

    def wrong(self, relation: str, right: str) -> str:
        """A value of `relation` that is not `right`.

        Raises:
            InputError: there is no such relation.
        """
        if relation not in self.values:
            raise InputError(f"no relation {relation!r} in this world", f"Relations are: {', '.join(self.values)}")
        return self.rng.choice([value for value in self.values[relation] if value != right])

    def value_of(self, fact: Fact, error: float) -> str:
        """The value that the conversation's note gives, or a wrong one in a share `error` of the calls.

        Raises:
            InputError: the note does not hold the fact.
        """
        entity, relation = fact
        right = readable(self.prompt.known.get(fact), f"the {relation} of {entity}")
        return self.wrong(relation, right) if self.happens(error) else right


def readable(found: T | None, shown: str) -> T:
    """`found`, which a model needs to do its work.

    Raises:
        InputError: the prompt does not hold it.
    """
    if found is None:
        raise InputError(f"the prompt holds no text of this world where one is needed: {shown[:160]!r}", "Send its own")
    return found


Role = Callable[[Call], str]
"""A role: call -> the reply's text, JSON where the role's schema wants it."""
