"""The base model: it learns to read, it is the same again, and its folder is there whole or not at all."""

import fcntl
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from eval.world import pretraining
from eval.world.facts import World, make_request, read_question
from eval.world.mixture import Example, Mixture, draw_example
from eval.world.pretraining import (
    RECORD,
    Pretraining,
    base_model,
    copying_accuracy,
    digest_of_base,
    encode_examples,
    pretrain,
    rate_at,
)
from eval.world.tokens import make_tokenizer
from rri.errors import InputError, TrainerFailed
from rri.tokens import SolverTokenizer, weights_digest
from tests.eval.world.small import HASTY, SETTINGS, SMALL
from training.preflight import load_text_side, model_facts

ROOT = Path(__file__).parents[3]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / RECORD).read_text())
    return found


# --- what is learned -----------------------------------------------------------------------------------


def test_it_learns_to_read_values_off_its_prompt(small_base: Path) -> None:
    """Facts are drawn anew for every example, so whoever is right on a held-out question has read the note."""
    kept = record(small_base)
    assert kept["copying"] >= 0.6
    model: Any = AutoModelForCausalLM.from_pretrained(small_base).eval()
    tokenizer = AutoTokenizer.from_pretrained(small_base)
    assert copying_accuracy(model, tokenizer, SMALL) == pytest.approx(kept["copying"], abs=1e-4)
    assert copying_accuracy(model, tokenizer, World.make(100, entities=12, relations=4, values=5), 500) > 0.5


def test_the_loss_is_that_of_answers_and_falls_below_chance(small_base: Path, tmp_path: Path) -> None:
    hasty = pretrain(SMALL, tmp_path / "hasty", HASTY)
    chance = math.log(len(AutoTokenizer.from_pretrained(small_base)))
    assert record(hasty)["loss"] == pytest.approx(chance, abs=0.5)
    assert record(small_base)["loss"] < 0.35 * chance


def test_the_folder_is_what_a_run_needs_of_a_base_model(small_base: Path) -> None:
    tokenizer, config = load_text_side(str(small_base))
    facts = model_facts(tokenizer, config)
    assert facts.has_template and facts.has_end and not facts.unrendered and facts.context == 512
    assert SolverTokenizer(small_base).count("the .") == 2
    assert weights_digest(small_base) is not None
    for kept in (AutoConfig.from_pretrained(small_base), GenerationConfig.from_pretrained(small_base)):
        assert (kept.bos_token_id, kept.eos_token_id, kept.pad_token_id) == (
            tokenizer.bos_token_id,
            tokenizer.eos_token_id,
            tokenizer.pad_token_id,
        )


def test_the_solver_has_about_a_million_parameters(tmp_path: Path) -> None:
    """The real sizes on the real world, a step long."""
    settings = Pretraining(reading=0, steps=1, batch=1, least_copying=0.0)
    made = pretrain(World.make(100), tmp_path / "base", settings)
    assert 700_000 < record(made)["parameters"] < 1_300_000
    assert sum(w.numel() for w in weights(made).values()) == record(made)["parameters"]


def test_a_model_that_cannot_copy_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    settings = HASTY.model_copy(update={"least_copying": 0.9})
    with pytest.raises(TrainerFailed, match=r"reads \d+\.\d% of the values .* after 4 steps, and 90\.0% are needed"):
        pretrain(SMALL, tmp_path / "base", settings)
    assert [path.name for path in tmp_path.iterdir()] == [".base.lock"]


class Oracle:
    """Finds the right value most likely after every "is", or for one relation another one."""

    def __init__(self, tokenizer: Any, blind: str = "") -> None:
        self.tokenizer, self.blind = tokenizer, blind

    def __call__(self, input_ids: torch.Tensor) -> SimpleNamespace:
        words = [self.tokenizer.convert_ids_to_tokens(row) for row in input_ids.tolist()]
        logits = torch.zeros(*input_ids.shape, len(self.tokenizer))
        for row, text in enumerate(words):
            for at, word in enumerate(text[:-1]):
                if word == "is":
                    known = text[at - 3] != self.blind
                    logits[row, at, input_ids[row, at + 1] if known else 0] = 1
        return SimpleNamespace(logits=logits)


def test_copying_is_the_share_of_asked_values_that_are_most_likely() -> None:
    tokenizer = make_tokenizer(SMALL)
    assert copying_accuracy(Oracle(tokenizer), tokenizer, SMALL) == 1.0
    partly = copying_accuracy(Oracle(tokenizer, SMALL.relations[0]), tokenizer, SMALL, 400)
    assert partly == pytest.approx(0.75, abs=0.05)


# --- what is trained on --------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_answers_and_their_ends_are_learned_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    tokenizer = make_tokenizer(SMALL)
    examples = [draw_example(SMALL, Mixture(), rng, asked=1 + seed % 4) for _ in range(3)]
    numbers, within = encode_examples(tokenizer, examples)
    for row, mask, example in zip(numbers, within, examples, strict=True):
        assert tokenizer.decode(row[mask]) == f"{example.answer} {tokenizer.eos_token}"
        assert read_question(tokenizer.decode(row[~mask], skip_special_tokens=True)) == read_question(
            example.request.text
        )
    assert tokenizer.unk_token_id not in numbers


