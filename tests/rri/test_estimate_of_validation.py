"""Expected calls of validation rounds, by hand."""

from typing import Any

import pytest

from rri.assumptions import Assumptions
from rri.estimate import HeldOutSize, expected_calls, validation_rounds
from rri.types import Criterion, Message, Rubric, Task
from tests.rigs import make_task, scripted_config

URL = "http://127.0.0.1:1/v1"
A = Assumptions.case("expected", {"unusable_replies": 0.0, "vote_flips": 0.0, "truncated_answers": 0.25})
HELD_OUT = HeldOutSize(tasks=6, criteria=10.0, chars=900.0)


def validated(cycles: int, **sections: Any) -> float:
    config = scripted_config(
        URL,
        solver={"cycles": cycles, "judge_truncated": False},
        validation={"file": "v.jsonl", "every_cycles": 5, "rollouts_per_task": 2},
        **sections,
    )
    counts = expected_calls(config, A, HELD_OUT)
    return sum(c.calls for c in counts if c.stage == "validation")


@pytest.mark.parametrize(("cycles", "rounds"), [(0, 0), (1, 1), (5, 1), (6, 2), (10, 2), (11, 3)])
def test_validation_comes_with_every_interval_and_after_the_last_cycle(cycles: int, rounds: int) -> None:
    # Six tasks of two rollouts, of which a quarter is cut; ten criteria, two votes.
    assert validated(cycles) == rounds * 6 * 2 * 0.75 * 10 * 2


def test_validation_has_the_votes_of_training_and_follows_judge_truncated() -> None:
    assert validated(5, grading={"votes": 1}) == validated(5) / 2
    config = scripted_config(URL, solver={"cycles": 5, "judge_truncated": True}, validation={"file": "v.jsonl"})
    calls = [c for c in expected_calls(config, A, HELD_OUT) if c.stage == "validation"]
    assert [(c.role, c.kind, c.calls) for c in calls] == [("judge", "judge_rollout", 6 * 10 * 2)]


def test_a_solver_that_retrieves_searches_in_validation_too() -> None:
    rounds = 3
    solver = {"cycles": 11, "retrieval": True, "tools": {"max_calls": 2}}
    config = scripted_config(URL, solver=solver, validation={"file": "v.jsonl", "rollouts_per_task": 2})
    counts = expected_calls(config, A, HELD_OUT)
    (briefs,) = [c.calls for c in counts if c.stage == "validation" and c.role == "summarizer"]
    assert briefs == rounds * 6 * 2 * 2 * A.searches


def test_without_tasks_at_hand_no_validation_is_counted() -> None:
    config = scripted_config(URL, validation={"file": "v.jsonl"})
    assert "validation" not in {c.stage for c in expected_calls(config, A)}
    assert HeldOutSize.of([]) is None


@pytest.mark.parametrize(("cycle", "rounds"), [(0, 0), (1, 0), (4, 0), (5, 1), (6, 1), (10, 2), (11, 3)])
def test_rounds_done_by_a_cycle(cycle: int, rounds: int) -> None:
    config = scripted_config(URL, solver={"cycles": 11}, validation={"file": "v.jsonl", "every_cycles": 5})
    assert validation_rounds(config, cycle) == rounds


def test_the_size_of_a_file_weighs_every_criterion() -> None:
    def task(said: str, *criteria: str) -> Task:
        rubric = Rubric(criteria=tuple(Criterion(text=text, points=5) for text in criteria))
        return make_task().model_copy(update={"conversation": (Message(role="user", content=said),), "rubric": rubric})

    found = HeldOutSize.of([task("a" * 10, "b" * 20), task("a" * 40, "b" * 20, "b" * 50, "b" * 20)])
    assert found is not None
    assert (found.tasks, found.criteria) == (2, 2.0)
    assert found.chars == pytest.approx((30 + 60 + 90 + 60) / 4)
