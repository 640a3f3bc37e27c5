"""The trainer's command line: where the run is, and every field of GRPOConfig."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import torch
from trl import GRPOConfig, TrlParser  # type: ignore[attr-defined]

from rri.errors import ConfigError
from rri.wire import RunInfo
from training.settings import (
    Schedule,
    base_settings,
    check_settings,
    default_batch,
    derive_settings,
    generation_settings,
    solver_settings,
)

__all__ = ["RunArguments", "configure", "option_parser"]


@dataclass
class RunArguments:
    """Where the run is. Everything else is a field of GRPOConfig."""

    run: str | None = field(default=None, metadata={"help": "the run directory, on which the service runs"})
    service: str | None = field(default=None, metadata={"help": "URL of the service, instead of --run"})
    base_model: str | None = field(default=None, metadata={"help": "where the base model lies on this machine"})
    patience_s: float = field(default=600.0, metadata={"help": "how long to wait for the service at the start"})
    show_traceback: bool = field(default=False, metadata={"help": "show where in the code an error arose"})


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
    generation = generation_settings(info, chosen.max_completion_length)
    parser.set_defaults(**defaults | generation | derived | solver)
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
