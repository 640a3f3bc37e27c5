"""Presets as layers: complete ones, the arms of the comparison, settings, and every combination of them (METHOD 8)."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rri.config import (
    ARMS,
    ROLES,
    RunConfig,
    describe_presets,
    list_presets,
    load_config,
    load_domain,
    parse_config,
)
from rri.config.files import read_mapping
from rri.config.models import default_roles
from rri.errors import ConfigError

NAMES = {kind: [p.name for p in describe_presets() if p.kind == kind] for kind in ("complete", "arm", "setting")}
SWITCHES = ("admission", "exploits", "patches", "evolution", "memo")
TEACHER = "gpt-5.5-chat"
SMALL, LARGE = "Qwen/Qwen3.5-9B", "Qwen/Qwen3.6-27B"


def switches(config: RunConfig) -> dict[str, bool]:
    return {name: getattr(config, name).enabled for name in SWITCHES}


def models(config: RunConfig) -> set[str]:
    return {route.model or config.endpoints[route.endpoint].model for route in config.roles.values()}


# --- the list ------------------------------------------------------------------------------------------


def test_every_preset_has_a_kind_and_one_line() -> None:
    found = describe_presets()
    assert sorted(p.name for p in found) == list_presets()
    assert all(p.about and "\n" not in p.about for p in found)
    assert {
        "complete": ["default", "paper-27b", "paper-9b", "paper-9b-no-retrieval", "smoke"],
        "arm": list(ARMS),
        "setting": ["all-self", "teacher"],
    } == NAMES


# --- combinations --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("complete", "arm", "setting"),
    list(product(NAMES["complete"], [None, *NAMES["arm"]], [None, *NAMES["setting"]])),
)
def test_every_combination_loads_and_survives_being_saved(complete: str, arm: str | None, setting: str | None) -> None:
    sources = [name for name in (complete, arm, setting) if name]
    config = load_config(sources)
    assert config.arm == (arm or "rri")
    saved = yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))
    assert parse_config(saved, where="run.yaml") == config
    # Arms and settings set different things, so their order is free.
    assert load_config([complete, *reversed(sources[1:])]) == config


@pytest.mark.parametrize("setting", NAMES["setting"])
@pytest.mark.parametrize("complete", NAMES["complete"])
def test_a_setting_routes_every_role_whatever_lies_below(tmp_path: Path, complete: str, setting: str) -> None:
    crooked = {role: {"endpoint": "spare", "model": "other", "fallback": "main"} for role in ROLES}
    below = {"preset": complete, "endpoints": {"spare": {"url": "embedded"}}, "roles": crooked}
    (tmp_path / "below.yaml").write_text(yaml.safe_dump(below))
    config = load_config([tmp_path / "below.yaml", setting])
    endpoint = "gpt" if setting == "teacher" else "main"
    assert {(r.endpoint, r.model, r.fallback) for r in config.roles.values()} == {(endpoint, "", "")}


@pytest.mark.parametrize("setting", [["teacher"], ["all-self"], ["teacher", "all-self"], ["all-self", "teacher"]])
def test_the_last_setting_holds(setting: list[str]) -> None:
    config = load_config(["default", *setting])
    endpoint = "gpt" if setting[-1] == "teacher" else "main"
    assert {(r.endpoint, r.model, r.fallback) for r in config.roles.values()} == {(endpoint, "", "")}
    heat = {role: route.temperature for role, route in config.roles.items()}
    defaults = {role: route.temperature for role, route in default_roles().items()}
    assert heat == (dict.fromkeys(ROLES) if endpoint == "gpt" else defaults)


# --- arms ----------------------------------------------------------------------------------------------

EVOLVING = dict(zip(SWITCHES, (False, False, False, True, False), strict=True))
METHOD_8 = {
    "generation-only": dict.fromkeys(SWITCHES, False),
    "evolution-only": EVOLVING,
    "co-evolve-only": EVOLVING,
    "rri": dict.fromkeys(SWITCHES, True),
}
RETRIEVAL = {"evolution-only": False, "co-evolve-only": True}
"""The arms that fix it; in the others it is the setting's."""


