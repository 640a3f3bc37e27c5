"""Validation and the solver's tools in the config: the method's numbers, and what is refused."""

from typing import Any

import pytest

from rri.config import ValidationConfig, load_config
from rri.errors import ConfigError
from rri.rundir import fixed_part


def test_the_methods_numbers_are_the_defaults() -> None:
    validation = load_config("paper-9b").validation
    assert validation == ValidationConfig(
        file="", every_cycles=5, rollouts_per_task=1, alarm_rounds=3, alarm_tolerance=0.01
    )
    tools = load_config("paper-9b").solver.tools
    assert (tools.max_calls, tools.brief_words, tools.result_chars, tools.answer_tokens) == (2, 400, 6000, 1536)
    assert not tools.web_search


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("validation.every_cycles", 0),
        ("validation.rollouts_per_task", 0),
        ("validation.alarm_rounds", 0),
        ("validation.alarm_tolerance", -0.01),
        ("solver.tools.max_calls", 0),
        ("solver.tools.passages", 51),
        ("solver.tools.brief_words", 0),
        ("solver.tools.timeout_s", 0),
    ],
)
def test_impossible_numbers_are_refused(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=key.rpartition(".")[2]):
        load_config("default", {key: value})


def test_web_search_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="web search has no provider in this version"):
        load_config("default", {"solver.tools.web_search": True})


def test_only_the_alarm_may_change_on_a_resume() -> None:
    before = fixed_part(load_config("default"))
    assert (
        fixed_part(load_config("default", {"validation.alarm_rounds": 1, "validation.alarm_tolerance": 0.1})) == before
    )
    for key, value in (("every_cycles", 4), ("rollouts_per_task", 2), ("file", "other.jsonl")):
        assert fixed_part(load_config("default", {f"validation.{key}": value})) != before
    assert fixed_part(load_config("default", {"solver.tools.max_calls": 3})) != before
