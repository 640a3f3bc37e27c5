"""`rri run --dry-run` and `rri presets`: what is said before anything is started, and what is refused."""

from pathlib import Path

import pytest
import yaml

from rri.cli.opening import open_folder
from rri.cli.plan import plan_lines
from rri.config import describe_presets, list_domains, load_config, parse_config
from rri.rundir import RunDir
from rri.testing import ScriptedServer, role_models
from tests.passages import write_passages
from tests.rigs import make_task, scripted_config
from tests.rri.cli.commands import Outcome, rri_here, write_config

NO_TOOLS_WITH_VLLM = (
    "solver.retrieval is true and solver.generation is vllm-colocate: search tools were never run with vLLM on a GPU; "
    "set solver.generation to transformers, or solver.retrieval to false"
)


def facts(lines: list[str]) -> dict[str, str]:
    """Name -> text of each line; the lines of one name are joined."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, text = line.removeprefix("# ").partition("  ")
        found[name] = f"{found[name]}\n{text.strip()}" if name in found else text.strip()
    return found


def plan(*sources: str, **overrides: object) -> dict[str, str]:
    return facts(plan_lines(load_config(sources, {k.replace("__", "."): v for k, v in overrides.items()})))


def dry_run(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> Outcome:
    return rri_here(capsys, "run", str(folder), *arguments, "--dry-run")


# --- the plan ------------------------------------------------------------------------------------------


def test_the_plan_names_arm_domain_switches_intervals_and_budget() -> None:
    found = plan("default", budget__money=20, budget__calls=30)
    assert found["arm"] == "rri"
    assert found["domain"] == "clinical, passages starter, score rule healthbench-professional"
    assert found["requests"].startswith(
        "consult 0.45, writing 0.27, research 0.28; red-team 0.33; English 0.9, Spanish"
    )
    assert found["switches"] == "admission on, exploits on, patches on, evolution on, memo on, retrieval off"
    assert "cycles 100, tasks a cycle 64, answers a task 8, updates a cycle 4; tasks to admit 6400" in found["solver"]
    assert found["intervals"] == "evolution and memo every 5 cycles, checkpoint every cycle"
    assert found["budget"] == "calls 30, money 20"
    assert plan("default")["budget"] == "no limit"
    held_out = plan("default", validation__file="held-out.jsonl", validation__every_cycles=3)
    assert held_out["intervals"].startswith("validation every 3 cycles, evolution")


def test_the_plan_follows_the_arm() -> None:
    found = plan("paper-9b", "evolution-only")
    assert found["arm"] == "evolution-only"
    assert found["switches"] == "admission off, exploits off, patches off, evolution on, memo off, retrieval off"
    assert found["intervals"] == "evolution every 5 cycles, checkpoint every 5 cycles"
    assert plan("paper-9b", "generation-only")["intervals"] == "checkpoint every 5 cycles"


def test_the_plan_routes_every_role_that_is_called_and_names_the_others() -> None:
    found = plan("paper-9b", "evolution-only")
    assert found["judge"] == "gpt (gpt-5.5-chat), no temperature sent, no fallback"
    assert set(found["not called"].split(", ")) == {
        "farmer", "honest", "rewriter", "minter", "referee", "memo_optimizer", "summarizer",
    }  # fmt: skip
    assert {"proposer", "generator", "judge", "analyst", "meta_optimizer"} <= set(found)
    assert "farmer" not in found
    assert plan("default")["not called"] == "summarizer"
    assert "not called" not in plan("default", solver__retrieval=True)


def test_the_plan_shows_models_temperatures_and_fallbacks_of_a_role() -> None:
    config = {
        "endpoints.spare": {"url": "embedded"},
        "roles.judge": {"endpoint": "main", "model": "judge-7b", "temperature": 0.25, "fallback": "spare"},
    }
    found = facts(plan_lines(load_config("default", config)))
    assert found["judge"] == "main (judge-7b), temperature 0.25, fallback spare (embedded)"


def test_a_line_break_in_a_name_does_not_end_the_comment() -> None:
    data = load_config("smoke").model_dump(mode="json")
    data["domain"]["name"] = "a\nseed: 5"
    lines = plan_lines(parse_config(data, where="test"))
    assert all(line.startswith("# ") and "\n" not in line for line in lines)
    assert facts(lines)["domain"].startswith("a seed: 5, ")


# --- what a start would refuse -------------------------------------------------------------------------


def test_the_plan_says_what_a_start_would_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan("paper-9b", solver__generation="vllm-colocate")
    assert found["refused"] == NO_TOOLS_WITH_VLLM
    assert found["missing"] == "environment variable OPENAI_API_KEY is unset, which endpoint gpt needs"
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert "refused" not in plan("paper-9b")
    found = plan("paper-9b-no-retrieval", solver__generation="vllm-colocate")
    assert "refused" not in found and "missing" not in found
    assert "secret" not in str(found)


def test_the_plan_says_which_endpoint_names_no_model() -> None:
    found = plan(
        "default", endpoints__main__model="", endpoints__spare={"url": "http://x"}, roles__judge__fallback="spare"
    )
    assert found["missing"].splitlines() == [
        "endpoint main names no model, which role proposer needs; set endpoints.main.model",
        "endpoint spare names no model, which role judge needs; set endpoints.spare.model",
    ]


@pytest.mark.parametrize("command", ["run", "serve", "generate"])
def test_search_tools_with_vllm_are_refused_before_anything_is_written(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = ["--out", str(tmp_path / "tasks.jsonl")] if command == "generate" else []
    options = ["-s", "solver.retrieval=true", "-s", "solver.generation=vllm-colocate"]
    arguments = [command, str(tmp_path / "run"), "-c", "default", *options, *extra]
    outcome = rri_here(capsys, *arguments)
    assert outcome.code == 2
    assert NO_TOOLS_WITH_VLLM in outcome.error_line
    assert "-s solver.retrieval=false" in outcome.error_line
    assert list(tmp_path.iterdir()) == []


# --- the command ---------------------------------------------------------------------------------------


def test_a_dry_run_prints_a_config_that_loads_and_touches_neither_model_nor_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ScriptedServer(role_models()) as server:
        path = write_config(tmp_path / "config.yaml", scripted_config(server.url))
        before = {p: p.read_bytes() for p in tmp_path.iterdir()}
        outcome = dry_run(capsys, tmp_path / "run", "-c", path, "-c", "generation-only", "-s", "seed=4")
        assert server.total == 0
    assert outcome.code == 0, outcome.err
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before
    expected = load_config([path, "generation-only"], {"seed": 4})
    assert parse_config(yaml.safe_load(outcome.out), where="stdout") == expected
    assert [line for line in outcome.out.splitlines() if line.startswith("#")] == plan_lines(expected)


@pytest.mark.parametrize("layer", ["generation-only", "all-self", "co-evolve-only"])
def test_the_papers_run_can_be_planned_without_its_key(
    layer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = dry_run(capsys, tmp_path / "run", "-c", "paper-9b", "-c", layer)
    assert outcome.code == 0, outcome.err
    assert parse_config(yaml.safe_load(outcome.out), where="stdout") == load_config(["paper-9b", layer])
    said = facts([line for line in outcome.out.splitlines() if line.startswith("#")])
    assert "retrieval on" in said["switches"] and "refused" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["run", "serve", "generate", "probe"])
def test_every_command_puts_a_second_config_over_the_first(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its contradiction to the first one is what the error names."""
    (tmp_path / "top.yaml").write_text("admission: {enabled: false}\n")
    (tmp_path / "task.json").write_text(make_task(8, 8, -6).model_dump_json())
    subject = "task.json" if command == "probe" else "run"
    extra = ["--out", str(tmp_path / "tasks.jsonl")] if command == "generate" else []
    top = str(tmp_path / "top.yaml")
    outcome = rri_here(capsys, command, str(tmp_path / subject), "-c", "smoke", "-c", top, *extra)
    assert outcome.code == 2
    assert f"smoke + {top}: memo.enabled is true and admission.enabled is false" in outcome.error_line
    assert not (tmp_path / "run").exists()