@pytest.mark.parametrize("below", ["paper-9b", "paper-9b-no-retrieval"])
@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_has_the_switches_of_the_method(arm: str, below: str) -> None:
    before, config = load_config(below), load_config([below, arm])
    assert switches(config) == METHOD_8[arm]
    assert config.solver.retrieval == RETRIEVAL.get(arm, before.solver.retrieval)
    assert config.arm == arm


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_changes_nothing_else(arm: str) -> None:
    """The comparison holds all else equal: tasks, judge, hyperparameters."""
    before, after = load_config("paper-9b").model_dump(), load_config(["paper-9b", arm]).model_dump()
    for name in SWITCHES:
        after[name]["enabled"] = before[name]["enabled"]
    after["solver"]["retrieval"] = before["solver"]["retrieval"]
    assert after == before


@given(
    st.fixed_dictionaries({name: st.booleans() for name in SWITCHES}),
    st.booleans(),
)
def test_the_name_of_an_arm_is_that_of_its_switches(chosen: dict[str, bool], retrieval: bool) -> None:
    overrides: dict[str, Any] = {f"{name}.enabled": on for name, on in chosen.items()}
    contradicts = (chosen["memo"] and not (chosen["admission"] and chosen["evolution"])) or (
        chosen["patches"] and not chosen["exploits"]
    )
    if contradicts:
        with pytest.raises(ConfigError, match="enabled is true and"):
            load_config("default", overrides)
        return
    config = load_config("default", {**overrides, "solver.retrieval": retrieval})
    fits = {arm for arm in ARMS if METHOD_8[arm] == chosen and RETRIEVAL.get(arm, retrieval) == retrieval}
    assert fits == ({config.arm} - {"custom"})


