"""Criteria: how they are written, read and met, and that the real validators take them."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.world.criteria import (
    TOPIC_VERBS,
    WorldCriterion,
    contradiction,
    false_value,
    is_met,
    long_topic,
    only_mentions,
    padding,
    read_criterion,
    topic,
    value,
)
from eval.world.facts import World, mention, statement
from eval.world.texts import ASIDES
from rri.rubric_rules import PatchLimits, check_patch, check_rubric, trigram_overlap
from rri.types import Criterion, Rubric

E, R, V, X = "velor", "crest", "falcon", "otter"
SAYS, NAMES, LIES = statement(E, R, V), mention(E, R), statement(E, R, X)
SEEDS = st.integers(100, 10**6)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        *((topic(E, R, verb), WorldCriterion("topic", E, R)) for verb in TOPIC_VERBS),
        (long_topic(E, R), WorldCriterion("topic", E, R)),
        (value(E, R, V), WorldCriterion("value", E, R, V)),
        (false_value(E, R, X), WorldCriterion("false_value", E, R, X)),
        (contradiction(E, R, V), WorldCriterion("contradiction", E, R, V)),
        (padding(E), WorldCriterion("padding", E)),
        (f"  {value(E, R, V).upper()}", WorldCriterion("value", E, R, V)),
    ],
)
def test_a_criterion_is_read_as_it_was_written(text: str, meaning: WorldCriterion) -> None:
    assert read_criterion(text) == meaning


@pytest.mark.parametrize("text", ["", "Is kind", "The answer mentions the crest of velor", "Mentions velor"])
def test_other_text_is_no_criterion(text: str) -> None:
    assert read_criterion(text) is None


@pytest.mark.parametrize(
    ("criterion", "met", "unmet"),
    [
        (topic(E, R), [NAMES, SAYS, LIES], ["", mention(E, "gem"), mention("other", R), ASIDES[0], f"{R} {E}"]),
        (value(E, R, V), [SAYS, f"{NAMES} {SAYS}"], [NAMES, LIES, f"{SAYS} {LIES}", f"the {R} of {E} is {V} or {X} ."]),
        (false_value(E, R, X), [LIES, f"{SAYS} {LIES}"], [SAYS, NAMES, statement(E, R, "wolf"), statement("o", R, X)]),
        (contradiction(E, R, V), [LIES, statement(E, R, "wolf"), f"{SAYS} {LIES}"], [SAYS, NAMES, ""]),
        (padding(E), [ASIDES[0], f"{SAYS} {ASIDES[2].upper()}"], [SAYS, NAMES, ""]),
    ],
)
def test_what_meets_a_criterion(criterion: str, met: list[str], unmet: list[str]) -> None:
    read = read_criterion(criterion)
    assert read is not None
    assert [answer for answer in met if not is_met(read, answer)] == []
    assert [answer for answer in unmet if is_met(read, answer)] == []


@pytest.mark.parametrize(
    ("criterion", "answer", "expected"),
    [
        (value(E, R, V), NAMES, True),
        (value(E, R, V), f"{NAMES} {LIES}", False),
        (value(E, R, V), SAYS, False),
        (value(E, R, V), "", False),
        (value(E, R, V), mention(E, "gem"), False),
        (topic(E, R), NAMES, False),
        (false_value(E, R, X), NAMES, False),
    ],
)
def test_who_only_mentions_a_value(criterion: str, answer: str, expected: bool) -> None:
    read = read_criterion(criterion)
    assert read is not None and only_mentions(read, answer) is expected


# --- the real validators -------------------------------------------------------------------------------


def wordings(world: World, entity: str, relation: str) -> dict[str, float]:
    """A criterion of each kind with its sign; the false values are two."""
    pool = world.values[relation]
    return {
        topic(entity, relation): 8,
        value(entity, relation, pool[0]): 8,
        false_value(entity, relation, pool[1]): -8,
        false_value(entity, relation, pool[2]): -8,
        contradiction(entity, relation, pool[0]): -8,
    }


@given(SEEDS)
def test_every_wording_passes_the_validator(seed: int) -> None:
    world = World.make(seed, entities=3, relations=10, values=20)
    for entity in world.entities:
        for relation in world.relations:
            texts = {**wordings(world, entity, relation), padding(entity): -8, long_topic(entity, relation): 8}
            rubric = Rubric(criteria=tuple(Criterion(text=t, points=p) for t, p in texts.items()))
            assert check_rubric(rubric, repaired=True) == []


@given(SEEDS)
def test_what_a_repair_adds_has_the_length_and_is_no_copy_of_what_is_there(seed: int) -> None:
    """Of one relation: its topic never bars its value, nor a value the negative on another value."""
    world, limits = World.make(seed, entities=2, relations=10, values=20), PatchLimits()
    for entity in world.entities:
        relations = random.Random(seed).sample(world.relations, 4)
        mine = [t for r in relations for t in wordings(world, entity, r)]
        for a, b in combinations([*mine, padding(entity)], 2):
            assert trigram_overlap(a, b) < limits.max_overlap, (a, b)
        for r in relations:
            pool = world.values[r]
            minted = {
                long_topic(entity, r): 8.0,
                **dict(list(wordings(world, entity, r).items())[1:]),
                padding(entity): -8,
            }
            before = Rubric(
                criteria=(Criterion(text=topic(entity, relations[0] if r != relations[0] else relations[1]), points=8),)
            )
            for text, points in minted.items():
                assert check_patch(Criterion(text=text, points=points), before, limits) == [], text
            assert limits.min_chars <= len(value(entity, r, min(pool, key=len))) <= limits.max_chars


def test_the_same_fact_again_is_refused() -> None:
    before = Rubric(criteria=(Criterion(text=value(E, R, V), points=8), Criterion(text=topic(E, "gem"), points=8)))
    for again in (value(E, R, V), value(E, R, X), long_topic(E, "gem")):
        problems = check_patch(Criterion(text=again, points=8), before)
        assert problems and "word trigrams" in problems[0]
