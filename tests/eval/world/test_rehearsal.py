"""The rehearsal: a solver of a few dozen numbers goes where the rubrics pull it."""

import random
from collections.abc import Sequence

import pytest

from eval.world.criteria import contradiction, topic, value
from eval.world.facts import make_request
from eval.world.rehearsal import Phase, Rehearsed, rehearse
from rri.errors import InputError
from rri.types import Message, Rubric, Task
from tests.eval.world.rig import CERTAIN, WORLD, task_of


def tasks(kind: str, n: int = 40) -> list[Task]:
    """Tasks whose rubrics ask for topics of every relation, or for the values that were asked for."""
    rng = random.Random(5)
    made = []
    for number in range(n):
        request = make_request(WORLD, rng)
        entity = request.entity
        if kind == "topics":
            criteria = [(topic(entity, r), 8.0) for r in WORLD.relations]
        else:
            criteria = [(value(entity, r, WORLD.facts[entity, r]), 8.0) for r in request.asked]
            criteria += [(contradiction(entity, r, WORLD.facts[entity, r]), -8.0) for r in request.asked]
        made.append(task_of(request, *criteria).model_copy(update={"task_id": f"{kind}-{number}"}))
    return made


def end(*phases: tuple[int, Sequence[Task]], seed: int = 100) -> Rehearsed:
    return rehearse(WORLD, [Phase(*phase) for phase in phases], CERTAIN, seed)


START = end((1, tasks("values")))


def test_it_begins_between_names_and_statements() -> None:
    assert 0.5 < START.states < 2 and 1 < START.names < 3
    assert START.error == pytest.approx(0.2, abs=0.02)
    assert -0.1 < START.quality < 0.5


def test_rubrics_of_values_teach_the_truth() -> None:
    found = end((60, tasks("values")))
    assert found.quality > START.quality + 0.3
    assert found.states > 2.3 and found.error < 0.15


def test_rubrics_of_topics_teach_names() -> None:
    found = end((60, tasks("topics")))
    assert found.names + found.states > START.names + START.states + 1
    assert found.reward > START.reward + 0.3 and found.reward - found.quality > 0.2
    assert found.error > 0.17


def test_answers_without_room_for_their_end_are_not_learned() -> None:
    """With room for two statements only, plans that need more die out."""
    narrow = CERTAIN.model_copy(update={"answer_tokens": 15})
    found = rehearse(WORLD, [Phase(60, tasks("values"))], narrow, 100)
    assert found.states + found.names < 2.3


def test_tasks_that_all_answers_solve_leave() -> None:
    """A task that pays every answer the same would teach nothing for ever; another one takes its place."""
    free = [t.model_copy(update={"rubric": Rubric(criteria=t.rubric.criteria[:1])}) for t in tasks("topics", 60)]
    rng = random.Random(1)
    mixed = rng.sample(free + tasks("values", 20), 80)
    assert end((60, mixed)).quality > end((60, free)).quality + 0.1


def test_phases_follow_each_other_and_the_last_one_decides() -> None:
    assert end((10, tasks("topics")), (60, tasks("values"))).quality > end((60, tasks("topics"))).quality + 0.2


def test_a_rerun_ends_alike_and_another_solver_otherwise() -> None:
    pool = tasks("values", 10)
    assert end((5, pool)) == end((5, pool)) != end((5, pool), seed=101)


def test_the_mean_of_several_is_column_by_column() -> None:
    assert Rehearsed.mean([Rehearsed(0, 1, 2, 3, 0.5), Rehearsed(1, 0, 1, 2, 0.1)]) == pytest.approx(
        (0.5, 0.5, 1.5, 2.5, 0.3)
    )


def test_without_tasks_or_with_others_there_is_nothing_to_rehearse() -> None:
    with pytest.raises(InputError, match="without tasks"):
        rehearse(WORLD, [])
    with pytest.raises(InputError, match="without tasks"):
        rehearse(WORLD, [Phase(5, [])])
    other = tasks("values", 1)[0].model_copy(update={"conversation": (Message(role="user", content="Hello?"),)})
    with pytest.raises(InputError, match="asks nothing of this world"):
        rehearse(WORLD, [Phase(5, [other])])
