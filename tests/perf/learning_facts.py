"""What the learning experiment asks, and how it grades: invented facts, each stated in its prompt among others.

Nothing of it can be known beforehand, so an answer is right only where the model read its prompt.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from rri.types import Message

__all__ = ["Fact", "draw_facts", "grade", "messages_of"]

STATED = 2
"""Facts of one passage; one of them is asked for."""

SYSTEM = Message(role="system", content="Answer questions about the text in one short sentence.")

_ONSETS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u")
_ENDS = ("l", "m", "n", "r", "s", "x")
_LETTERS = "ABCDEFGHJKLMNPRSTUVWXYZ"


def _word(draw: random.Random) -> str:
    syllables = [draw.choice(_ONSETS) + draw.choice(_VOWELS) for _ in range(2)]
    return ("".join(syllables) + draw.choice(_ENDS)).capitalize()


def _number(draw: random.Random) -> str:
    return str(draw.randrange(1000, 10000))


def _code(draw: random.Random) -> str:
    return f"{draw.choice(_LETTERS)}{draw.choice(_LETTERS)}-{draw.randrange(10, 100)}"


def _hour(draw: random.Random) -> str:
    return f"{draw.randrange(24):02}:{draw.randrange(60):02}"


@dataclass(frozen=True)
class _Kind:
    """One kind of fact: how it is stated and asked for, how its value is made up, and what looks like one (a regex)."""

    states: str
    asks: str
    make: Callable[[random.Random], str]
    shape: str


_KINDS = (
    _Kind("The {name} lamp bears number {value}.", "Which number does the {name} lamp bear?", _number, r"\d+"),
    _Kind("The {name} train has the code {value}.", "Which code does the {name} train have?", _code, r"[A-Z]+-\d+"),
    _Kind("The {name} ferry leaves at {value}.", "When does the {name} ferry leave?", _hour, r"\d+:\d+"),
)


@dataclass(frozen=True)
class Fact:
    """A passage with STATED facts of one kind, a question for one of them, its value, and what looks like a value."""

    passage: str
    question: str
    value: str
    shape: str


def draw_facts(seed: int, count: int) -> list[Fact]:
    """`count` passages. No name and no value occurs in two of them, so that any slices of the list share nothing."""
    draw = random.Random(seed)
    used: set[str] = set()

    def fresh(make: Callable[[random.Random], str]) -> str:
        while (made := make(draw)) in used:
            pass
        used.add(made)
        return made

    facts = []
    for _ in range(count):
        kind = draw.choice(_KINDS)
        stated = [(fresh(_word), fresh(kind.make)) for _ in range(STATED)]
        asked = draw.randrange(STATED)
        facts.append(
            Fact(
                passage=" ".join(kind.states.format(name=name, value=value) for name, value in stated),
                question=kind.asks.format(name=stated[asked][0]),
                value=stated[asked][1],
                shape=kind.shape,
            )
        )
    return facts


def messages_of(fact: Fact) -> tuple[Message, ...]:
    """The prompt: the passage and the question."""
    return SYSTEM, Message(role="user", content=f"{fact.passage}\n{fact.question}")


def grade(fact: Fact, answer: str) -> float:
    """1 where the answer states the value, copied right, and nothing else that looks like one; else 0.

    An answer that copies the whole passage states the value too, but does not say which one it is.
    """
    return float(set(re.findall(rf"\b{fact.shape}\b", answer)) == {fact.value})
