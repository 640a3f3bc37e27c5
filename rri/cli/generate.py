"""`rri generate`."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rri.cli.console import Pace, progress_line
from rri.cli.opening import open_folder, opened
from rri.cli.run import POLL_S, interruptible
from rri.config import Sources
from rri.errors import InputError
from rri.rundir import write_atomically

__all__ = ["generate_command"]


def generate_command(
    directory: Path, source: Sources | None, overrides: Mapping[str, Any], out: Path, *, quiet: bool, as_json: bool
) -> int:
    """Admit the run's tasks and write them to `out`; the exit code."""
    if not out.parent.is_dir():
        raise InputError(f"folder {out.parent} does not exist", "Make it, or choose another --out")
    with (
        interruptible(),
        progress_line(quiet) as line,
        open_folder(directory, source, overrides, line.say) as (folder, config, material),
        opened(folder, config, material, line.say) as run,
    ):
        loop = run.gateway.loop
        loop.run(run.start(serving=False))
        pace = Pace(run.stats())
        future = loop.submit(run.finished_admitting())
        while not future.done():
            line.update(pace.describe(run.stats()))
            time.sleep(POLL_S)
        future.result()
        tasks = [run.store.task(task_id, version) for _, task_id, version in run.store.pool_entries()]
        stats = run.stats()["admission"]
        run.store.log_sync("ended", "finished")
    write_atomically(out, "".join(t.model_dump_json() + "\n" for t in tasks if t is not None))
    if as_json:
        sys.stdout.write(json.dumps({"out": str(out), "tasks": len(tasks), **stats}) + "\n")
    else:
        sys.stdout.write(f"{len(tasks)} tasks in {out}; outcomes: {stats['outcomes']}\n")
    return 0
