"""`rri estimate`: a table for people, one object for programs, and no model asked."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from programs.estimate import estimate_run
from rri.cli.estimate import assumed, readable_count
from rri.config import load_config
from rri.errors import ConfigError
from rri.knowledge import load_corpus
from rri.testing import ScriptedServer, role_models
from tests.passages import write_passages
from tests.rigs import scripted_config
from tests.rri.cli.commands import rri_here, write_config


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def test_a_preset_is_estimated(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("generation.tasks=7", "solver.cycles=3", "solver.rollouts_per_task=5", "evolution.every_cycles=4")
    outcome = rri_here(capsys, "estimate", "smoke", *(part for size in sizes for part in ("-s", size)))
    assert outcome.code == 0
    assert "7 tasks, 3 cycles, 15 rollouts to grade" in outcome.out
    for name in ("proposer", "judge", "rewriter", "admission", "training", "all, cheap end", "all, dear end", "disk:"):
        assert name in outcome.out
    # Three cycles are fewer than an interval.
    assert "analyst" not in outcome.out and "evolution" not in outcome.out
    assert outcome.err == ""


def test_a_screen_of_80_columns_holds_every_figure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    prices = ("-s", "endpoints.main.price_in=30", "-s", "endpoints.main.price_out=180")
    outcome = rri_here(capsys, "estimate", "default", *prices, "-a", "prompt_rate=1000", "-a", "reply_rate=20")
    assert outcome.code == 0
    assert "…" not in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_json_is_the_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "estimate", "smoke", "--json", "-s", "solver.cycles=12", "-a", "answer_chars=900")
    assert outcome.code == 0
    (line,) = outcome.out.splitlines()
    found: dict[str, Any] = json.loads(line)
    config = load_config("smoke", {"solver.cycles": 12})
    expected = estimate_run(config, {"answer_chars": 900.0}, load_corpus(config.corpus).passages)
    assert found == json.loads(expected.model_dump_json())
    assert found["given"] == {"answer_chars": 900.0}
    assert {"roles", "stages", "total", "disk_bytes", "budget", "drivers", "notes"} <= set(found)


def test_several_sources_are_laid_over_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(rri_here(capsys, "estimate", "smoke", "--json").out)
    arm = json.loads(rri_here(capsys, "estimate", "smoke", "generation-only", "--json").out)
    assert [r["role"] for r in arm["roles"]] == ["proposer", "generator", "judge"]
    assert arm["total"]["calls"]["expected"] < whole["total"]["calls"]["expected"]


def test_no_model_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ScriptedServer(role_models()) as server:
        path = write_config(tmp_path / "config.yaml", scripted_config(server.url))
        assert rri_here(capsys, "estimate", path).code == 0
        assert server.total == 0


def test_a_key_that_is_not_set_is_no_hindrance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = scripted_config("http://127.0.0.1:1/v1", endpoints={"main": {"api_key_env": "RRI_TEST_NO_SUCH_KEY"}})
    assert rri_here(capsys, "estimate", write_config(tmp_path / "config.yaml", config)).code == 0


def test_money_without_prices_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_config(tmp_path / "config.yaml", scripted_config("http://127.0.0.1:1/v1"))
    outcome = rri_here(capsys, "estimate", path, "-s", "budget.money=20")
    assert "no prices configured for main: money unknown" in outcome.out
    assert "budget.money 20.00 will not stop this run: main has no prices" in outcome.out
    assert "unknown" in outcome.out and " 0.00 " not in outcome.out


def test_a_budget_says_where_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    prices = ("-s", "endpoints.main.price_in=0.5", "-s", "endpoints.main.price_out=2")
    outcome = rri_here(capsys, "estimate", "default", *prices, "-s", "budget.money=50")
    assert "budget.money 50.00 is reached in about cycle " in outcome.out
    assert "; the run needs " in outcome.out
    assert "what decides the money" in outcome.out


def test_the_runs_own_passages_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passages = write_passages(tmp_path / "passages.jsonl")
    config = scripted_config("http://127.0.0.1:1/v1", corpus=str(passages))
    found = json.loads(rri_here(capsys, "estimate", write_config(tmp_path / "c.yaml", config), "--json").out)
    assert not any("corpus" in note for note in found["notes"])


def test_a_corpus_that_is_not_here_is_an_assumption(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = scripted_config("http://127.0.0.1:1/v1", corpus=str(tmp_path / "elsewhere.jsonl"))
    outcome = rri_here(capsys, "estimate", write_config(tmp_path / "config.yaml", config), "--json")
    assert outcome.code == 0
    notes = json.loads(outcome.out)["notes"]
    assert any("passages are taken to have 1200 characters" in note for note in notes)
    assert any("elsewhere.jsonl" in note for note in notes)


def held_out_file(folder: Path, tasks: int, criteria: int) -> Path:
    rubric = [{"criterion": f"Names the value of item number {i}", "points": 5} for i in range(criteria)]
    path = folder / "held-out.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"Question {n}?", "rubric": rubric}) + "\n" for n in range(tasks)))
    return path


def test_validation_is_counted_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = held_out_file(tmp_path, tasks=3, criteria=7)
    settings = (f"validation.file={file}", "validation.every_cycles=2", "solver.cycles=5", "grading.votes=1")
    # A judge that never has to be asked twice, and answers that are never cut: 3 rounds, 3 tasks, 7 criteria.
    certain = ("-a", "unusable_replies=0", "-a", "truncated_answers=0")
    arguments = ("estimate", "smoke", *(part for s in settings for part in ("-s", s)), *certain)
    outcome = rri_here(capsys, *arguments)
    assert "rollouts to grade, 9 more in 3 validation rounds\n" in outcome.out
    assert re.search(r"^ *validation +63 ", outcome.out, re.MULTILINE)
    data = json.loads(rri_here(capsys, *arguments, "--json").out)
    assert (data["validation_rounds"], data["validation_rollouts"]) == (3, 9)
    assert next(s for s in data["stages"] if s["name"] == "validation")["calls"]["expected"] == 9 * 7


def test_a_run_without_validation_does_not_speak_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "validation" not in rri_here(capsys, "estimate", "smoke").out


def test_a_validation_file_that_is_missing_or_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "nowhere.jsonl"
    missing = rri_here(capsys, "estimate", "smoke", "-s", f"validation.file={file}")
    assert missing.code != 0 and f"validation.file: no task file {file}" in missing.error_line
    file.write_text('{"prompt": "Q?"}\n')
    wrong = rri_here(capsys, "estimate", "smoke", "-s", f"validation.file={file}")
    assert wrong.code != 0 and "1 line cannot be used (line 1: " in wrong.error_line


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("nowhere.yaml",), "nowhere.yaml"),
        (("smoke", "-s", "solver.cycels=3"), "did you mean 'solver.cycles'"),
        (("smoke", "-s", "generation.tasks=0"), "generation.tasks"),
        (("smoke", "-a", "answer_chars"), "--assume 'answer_chars' is not NAME=NUMBER"),
        (("smoke", "-a", "answer_chars=long"), "--assume 'answer_chars=long' is not NAME=NUMBER"),
        (("smoke", "-a", "answer_char=9"), "Did you mean 'answer_chars'?"),
        (("smoke", "-a", "vote_flips=2"), "assumption vote_flips"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "estimate", *arguments)
    assert outcome.code == 2
    assert what in outcome.error_line
    assert outcome.out == ""


def test_without_a_config_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "estimate")
    assert outcome.code == 2
    assert "CONFIG" in outcome.err


def test_assumptions_are_read_as_numbers() -> None:
    assert assumed(["answer_chars=1e3", "vote_flips=0.5"]) == {"answer_chars": 1000.0, "vote_flips": 0.5}
    assert assumed([]) == {}
    with pytest.raises(ConfigError):
        assumed(["=3x"])


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (0.4, "0"),
        (999, "999"),
        (999.4, "999"),
        (999.6, "1k"),
        (1000, "1k"),
        (61_234, "61.2k"),
        (999_499, "999k"),
        (999_600, "1M"),
        (1_474_000, "1.47M"),
        (3_080_000_000, "3.08G"),
    ],
)
def test_counts_are_short(number: float, text: str) -> None:
    assert readable_count(number) == text
