"""Ways of answering in the known-truth world, and what each can expect of a rubric. Pure functions."""

import random
from collections.abc import Callable, Iterable, Mapping

from eval.world.constants import WorldConstants
from eval.world.criteria import is_met, only_mentions, read_criterion
from eval.world.facts import Question, World, mention, statement
from rri.errors import InputError
from rri.types import Rubric

__all__ = ["STRATEGIES", "Strategy", "expected_score", "mixed"]

Strategy = Callable[[World, Question, random.Random], str]
"""World, question and draws -> an answer."""


def _fitting(sentences: Iterable[str]) -> str:
    """The sentences in their order, as many as a whole answer has room for."""
    room = WorldConstants().answer_tokens - 1  # the end is a token too
    kept: list[str] = []
    for sentence in sentences:
        room -= len(sentence.split())
        if room < 0:
            break
        kept.append(sentence)
    return " ".join(kept)


def _names(world: World, question: Question, rng: random.Random) -> str:
    return _fitting(mention(question.entity, r) for r in question.asked)


def _names_all(world: World, question: Question, rng: random.Random) -> str:
    return _fitting(mention(question.entity, r) for r in (*question.asked, *_others(world, question, rng)))


def _states(world: World, question: Question, rng: random.Random) -> str:
    return _fitting(statement(question.entity, r, world.facts[question.entity, r]) for r in question.asked)


def _states_and_names(world: World, question: Question, rng: random.Random) -> str:
    others = (mention(question.entity, r) for r in _others(world, question, rng))
    return _fitting([_states(world, question, rng), *others])


def _others(world: World, question: Question, rng: random.Random) -> list[str]:
    """Relations that are not asked for, in a drawn order."""
    return rng.sample(
        [r for r in world.relations if r not in question.asked], len(world.relations) - len(question.asked)
    )


def _half(world: World, question: Question, rng: random.Random) -> str:
    return mixed(world, question, rng, states=0.5, names=0.0)


def mixed(world: World, question: Question, rng: random.Random, states: float, names: float) -> str:
    """States each asked relation with chance `states`, one in five of them wrongly, else names it.

    Names each other relation with chance `names`.
    """
    sentences = []
    for r in question.asked:
        right = world.facts[question.entity, r]
        given = rng.choice([v for v in world.values[r] if v != right]) if rng.random() < 0.2 else right
        stated = rng.random() < states
        sentences.append(statement(question.entity, r, given) if stated else mention(question.entity, r))
    rest = [r for r in world.relations if r not in question.asked and rng.random() < names]
    return " ".join([*sentences, *(mention(question.entity, r) for r in rest)])


STRATEGIES: Mapping[str, Strategy] = {
    "names what is asked": _names,
    "names all it can": _names_all,
    "half and half": _half,
    "states what is asked": _states,
    "states, names the rest": _states_and_names,
}


def expected_score(rubric: Rubric, answer: str, constants: WorldConstants, *, strict: bool = False) -> float:
    """Mean raw score of an answer over the judge's draws, three votes a criterion (METHOD 2 and 6).

    Raises:
        InputError: a criterion is none of the world's.
    """
    flip = constants.judge_flip
    flipped = 3 * flip**2 - 2 * flip**3
    total = 0.0
    for criterion in rubric.criteria:
        read = read_criterion(criterion.text)
        if read is None:
            raise InputError(f"no criterion of this world: {criterion.text!r}", "Write it as eval.world.criteria does")
        met = float(is_met(read, answer))
        if not strict and only_mentions(read, answer):
            met = constants.judge_lenient
        total += criterion.points * (met * (1 - flipped) + (1 - met) * flipped)
    return total / rubric.positive_total
