"""Derived GRPO settings, and the one-line refusals."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from rri.errors import ConfigError
from rri.wire import RunInfo
from training.settings import (
    Schedule,
    base_settings,
    check_settings,
    default_batch,
    derive_settings,
    generation_settings,
    solver_settings,
)

MakeInfo = Callable[..., RunInfo]


def test_the_paper_on_eight_gpus(make_info: MakeInfo) -> None:
    info = make_info(cycles=50, tasks_per_cycle=64, tasks_per_update=16, rollouts_per_task=8, save_every_cycles=5)
    derived, schedule = derive_settings(info, world_size=8, batch_size=4, num_iterations=1)
    assert derived["gradient_accumulation_steps"] == 16 * 8 // (4 * 8)
    assert derived["steps_per_generation"] == 4 * derived["gradient_accumulation_steps"]
    assert (derived["max_steps"], derived["save_steps"], derived["num_generations"]) == (200, 20, 8)
    assert (schedule.cycle_of(20), schedule.position_of(20)) == (5, 320)


def test_two_passes_over_a_generation_batch_double_its_updates(make_info: MakeInfo) -> None:
    derived, schedule = derive_settings(make_info(tasks_per_update=1), world_size=1, batch_size=4, num_iterations=2)
    assert schedule.updates_per_cycle == 4
    assert derived["max_steps"] == 8


@pytest.mark.parametrize(("world", "batch"), [(1, 8), (2, 6), (3, 8), (5, 8), (16, 3)])
def test_default_batch_divides_where_it_can(make_info: MakeInfo, world: int, batch: int) -> None:
    tasks = {1: 8, 2: 12, 3: 24, 5: 1, 16: 48}[world]
    info = make_info(tasks_per_update=tasks, rollouts_per_task=1)
    assert default_batch(info, world) == batch


def test_batch_that_does_not_divide_names_all_numbers(make_info: MakeInfo) -> None:
    with pytest.raises(ConfigError) as caught:
        derive_settings(make_info(), world_size=2, batch_size=3, num_iterations=1)
    message = str(caught.value)
    assert "8 answers" in message and "per_device_train_batch_size 3 x 2 ranks" in message
    assert "divides 8" in message and "\n" not in message


def test_update_that_does_not_divide_a_cycle(make_info: MakeInfo) -> None:
    with pytest.raises(ConfigError, match=r"tasks_per_cycle \(5\).*tasks_per_update \(2\)"):
        derive_settings(make_info(tasks_per_cycle=5), world_size=1, batch_size=1, num_iterations=1)


@pytest.mark.parametrize(
    ("generation", "use", "mode"),
    [("transformers", False, "colocate"), ("vllm-colocate", True, "colocate"), ("vllm-server", True, "server")],
)
def test_what_writes_the_rollouts(make_info: MakeInfo, generation: str, use: bool, mode: str) -> None:
    found = generation_settings(make_info(generation=generation, max_prompt_tokens=6144), 8192)
    assert (found["use_vllm"], found["vllm_mode"], found["vllm_max_model_length"]) == (use, mode, 14336)
    assert found["vllm_importance_sampling_correction"] is True
    assert found["vllm_importance_sampling_mode"] == "token_truncate", "sequence_mask would leave out long answers"
    assert "vllm_max_model_length" not in generation_settings(make_info(generation=generation), 8192)


def test_unknown_solver_key() -> None:
    with pytest.raises(ConfigError, match="lerning_rate"):
        solver_settings({"lerning_rate": 1}, ["learning_rate"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_generations": 8}, "num_generations is 8, but this run needs 4"),
        ({"steps_per_generation": 3}, "steps_per_generation is 3"),
        ({"shuffle_dataset": True}, "shuffle_dataset is True"),
        ({"save_strategy": "no"}, "save_strategy is no"),
        ({"save_steps": 3}, "save_steps is 3"),
        ({"save_steps": 0.5}, "save_steps is 0.5"),
        ({"max_steps": 7}, "max_steps is 7"),
        ({"max_steps": 12}, "cycles allow 8"),
    ],
)
def test_overrides_that_clash(make_info: MakeInfo, change: dict[str, object], words: str) -> None:
    info = make_info(cycles=4, tasks_per_update=1)
    derived, schedule = derive_settings(info, world_size=1, batch_size=4, num_iterations=1)
    assert schedule == Schedule(updates_per_cycle=2, tasks_per_cycle=2)
    chosen = base_settings(cuda=False) | derived
    check_settings(SimpleNamespace(**chosen), derived, schedule)
    check_settings(SimpleNamespace(**chosen | {"max_steps": 4, "save_steps": 6}), derived, schedule)
    with pytest.raises(ConfigError, match=words):
        check_settings(SimpleNamespace(**chosen | change), derived, schedule)
