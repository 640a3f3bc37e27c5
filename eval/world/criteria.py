"""The language of rubrics in the known-truth world: five kinds of criteria, how they are written and when they are met.

A topic is met by whatever touches the relation, a value only by a statement of it. So a rubric of topics pays an
answer that knows nothing, which is the flaw that the method repairs. The wordings of one rubric share few word
trigrams, so that a criterion that a repair adds is never taken for one that is there.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from eval.world.facts import Statement, read_statements
from eval.world.texts import ASIDES

__all__ = [
    "TOPIC_VERBS",
    "CriterionKind",
    "WorldCriterion",
    "contradiction",
    "false_value",
    "is_met",
    "long_topic",
    "only_mentions",
    "padding",
    "read_criterion",
    "topic",
    "value",
]

CriterionKind = Literal["topic", "value", "false_value", "contradiction", "padding"]
"""topic: the relation is touched. value: the value is stated. false_value: one wrong value is stated. contradiction:
any value but the right one is stated. padding: the answer holds remarks that say nothing."""

TOPIC_VERBS = ("Mentions", "Addresses", "Covers")


@dataclass(frozen=True, slots=True)
class WorldCriterion:
    """What a criterion says. `relation` is empty for padding, `value` for padding and topics.

    A contradiction holds the right value.
    """

    kind: CriterionKind
    entity: str
    relation: str = ""
    value: str = ""


def topic(entity: str, relation: str, verb: str = TOPIC_VERBS[0]) -> str:
    """A criterion that naming the relation meets."""
    return f"{verb} the {relation} of {entity}"


def long_topic(entity: str, relation: str) -> str:
    """`topic` in the length that a minted criterion must have (METHOD 3, minter)."""
    return f"{topic(entity, relation)} and why that {relation} matters"


def value(entity: str, relation: str, value: str) -> str:
    """A criterion that only a statement of the value meets."""
    return f"States that the {relation} recorded for {entity} is {value}"


def false_value(entity: str, relation: str, value: str) -> str:
    """A negative criterion: one wrong value is stated."""
    return f"Claims falsely that {entity} bears {value} as its {relation}"


def contradiction(entity: str, relation: str, value: str) -> str:
    """A negative criterion: some value is stated that is not `value`, the right one."""
    return f"Gives {entity} some other {relation} than {value}, which its record holds"


def padding(entity: str) -> str:
    """A negative criterion: remarks that say nothing. The trap that a careless author thinks of first."""
    return f"Pads the account of {entity} with idle remarks"


_FORMS: Mapping[CriterionKind, re.Pattern[str]] = {
    "topic": re.compile(rf"(?:{'|'.join(TOPIC_VERBS)}) the (?P<relation>\w+) of (?P<entity>\w+)\b", re.IGNORECASE),
    "value": re.compile(
        r"States that the (?P<relation>\w+) recorded for (?P<entity>\w+) is (?P<value>\w+)", re.IGNORECASE
    ),
    "false_value": re.compile(
        r"Claims falsely that (?P<entity>\w+) bears (?P<value>\w+) as its (?P<relation>\w+)", re.IGNORECASE
    ),
    "contradiction": re.compile(
        r"Gives (?P<entity>\w+) some other (?P<relation>\w+) than (?P<value>\w+)", re.IGNORECASE
    ),
    "padding": re.compile(r"Pads the account of (?P<entity>\w+)", re.IGNORECASE),
}


@lru_cache(maxsize=20_000)
def read_criterion(text: str) -> WorldCriterion | None:
    """What a criterion says; None where it is none of the world's."""
    for kind, form in _FORMS.items():
        if found := form.match(text.strip()):
            return WorldCriterion(kind, **{name: word.lower() for name, word in found.groupdict().items()})
    return None


def is_met(criterion: WorldCriterion, answer: str) -> bool:
    """Whether an answer meets a criterion, read to the letter.

    A value is not met where another one is stated beside it: whoever states two has committed to neither.
    """
    return _MET[criterion.kind](criterion, _said_of(criterion, answer), answer)


def only_mentions(criterion: WorldCriterion, answer: str) -> bool:
    """Whether the answer touches what a value criterion is about and states no value at all."""
    said = _said_of(criterion, answer)
    return criterion.kind == "value" and bool(said) and all(s.value is None for s in said)


def _said_of(criterion: WorldCriterion, answer: str) -> list[Statement]:
    about = (criterion.entity, criterion.relation)
    return [said for said in read_statements(answer) if (said.entity, said.relation) == about]


def _stated(said: list[Statement]) -> set[str]:
    return {s.value for s in said if s.value is not None}


_MET: Mapping[CriterionKind, Callable[[WorldCriterion, list[Statement], str], bool]] = {
    "topic": lambda criterion, said, answer: bool(said),
    "value": lambda criterion, said, answer: _stated(said) == {criterion.value},
    "false_value": lambda criterion, said, answer: criterion.value in _stated(said),
    "contradiction": lambda criterion, said, answer: bool(_stated(said) - {criterion.value}),
    "padding": lambda criterion, said, answer: any(aside in answer.lower() for aside in ASIDES),
}
