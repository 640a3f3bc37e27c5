"""The solver's base model: a llama of about a million parameters, made from nothing on answers of every kind.

    python -m eval.world.pretraining SEED [OUT]

It learns to read values off its prompt and to answer as `eval.world.mixture` says. The same world and settings give the
same model, which is kept under their digest in the user's cache folder (RRI_CACHE), or written to OUT.
"""

import argparse
import fcntl
import json
import math
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field

from eval.world.constants import WorldConstants
from eval.world.facts import World, make_request, statement
from eval.world.mixture import READING, Example, Mixture, draw_example
from eval.world.options import add_sizes, world_of
from eval.world.tokens import CHAT_TEMPLATE, CONTEXT_TOKENS, ROLES, chat, make_tokenizer
from rri.domain import Section
from rri.errors import InputError, RriError, TrainerFailed
from rri.lm.embedded import cache_dir
from rri.types import digest_of

__all__ = [
    "RECORD",
    "Pretraining",
    "base_model",
    "copying_accuracy",
    "digest_of_base",
    "encode_examples",
    "pretrain",
    "rate_at",
]

RECORD = "pretraining.json"
"""File in the model folder that says what it was made from and how well it copies."""

THREADS = 2
"""Matrices this small gain nothing from more."""
TESTS = 64
"""Held-out requests that copying is measured on."""
LOG_EVERY = 100

Progress = Callable[[str], None]


class Pretraining(Section):
    """How the base model is made. Sizes are for a CPU: two quiet cores need about four minutes."""

    mixture: Mixture = Mixture()
    hidden: int = Field(default=128, ge=8, description="width")
    layers: int = Field(default=4, ge=1)
    heads: int = Field(default=4, ge=1)
    feed_forward: int = Field(default=384, ge=8)
    spread: float = Field(default=0.06, gt=0, description="of the first weights; the usual 0.02 learns to copy late")
    reading: int = Field(
        default=600,
        ge=0,
        description="steps of a first lesson, right answers to requests for everything; copying "
        "needs many values to be learned from",
    )
    steps: int = Field(default=700, ge=1, description="steps on the mixture, which come after")
    batch: int = Field(default=16, ge=1, description="examples a step")
    learning_rate: float = Field(
        default=3e-3, gt=0, description="peak of both optimizers; it falls to a tenth along a cosine"
    )
    warmup: int = Field(default=100, ge=0, description="steps until the peak")
    least_copying: float = Field(
        default=0.95, ge=0, le=1, description="share of values it must read right; below, every arm would only name"
    )

    @property
    def digest(self) -> str:
        """Digest of all numbers."""
        return digest_of(self.model_dump())


def digest_of_base(world: World, settings: Pretraining) -> str:
    """What a base model is known by: the settings, and what they make of this world's words."""
    rng = _draws(world)
    first = [draw_example(world, settings.mixture, rng) for _ in range(32)]
    shown = [[example.request.text, example.answer] for example in first]
    return digest_of([settings.digest, CHAT_TEMPLATE, chat(""), shown])


def base_model(
    world: World,
    cache: Path | None = None,
    settings: Pretraining | None = None,
    progress: Progress = lambda message: None,
) -> Path:
    """Folder of the world's base model, made unless it is in the cache.

    Args:
        world: seed and words count, its facts do not.
        cache: where base models are kept; `world` in the user's cache folder by default.
        settings: how it is made.
        progress: is told how far it is.

    Raises:
        InputError: the cache folder cannot be used.
        TrainerFailed: it did not learn to copy.
    """
    settings = settings or Pretraining()
    folder = cache or cache_dir() / "world"
    return pretrain(world, folder / f"base-{world.seed}-{digest_of_base(world, settings)[:16]}", settings, progress)


