"""Our own share of a training step: `make bench-train`.

The trainer runs as it does on a run, in this process, against a loopback service that grades by rule at once: a llama
of some 100 million parameters with random weights, answers of 16 tokens, on the CPU. Measured is what is ours: the
task stream, the callbacks, and the reward function less the time that the service says it took. The step is TRL's own
`step_time` (answers written, rewards, forward and backward) and our share outside of it; the optimizer's time is left
out, so the share comes out rather too large. A GPU step of a larger model is longer, and ours stays as it is. The first
cycle warms up and does not count. The last line is one JSON object.
"""

import argparse
import functools
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from rri.wire import GradeResponse, RunInfo
from tests.tiny import make_tiny_model
from tests.training.fake_service import FakeService, Request
from training import grpo
from training.reporting import CycleReport
from training.seeding import CycleSeeds
from training.stream import TaskRows

__all__ = ["main"]

LIMIT = 0.05
TASKS, ROLLOUTS, ANSWER_TOKENS = 2, 4, 16
LAYERS, HIDDEN, INNER = 8, 1024, 2816


class TimedService(FakeService):
    """Says in a grade how long it took, as the real service does."""

    def answer(self, request: Request) -> tuple[int, Any]:
        started = time.perf_counter()
        status, reply = super().answer(request)
        if request.path == "/v1/grade":
            reply = GradeResponse.model_validate(reply).model_dump() | {"seconds": time.perf_counter() - started}
        return status, reply


class Clock:
    """Seconds by part, of the cycles that count."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.service = 0.0

    def forget(self) -> None:
        self.seconds.clear()
        self.service = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - started


def make_model(folder: Path) -> int:
    """A llama with random weights and the tiny model's tokenizer; its parameters."""
    make_tiny_model(folder)
    vocabulary = len(AutoTokenizer.from_pretrained(folder))
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=16, num_key_value_heads=16, max_position_embeddings=512, eos_token_id=1, pad_token_id=1,
        bos_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    make: Any = LlamaForCausalLM
    model = make(config)
    model.save_pretrained(folder)
    return int(model.num_parameters())


def watch(clock: Clock) -> None:
    """Put the clock around what is ours. The program that is timed ends with this process."""
    make_reward: Callable[..., Any] = grpo.rubric_reward

    def timed_reward(*arguments: Any, **options: Any) -> Any:
        reward = make_reward(*arguments, **options)

        @functools.wraps(reward)
        async def timed(*values: Any, log_metric: Callable[[str, float], None], **columns: Any) -> Any:
            def note(name: str, value: float) -> None:
                if name == "grade/service_seconds":
                    clock.service += value
                log_metric(name, value)

            with clock.part("reward"):
                return await reward(*values, log_metric=note, **columns)

        return timed

    grpo.rubric_reward = timed_reward
    for kind, name in ((CycleSeeds, "on_step_begin"), (CycleReport, "on_step_end")):
        setattr(kind, name, _timed(clock, "callbacks", getattr(kind, name)))
    rows = TaskRows.__call__

    def timed_rows(self: TaskRows) -> Iterator[dict[str, Any]]:
        source = rows(self)
        while True:
            with clock.part("stream"):
                row = next(source, None)
            if row is None:
                return
            yield row

    TaskRows.__call__ = timed_rows  # type: ignore[method-assign]


def _timed(clock: Clock, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def timed(*arguments: Any, **options: Any) -> Any:
        with clock.part(name):
            return call(*arguments, **options)

    return timed


def measure(cycles: int, folder: Path) -> dict[str, Any]:
    """Train the first cycle and `cycles` more; the figures of the latter."""
    parameters = make_model(folder / "model")
    run = folder / "run"
    run.mkdir()
    info = RunInfo(
        run_id="bench", seed=0, base_model=str(folder / "model"), cycles=1 + cycles, tasks_per_cycle=TASKS,
        tasks_per_update=TASKS, rollouts_per_task=ROLLOUTS, save_every_cycles=1 + cycles, judge_truncated=True,
        grade_timeout_s=60, serve_timeout_s=60,
        solver={"max_completion_length": ANSWER_TOKENS, "report_to": "none", "logging_steps": 1},
    )  # fmt: skip
    clock = Clock()
    watch(clock)
    with TimedService(info) as service:

        def begin(request: Any) -> bool:
            if request.cycle == 1:
                clock.forget()  # the warm-up is over when the second cycle's answers come
            return True

        service.on_grade = begin
        if code := grpo.main(["--run", str(run), "--service", service.url]):
            raise SystemExit(f"the trainer ended with exit code {code}")
    state = json.loads((run / "checkpoints" / "final" / "trainer_state.json").read_text())
    steps = [entry["step_time"] for entry in state["log_history"] if "step_time" in entry][1:]
    ours = {"reward": clock.seconds["reward"] - clock.service}
    ours |= {name: clock.seconds[name] for name in ("stream", "callbacks")}
    step = sum(steps) + ours["stream"] + ours["callbacks"]
    return {
        "overhead_share": round(sum(ours.values()) / step, 5),
        "allowed_share": LIMIT,
        "parameters": parameters,
        "steps": len(steps),
        "step_s": round(step / len(steps), 3),
        "service_s": round(clock.service / len(steps), 4),
        **{f"{name}_ms": round(1000 * seconds / len(steps), 2) for name, seconds in ours.items()},
    }


def table_of(found: dict[str, Any]) -> Table:
    table = Table()
    table.add_column("ours")
    table.add_column("ms a step", justify="right")
    for name in ("stream", "callbacks", "reward"):
        table.add_row(name, f"{found[f'{name}_ms']:.2f}")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=3, help="cycles that count, one update each")
    options = parser.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.cycles, Path(folder))
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, {found['parameters'] / 1e6:.0f}M parameters on the CPU"
    )
    console.print(f"a step takes {found['step_s']:.2f} s, mean of {found['steps']}")
    console.print(table_of(found))
    print(json.dumps(found))
    return 0 if found["overhead_share"] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
