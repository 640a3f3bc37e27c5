"""`rri probe`: one rubric attacked, both answers side by side."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from programs.roles import Roles
from rri.cli.console import progress_line
from rri.cli.show_answers import print_probe
from rri.config import Sources, load_config
from rri.errors import ModelError, TaskFileError
from rri.lm import open_gateway
from rri.taskfile import read_tasks

__all__ = ["probe_command"]


def probe_command(path: Path, source: Sources, overrides: Mapping[str, Any], *, as_json: bool) -> int:
    """Probe the task of a file; the exit code is 0 when the rubric holds, 10 when not, 11 when that was not measured.

    Raises:
        ModelError: a model gave no usable reply.
    """
    tasks = list(read_tasks(path))
    if len(tasks) != 1:
        raise TaskFileError(f"{path} holds {len(tasks)} tasks", "Give one; `rri generate` attacks many")
    task = tasks[0]
    config = load_config(source, overrides)
    with progress_line(quiet=as_json) as line:
        gateway = open_gateway(config, progress=line.say)
        try:
            line.update("attacking the rubric")
            probe = gateway.loop.run(Roles.bind(config, gateway).prober().probe(task, "probe-0"))
        finally:
            gateway.close_sync()
    if as_json:
        sys.stdout.write(probe.model_dump_json() + "\n")
    else:
        print_probe(Console(), task, probe)
    if probe.failed:
        raise ModelError(f"not measured: {probe.why}")
    return 0 if probe.passed else 10 if probe.status == "measured" else 11
