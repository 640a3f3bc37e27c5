"""A tiny llama with a ChatML tokenizer, runs on it, and starts of the trainer in processes of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rri.client import RunInfo
from tests.training.starts import ROOT, Launch, Started

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|im_start|>", "<|im_end|>"]
MERGES = [("t", "h"), ("i", "n")]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama of some ten thousand parameters over a hundred byte-level tokens, saved as a model folder."""
    folder = tmp_path_factory.mktemp("tiny")
    letters = sorted({c for c in map(chr, range(33, 127))} | {"Ġ", "Ċ"})
    vocab = {token: number for number, token in enumerate([*SPECIAL, *letters, *map("".join, MERGES)])}
    core = Tokenizer(models.BPE(vocab=vocab, merges=MERGES))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|im_end|>")
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=256, eos_token_id=1, pad_token_id=1, bos_token_id=0,
        tie_word_embeddings=True,
    )  # fmt: skip
    model: Any = LlamaForCausalLM
    model(config).save_pretrained(folder)
    return folder


@pytest.fixture
def make_info(tiny_model: Path) -> Callable[..., RunInfo]:
    """A run of 2 cycles of 2 tasks, one update a cycle, 4 answers a task, unless told otherwise."""

    def make(**changes: Any) -> RunInfo:
        solver = {"max_completion_length": 12, "learning_rate": 1e-3} | changes.pop("solver", {})
        values: dict[str, Any] = {
            "run_id": "test", "seed": 3, "base_model": str(tiny_model), "cycles": 2, "tasks_per_cycle": 2,
            "tasks_per_update": 2, "rollouts_per_task": 4, "save_every_cycles": 1, "judge_truncated": False,
            "grade_timeout_s": 30.0, "serve_timeout_s": 30.0, "solver": solver,
        }  # fmt: skip
        return RunInfo(**values | changes)

    return make


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start a Python module in the background; what still runs at the end of the test is killed."""
    started: list[Started] = []

    def start(*arguments: str, **env: str) -> Started:
        log = tmp_path / f"process{len(started)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **env},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        started.append(Started(process, log))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
