"""`rri status`."""

import json
import sys
from pathlib import Path
from typing import Any

from rri.cli.console import describe
from rri.client import ServiceClient
from rri.errors import ServiceError
from rri.rundir import RunDir
from rri.store import Store

__all__ = ["status_command"]


def status_command(directory: Path, *, as_json: bool) -> int:
    """Print whether a run is going on and how far it is; exit code 0 while it is, 11 while it is not."""
    folder = RunDir.existing(directory)
    owner = folder.owner()
    state = _ended(directory) if owner is None else _going_on(directory, owner)
    if as_json:
        sys.stdout.write(json.dumps(state) + "\n")
    else:
        sys.stdout.write(f"{state['state']}\n" + "".join(f"  {line}\n" for line in state["lines"]))
    return 0 if owner is not None else 11


def _going_on(directory: Path, owner: int) -> dict[str, Any]:
    try:
        stats = ServiceClient.connect(run=directory).stats()
    except ServiceError as error:
        # `rri generate` owns a run without serving it, and `rri run` does so until its models are up.
        return {"state": f"process {owner} owns the run and does not serve it", "lines": [error.what]}
    health = stats["health"]
    lines = [describe(stats)]
    lines += [f"last error: {e}" for e in (stats["admission"]["last_error"], stats["grading"]["last_error"]) if e]
    state = f"{health['status']}, process {owner}" + (f": {health['reason']}" if health["reason"] else "")
    return {"state": state, "lines": lines, "stats": stats}


def _ended(directory: Path) -> dict[str, Any]:
    store = Store(directory)
    try:
        outcomes, grading = store.admission_counts(), store.score_summary()
        ended = store.events("ended", 1)
    finally:
        store.close()
    lines = [f"tasks: {outcomes or 'none'}", f"rollouts graded: {grading['rollouts']}"]
    lines += [f"it ended with: {message}" for _, message, _ in ended]
    return {"state": "not running", "lines": lines, "outcomes": outcomes, "grading": grading}