# --- contradictions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("off", "on", "why"),
    [
        ("admission", "memo", "scored on first probes"),
        ("evolution", "memo", "rewritten in evolution rounds"),
        ("exploits", "patches", "an exploit case is what gets patched"),
    ],
)
def test_switches_that_contradict_each_other_are_refused_with_both_names(off: str, on: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("default", {f"{off}.enabled": False})
    message = caught.value.what
    assert f"{on}.enabled is true and {off}.enabled is false" in message
    assert why in message
    assert f"set {on}.enabled to false, or {off}.enabled to true" in message
    assert load_config("default", {f"{off}.enabled": False, f"{on}.enabled": False}).arm == "custom"


@pytest.mark.parametrize("name", ["memo", "patches"])
def test_what_needs_another_switch_may_itself_be_off(name: str) -> None:
    config = load_config("default", {f"{name}.enabled": False})
    assert (config.arm, getattr(config, name).enabled) == ("custom", False)


# --- settings and the paper's runs ---------------------------------------------------------------------

NUMBERS = {
    # METHOD 6
    "solver.rollouts_per_task": 8,
    "solver.tasks_per_cycle": 64,
    "solver.tasks_per_update": 16,
    "solver.learning_rate": 1e-6,
    "solver.max_prompt_tokens": 6144,
    "solver.max_completion_tokens": 8192,
    "solver.retrieval": True,
    "grading.votes": 3,
    "grading.unknown_share_max": 0.0,
    # METHOD 7, evolution at every validation interval
    "evolution.every_cycles": 5,
    "evolution.cases": 20,
    # METHOD 5
    "admission.margin": 0.20,
    "admission.honest_min": 0.15,
    "admission.honest_max": 0.92,
    "admission.rounds": 2,
    "admission.concurrency": 48,
    # METHOD 8
    "solver.base_model": SMALL,
    "domain.name": "clinical",
    "domain.score_rule": "healthbench-professional",
}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_papers_9b_run_has_the_numbers_of_the_method(name: str) -> None:
    value: Any = load_config("paper-9b")
    for part in name.split("."):
        value = getattr(value, part)
    assert value == NUMBERS[name]


def test_the_papers_9b_run_writes_its_numbers_out() -> None:
    """A new default must not change what the paper ran with."""
    written = read_mapping("paper-9b", "rri.presets", "preset")
    for key in (key for key in NUMBERS if key.startswith("solver.")):
        assert written["solver"][key.removeprefix("solver.")] == NUMBERS[key]
    assert (written["grading"], written["evolution"]) == ({"votes": 3}, {"every_cycles": 5})


def test_the_papers_9b_run_sends_every_role_to_the_teacher() -> None:
    config = load_config("paper-9b")
    assert config.arm == "rri"
    assert models(config) == {TEACHER}
    gpt = config.endpoints["gpt"]
    assert (gpt.url, gpt.api_key_env, gpt.max_tokens_field) == (
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "max_completion_tokens",
    )
    assert {route.temperature for route in config.roles.values()} == {None}
    assert config.domain == load_domain("clinical")
    assert config.generation.tasks >= config.solver.cycles * config.solver.tasks_per_cycle


def test_the_papers_27b_run_differs_in_its_model_alone() -> None:
    small, large = load_config("paper-9b").model_dump(), load_config("paper-27b").model_dump()
    assert large["solver"].pop("base_model") == large["endpoints"]["main"].pop("model") == LARGE
    assert small["solver"].pop("base_model") == small["endpoints"]["main"].pop("model") == SMALL
    assert large == small


@pytest.mark.parametrize(("name", "model"), [("paper-9b", SMALL), ("paper-27b", LARGE)])
def test_all_self_is_the_solvers_own_frozen_base_model(name: str, model: str) -> None:
    config = load_config([name, "all-self"])
    assert models(config) == {model} == {config.solver.base_model}
    assert {config.endpoints[r.endpoint].api_key_env for r in config.roles.values()} == {""}
    assert config.solver.retrieval


def test_without_retrieval_the_judge_is_the_frozen_base_model() -> None:
    config = load_config("paper-9b-no-retrieval")
    assert not config.solver.retrieval
    judge = config.roles["judge"]
    assert (judge.endpoint, judge.temperature) == ("main", 0.6)
    assert config.endpoints["main"].model == SMALL
    assert {r.endpoint for role, r in config.roles.items() if role != "judge"} == {"gpt"}


# --- lists of layers -----------------------------------------------------------------------------------


def test_later_sources_lie_over_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("solver: {cycles: 7, save_every_cycles: 3}\n")
    (tmp_path / "b.yaml").write_text("solver: {cycles: 9}\n")
    config = load_config(["smoke", str(tmp_path / "a.yaml"), tmp_path / "b.yaml"])
    assert (config.solver.cycles, config.solver.save_every_cycles) == (9, 3)
    assert config.solver.tasks_per_cycle == load_config("smoke").solver.tasks_per_cycle
    assert load_config(["smoke", tmp_path / "b.yaml", tmp_path / "a.yaml"]).solver.cycles == 7


def test_a_file_may_name_several_presets(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("preset: [paper-9b, all-self, generation-only]\nsolver: {cycles: 3}\n")
    config = load_config(tmp_path / "mine.yaml")
    expected = load_config(["paper-9b", "all-self", "generation-only"], {"solver.cycles": 3})
    assert config == expected


def test_the_same_preset_below_two_layers_is_no_circle(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.yaml").write_text("preset: smoke\n")
    (tmp_path / "both.yaml").write_text(yaml.safe_dump({"preset": [str(tmp_path / f"{n}.yaml") for n in "ab"]}))
    assert load_config(tmp_path / "both.yaml") == load_config("smoke")


@pytest.mark.parametrize("value", ["3", "{a: b}", "[smoke, 3]", "[[smoke]]"])
def test_a_preset_that_is_no_name_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "mine.yaml").write_text(f"preset: {value}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: preset must be a preset's name, a path, or a list of them"):
        load_config(tmp_path / "mine.yaml")


@pytest.mark.parametrize("sources", [["generation-only"], ["teacher"], ["rri", "all-self"]])
def test_a_layer_alone_is_refused_with_what_to_put_below(sources: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(sources)
    assert " + ".join(sources) in caught.value.what
    assert f"e.g. -c default -c {sources[-1]}" in caught.value.fix
    assert all(name in caught.value.fix for name in NAMES["complete"])


def test_a_file_that_lacks_its_endpoints_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("domain: legal\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml \+ rri: endpoints: Field required"):
        load_config([tmp_path / "mine.yaml", "rri"])


def test_no_source_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="no config is named"):
        load_config([])


def test_the_name_of_a_domain_is_no_preset_and_the_error_knows() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(["paper-9b", "legal"])
    assert "no preset 'legal'" in caught.value.what
    assert "domain=legal" in caught.value.fix


def test_options_come_over_all_layers() -> None:
    assert load_config(["paper-9b", "evolution-only"], {"solver.retrieval": True}).arm == "co-evolve-only"
