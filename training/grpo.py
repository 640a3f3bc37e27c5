"""GRPO on the tasks of a run (METHOD 6): stock TRL trainer, tasks and grades from the service.

    accelerate launch --config_file training/cpu.yaml       -m training.grpo --run DIR   # one process, no GPU
    accelerate launch --config_file training/zero3.yaml     -m training.grpo --run DIR   # eight GPUs, ZeRO-3
    accelerate launch --config_file training/zero3_cpu.yaml -m training.grpo --run DIR   # two CPU ranks, ZeRO-3

Where the trainer shares no disk with the service, `--service URL --output_dir FOLDER` takes the place of
`--run DIR`. Settings come from the run's config; any GRPOConfig field on the command line overrides them
(`--learning_rate 2e-6`). Started again, it resumes from the newest complete checkpoint.

The result is DIR/checkpoints/final. Exit codes: 0 done, 75 service away (start again later), else see
rri.errors. Launchers turn every code but 0 into 1, so DIR/trainer_exit.json holds code and message too.
"""

# The first import notes the parent process, the settings below keep the libraries off the network.
# ruff: noqa: I001
from rri.lifetime import die_with_parent

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer, TrlParser  # type: ignore[attr-defined]

from rri.client import ServiceClient
from rri.wire import RunInfo
from rri.errors import ConfigError, RriError, RunDirError
from training.checkpoints import Checkpoint, final_step, newest_complete, publish_final
from training.lifetime import clear_exit, exit_code_of, record_exit
from training.reporting import CycleReport
from training.reward import rubric_reward
from training.settings import Schedule, base_settings, check_settings, default_batch, derive_settings, solver_settings
from training.stream import WaitLog, task_stream
from training.zero_cpu import skip_compiled_ops

log = logging.getLogger("training.grpo")


@dataclass
class RunArguments:
    """Where the run is. Everything else is a field of GRPOConfig."""

    run: str | None = field(default=None, metadata={"help": "the run directory, on which the service runs"})
    service: str | None = field(default=None, metadata={"help": "URL of the service, instead of --run"})
    base_model: str | None = field(default=None, metadata={"help": "where the base model lies on this machine"})
    patience_s: float = field(default=600.0, metadata={"help": "how long to wait for the service at the start"})
    show_traceback: bool = field(default=False, metadata={"help": "show where in the code an error arose"})


def main(argv: Sequence[str] | None = None) -> int:
    """Train, or go on training, until the run's last cycle; returns the exit code."""
    die_with_parent()
    level = logging.INFO if os.environ.get("RANK", "0") == "0" else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = option_parser()
    where, _ = parser.parse_known_args(arguments)
    run = Path(where.run) if where.run else None
    try:
        client = ServiceClient.connect(run, where.service or "", patience_s=where.patience_s, on_wait=WaitLog())
        info = client.run_info()
        info = info.model_copy(update={"base_model": where.base_model or info.base_model})
        client.patience_s = info.serve_timeout_s
        args, schedule = configure(parser, arguments, info, run)
        train(args, schedule, info, client, run)
    except Exception as error:
        if where.show_traceback or not isinstance(error, RriError):
            log.exception("failed")
        sys.stderr.write(f"training.grpo: {' '.join(str(error).split())}\n")
        if run and run.is_dir():
            record_exit(run, error)
        return exit_code_of(error)
    # Every rank has passed the last barrier; without this, gloo now and then aborts the process on its way out.
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    return 0


def option_parser() -> TrlParser:
    """Options: where the run is, and every field of GRPOConfig."""
    usage = "training.grpo (--run DIR | --service URL) [--FIELD VALUE ...]"
    return TrlParser([RunArguments, GRPOConfig], usage=usage)  # type: ignore[list-item]


