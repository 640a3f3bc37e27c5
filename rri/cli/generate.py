"""`rri generate`."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rri.cli.console import describe, progress_line
from rri.cli.opening import open_folder, opened
from rri.cli.run import POLL_S
from rri.errors import InputError
from rri.rundir import write_atomically

__all__ = ["generate_command"]


def generate_command(
    directory: Path, source: str | None, overrides: Mapping[str, Any], out: Path, *, quiet: bool, as_json: bool
) -> int:
    """Admit the run's tasks and write them to `out`; the exit code."""
    if not out.parent.is_dir():
        raise InputError(f"folder {out.parent} does not exist", "Make it, or choose another --out")
    with (
        open_folder(directory, source, overrides) as (folder, config),
        progress_line(quiet) as line,
        opened(folder, config, line.say) as run,
    ):
        loop = run.gateway.loop
        loop.run(run.start())
        future = loop.submit(run.finished_admitting())
        while not future.done():
            line.update(describe(run.stats(), time.monotonic() - line.started, 0))
            time.sleep(POLL_S)
        future.result()
        tasks = [run.store.task(task_id, version) for _, task_id, version in run.store.pool_entries()]
        stats = run.stats()["admission"]
    write_atomically(out, "".join(t.model_dump_json() + "\n" for t in tasks if t is not None))
    if as_json:
        sys.stdout.write(json.dumps({"out": str(out), "tasks": len(tasks), **stats}) + "\n")
    else:
        sys.stdout.write(f"{len(tasks)} tasks in {out}; outcomes: {stats['outcomes']}\n")
    return 0