def pretrain(
    world: World, out: Path, settings: Pretraining | None = None, progress: Progress = lambda message: None
) -> Path:
    """Make the base model in folder `out`, which is absent or complete, whenever it is killed. What is there is kept.

    Several processes may ask for the same folder: one makes it and the others wait.

    Returns:
        `out`: weights (safetensors), config, generation config, tokenizer, and `RECORD`.

    Raises:
        InputError: `out` holds something else.
        TrainerFailed: the model did not learn to copy.
    """
    settings = settings or Pretraining()
    digest = digest_of_base(world, settings)
    with _held(out, progress):
        if out.exists():
            _check_same(out, digest)
            progress(f"{out} is there already")
            return out
        scratch = out.with_name(f".{out.name}.part")
        shutil.rmtree(scratch, ignore_errors=True)
        began = time.monotonic()
        with _quiet(world.seed):
            tokenizer = make_tokenizer(world)
            model = _new_model(tokenizer, settings)
            loss = _train(model, tokenizer, world, settings, progress)
            copying = copying_accuracy(model, tokenizer, world)
        progress(f"reads {copying:.1%} of the values right")
        if copying < settings.least_copying:
            raise TrainerFailed(
                f"the base model of seed {world.seed} reads {copying:.1%} of the values off its prompt after "
                f"{settings.reading + settings.steps} steps, and {settings.least_copying:.1%} are needed",
                "Raise reading, or change learning_rate",
            )
        model.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        record = {
            "digest": digest,
            "seed": world.seed,
            "settings": settings.model_dump(),
            "parameters": model.num_parameters(),
            "loss": round(loss, 4),
            "copying": round(copying, 4),
            "seconds": round(time.monotonic() - began, 1),
        }
        (scratch / RECORD).write_text(f"{json.dumps(record, indent=2)}\n", encoding="utf-8")
        scratch.rename(out)
    return out


@contextmanager
def _held(out: Path, progress: Progress) -> Iterator[None]:
    """The right to make `out`, which is given back whatever happens to this process."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        lock = out.with_name(f".{out.name}.lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write beside {out}: {error}", "Name another folder") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            progress(f"another process makes {out}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_same(out: Path, digest: str) -> None:
    try:
        found = json.loads((out / RECORD).read_text(encoding="utf-8"))["digest"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{out} is there and is no base model of the world", "Name another folder") from None
    if found != digest:
        raise InputError(
            f"{out} holds the base model {found[:16]}, and this world and these settings make {digest[:16]}",
            "Name another folder, or remove this one",
        )


@contextmanager
def _quiet(seed: int) -> Iterator[None]:
    """Torch's random numbers begin from `seed` and its threads are few; both are afterwards as they were."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(min(THREADS, threads))
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def _draws(world: World) -> random.Random:
    return random.Random(f"pre-training {world.seed}")


def _new_model(tokenizer: Any, settings: Pretraining) -> Any:
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden,
        intermediate_size=settings.feed_forward,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        max_position_embeddings=CONTEXT_TOKENS,
        initializer_range=settings.spread,
        tie_word_embeddings=True,
        **special,
    )
    make: Any = LlamaForCausalLM
    ending: Any = GenerationConfig
    model = make(config)
    model.generation_config = ending(**special)
    return model


def _train(model: Any, tokenizer: Any, world: World, settings: Pretraining, progress: Progress) -> float:
    """Train on drawn examples; returns the mean loss of the last steps, in nats a token of the answers."""
    import torch
    from torch.optim.lr_scheduler import LambdaLR

    rng = _draws(world)
    optimizers = _optimizers(model, settings)
    schedules = [LambdaLR(optimizer, lambda step: rate_at(step, settings)) for optimizer in optimizers]
    last = settings.reading + settings.steps
    losses: list[float] = []
    began = time.monotonic()
    model.train()
    for step in range(1, last + 1):
        lesson = READING if step <= settings.reading else settings.mixture
        asked = len(world.relations) if step <= settings.reading else WorldConstants().asked
        examples = [draw_example(world, lesson, rng, asked) for _ in range(settings.batch)]
        loss = _loss(model, *encode_examples(tokenizer, examples))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules, strict=True):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(float(loss.detach()))
        if step % LOG_EVERY == 0 or step == last:
            spent = time.monotonic() - began
            left = spent / step * (last - step)
            mean = sum(losses[-LOG_EVERY:]) / len(losses[-LOG_EVERY:])
            progress(f"step {step} of {last}, loss {mean:.3f}, {spent:.0f} s, {left:.0f} s left")
    model.eval()
    return sum(losses[-LOG_EVERY:]) / len(losses[-LOG_EVERY:])