def test_a_dry_run_of_an_old_run_shows_its_own_config_under_the_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config("smoke")
    RunDir.create_or_resume(tmp_path, config).close()
    saved = (tmp_path / "run.yaml").read_bytes()
    assert parse_config(yaml.safe_load(dry_run(capsys, tmp_path).out), where="stdout") == config
    outcome = dry_run(capsys, tmp_path, "-s", "budget.money=7")
    assert yaml.safe_load(outcome.out)["budget"]["money"] == 7
    assert (tmp_path / "run.yaml").read_bytes() == saved


def test_a_dry_run_without_a_config_asks_for_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = dry_run(capsys, tmp_path / "run")
    assert outcome.code == 3
    assert "--config" in outcome.error_line


def test_the_arm_is_a_fact_of_the_run(tmp_path: Path, tiny_model: Path) -> None:
    corpus = str(write_passages(tmp_path / "passages.jsonl"))
    config = scripted_config("http://127.0.0.1:1/v1", corpus=corpus, solver={"base_model": str(tiny_model)})
    path = write_config(tmp_path / "config.yaml", config)
    with open_folder(tmp_path / "run", [path, "generation-only"], {}, lambda message: None) as (folder, opened, _):
        assert opened == load_config([path, "generation-only"])
        assert folder.manifest()["arm"] == "generation-only"


# --- the list of presets -------------------------------------------------------------------------------


def test_presets_are_listed_with_kind_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "presets")
    assert outcome.code == 0
    *listed, empty, domains = outcome.out.splitlines()
    assert [line.split(maxsplit=2) for line in listed] == [[p.name, p.kind, p.about] for p in describe_presets()]
    assert empty == ""
    assert domains.endswith(", ".join(list_domains()))
