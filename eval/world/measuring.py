"""What a finished run of the world shows by the facts: its training rollouts and the rubrics that graded them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import get_args

from eval.world.criteria import WorldCriterion, read_criterion
from eval.world.facts import World, quality, question_of
from eval.world.heldout import AnswerKind, answer_kind
from eval.world.results import CyclePoint, Rubrics
from rri.errors import InputError
from rri.store import Rollout, Store
from rri.types import Task

__all__ = ["exploit_modes", "rubrics_of", "served_tasks", "training_curve", "training_end"]


class _Tasks:
    """Versions of tasks, each read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[tuple[str, int], Task] = {}

    def __call__(self, task_id: str, version: int) -> Task:
        key = (task_id, version)
        if key not in self._kept:
            task = self._store.task(task_id, version)
            if task is None:
                raise InputError(f"the run has no task {task_id} version {version}", "Make the run again")
            self._kept[key] = task
        return self._kept[key]


def training_curve(store: Store, world: World, cycles: int) -> tuple[CyclePoint, ...]:
    """Reward and truth of the rollouts of every cycle in [0, cycles)."""
    tasks = _Tasks(store)
    return tuple(_point(world, cycle, store.rollouts(cycle), tasks) for cycle in range(cycles))


def _point(world: World, cycle: int, rollouts: Sequence[Rollout], tasks: _Tasks) -> CyclePoint:
    scored = [r for r in rollouts if r.score is not None]
    if not scored:
        raise InputError(f"cycle {cycle} has no scored rollout", "Finish the run first")
    kinds: Counter[AnswerKind] = Counter()
    worths: list[float] = []
    for rollout in scored:
        question = question_of(tasks(rollout.task_id, rollout.version))
        worths.append(quality(world, question, rollout.answer))
        kinds[answer_kind(world, question, rollout.answer)] += 1
    return CyclePoint(
        cycle=cycle,
        reward=fmean(r.score for r in scored if r.score is not None),
        quality=fmean(worths),
        words=fmean(len(r.answer.split()) for r in scored),
        finished=fmean(r.finished for r in scored),
        kinds={kind: kinds[kind] / len(scored) for kind in get_args(AnswerKind)},
    )


def training_end(curve: Sequence[CyclePoint], last: int) -> tuple[float, float]:
    """Mean training reward and mean true quality of the last cycles."""
    end = curve[-last:]
    return fmean(p.reward for p in end), fmean(p.quality for p in end)


def served_tasks(store: Store, first: int, last: int) -> list[Task]:
    """The versions that graded the rollouts of the cycles [first, last], each once, in order of serving."""
    tasks = _Tasks(store)
    found = {(r.task_id, r.version): None for cycle in range(first, last + 1) for r in store.rollouts(cycle)}
    return [tasks(*key) for key in found]


def rubrics_of(world: World, tasks: Sequence[Task]) -> Rubrics:
    """What the rubrics of `tasks` ask for, and where they are wrong by the facts.

    Raises:
        InputError: no task.
    """
    if not tasks:
        raise InputError("no rubric was served", "Train for at least one cycle")
    positives = list(_read(tasks, 1))
    negatives = list(_read(tasks, -1))
    values = [c for c in positives if c.kind == "value"]
    return Rubrics(
        positives=len(positives) / len(tasks),
        negatives=len(negatives) / len(tasks),
        values=len(values) / max(1, len(positives)),
        wrong_keys=sum(world.facts.get((c.entity, c.relation)) != c.value for c in values) / max(1, len(values)),
        wrong_negatives=sum(_punishes_truth(world, c) for c in negatives) / len(tasks),
    )


def _read(tasks: Sequence[Task], sign: int) -> Iterator[WorldCriterion]:
    for task in tasks:
        for criterion in task.rubric.criteria:
            if criterion.points * sign > 0 and (read := read_criterion(criterion.text)) is not None:
                yield read


def _punishes_truth(world: World, criterion: WorldCriterion) -> bool:
    true = world.facts.get((criterion.entity, criterion.relation)) == criterion.value
    return true if criterion.kind == "false_value" else not true if criterion.kind == "contradiction" else False


def exploit_modes(store: Store) -> dict[str, int]:
    """Mode -> exploit cases that the minter labelled with it, most frequent first."""
    labels = (patch.rounds[0].label for patch in store.all_patches() if patch.rounds)
    return dict(Counter(label for label in labels if label is not None).most_common())
