"""The solver's settings for adapters, reasoning, and what writes the rollouts."""

import pytest

from rri.config import load_config
from rri.config.run import SolverConfig
from rri.errors import ConfigError
from rri.wire import LoraSettings, ReasoningMarkers

MARKERS = {"open": "<think>", "close": "</think>"}


def test_the_method_trains_all_weights_and_writes_with_the_model_itself() -> None:
    solver = load_config("paper-9b").solver
    assert (solver.lora, solver.reasoning, solver.generation) == (None, None, "transformers")


def test_one_pair_of_markers_may_stand_without_a_list() -> None:
    pair = (ReasoningMarkers(open="<think>", close="</think>"),)
    for given in (MARKERS, [MARKERS]):
        assert load_config("smoke", {"solver.reasoning": given}).solver.reasoning == pair
    assert load_config("smoke", {"solver.reasoning": []}).solver.reasoning == (), "no markers, whatever the model names"


def test_settings_are_saved_as_they_are_read() -> None:
    given = {"solver.lora": {"r": 8, "targets": ["q_proj"]}, "solver.reasoning": MARKERS}
    solver = load_config("smoke", given).solver
    assert solver.lora == LoraSettings(r=8, targets=("q_proj",))
    assert SolverConfig.model_validate(solver.model_dump(mode="json")) == solver


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("solver.lora", {"rank": 8}, "unknown key 'solver.lora.rank'"),
        ("solver.lora", {"r": 0}, "solver.lora.r"),
        ("solver.lora", {"dropout": 1.0}, "solver.lora.dropout"),
        ("solver.reasoning", {"open": "<think>", "close": ""}, "solver.reasoning.0.close"),
        ("solver.generation", "vllm", "'transformers', 'vllm-colocate' or 'vllm-server'"),
    ],
)
def test_what_is_refused(key: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("smoke", {key: value})
    assert words in str(caught.value)