def _optimizers(model: Any, settings: Pretraining) -> list[Any]:
    """Muon for the matrices between the layers, which learns to copy in half the steps, and AdamW for the rest."""
    import torch

    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    inner = {id(p) for p in matrices}
    rest = [p for p in model.parameters() if id(p) not in inner]
    rate = settings.learning_rate
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.95), weight_decay=0.01),
    ]


def rate_at(step: int, settings: Pretraining) -> float:
    """Learning rate of a step, as a share of its peak."""
    if step < settings.warmup:
        return (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.reading + settings.steps - settings.warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(done, 1.0)))


def encode_examples(tokenizer: Any, examples: Sequence[Example]) -> tuple[Any, Any]:
    """Token numbers (examples, length), and which of them belong to an answer or to its end."""
    turns = [[*chat(e.request.text), {"role": "assistant", "content": e.answer}] for e in examples]
    texts = tokenizer.apply_chat_template(turns, tokenize=False)
    ids = tokenizer(texts, add_special_tokens=False, padding=True, padding_side="right", return_tensors="pt")
    numbers = ids["input_ids"]
    opened = (numbers == tokenizer.convert_tokens_to_ids(ROLES["assistant"])).long()
    within = (opened.cumsum(dim=1) - opened).bool() & (numbers != tokenizer.pad_token_id)
    return numbers, within


def _loss(model: Any, numbers: Any, within: Any) -> Any:
    """Cross-entropy of the answers alone: learning to write notes as well delays copying."""
    import torch

    hidden = model.model(input_ids=numbers).last_hidden_state[:, :-1]
    target = within[:, 1:]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden[target]), numbers[:, 1:][target])


def copying_accuracy(model: Any, tokenizer: Any, world: World, number: int = TESTS) -> float:
    """Share of asked values that the model finds most likely once an answer has said "the RELATION of ENTITY is".

    Measured on held-out requests.
    """
    import torch

    rng = random.Random(f"copying {world.seed}")
    examples = []
    for _ in range(number):
        request = make_request(world, rng, WorldConstants().asked, held_out=True)
        facts = ((r, world.facts[request.entity, r]) for r in request.asked)
        examples.append(Example(request, " ".join(statement(request.entity, r, value) for r, value in facts)))
    numbers, within = encode_examples(tokenizer, examples)
    with torch.inference_mode():
        likely = model(input_ids=numbers).logits.argmax(dim=-1)
    says = tokenizer.convert_tokens_to_ids("is")
    asked = (numbers[:, :-1] == says) & within[:, :-1]
    return float((likely[:, :-1][asked] == numbers[:, 1:][asked]).float().mean())


def main(argv: Sequence[str] | None = None) -> int:
    """Make the base model of a seed and print its folder; returns the exit code."""
    parser = argparse.ArgumentParser(prog="eval.world.pretraining", description="The solver's base model.")
    parser.add_argument("seed", type=int, help="of the world")
    parser.add_argument("out", type=Path, nargs="?", help="folder; by default one in the user's cache")
    add_sizes(parser)
    options = parser.parse_args(argv)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        world = world_of(options)
        made = pretrain(world, options.out, progress=_say) if options.out else base_model(world, progress=_say)
    except RriError as error:
        _say(str(error))
        return error.exit_code
    sys.stdout.write(f"{made}\n")
    return 0


def _say(message: str) -> None:
    sys.stderr.write(f"eval.world.pretraining: {' '.join(message.split())}\n")


if __name__ == "__main__":
    sys.exit(main())
