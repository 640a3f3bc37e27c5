"""Does the trainer teach a real model something? `make bench-learn`.

The embedded chat model of 135 million parameters is trained on the CPU, by `training.grpo` as `accelerate launch`
starts it, against a loopback service that speaks the contract. A prompt states invented facts and asks for one of them;
code grades whether the answer states it (`learning_facts.py`), so no judge can be gamed. Before and after training the
model answers held-out prompts, whose names and values no training prompt has, sampled at temperature 1. Every seed has
prompts of its own. The last line is one JSON object; the exit code is 1 where a seed gains less than LEAST_GAIN.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer

from rri.lifetime import leashed
from rri.lm.embedded import GGUF_SHA256, cache_dir, fetch_gguf
from rri.wire import GradeRequest, Row, RunInfo, ServedTask
from tests.perf.learning_facts import Fact, draw_facts, grade, messages_of
from tests.training.fake_service import FakeService
from training.base_model import convert

__all__ = ["main"]

LEAST_GAIN = 0.15
STEPS, TASKS, ROLLOUTS, ANSWER_TOKENS = 30, 2, 8, 20
HELD_OUT = 288
"""Held-out prompts, one answer each: the standard error of a share is at most 0.5 / sqrt(288) = 0.0295."""
AT_ONCE = 96
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Learned:
    """One seed. Scores are means in [0, 1]; `standard_error` is the larger one of the two that were measured."""

    seed: int
    before: float
    after: float
    gain: float
    standard_error: float
    curve: tuple[float, ...]
    """Mean score of the answers of each training step."""
    seconds: float


class FactService(FakeService):
    """Serves one fact a position and grades by rule."""

    def __init__(self, info: RunInfo, facts: Sequence[Fact]) -> None:
        super().__init__(info, score=self.score_of, on_grade=self.tell)
        self.facts = facts

    def score_of(self, row: Row) -> float:
        return grade(self.facts[row.position], row.answer)

    def tell(self, request: GradeRequest) -> bool:
        mean = statistics.fmean(map(self.score_of, request.rows))
        note(f"seed {self.info.seed}: step {request.cycle + 1} of {self.info.cycles}, score {mean:.2f}")
        return True

    def _served(self, position: int) -> tuple[int, Any]:
        if position >= len(self.facts):
            return super()._served(position)
        task = ServedTask(
            position=position, task_id=f"t{position}", version=1, prompt=messages_of(self.facts[position])
        )
        return 200, task.model_dump()


def note(message: str) -> None:
    """Progress; the result alone goes to stdout."""
    print(message, file=sys.stderr, flush=True)


def base_model() -> Path:
    """Folder of the embedded model, where a run looks for it too; fetched and converted if it is not there."""
    folder = cache_dir() / f"smollm2-135m-instruct-{GGUF_SHA256[:8]}"
    return folder if folder.is_dir() else convert(fetch_gguf(note), folder)


def run_info(model: Path, seed: int, learning_rate: float) -> RunInfo:
    """STEPS cycles of one update each."""
    solver = {
        "learning_rate": learning_rate,
        "max_completion_length": ANSWER_TOKENS,
        "per_device_train_batch_size": TASKS * ROLLOUTS,
        "report_to": "none",
    }
    return RunInfo(
        run_id="learning", seed=seed, base_model=str(model), cycles=STEPS, tasks_per_cycle=TASKS,
        tasks_per_update=TASKS, rollouts_per_task=ROLLOUTS, save_every_cycles=STEPS, judge_truncated=True,
        grade_timeout_s=60, serve_timeout_s=60, solver=solver,
    )  # fmt: skip


def train(info: RunInfo, facts: Sequence[Fact], folder: Path) -> tuple[Path, tuple[float, ...]]:
    """Train on `facts`, one a position; the folder of the trained model, and the mean score of each step.

    Raises:
        SystemExit: the trainer failed.
    """
    run, log = folder / "run", folder / "trainer.log"
    run.mkdir()
    with FactService(info, facts) as service, log.open("wb") as output:
        launcher = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", "training/cpu.yaml"]
        command = leashed([*launcher, "-m", "training.grpo", "--run", str(run), "--service", service.url])
        done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(f"the trainer ended with exit code {done.returncode}:\n{log.read_text()[-2000:]}")
    final = run / "checkpoints" / "final"
    state = json.loads((final / "trainer_state.json").read_text())
    return final, tuple(round(entry["reward"], 3) for entry in state["log_history"] if "reward" in entry)


def answers(model: Path, facts: Sequence[Fact], seed: int) -> list[str]:
    """One answer for each of `facts`, sampled at temperature 1 from the whole distribution."""
    tokenizer: Any = AutoTokenizer.from_pretrained(model, padding_side="left")
    policy: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    torch.manual_seed(seed)
    found: list[str] = []
    for start in range(0, len(facts), AT_ONCE):
        prompts = [[message.model_dump() for message in messages_of(fact)] for fact in facts[start : start + AT_ONCE]]
        inputs = tokenizer.apply_chat_template(
            prompts, add_generation_prompt=True, padding=True, return_dict=True, return_tensors="pt"
        )
        with torch.inference_mode():
            written = policy.generate(
                **inputs, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=ANSWER_TOKENS
            )
        new = written[:, inputs["input_ids"].shape[1] :]
        found += tokenizer.batch_decode(new, skip_special_tokens=True)
    return found


def scores(model: Path, facts: Sequence[Fact], seed: int) -> list[float]:
    """The grade of one sampled answer for each of `facts`."""
    return [grade(fact, answer) for fact, answer in zip(facts, answers(model, facts, seed), strict=True)]


def standard_error(values: Sequence[float]) -> float:
    """Of the mean."""
    return float(statistics.stdev(values) / len(values) ** 0.5)


def learn(seed: int, learning_rate: float) -> Learned:
    """Measure, train and measure again."""
    started = time.monotonic()
    facts = draw_facts(seed, STEPS * TASKS + HELD_OUT)
    trained_on, held_out = facts[: STEPS * TASKS], facts[STEPS * TASKS :]
    base = base_model()
    note(f"seed {seed}: {HELD_OUT} held-out prompts before training")
    before = scores(base, held_out, seed)
    with tempfile.TemporaryDirectory() as folder:
        final, curve = train(run_info(base, seed, learning_rate), trained_on, Path(folder))
        note(f"seed {seed}: {HELD_OUT} held-out prompts after training")
        after = scores(final, held_out, seed)
    return Learned(
        seed=seed,
        before=round(statistics.fmean(before), 3),
        after=round(statistics.fmean(after), 3),
        gain=round(statistics.fmean(after) - statistics.fmean(before), 3),
        standard_error=round(max(standard_error(before), standard_error(after)), 4),
        curve=curve,
        seconds=round(time.monotonic() - started, 1),
    )


def table_of(found: Sequence[Learned]) -> Table:
    table = Table()
    for name in ("seed", "before", "after", "gain", "standard error", "minutes"):
        table.add_column(name, justify="right")
    for one in found:
        scores = (f"{value:.3f}" for value in (one.before, one.after, one.gain, one.standard_error))
        table.add_row(str(one.seed), *scores, f"{one.seconds / 60:.1f}")
    return table


def curve_of(one: Learned) -> str:
    """The training scores as bars, eight heights from 0 to 1, with the means of the first and last five steps."""
    bars = "".join("▁▂▃▄▅▆▇█"[min(int(8 * value), 7)] for value in one.curve)
    first, last = statistics.fmean(one.curve[:5]), statistics.fmean(one.curve[-5:])
    return f"seed {one.seed}: {first:.2f} {bars} {last:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0,1,2", help="numbers with commas between")
    parser.add_argument("--learning-rate", type=float, default=2e-5)
    options = parser.parse_args()
    console = Console(width=120)
    found = [learn(int(seed), options.learning_rate) for seed in options.seeds.split(",")]
    console.print(f"{STEPS} steps of {TASKS} prompts with {ROLLOUTS} answers, learning rate {options.learning_rate:g}")
    for one in found:
        console.print(curve_of(one))
    console.print(table_of(found))
    least = min(one.gain for one in found)
    print(json.dumps({"seeds": [asdict(one) for one in found], "least_gain": least}))
    return 0 if least >= LEAST_GAIN else 1


if __name__ == "__main__":
    sys.exit(main())
