"""`rri export`: the folder loads, its card says how it came about, and no secret is in it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from rri.cli.export import CONFIG_FILE, model_card, without_secrets
from rri.rundir import RunDir
from tests.rri.cli.commands import rri_here
from tests.rri.cli.looped import looped_run
from tests.rri.cli.made import made_run

Facts = dict[str, Any]

FACTS: Facts = {
    "run_id": "r1", "domain": "rules", "arm": "rri", "score_rule": "healthbench", "protocol": "ours", "seed": 7,
    "base_model": "Qwen/Qwen3.5-9B", "lora": {"r": 8, "alpha": 16}, "updates": 12, "note": "", "measured": 3,
    "delta_before": 0.4, "delta_after": -0.25, "outcomes": {"repaired": 2, "passed": 1}, "packages": {"trl": "1.16.0"},
    "cycles": [
        {"cycle": 0, "rollouts": 512, "mean_score": 0.4321},
        {"cycle": 1, "rollouts": 512, "mean_score": None},
    ],
    "calls": {
        "judge": {"calls": 3000, "tokens_in": 1_000_000, "tokens_out": 50, "money": 1.5},
        "farmer": {"calls": 3, "tokens_in": 10, "tokens_out": 20, "money": 0.25},
    },
}  # fmt: skip


@pytest.fixture
def finish(tiny_model: Path) -> Callable[[Path], Path]:
    """Give a run the result that a trainer would have left there."""

    def finished(run: Path) -> Path:
        final = run / "checkpoints" / "final"
        shutil.copytree(tiny_model, final)
        (final / "trainer_state.json").write_text('{"global_step": 8}')
        return final

    return finished


def front_of(card: str) -> Facts:
    front: Facts = yaml.safe_load(card.split("---")[1])
    return front


def test_a_finished_run_becomes_a_folder_that_loads(
    tmp_path: Path, tiny_model: Path, finish: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with looped_run(tmp_path, tiny_model, cycles=2) as looped:
        finish(looped.folder)
        outcome = rri_here(capsys, "export", str(looped.folder), str(tmp_path / "out" / "mine"), "--json")
    assert outcome.code == 0, outcome.err
    out = tmp_path / "out" / "mine"
    assert json.loads(outcome.out) == {"folder": str(out), "merged": False, "updates": 8}
    assert [path.name for path in out.parent.iterdir()] == ["mine"], "no scratch folder stays"
    assert AutoModelForCausalLM.from_pretrained(out).num_parameters() > 0
    assert AutoTokenizer.from_pretrained(out).chat_template
    card = (out / "README.md").read_text()
    assert front_of(card)["library_name"] == "transformers"
    assert "base_model" not in front_of(card), "a folder of this machine is no public name"
    assert str(tiny_model) not in card and f"# mine\n\n{tiny_model.name}, trained with GRPO" in card
    assert "| cycles | 2 |" in card and "| updates | 8 |" in card and "| domain | rules |" in card
    assert card.count("| 18 |") == 2, "rollouts of both cycles"
    assert "| judge |" in card and "| all |" in card
    assert yaml.safe_load((out / CONFIG_FILE).read_text())["domain"]["name"] == "rules"

    again = rri_here(capsys, "export", str(looped.folder), str(out))
    assert again.code == 2 and "is there already" in again.error_line


def test_adapters_are_merged_into_the_runs_base_model(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their own record of the base model names a folder of the machine that trained them."""
    with made_run(tmp_path / "run", solver={"lora": {"r": 2}, "base_model": str(tiny_model)}):
        final = tmp_path / "run" / "checkpoints" / "final"
        lora = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
        adapted: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), lora)
        adapted.peft_config["default"].base_model_name_or_path = "/elsewhere"
        adapted.save_pretrained(final)
        (final / "trainer_state.json").write_text('{"global_step": 4}')
        outcome = rri_here(capsys, "export", str(tmp_path / "run"), str(tmp_path / "out"))
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{tmp_path / 'out'}: adapters merged, 4 updates\n"
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    wanted = adapted.merge_and_unload().state_dict()
    assert all(torch.allclose(tensor, wanted[name], atol=1e-6) for name, tensor in merged.items())
    assert "adapters of rank 2, alpha 64, merged" in (tmp_path / "out" / "README.md").read_text()


def test_a_run_without_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with made_run(tmp_path / "run"):
        outcome = rri_here(capsys, "export", str(tmp_path / "run"), str(tmp_path / "out"))
    assert outcome.code == 3 and "has no result yet" in outcome.error_line
    assert not (tmp_path / "out").exists()
    assert rri_here(capsys, "export", str(tmp_path / "none"), str(tmp_path / "out")).code == 3


def test_a_result_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, finish: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with made_run(tmp_path / "run"):
        final = finish(tmp_path / "run")
        (final / "config.json").unlink()
        outcome = rri_here(capsys, "export", str(tmp_path / "run"), str(tmp_path / "out"))
    assert outcome.code == 2 and "holds no model" in outcome.error_line
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


# --- the card ------------------------------------------------------------------------------------------


def test_the_card_of_a_run_with_adapters() -> None:
    card = model_card("mine", FACTS)
    assert front_of(card) == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["rri", "grpo", "reinforcement-learning"],
        "base_model": "Qwen/Qwen3.5-9B",
    }
    for line in (
        "| weights | adapters of rank 8, alpha 16, merged |",
        "| score rule | healthbench, judge protocol `ours` |",
        "| versions | trl 1.16.0 |",
        "| 0 | 512 | 0.432 |",
        "| 1 | 512 | unscored |",
        "1 passed, 2 repaired.",
        "| judge | 3,000 | 1,000,000 | 50 | 1.50 |",
        "| all | 3,003 | 1,000,010 | 70 | 1.75 |",
    ):
        assert line in card.splitlines(), line
    assert "mean of 3 measured: +0.40 before repair, -0.25 after." in card
    assert "no scores of a benchmark" in card


def test_the_card_says_that_the_embedded_judge_is_none() -> None:
    card = model_card("mine", {**FACTS, "base_model": "embedded", "note": "The judge is no better than chance."})
    assert front_of(card)["base_model"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert "**The judge is no better than chance.**" in card


def test_secrets_are_removed_from_the_config(tmp_path: Path) -> None:
    sections = {
        "endpoints": {
            "main": {
                "url": "https://me:hunter2@models.example/v1?api_key=hunter2",
                "api_key_env": "MY_KEY",
                "extra_body": {"extra": {"api_key": "hunter2", "top_k": 5}, "auth_token": "hunter2", "max_tokens": 9},
            }
        },
        "solver": {"trl": {"hub_token": "hunter2", "vllm_server_base_url": "http://me:hunter2@vllm:8000"}},
    }
    with made_run(tmp_path / "run", **sections):
        found = without_secrets(RunDir.existing(tmp_path / "run").config())
    assert "hunter2" not in json.dumps(found)
    main = found["endpoints"]["main"]
    assert main["url"] == "https://models.example/v1" and main["api_key_env"] == "MY_KEY"
    assert main["extra_body"] == {
        "extra": {"api_key": "removed", "top_k": 5},
        "auth_token": "removed",
        "max_tokens": 9,
    }
    assert found["solver"]["trl"]["vllm_server_base_url"] == "http://vllm:8000"
    assert found["roles"]["judge"]["max_tokens"], "a number of tokens is no token"
