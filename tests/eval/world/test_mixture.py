"""The mixture of pre-training: what each share does, in answers that every reader of the world understands."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eval.world.facts import World, is_held_out, make_request, quality, read_statements
from eval.world.heldout import answer_kind
from eval.world.mixture import READING, Mixture, draw_example
from eval.world.texts import ASIDES

WORLD = World.make(100)
ALONE = {"states": 0.0, "names": 0.0, "errs": 0.0, "rambles": 0.0}


def only(habit: str, **shares: float) -> Mixture:
    return Mixture(**{**ALONE, habit: 1.0, "omits": 0.0, "adds": 0.0, **shares})


def answers(mixture: Mixture, number: int = 2000) -> list[tuple[float, str]]:
    rng = random.Random(7)
    found = []
    for _ in range(number):
        request = make_request(WORLD, rng)
        answer = mixture.answer(WORLD, request, rng)
        found.append((quality(WORLD, request, answer), answer_kind(WORLD, request, answer)))
    return found


@pytest.mark.parametrize(
    ("habit", "kind", "worth"),
    [("states", "correct", 1.0), ("names", "name_drop", 0.0), ("errs", "wrong", -1.0), ("rambles", "rambling", 0.0)],
)
def test_a_habit_alone_makes_answers_of_one_kind(habit: str, kind: str, worth: float) -> None:
    assert set(answers(only(habit), 100)) == {(worth, kind)}


@given(st.integers(0, 2**32), st.integers(1, 8))
def test_asked_relations_come_first_and_in_order_and_each_once(seed: int, asked: int) -> None:
    rng = random.Random(seed)
    request = make_request(WORLD, rng, asked, held_out=None)
    said = [s.relation for s in read_statements(only("names", adds=0.5, omits=0.5).answer(WORLD, request, rng))]
    assert said
    assert len(set(said)) == len(said)
    of_asked = [r for r in said if r in request.asked]
    assert of_asked == [r for r in request.asked if r in of_asked] == said[: len(of_asked)]
    assert of_asked


def test_everything_can_be_left_out_but_one_and_everything_can_be_added() -> None:
    rng = random.Random(1)
    request = make_request(WORLD, rng)
    assert len(read_statements(only("names", omits=1.0).answer(WORLD, request, rng))) == 1
    whole = read_statements(only("states", adds=1.0).answer(WORLD, request, rng))
    assert {s.relation for s in whole} == set(WORLD.relations)


def test_shares_are_what_the_answers_show() -> None:
    rng = random.Random(3)
    kinds: Counter[str] = Counter()
    sentences = 0
    for _ in range(4000):
        request = make_request(WORLD, rng)
        answer = Mixture().answer(WORLD, request, rng)
        for s in read_statements(answer):
            right = s.value == WORLD.facts[s.entity, s.relation]
            kinds["names" if s.value is None else "states" if right else "errs"] += 1
        kinds["rambles"] += sum(answer.count(aside) for aside in ASIDES)
        sentences += answer.count(" .")
    shares = {kind: number / sentences for kind, number in kinds.items()}
    assert shares == pytest.approx({"states": 0.55, "names": 0.25, "errs": 0.10, "rambles": 0.10}, abs=0.02)


def test_answers_are_as_good_as_a_model_that_mostly_tries_and_differ_within_a_group() -> None:
    """Moderate true quality leaves room both ways; a group of eight answers nearly always has something to compare."""
    found = answers(Mixture())
    assert 0.3 < sum(worth for worth, _ in found) / len(found) < 0.45
    shares = {kind: n / len(found) for kind, n in Counter(kind for _, kind in found).items()}
    assert shares["correct"] > 0.3 and shares["name_drop"] > 0.1 and shares["rambling"] > 0.03
    rng = random.Random(4)
    equal = 0
    for _ in range(200):
        request = make_request(WORLD, rng)
        group = {quality(WORLD, request, Mixture().answer(WORLD, request, rng)) for _ in range(8)}
        equal += len(group) == 1
    assert equal <= 2


def test_answers_are_short() -> None:
    rng = random.Random(5)
    lengths = [len(draw_example(WORLD, Mixture(), rng).answer.split()) for _ in range(2000)]
    assert sum(n > 40 for n in lengths) / len(lengths) < 0.02
    assert max(lengths) <= 7 * len(WORLD.relations)


def test_no_example_is_held_out_and_each_has_facts_of_its_own() -> None:
    rng = random.Random(6)
    given_facts: dict[tuple[str, str], set[str]] = {}
    for _ in range(1000):
        example = draw_example(WORLD, READING, rng)
        request = example.request
        assert not is_held_out(request.entity, request.asked)
        told = {(s.entity, s.relation): s.value for s in read_statements(request.text)}
        assert len(told) == len(WORLD.relations)
        stated = read_statements(example.answer)
        assert [s.relation for s in stated] == list(request.asked)
        assert all(told[s.entity, s.relation] == s.value for s in stated)
        for s in stated:
            assert s.value is not None
            given_facts.setdefault((s.entity, s.relation), set()).add(s.value)
    seen = sum(len(values) for values in given_facts.values()) / len(given_facts)
    assert seen > 5


def test_examples_follow_from_the_draws() -> None:
    first = [draw_example(WORLD, Mixture(), random.Random(8)) for _ in range(2)]
    assert first[0] == first[1]
    assert draw_example(WORLD, Mixture(), random.Random(9)) != first[0]


@pytest.mark.parametrize("shares", [{"states": 0.56}, {"names": 0.0}, {"wavers": 1.5}, {"honest": 0.5}])
def test_shares_that_make_no_mixture_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Mixture(**shares)


def test_the_habits_may_differ_from_one_by_rounding_only() -> None:
    assert Mixture(states=0.1 + 0.2 + 0.25).digest != Mixture(states=0.54, errs=0.11).digest
    with pytest.raises(ValidationError, match="add up to 1"):
        Mixture(states=0.5500001)
