"""What validation adds to the estimate of a run: a stage, money, disk, and its part of a budget."""

from typing import Any

import pytest

from programs.call_sizes import measure_calls
from programs.estimate import RunEstimate, StageEstimate, estimate_run
from programs.spending import disk_bytes, spend, summed
from rri.assumptions import Assumptions
from rri.config import RunConfig
from rri.estimate import HeldOutSize
from tests.rigs import scripted_config

HELD_OUT = HeldOutSize(tasks=50, criteria=12.0, chars=1500.0)
PRICES = {"price_in": 2.0, "price_out": 8.0}


def config_of(**sections: Any) -> RunConfig:
    base: dict[str, Any] = {"solver": {"cycles": 10}, "validation": {"file": "v.jsonl", "every_cycles": 4}}
    return scripted_config("http://127.0.0.1:1/v1", **{**base, **sections})


def estimated(held_out: HeldOutSize | None = HELD_OUT, **sections: Any) -> RunEstimate:
    return estimate_run(config_of(**sections), held_out=held_out)


def stage(estimate: RunEstimate, name: str) -> StageEstimate:
    return next(s for s in estimate.stages if s.name == name)


def test_validation_is_a_stage_of_its_own_and_of_the_whole() -> None:
    without, found = estimated(None), estimated()
    validation = stage(found, "validation")
    assert stage(without, "validation").calls.high == 0
    assert 0 < validation.calls.low < validation.calls.expected < validation.calls.high
    assert found.total.calls.expected == pytest.approx(without.total.calls.expected + validation.calls.expected)
    assert stage(found, "training") == stage(without, "training")
    judges = [next(r for r in e.roles if r.role == "judge").calls.expected for e in (without, found)]
    assert judges[1] - judges[0] == pytest.approx(validation.calls.expected)


def test_its_rounds_and_answers_are_told() -> None:
    found = estimated()
    assert (found.validation_rounds, found.validation_rollouts) == (3, 150)
    assert (estimated(None).validation_rounds, estimated(None).validation_rollouts) == (0, 0)
    answers = found.rollouts + 150
    assert any(f"not counted: {answers:,} rollouts" in note for note in found.notes)


def test_tasks_that_are_not_at_hand_are_said_to_be_missing() -> None:
    assert "validation is not counted: v.jsonl was not read" in estimated(None).notes
    assert not any("validation" in note for note in estimated().notes)
    assert not any("validation" in note for note in estimated(None, validation={}).notes)


def test_a_longer_file_makes_its_prompts_longer_and_no_others() -> None:
    config, a = config_of(), Assumptions()
    short, long = (spend(config, a, None, HELD_OUT._replace(chars=chars)) for chars in (1000.0, 3000.0))
    calls = short["validation", "judge"].calls
    more = long["validation", "judge"].tokens_in - short["validation", "judge"].tokens_in
    assert more == pytest.approx(calls * 2000 / a.chars_per_token)
    assert long["training", "judge"] == short["training", "judge"]


def test_a_file_like_the_training_tasks_costs_what_they_cost() -> None:
    config, a = config_of(solver={"cycles": 10, "max_prompt_tokens": 6144}), Assumptions()
    ledger = spend(config, a, None, HELD_OUT._replace(chars=a.task_chars + a.criterion_chars))
    size, spent = measure_calls(config, a)["judge_rollout"], ledger["validation", "judge"]
    assert spent.tokens_in / spent.calls * a.chars_per_token == pytest.approx(size.prompt_chars)


def test_its_answers_take_room_on_disk() -> None:
    config, a = config_of(), Assumptions()
    ledger = spend(config, a, None, HELD_OUT)
    bare, whole = disk_bytes(config, a, ledger, None), disk_bytes(config, a, ledger, None, HELD_OUT)
    assert whole - bare > 150 * 1000


@pytest.mark.parametrize(("rounds", "cycle"), [(0.5, 4), (1.5, 8), (2.5, 10)])
def test_a_limit_is_reached_when_a_round_is_paid(rounds: float, cycle: int) -> None:
    """A round comes after cycles 4, 8 and 10, and costs more than all else together."""
    large, a = HELD_OUT._replace(tasks=5000), Assumptions()
    ledger = spend(config_of(), a, None, large)
    each = summed(ledger, "validation").calls / 3
    limit = round(summed(spend(config_of(), a)).calls + rounds * each)
    (found,) = estimated(large, budget={"calls": limit}).budget
    assert found.cycle["expected"] == cycle
    (without,) = estimated(None, budget={"calls": limit}).budget
    assert without.cycle["expected"] is None


def test_validation_counts_among_what_decides_the_cost() -> None:
    large = HELD_OUT._replace(tasks=5000)
    drivers = {d.name: d for d in estimated(large, endpoints={"main": PRICES}).drivers}
    assert drivers["vote_flips"].up > {d.name: d for d in estimated(None).drivers}["vote_flips"].up
