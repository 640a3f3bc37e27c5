"""What the solver is pre-trained on: requests with answers of every kind, good and bad, in stated shares.

The base model must be able to do what the arms are to bring out of it: read a value off its prompt. It must also name
topics often enough that training can find that this pays, and err and ramble now and then. So about half of what it has
seen is a fair try, as of a model that was tuned to follow instructions.
"""

import random
from dataclasses import dataclass, replace
from typing import Any, Self

from pydantic import Field, model_validator

from eval.world.constants import WorldConstants
from eval.world.facts import Fact, World, WorldRequest, make_request, mention, statement
from eval.world.texts import ASIDES
from rri.domain import Section
from rri.types import digest_of

__all__ = ["READING", "Example", "Mixture", "draw_example"]


@dataclass(frozen=True)
class Example:
    """A request and one answer to it."""

    request: WorldRequest
    answer: str


def _share(default: float, meaning: str) -> Any:
    return Field(default=default, ge=0, le=1, description=meaning)


class Mixture(Section):
    """Shares of what an answer holds. Every answer has one of four habits, and each sentence follows it or another.

    The habits make the answers to one request differ as wholes, so that a group of rollouts has something to compare.
    """

    states: float = _share(0.55, "answers whose habit is to state values from the note: mostly it tries")
    names: float = _share(0.25, "to name relations without a value: the exploit must be in reach from the start")
    errs: float = _share(0.10, "to state wrong values: knowing better must be worth something")
    rambles: float = _share(0.10, "to say nothing of the entity: the worst that can be unlearned")
    wavers: float = _share(0.25, "sentences that follow a habit drawn anew, so that answers are of mixed kinds")
    omits: float = _share(0.10, "asked relations that are left out")
    adds: float = _share(0.15, "answers with a relation not asked for; each further one has the same chance again")

    @model_validator(mode="after")
    def _habits_are_all(self) -> Self:
        total = self.states + self.names + self.errs + self.rambles
        if abs(total - 1) > 1e-9:
            raise ValueError(f"states, names, errs and rambles must add up to 1, and add up to {total:g}")
        return self

    @property
    def digest(self) -> str:
        """Digest of all shares."""
        return digest_of(self.model_dump())

    def answer(self, world: World, request: WorldRequest, rng: random.Random) -> str:
        """One answer, of one sentence or more. Asked relations come in the order of the question, then others.

        Args:
            world: whose facts are right.
            request: what is answered.
            rng: source of all draws.
        """
        habit = self._habit(rng)
        chosen = [r for r in request.asked if rng.random() >= self.omits] or [rng.choice(request.asked)]
        others = [r for r in world.relations if r not in request.asked]
        rng.shuffle(others)
        while others and rng.random() < self.adds:
            chosen.append(others.pop())
        sentences = []
        for relation in chosen:
            followed = self._habit(rng) if rng.random() < self.wavers else habit
            sentences.append(_sentence(followed, world, request.entity, relation, rng))
        return " ".join(sentences)

    def _habit(self, rng: random.Random) -> str:
        shares = {"states": self.states, "names": self.names, "errs": self.errs, "rambles": self.rambles}
        return rng.choices(list(shares), list(shares.values()))[0]


def _sentence(habit: str, world: World, entity: str, relation: str, rng: random.Random) -> str:
    right = world.facts[entity, relation]
    match habit:
        case "states":
            return statement(entity, relation, right)
        case "names":
            return mention(entity, relation)
        case "errs":
            return statement(entity, relation, rng.choice([v for v in world.values[relation] if v != right]))
        case _:
            return rng.choice(ASIDES)


READING = Mixture(states=1, names=0, errs=0, rambles=0, wavers=0, omits=0, adds=0)
"""Nothing but what was asked for, and all of it right: the lesson in reading that comes first."""


def draw_example(world: World, mixture: Mixture, rng: random.Random, asked: int = WorldConstants().asked) -> Example:
    """A request that is not held out, and an answer to it, under facts of its own.

    Each example draws the facts of its entity anew and its note states those. So whoever is right has read the note:
    the base model learns to copy and no fact of the world.

    Args:
        world: its words.
        mixture: shares of what the answer holds.
        rng: source of all draws.
        asked: how many relations the request asks for.
    """
    facts: dict[Fact, str] = {}
    for relation in world.relations:
        drawn = rng.choices(world.values[relation], k=len(world.entities))
        facts |= {(entity, relation): value for entity, value in zip(world.entities, drawn, strict=True)}
    imagined = replace(world, facts=facts)
    request = make_request(imagined, rng, asked)
    return Example(request, mixture.answer(imagined, request, rng))
