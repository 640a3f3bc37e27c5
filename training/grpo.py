"""GRPO on the tasks of a run (METHOD 6): stock TRL trainer, tasks and grades from the service.

    accelerate launch --config_file training/cpu.yaml       -m training.grpo --run DIR   # one process, no GPU
    accelerate launch --config_file training/zero3.yaml     -m training.grpo --run DIR   # eight GPUs, ZeRO-3
    accelerate launch --config_file training/zero3_cpu.yaml -m training.grpo --run DIR   # two CPU ranks, ZeRO-3
    accelerate launch --config_file training/zero3_multinode.yaml --machine_rank R --main_process_ip HOST
        -m training.grpo --service URL --output_dir FOLDER                  # on each of two machines, R is 0 and 1

zero3_offload.yaml and fsdp2.yaml are for eight GPUs too. `--service URL --output_dir FOLDER` takes the place of
`--run DIR` where the trainer shares no disk with the service. Settings come from the run's config; any GRPOConfig
field on the command line overrides them (`--learning_rate 2e-6`, `--report_to wandb`). Stock TRL draws no group
again whose scores are all equal; it teaches nothing and is counted.

Started again, it resumes from the newest complete checkpoint, and writes what the unbroken run would have written.
The result is DIR/checkpoints/final. Exit codes: 0 done, 75 service away (everything up to the last finished cycle
is saved, start again later), else see rri.errors. Launchers turn every code but 0 into 1, so DIR/trainer_exit.json
holds code and message too.
"""

# The first import notes the parent process, the settings below keep the libraries off the network.
# ruff: noqa: I001
from rri.lifetime import die_with_parent

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
# The tools stand on an interface that TRL calls experimental; its version is pinned for that.
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer  # type: ignore[attr-defined]

from rri.client import ServiceClient
from rri.errors import RriError, RunDirError, ServiceUnavailable
from rri.wire import RunInfo
from training.checkpoints import Checkpoint, check_resumable, final_step, newest_complete, publish_final
from training.lifetime import clear_exit, exit_code_of, leave, record_exit
from training.lora import peft_config_of
from training.options import configure, option_parser
from training.pausing import save_before_leaving
from training.peers import Peers
from training.preflight import inspect_start
from training.reasoning import Reasoning
from training.reporting import CycleReport, deliver_unreported
from training.reward import rubric_reward
from training.seeding import CycleSeeds
from training.settings import Schedule
from training.stream import TaskRows, WaitLog, task_stream
from training.tools import ToolRollouts
from training.validation import ValidationRounds
from training.zero_cpu import skip_compiled_ops

log = logging.getLogger("training.grpo")


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
    if run and os.environ.get("RANK", "0") == "0":
        clear_exit(run)
    try:
        client = ServiceClient.connect(run, where.service or "", patience_s=where.patience_s, on_wait=WaitLog())
        info = client.run_info()
        info = info.model_copy(update={"base_model": where.base_model or info.base_model})
        client.patience_s = info.serve_timeout_s
        if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and not torch.cuda.is_available():
            skip_compiled_ops()
        args, schedule = configure(parser, arguments, info, run)
        train(args, schedule, info, client)
    except Exception as error:
        if where.show_traceback or not isinstance(error, RriError):
            log.exception("failed")
        sys.stderr.write(f"training.grpo: {' '.join(str(error).split())}\n")
        if run and run.is_dir():
            record_exit(run, error)
        return exit_code_of(error)
    return 0


def train(args: GRPOConfig, schedule: Schedule, info: RunInfo, client: ServiceClient) -> None:
    """Announce where training starts, train to `args.max_steps`, and publish the result."""
    output, state = Path(str(args.output_dir)), args.distributed_state
    if final_step(output) == args.max_steps:
        log.info("%s is there already, after %d updates: nothing to do", output / "final", args.max_steps)
        return
    peers = Peers(args.ddp_timeout)
    reasoning = inspect_start(args, info, peers)
    checkpoint = newest_complete(output, updates_per_cycle=schedule.updates_per_cycle)
    done = checkpoint.step if checkpoint else 0
    zero_ranks = args.world_size if args.deepspeed_plugin is not None else 0
    check_resumable(checkpoint, zero_ranks=zero_ranks, max_steps=args.max_steps, steps=peers.all(done))
    if state.is_main_process:
        deliver_unreported(client, output, done)
        client.resume(schedule.cycle_of(done))
        log.info("from cycle %d of %d, update %d of %d", schedule.cycle_of(done), info.cycles, done, args.max_steps)
    state.wait_for_everyone()
    if done < args.max_steps:
        train_from(checkpoint, args, schedule, info, client, peers, reasoning)
        state.wait_for_everyone()
        checkpoint = newest_complete(output, updates_per_cycle=schedule.updates_per_cycle)
    if checkpoint is None or checkpoint.step != args.max_steps:
        raise RunDirError(f"no complete checkpoint after update {args.max_steps} in {output}", "Start again")
    if state.is_main_process:
        log.info("the result is %s", publish_final(checkpoint, output))
    state.wait_for_everyone()


def train_from(
    checkpoint: Checkpoint | None,
    args: GRPOConfig,
    schedule: Schedule,
    info: RunInfo,
    client: ServiceClient,
    peers: Peers,
    reasoning: Reasoning,
) -> None:
    """Train from a checkpoint, or from the base model, to `args.max_steps`.

    Raises:
        ServiceUnavailable: the service stayed away. Everything up to the last finished cycle is saved.
    """
    done, rank = checkpoint.step if checkpoint else 0, args.distributed_state.process_index
    eos_token_ids: set[int] = set()
    reward = rubric_reward(
        client,
        tasks_per_cycle=info.tasks_per_cycle,
        rollouts_per_task=info.rollouts_per_task,
        rank=rank,
        eos_token_ids=eos_token_ids,
        timeout_s=info.grade_timeout_s,
        peers=peers,
        reasoning=reasoning,
        tools=info.retrieval,
    )
    first, last = schedule.position_of(done), schedule.position_of(args.max_steps)
    rows = TaskRows(client, first, last, info.tasks_per_cycle)
    validation = ValidationRounds(client, info, schedule, peers, eos_token_ids, reasoning)
    report = CycleReport(
        client,
        schedule,
        Path(str(args.output_dir)),
        peers,
        missing=lambda: validation.away or rows.missing,
        figures=lambda: validation.figures,
    )
    # TRL takes async functions, its hint leaves them out.
    functions: Any = [reward]
    trainer = GRPOTrainer(
        model=info.base_model,
        args=args,
        reward_funcs=functions,
        train_dataset=task_stream(rows),
        callbacks=[CycleSeeds(args.seed, schedule, rank), validation, report],
        peft_config=peft_config_of(info.lora),
        rollout_func=ToolRollouts(client, info.tools, peers) if info.retrieval else None,
    )
    validation.bind(trainer)
    # Known only now: the model's generation config may name more than the tokenizer does.
    eos_token_ids.update(trainer.eos_token_ids)
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
    except ServiceUnavailable:
        save_before_leaving(trainer, schedule, done)
        raise
    if report.away is not None:
        raise report.away


if __name__ == "__main__":
    leave(main())
