"""Configs: the method's numbers by name, presets, overrides, and errors that name the key and the nearest right one."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rri.config import (
    ROLES,
    AdmissionConfig,
    BudgetConfig,
    DomainConfig,
    GenerationConfig,
    GradingConfig,
    RunConfig,
    SolverConfig,
    describe_presets,
    list_presets,
    load_config,
    parse_config,
    set_dotted,
)
from rri.errors import ConfigError
from rri.rundir import RESUMABLE, fixed_part

SMALLEST: dict[str, Any] = {
    "domain": {
        "name": "rules",
        "description": "questions about rules",
        "expert": "librarian",
        "system_prompt": "Answer briefly.",
        "use_cases": [{"name": "explain", "weight": 1}, {"name": "apply", "weight": 2}],
    },
    "endpoints": {"main": {"url": "http://127.0.0.1:1/v1"}},
}


def parse(**overrides: Any) -> RunConfig:
    """The smallest config with other values; `__` stands for a dot."""
    data = parse_config(SMALLEST, where="test").model_dump(mode="json")
    for key, value in overrides.items():
        set_dotted(data, key.replace("__", "."), value)
    return parse_config(data, where="test")


def refusal(**overrides: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(**overrides)
    assert "\n" not in str(caught.value)
    assert caught.value.what.startswith("test: ")
    return caught.value.what


def pick(config: object, dotted: str) -> Any:
    for part in dotted.split("."):
        config = config[part] if isinstance(config, dict) else getattr(config, part)
    return config


# --- the method's numbers ------------------------------------------------------------------------------

METHOD = {
    "generation.positives": {2: 0.15, 3: 0.70, 4: 0.15},
    "generation.negative_share": 0.75,
    "admission.enabled": True,
    "admission.margin": 0.20,
    "admission.honest_min": 0.15,
    "admission.honest_max": 0.92,
    "admission.accept_drop": 0.15,
    "admission.rounds": 2,
    "admission.concurrency": 48,
    "admission.votes": 3,
    "admission.max_exploit_chars": 2500,
    "grading.votes": 3,
    "grading.unknown_share_max": 0.0,
    "roles.judge.temperature": 0.6,
    "solver.rollouts_per_task": 8,
    "solver.tasks_per_cycle": 64,
    "solver.tasks_per_update": 16,
    "solver.learning_rate": 1e-6,
    "solver.max_prompt_tokens": 6144,
    "solver.max_completion_tokens": 8192,
    "solver.judge_truncated": False,
}


@pytest.mark.parametrize("name", METHOD)
def test_a_number_of_the_method_is_the_default_of_a_named_field(name: str) -> None:
    assert pick(parse_config(SMALLEST, where="test"), name) == METHOD[name]


def test_the_default_preset_changes_no_number_of_the_method() -> None:
    config = load_config("default")
    assert {name: pick(config, name) for name in METHOD} == METHOD


def test_there_is_no_budget_and_every_role_has_a_route_unless_told_otherwise() -> None:
    config = parse_config(SMALLEST, where="test")
    assert config.budget == BudgetConfig(calls=None, tokens=None, money=None)
    assert tuple(config.roles) == ROLES
    assert {route.endpoint for route in config.roles.values()} == {"main"}
    assert config.service.host == "127.0.0.1"


NOWHERE = {"roles__summarizer": {"endpoint": "elsewhere", "fallback": "main"}}


def test_only_a_solver_that_retrieves_needs_a_summarizer() -> None:
    without = parse(**NOWHERE)
    assert set(ROLES) - set(without.roles_routed) == {"summarizer"} <= set(ROLES) - set(without.roles_used)
    assert "role summarizer names endpoint 'elsewhere'" in refusal(**NOWHERE, solver__retrieval=True)
    retrieving = parse(solver__retrieval=True)
    assert retrieving.roles_routed == ROLES
    assert "summarizer" in retrieving.roles_used


def test_an_endpoint_of_a_summarizer_that_nobody_asks_is_not_opened() -> None:
    away = {"endpoints__spare": {"url": "embedded"}, "roles__summarizer__endpoint": "spare"}
    assert not parse(**away).uses_embedded
    assert parse(**away, solver__retrieval=True).uses_embedded


# --- presets and layers --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [p.name for p in describe_presets() if p.kind == "complete"])
def test_every_complete_preset_loads_and_survives_being_saved(name: str) -> None:
    config = load_config(name)
    saved = yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json")))
    assert parse_config(saved, where=name) == config


def test_the_presets_that_the_commands_name_exist() -> None:
    assert {"smoke", "default"} <= set(list_presets())
    assert load_config("smoke").uses_embedded
    assert not load_config("default").uses_embedded


def test_a_file_changes_what_it_names_and_keeps_the_rest_of_its_preset(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("preset: smoke\nsolver: {cycles: 9}\nendpoints: {spare: {url: embedded}}\n")
    (tmp_path / "more.yaml").write_text(f"preset: {tmp_path / 'mine.yaml'}\nsolver: {{rollouts_per_task: 2}}\n")
    smoke, more = load_config("smoke"), load_config(tmp_path / "more.yaml")
    assert (more.solver.cycles, more.solver.rollouts_per_task) == (9, 2)
    assert more.solver.max_completion_tokens == smoke.solver.max_completion_tokens
    assert more.endpoints["main"] == smoke.endpoints["main"]
    assert set(more.endpoints) == {"main", "spare"}
    assert more.domain == smoke.domain


def test_overrides_come_last_and_reach_every_depth(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("preset: smoke\nsolver: {cycles: 9}\n")
    overrides = {
        "solver.cycles": 3,
        "roles.judge.temperature": 0.1,
        "endpoints.main.extra_body.top_k": 5,
        "seed": 4,
        "solver.learning_rate": "1e-5",  # what YAML reads as text
    }
    config = load_config(tmp_path / "mine.yaml", overrides)
    assert (config.solver.cycles, config.seed, config.solver.learning_rate) == (3, 4, 1e-5)
    assert config.roles["judge"].temperature == 0.1
    assert config.roles["judge"].max_tokens == load_config("smoke").roles["judge"].max_tokens
    assert config.endpoints["main"].extra_body == {"top_k": 5}


def test_one_role_can_be_routed_apart_without_naming_the_others() -> None:
    """Any role can have its own endpoint (METHOD 3); the rest, and what it does not name, stay as they are."""
    before = load_config("default")
    config = load_config("default", {"endpoints.judge.url": "http://127.0.0.1:2/v1", "roles.judge.endpoint": "judge"})
    assert config.roles["judge"] == before.roles["judge"].model_copy(update={"endpoint": "judge"})
    assert config.roles["proposer"] == before.roles["proposer"]


@pytest.mark.parametrize("spelling", ["{folder}/a.yaml", "b.yaml"])
def test_presets_that_name_each_other_are_refused_with_the_circle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(f"preset: {spelling.format(folder=tmp_path)}\n")
    (tmp_path / "b.yaml").write_text("preset: a.yaml\n")
    with pytest.raises(ConfigError, match=r"circle: .*a\.yaml -> ") as caught:
        load_config("a.yaml")
    assert caught.value.fix


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"solver: [1", "not valid YAML"),
        (b"- a\n- b\n", "must hold a mapping, got list"),
        (b"", "domain: Field required"),
        (b"preset: smok\n", "no preset 'smok'. Did you mean the preset 'smoke'"),
        (b"\xff\xfe\x00", "bad.yaml"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "bad.yaml")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_config_names_the_presets() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("/nowhere/at-all.yaml")
    assert "/nowhere/at-all.yaml" in caught.value.what
    assert all(name in caught.value.fix for name in list_presets())


# --- unknown keys --------------------------------------------------------------------------------------

SLIPS = {
    "sovler": "solver",
    "solver.cycle": "solver.cycles",
    "generation.negative_shares": "generation.negative_share",
    "domain.sytem_prompt": "domain.system_prompt",
    "endpoints.main.concurency": "endpoints.main.concurrency",
    "roles.judge.tempature": "roles.judge.temperature",
    "budget.mony": "budget.money",
}


@pytest.mark.parametrize("slip", SLIPS)
def test_an_unknown_key_names_the_nearest_right_one(slip: str) -> None:
    assert f"unknown key {slip!r}, did you mean {SLIPS[slip]!r}?" in refusal(**{slip: 1})


@pytest.mark.parametrize("index", [0, 1])
def test_an_unknown_key_within_a_list_names_its_place_and_the_nearest_right_one(index: int) -> None:
    cases = [{"name": "a", "weight": 1.0}, {"name": "b", "weight": 1.0}]
    cases[index]["descripion"] = "x"
    path = f"domain.use_cases.{index}"
    message = refusal(domain__use_cases=cases)
    assert f"unknown key '{path}.descripion', did you mean '{path}.description'?" in message


def test_an_unknown_key_like_no_other_is_named_without_a_guess() -> None:
    assert refusal(solver__zzz=1) == "test: unknown key 'solver.zzz'"


def test_an_unknown_role_names_the_roles() -> None:
    message = refusal(roles__jugde={"endpoint": "main"})
    assert "jugde" in message
    assert all(role in message for role in ROLES)


# --- values that cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("grading.votes", 2, ["votes must be odd", "2"]),
        ("admission.votes", 4, ["votes must be odd", "4"]),
        ("grading.votes", 0, ["grading.votes", "1"]),
        ("generation.positives", {2: 0.5, 3: 0.4}, ["sum to 1", "0.9"]),
        ("generation.positives", {}, ["sum to 1"]),
        ("generation.positives", {2: 1.5, 3: -0.5}, ["positives", "-0.5"]),
        ("generation.positives", {2: float("nan")}, ["positives", "nan"]),
        ("generation.positives", {0: 0.5, 3: 0.5}, ["1..5", "[0, 3]"]),
        ("generation.positives", {5: 0.5, 6: 0.5}, ["1..5", "[5, 6]"]),
        ("pool.min_tasks", 513, ["pool.min_tasks 513", "generation.tasks 512", "wait for ever"]),
        ("solver.tasks_per_update", 24, ["tasks_per_cycle 64", "tasks_per_update 24"]),
        ("solver.tasks_per_update", 128, ["tasks_per_cycle 64", "tasks_per_update 128"]),
        ("solver.rollouts_per_task", 1, ["solver.rollouts_per_task"]),
        ("admission.honest_min", 0.92, ["honest_min 0.92", "honest_max 0.92"]),
        ("admission.margin", 0, ["admission.margin"]),
        ("domain.red_team_share", 1.01, ["domain.red_team_share"]),
        ("domain.use_cases", [], ["domain.use_cases"]),
        ("domain.use_cases", [{"name": "a", "weight": 0}], ["domain.use_cases.0.weight"]),
        ("domain.score_rule", "healthbenhc", ["domain.score_rule", "healthbench-professional"]),
        ("roles.judge.endpoint", "mian", ["role judge", "'mian'", "main"]),
        ("endpoints", {}, ["endpoints"]),
        ("solver", 3, ["solver"]),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(key: str, value: object, words: list[str]) -> None:
    message = refusal(**{key: value})
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("grading.votes", 1),
        ("generation.positives", {1: 0.5, 5: 0.5}),
        ("generation.positives", {2: 0.1 + 0.2, 3: 0.7}),
        ("pool.min_tasks", 512),
        ("solver.tasks_per_update", 64),
        ("solver.rollouts_per_task", 2),
        ("solver.cycles", 0),
        ("admission.rounds", 0),
        ("domain.red_team_share", 1.0),
    ],
)
def test_values_at_the_edge_are_taken(key: str, value: object) -> None:
    assert pick(parse(**{key: value}), key) == value


def test_a_config_cannot_be_changed_once_made() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse().solver.cycles = 3


# --- overrides and resuming ----------------------------------------------------------------------------

KEYS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join)


def nested(a: str, b: str) -> bool:
    """Whether one key is the other or lies below it."""
    return f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.")


@given(keys=st.lists(KEYS, max_size=6), value=st.integers())
def test_set_dotted_sets_one_key_and_leaves_every_other(keys: list[str], value: int) -> None:
    apart: list[str] = []
    for key in keys:
        if not any(nested(key, other) for other in apart):
            apart.append(key)
    data: dict[str, Any] = {}
    for number, key in enumerate(apart):
        set_dotted(data, key, number)
    assert [pick(data, key) for key in apart] == list(range(len(apart)))
    if apart:
        set_dotted(data, apart[0], value)
        assert [pick(data, key) for key in apart] == [value, *range(1, len(apart))]


def test_an_override_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"seed\.x: 'seed' holds a value"):
        set_dotted({"seed": 1}, "seed.x", 2)


def test_what_may_change_on_resume_names_real_fields() -> None:
    for section, fields in RESUMABLE.items():
        annotation: Any = RunConfig.model_fields[section].annotation
        assert set(fields or ()) <= set(getattr(annotation, "model_fields", {}))


@pytest.mark.parametrize("section", [GenerationConfig, AdmissionConfig, GradingConfig, SolverConfig, DomainConfig])
def test_a_number_of_the_method_is_part_of_what_a_resume_must_share(section: type) -> None:
    name = next(n for n, f in RunConfig.model_fields.items() if f.annotation is section)
    loose = RESUMABLE.get(name, set()) or set()
    assert set(fixed_part(parse())[name]) == set(section.model_fields) - loose  # type: ignore[attr-defined]
    pinned = {key.removeprefix(f"{name}.") for key in METHOD if key.startswith(f"{name}.")}
    assert pinned & loose <= {"concurrency"}
