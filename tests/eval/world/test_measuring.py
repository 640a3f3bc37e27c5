"""What a finished run shows by the facts."""

import asyncio
from pathlib import Path

import pytest

from eval.world.criteria import contradiction, false_value, padding, topic, value
from eval.world.facts import mention, question_of
from eval.world.measuring import (
    exploit_modes,
    rubrics_of,
    served_tasks,
    training_curve,
    training_end,
)
from rri.cases import PatchRound
from rri.errors import InputError
from rri.vocabulary import ExploitLabel
from tests.eval.world.kept import kept_run, rolled
from tests.eval.world.rig import WORLD, ask, right, task_of, wrong, wrong_value
from tests.rigs import make_task
from tests.rri.store.evidence import patch_of

A, B = WORLD.relations[:2]
REQUEST = ask(A, B)
E = REQUEST.entity
TRUE, FALSE = WORLD.facts[E, A], wrong_value(E, A)
TASK = task_of(REQUEST, (topic(E, A), 8), (topic(E, B), 8))
BOTH = f"{right(E, A)} {right(E, B)}"


def test_the_curve_sets_reward_beside_truth_cycle_by_cycle(tmp_path: Path) -> None:
    rows = [
        rolled(TASK, 0, 0, BOTH, 0.5),
        rolled(TASK, 0, 1, mention(E, A), 1.0),
        rolled(TASK, 0, 2, wrong(E, A), None),
        rolled(TASK, 1, 0, BOTH, 0.75),
        rolled(TASK, 1, 1, right(E, A), -0.25, finished=False),
    ]
    with kept_run(tmp_path, [TASK], rows) as store:
        first, second = training_curve(store, WORLD, 2)
    assert (first.reward, first.quality) == (0.75, 0.5), "the unscored one counts nowhere"
    assert (first.kinds["correct"], first.kinds["name_drop"], first.kinds["wrong"]) == (0.5, 0.5, 0.0)
    assert (second.reward, second.quality, second.finished) == (0.25, 0.75, 0.5), "a cut one trains with its floor"
    assert second.words == (len(BOTH.split()) + len(right(E, A).split())) / 2
    assert training_end([first, second], 1) == (0.25, 0.75)
    assert training_end([first, second], 5) == (0.5, 0.625)


def test_rollouts_that_were_trained_again_count_once(tmp_path: Path) -> None:
    with kept_run(tmp_path, [TASK], [rolled(TASK, 0, 0, BOTH, 0.5)]) as store:
        asyncio.run(store.supersede(0))
        asyncio.run(store.add_grades([rolled(TASK, 0, 0, mention(E, A), 0.25)]))
        assert training_curve(store, WORLD, 1)[0].reward == 0.25


def test_a_cycle_without_rollouts_is_no_finished_run(tmp_path: Path) -> None:
    with kept_run(tmp_path, [TASK]) as store, pytest.raises(InputError, match="cycle 0 has no scored rollout"):
        training_curve(store, WORLD, 1)


def test_served_rubrics_are_the_versions_that_graded(tmp_path: Path) -> None:
    later = TASK.model_copy(update={"version": 2})
    other = TASK.model_copy(update={"task_id": "000002-abc"})
    rows = [rolled(TASK, 0, 0, BOTH, 0.5), rolled(TASK, 0, 1, BOTH, 0.5), rolled(later, 1, 0, BOTH, 0.5)]
    rows += [rolled(other, 2, 0, BOTH, 0.5)]
    with kept_run(tmp_path, [TASK, later, other], rows) as store:
        assert served_tasks(store, 0, 1) == [TASK, later]
        assert served_tasks(store, 2, 2) == [other]


def test_wrong_rubrics_are_counted_by_the_facts() -> None:
    good = task_of(REQUEST, (topic(E, A), 8), (value(E, A, TRUE), 8), (false_value(E, A, FALSE), -8), (padding(E), -6))
    bad = task_of(
        REQUEST, (value(E, A, FALSE), 8), (false_value(E, A, TRUE), -8), (contradiction(E, A, FALSE), -8),
        (contradiction(E, A, TRUE), -8),
    )  # fmt: skip
    found = rubrics_of(WORLD, [good, bad])
    assert (found.positives, found.negatives) == (1.5, 2.5)
    assert found.values == pytest.approx(2 / 3)
    assert found.wrong_keys == 0.5
    assert found.wrong_negatives == 1.0, "two negatives of the second rubric punish the truth"


def test_no_rubric_and_no_value_criterion() -> None:
    assert rubrics_of(WORLD, [TASK]).wrong_keys == 0.0
    with pytest.raises(InputError, match="no rubric was served"):
        rubrics_of(WORLD, [])


def test_modes_are_the_minters_first_labels(tmp_path: Path) -> None:
    labels: list[ExploitLabel | None] = ["negative_absent", "breadth_padding", "negative_absent", None]
    with kept_run(tmp_path, [TASK]) as store:
        for number, label in enumerate(labels):
            rounds = PatchRound(number=1, exploit="x", label=label), PatchRound(number=2, exploit="y", label="other")
            asyncio.run(store.add_patch(patch_of(number, TASK, *rounds)))
        asyncio.run(store.add_patch(patch_of(9, TASK)))
        assert list(exploit_modes(store).items()) == [("negative_absent", 2), ("breadth_padding", 1)]


def test_a_task_of_elsewhere_is_refused() -> None:
    with pytest.raises(InputError, match="asks nothing of this world"):
        question_of(make_task())