def test_longer_prompts_push_no_answer_out() -> None:
    tokenizer = make_tokenizer(SMALL)
    rng = random.Random(1)
    examples = [Example(make_request(SMALL, rng, asked), "the .") for asked in (1, 4)]
    numbers, within = encode_examples(tokenizer, examples)
    assert within.sum(dim=1).tolist() == [3, 3]
    assert (numbers[0] == tokenizer.pad_token_id).sum() > 0


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 100))
def test_the_rate_rises_to_its_peak_and_falls_to_a_tenth(reading: int, steps: int, warmup: int) -> None:
    settings = Pretraining(reading=reading, steps=steps, warmup=warmup)
    rates = [rate_at(step, settings) for step in range(max(reading + steps, warmup) + 1)]
    assert rates[:warmup] == [(step + 1) / warmup for step in range(warmup)]
    assert rates[warmup] == pytest.approx(1.0)
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)
    assert all(rate >= 0.1 - 1e-9 for rate in rates[warmup:])
    if reading + steps > warmup + 1:
        assert rates[-1] == pytest.approx(0.1)


# --- the same again ------------------------------------------------------------------------------------


def test_the_same_world_and_settings_make_the_same_model_and_leave_torch_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = weights(pretrain(SMALL, tmp_path / "a", HASTY))
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == threads
    torch.manual_seed(6)
    second = weights(pretrain(SMALL, tmp_path / "b", HASTY))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = weights(pretrain(World.make(101, 12, 4, 5), tmp_path / "c", HASTY))
    assert not all(torch.equal(first[name], other[name]) for name in first if first[name].shape == other[name].shape)


def test_the_digest_follows_from_words_and_settings() -> None:
    known = {
        digest_of_base(world, settings)
        for world in (SMALL, World.make(101, 12, 4, 5), World.make(100, 12, 4, 6))
        for settings in (HASTY, SETTINGS, Pretraining(mixture=Mixture(adds=0.2)))
    }
    assert len(known) == 9
    assert digest_of_base(World.make(100, 12, 4, 5), Pretraining()) == digest_of_base(SMALL, Pretraining())


# --- cache ---------------------------------------------------------------------------------------------


def test_a_base_model_is_made_once_and_kept_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RRI_CACHE", str(tmp_path))
    made = base_model(SMALL, settings=HASTY)
    assert made == tmp_path / "world" / f"base-100-{digest_of_base(SMALL, HASTY)[:16]}"
    stamp = (made / "model.safetensors").stat().st_mtime_ns
    said: list[str] = []
    assert base_model(SMALL, settings=HASTY, progress=said.append) == made
    assert said == [f"{made} is there already"]
    assert (made / "model.safetensors").stat().st_mtime_ns == stamp
    assert base_model(SMALL, tmp_path / "other", HASTY).parent == tmp_path / "other"
    assert base_model(SMALL, settings=HASTY.model_copy(update={"steps": 3})) != made


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    made = pretrain(SMALL, tmp_path / "base", HASTY)
    with pytest.raises(InputError, match=f"holds the base model {record(made)['digest'][:16]}"):
        pretrain(World.make(101, 12, 4, 5), made, HASTY)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="is no base model"):
        pretrain(SMALL, tmp_path / "mine", HASTY)
    (made / RECORD).write_text("{")
    with pytest.raises(InputError, match="is no base model"):
        pretrain(SMALL, made, HASTY)


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write beside"):
        base_model(SMALL, tmp_path / "file", HASTY)


def test_a_kill_leaves_no_half_model_and_the_next_start_makes_it(tmp_path: Path) -> None:
    out = tmp_path / "base"
    code = (
        "from pathlib import Path\nfrom eval.world.facts import World\nfrom eval.world.pretraining import *\n"
        "settings = Pretraining(hidden=16, layers=1, heads=2, feed_forward=16, reading=100, steps=10**6, batch=1)\n"
        f"pretrain(World.make(100, 12, 4, 5), Path({str(out)!r}), settings, lambda m: print(m, flush=True))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert "step 100 of 1000100" in child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert not out.exists()
    scratch = tmp_path / ".base.part"
    scratch.mkdir()
    (scratch / "torn").write_text("of an earlier kill, in the middle of writing")
    assert not (pretrain(SMALL, out, HASTY) / "torn").exists()
    assert not scratch.exists()
    assert AutoModelForCausalLM.from_pretrained(out) is not None


def test_of_two_that_ask_at_once_one_makes_it_and_the_other_waits(tmp_path: Path) -> None:
    out = tmp_path / "base"
    told, done = threading.Event(), threading.Event()
    said: list[str] = []

    def heard(message: str) -> None:
        said.append(message)
        told.set()

    def ask() -> None:
        pretrain(SMALL, out, HASTY, heard)
        done.set()

    with (tmp_path / ".base.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        asking = threading.Thread(target=ask)
        asking.start()
        assert told.wait(30)
        assert said == [f"another process makes {out}: waiting for it"] and not done.is_set() and not out.exists()
    asking.join(60)
    assert done.is_set() and out.exists()


# --- command -------------------------------------------------------------------------------------------


def test_progress_says_how_far_and_how_long(tmp_path: Path) -> None:
    said: list[str] = []
    pretrain(SMALL, tmp_path / "base", HASTY.model_copy(update={"steps": 120, "batch": 1}), said.append)
    assert [line.split(", ")[0] for line in said[:2]] == ["step 100 of 122", "step 122 of 122"]
    assert all(" s left" in line for line in said[:2])
    assert said[2].startswith("reads ")


def test_the_command_says_one_line_for_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    for options, words in (
        (["100", str(tmp_path / "mine")], "is no base model"),
        (["100", "--values", "1000"], "a world of 1000 values"),
    ):
        assert pretraining.main(options) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and words in err