def configure(
    parser: TrlParser, arguments: Sequence[str], info: RunInfo, run: Path | None
) -> tuple[GRPOConfig, Schedule]:
    """GRPOConfig from, in rising order: METHOD's settings, what follows from the run, the run's `solver`, flags.

    Raises:
        ConfigError: a setting is unknown, impossible, or clashes with the run.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and not torch.cuda.is_available():
        skip_compiled_ops()
    defaults = base_settings(cuda=torch.cuda.is_available())
    defaults |= {"per_device_train_batch_size": default_batch(info, world), "disable_tqdm": not sys.stderr.isatty()}
    if run:
        defaults["output_dir"] = str(run / "checkpoints")
    solver = solver_settings(info.solver, [item.name for item in fields(GRPOConfig)])
    parser.set_defaults(**defaults | solver)
    chosen, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise ConfigError(f"unknown option {' '.join(unknown)}", "See training.grpo --help")
    if not chosen.output_dir:
        raise ConfigError("--service without --output_dir", "Say where checkpoints go")
    derived, schedule = derive_settings(
        info, world_size=world, batch_size=chosen.per_device_train_batch_size, num_iterations=chosen.num_iterations
    )
    parser.set_defaults(**defaults | derived | solver)
    check_settings(parser.parse_args(arguments), derived, schedule)
    try:
        _, args = parser.parse_args_into_dataclasses(arguments, look_for_args_file=False)
    except ValueError as error:
        raise ConfigError(f"GRPOConfig refuses the settings: {error}") from error
    if args.world_size != world:
        raise ConfigError(
            f"the launcher started {world} ranks, but this one sees {args.world_size}",
            "Take a launch file of training/ as the pattern: without GPUs, use_cpu there is false",
        )
    return args, schedule


def train(args: GRPOConfig, schedule: Schedule, info: RunInfo, client: ServiceClient, run: Path | None) -> None:
    """Announce where training starts, train to `args.max_steps`, and publish the result."""
    output, state = Path(str(args.output_dir)), args.distributed_state
    if state.is_main_process and run:
        clear_exit(run)
    if final_step(output) == args.max_steps:
        log.info("%s is there already, after %d updates: nothing to do", output / "final", args.max_steps)
        return
    checkpoint = newest_complete(output, updates_per_cycle=schedule.updates_per_cycle)
    done = checkpoint.step if checkpoint else 0
    check_resumable(checkpoint, args)
    if state.is_main_process:
        client.resume(schedule.cycle_of(done))
        log.info("from cycle %d of %d, update %d of %d", schedule.cycle_of(done), info.cycles, done, args.max_steps)
    state.wait_for_everyone()
    if done < args.max_steps:
        eos_token_ids: set[int] = set()
        reward = rubric_reward(
            client,
            tasks_per_cycle=info.tasks_per_cycle,
            rollouts_per_task=info.rollouts_per_task,
            rank=state.process_index,
            eos_token_ids=eos_token_ids,
            timeout_s=info.grade_timeout_s,
        )
        stream = task_stream(client, schedule.position_of(done), schedule.position_of(args.max_steps))
        # TRL takes async functions, its hint leaves them out.
        functions: Any = [reward]
        told = [CycleReport(client, schedule)]
        trainer = GRPOTrainer(
            model=info.base_model, args=args, reward_funcs=functions, train_dataset=stream, callbacks=told
        )
        # Known only now: the model's generation config may name more than the tokenizer does.
        eos_token_ids.update(trainer.eos_token_ids)
        trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
        state.wait_for_everyone()
        checkpoint = newest_complete(output, updates_per_cycle=schedule.updates_per_cycle)
    if checkpoint is None or checkpoint.step != args.max_steps:
        raise RunDirError(f"no complete checkpoint after update {args.max_steps} in {output}", "Start again")
    if state.is_main_process:
        log.info("the result is %s", publish_final(checkpoint, output))
    state.wait_for_everyone()


def check_resumable(checkpoint: Checkpoint | None, args: GRPOConfig) -> None:
    """Refuse a checkpoint that these ranks cannot load.

    Raises:
        ConfigError: naming what it was written by.
    """
    if checkpoint is None:
        return
    ranks = args.world_size if args.deepspeed_plugin is not None else 0
    if checkpoint.zero_ranks != ranks:
        raise ConfigError(
            f"{checkpoint.path} was written by {checkpoint.zero_ranks} ZeRO ranks, but this start has {ranks}",
            "Use the launch file and number of processes that the run was begun with",
        )
    if checkpoint.step > args.max_steps:
        raise ConfigError(f"{checkpoint.path} is past max_steps {args.max_steps}", "Leave --max_steps out")


if __name__ == "__main__":
    sys.exit(main())
