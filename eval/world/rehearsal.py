"""A rehearsal of an arm with a solver of a few dozen numbers in place of a language model. Pure Python, seconds an arm.

The solver draws a plan (how many asked relations it states, how many others it names) and errs in a share of its
statements. Both are learned as GRPO learns: groups of eight, score less the group's mean, the floor for answers that
are too long, and tasks outside the difficulty band leave (METHOD 6 and 7). It shows which way a pool of rubrics pulls a
solver. It is no evidence for the method, because its plans are the ones that were thought of.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean, pvariance
from typing import NamedTuple

from eval.world.constants import WorldConstants
from eval.world.facts import Question, World, mention, quality, question_of, statement
from eval.world.strategies import expected_score
from rri.config import PoolConfig
from rri.errors import InputError
from rri.types import Task

__all__ = ["Phase", "Rehearsed", "rehearse"]

GROUP, TASKS, LATEST = 8, 8, 20
"""Answers of a group, tasks of a cycle, and the cycles at the end that are averaged."""

START_ERROR = 0.2
LEARNING_RATE, ERROR_RATE = 0.05, 0.005
"""Steps of the plans' logits and of the error's. Skill is learned more slowly than habit."""


class Plan(NamedTuple):
    """An answer in outline."""

    states: int
    names: int


class Phase(NamedTuple):
    """Tasks that are served until a cycle."""

    until: int
    tasks: Sequence[Task]


class Rehearsed(NamedTuple):
    """Means over the last cycles: training reward, true quality, statements and mentions of an answer. And the share of
    statements that are wrong at the end.
    """

    reward: float
    quality: float
    states: float
    names: float
    error: float

    @classmethod
    def mean(cls, ends: Sequence["Rehearsed"]) -> "Rehearsed":
        """Over several solvers."""
        return cls(*(fmean(column) for column in zip(*ends, strict=True)))


@dataclass
class _Solver:
    """Logits over plans, and the log-odds that a statement is wrong. It begins by stating one to two of three."""

    asked: int
    others: int
    error: float = math.log(START_ERROR / (1 - START_ERROR))
    logits: dict[Plan, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for states, names in product(range(self.asked + 1), range(self.asked + self.others + 1)):
            self.logits[Plan(states, names)] = -((states - 0.4 * self.asked) ** 2) / 2 - (names - 2) ** 2 / 4

    @property
    def wrong(self) -> float:
        return 1 / (1 + math.exp(-self.error))

    def plan(self, rng: random.Random) -> Plan:
        most = max(self.logits.values())
        return rng.choices(list(self.logits), [math.exp(logit - most) for logit in self.logits.values()])[0]

    def learn(self, rollouts: Sequence["_Rollout"], advantages: Sequence[float]) -> None:
        """One policy gradient step. Advantages sum to zero in each group, so the mean of the plans drops out."""
        wrong = self.wrong
        for rollout, advantage in zip(rollouts, advantages, strict=True):
            self.logits[rollout.plan] += LEARNING_RATE * advantage
            for was_wrong in rollout.wrong:
                self.error += ERROR_RATE * advantage * (was_wrong - wrong)


class _Rollout(NamedTuple):
    plan: Plan
    wrong: tuple[bool, ...]
    text: str


class _Pool:
    """Tasks in the difficulty band (METHOD 7, serving)."""

    def __init__(self, tasks: Sequence[Task], band: PoolConfig) -> None:
        self.band = band
        self.live = list(tasks)
        self.scores: dict[str, list[float]] = {}

    def drawn(self, rng: random.Random) -> Task:
        return rng.choice(self.live)

    def scored(self, task: Task, scores: Sequence[float]) -> None:
        window = self.scores.setdefault(task.task_id, [])
        window[:] = [*window, *scores][-self.band.band_window :]
        outside = not self.band.band_low <= fmean(window) <= self.band.band_high
        if (outside or pvariance(window) < self.band.band_variance) and task in self.live and len(self.live) > TASKS:
            self.live.remove(task)


def rehearse(
    world: World, phases: Sequence[Phase], constants: WorldConstants | None = None, seed: int = 100
) -> Rehearsed:
    """What becomes of the small solver on these tasks.

    Args:
        world: whose facts are the truth.
        phases: tasks in the order in which they are served; the last phase's end is the number of cycles.
        constants: the judge's draws and the room of an answer.
        seed: of the solver's draws.

    Raises:
        InputError: no phase, or tasks of another world.
    """
    if not phases or not all(phase.tasks for phase in phases):
        raise InputError("a rehearsal without tasks", "Give at least one phase with tasks")
    constants, rng = constants or WorldConstants(), random.Random(f"rehearsal {seed}")
    first = question_of(phases[0].tasks[0])
    solver = _Solver(len(first.asked), len(world.relations) - len(first.asked))
    pools = [_Pool(phase.tasks, PoolConfig()) for phase in phases]
    seen: list[tuple[float, float, Plan]] = []
    for cycle in range(phases[-1].until):
        pool = next(p for p, phase in zip(pools, phases, strict=True) if cycle < phase.until)
        rollouts: list[_Rollout] = []
        advantages: list[float] = []
        for _ in range(TASKS):
            task = pool.drawn(rng)
            question = question_of(task)
            group = [_answer(world, question, solver, rng) for _ in range(GROUP)]
            scores = _scores(task, group, constants)
            pool.scored(task, scores)
            rollouts += group
            advantages += [score - fmean(scores) for score in scores]
            seen += [(s, quality(world, question, r.text), r.plan) for s, r in zip(scores, group, strict=True)]
        solver.learn(rollouts, advantages)
    late = seen[-LATEST * TASKS * GROUP :]
    rewards, qualities, plans = zip(*late, strict=True)
    states, names = zip(*plans, strict=True)
    return Rehearsed(fmean(rewards), fmean(qualities), fmean(states), fmean(names), solver.wrong)


def _answer(world: World, question: Question, solver: _Solver, rng: random.Random) -> _Rollout:
    plan = solver.plan(rng)
    asked = rng.sample(question.asked, len(question.asked))
    others = rng.sample([r for r in world.relations if r not in question.asked], solver.others)
    wrong: list[bool] = []
    sentences: list[str] = []
    for relation in asked[: plan.states]:
        right = world.facts[question.entity, relation]
        wrong.append(rng.random() < solver.wrong)
        given = rng.choice([v for v in world.values[relation] if v != right]) if wrong[-1] else right
        sentences.append(statement(question.entity, relation, given))
    sentences += [mention(question.entity, r) for r in [*asked[plan.states :], *others][: plan.names]]
    return _Rollout(plan, tuple(wrong), " ".join(sentences))


def _scores(task: Task, group: Sequence[_Rollout], constants: WorldConstants) -> list[float]:
    """Expected scores; an answer that has no room for its end gets the lower of 0 and the group's lowest."""
    fitting = [len(r.text.split()) < constants.answer_tokens for r in group]
    scores = [expected_score(task.rubric, r.text, constants) for r in group]
    floor = min([0.0, *(score for score, fits in zip(scores, fitting, strict=True) if fits)])
    return [score if fits else floor for score, fits in zip(scores, fitting, strict=True)]
