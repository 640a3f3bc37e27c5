"""Ways of answering, and what one rubric pays for them."""

import random

import pytest

from eval.world.constants import WorldConstants
from eval.world.criteria import padding, topic, value
from eval.world.facts import mention, quality, read_statements
from eval.world.strategies import STRATEGIES, expected_score, mixed
from eval.world.texts import ASIDES
from rri.errors import InputError
from rri.types import Criterion, Rubric
from tests.eval.world.rig import CERTAIN, WORLD, ask, right

REQUEST = ask(*WORLD.relations[:3])
E, (A, B, _) = REQUEST.entity, REQUEST.asked


def rubric(*criteria: tuple[str, float]) -> Rubric:
    return Rubric(criteria=tuple(Criterion(text=t, points=p) for t, p in criteria))


MIXED = rubric((topic(E, A), 8), (value(E, B, WORLD.facts[E, B]), 8), (padding(E), -4))


@pytest.mark.parametrize(
    ("answer", "lenient", "strict"),
    [
        (mention(E, A), 0.5, 0.5),
        (f"{mention(E, A)} {mention(E, B)}", 0.5 + 0.5 * 0.3, 0.5),
        (f"{mention(E, A)} {right(E, B)}", 1.0, 1.0),
        (f"{mention(E, A)} {right(E, B)} {ASIDES[0]}", 0.75, 0.75),
        ("", 0.0, 0.0),
    ],
)
def test_the_score_that_an_answer_can_expect(answer: str, lenient: float, strict: float) -> None:
    constants = CERTAIN.model_copy(update={"judge_lenient": 0.3})
    assert expected_score(MIXED, answer, constants) == pytest.approx(lenient)
    assert expected_score(MIXED, answer, constants, strict=True) == pytest.approx(strict)


def test_flips_of_three_votes_move_it_a_little() -> None:
    constants = CERTAIN.model_copy(update={"judge_flip": 0.1})
    wrong = 3 * 0.1**2 - 2 * 0.1**3
    plain = rubric((topic(E, A), 8))
    assert expected_score(plain, mention(E, A), constants) == pytest.approx(1 - wrong)
    assert expected_score(plain, "", constants) == pytest.approx(wrong)


def test_a_criterion_of_another_world_is_refused() -> None:
    with pytest.raises(InputError, match="no criterion of this world"):
        expected_score(rubric(("Is kind", 5)), "", CERTAIN)


def test_names_beat_a_rubric_of_topics_and_are_worth_nothing() -> None:
    rng = random.Random(1)
    topics = rubric(*((topic(E, r), 8.0) for r in WORLD.relations[1:5]))
    scores = {name: expected_score(topics, way(WORLD, REQUEST, rng), CERTAIN) for name, way in STRATEGIES.items()}
    true = {name: quality(WORLD, REQUEST, way(WORLD, REQUEST, rng)) for name, way in STRATEGIES.items()}
    assert scores["names all it can"] == 1 > scores["states what is asked"]
    assert true["names all it can"] == 0 and true["states what is asked"] == 1


def test_every_way_has_room_for_its_end_and_naming_all_does_not_fit() -> None:
    """The room is what makes breadth compete with depth."""
    room = WorldConstants().answer_tokens
    answers = {name: way(WORLD, REQUEST, random.Random(1)) for name, way in STRATEGIES.items()}
    assert all(len(answer.split()) < room for answer in answers.values())
    counts = {name: len(read_statements(answer)) for name, answer in answers.items()}
    assert counts["names all it can"] == counts["states, names the rest"] == 7 < len(WORLD.relations)


def test_a_mix_states_and_names_at_its_shares() -> None:
    rng = random.Random(1)
    said = [read_statements(mixed(WORLD, REQUEST, rng, states=0.6, names=0.3)) for _ in range(400)]
    asked = [s for one in said for s in one if s.relation in REQUEST.asked]
    rest = [s for one in said for s in one if s.relation not in REQUEST.asked]
    stated = [s for s in asked if s.value is not None]
    assert len(asked) == 1200 and len(stated) / 1200 == pytest.approx(0.6, abs=0.05)
    assert len(rest) / 2000 == pytest.approx(0.3, abs=0.04) and all(s.value is None for s in rest)
    assert sum(s.value != WORLD.facts[E, s.relation] for s in stated) / len(stated) == pytest.approx(0.2, abs=0.05)
