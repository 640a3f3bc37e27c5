"""`rri status`."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rri.cli.console import counted, describe, readable_time, share
from rri.client import ServiceClient
from rri.config import RunConfig
from rri.errors import ServiceError
from rri.rundir import RunDir
from rri.service.validation import validation_stats
from rri.store import Store

__all__ = ["status_command"]


def status_command(directory: Path, *, as_json: bool) -> int:
    """Print whether a run is going on and how far it is; exit code 0 while it is, 11 while it is not."""
    folder = RunDir.existing(directory)
    owner = folder.owner()
    state = _ended(folder) if owner is None else _going_on(folder, owner)
    if as_json:
        sys.stdout.write(json.dumps(state) + "\n")
    else:
        sys.stdout.write(f"{state['state']}\n" + "".join(f"  {line}\n" for line in state["lines"]))
    return 0 if owner is not None else 11


def _going_on(folder: RunDir, owner: int) -> dict[str, Any]:
    try:
        stats = ServiceClient.connect(run=folder.path).stats()
    except ServiceError as error:
        # `rri generate` owns a run without serving it, and `rri run` does so until its models are up.
        return {"state": f"process {owner} owns the run and does not serve it", "lines": [error.what]}
    health, loop = stats["health"], stats["loop"]
    lines = [describe(stats), *_loop(loop), *_validation(stats["validation"]), _hours(stats["hours"], folder.config())]
    errors = {name: stats[name] for name in ("admission", "grading", "loop", "search")}
    lines += [f"last error of {name}: {part['last_error']}" for name, part in errors.items() if part["last_error"]]
    lines += [f"shape controls: {warning}" for warning in stats["shape"]["warnings"]]
    state = f"{health['status']}, process {owner}" + (f": {health['reason']}" if health["reason"] else "")
    return {"state": state, "lines": lines, "stats": stats}


def _loop(loop: dict[str, Any]) -> Iterator[str]:
    """What the loop has done so far, where it has done anything."""
    if loop["rankings"] or loop["patches"]:
        yield (
            f"groups ranked: {counted(loop['rankings'])}; cases: {counted(loop['patches'])}; "
            f"{loop['accepted']} criteria accepted"
        )
    if loop["evolutions"]:
        yield f"guidance {loop['guidance']} and memo {loop['memo']} in force after {loop['evolutions']} rounds"


def _validation(validation: dict[str, Any]) -> Iterator[str]:
    """The latest round, and the alarm, where there is any."""
    if validation["rounds"]:
        score = "none scored" if validation["score"] is None else f"score {validation['score']:.3f}"
        yield (
            f"validation after cycle {validation['cycle']} on {validation['tasks']} tasks: {score}, "
            f"{validation['unscored_share']:.0%} unscored, {validation['truncated_share']:.0%} truncated"
        )
    if validation["alarm"]:
        yield f"ALARM: {validation['alarm']}"


def _hours(hours: float, config: RunConfig) -> str:
    limit = config.budget.hours
    of = f" of {limit:g} h ({share(hours, limit)})" if limit else ""
    return f"open for {readable_time(3600 * hours)}{of}, over all starts"


def _ended(folder: RunDir) -> dict[str, Any]:
    store, config = Store(folder.path), folder.config()
    try:
        outcomes, grading, hours = store.admission_counts(), store.score_summary(), store.hours_open()
        failures = [message for _, message, _ in store.events("loop_failed")]
        loop = {
            "backlog": len(store.open_reports()),
            "failures": len(failures),
            "last_error": failures[-1] if failures else "",
            "evolutions": sum(row.outcome == "done" for row in store.rounds("evolution")),
            "guidance": max((v.version for v in store.guidance_versions()), default=0),
            "memo": max((v.version for v in store.memo_versions()), default=0),
            **store.loop_figures(),
        }
        held_out = folder.manifest().get("validation", {"tasks": 0})["tasks"]
        validation = validation_stats(store, config.validation, held_out)
        ended = _how_it_ended(store)
    finally:
        store.close()
    lines = [f"tasks: {counted(outcomes, 'none')} of {config.generation.tasks}"]
    lines += [f"rollouts graded: {grading['rollouts']} in {grading['cycles']} of {config.solver.cycles} cycles"]
    lines += [*_loop(loop), *_unfinished(loop), *_validation(validation), _hours(hours, config), ended]
    parts = {"outcomes": outcomes, "grading": grading, "loop": loop, "hours": hours, "ended": ended}
    return {"state": "not running", "lines": lines, **parts, "validation": validation}


def _unfinished(loop: dict[str, Any]) -> Iterator[str]:
    if n := loop["backlog"]:
        yield f"{n} finished {'cycle waits' if n == 1 else 'cycles wait'} for the loop; the next start works them off"
    if loop["failures"]:
        yield f"failed rounds of the loop: {loop['failures']}; the last one: {loop['last_error']}"


def _how_it_ended(store: Store) -> str:
    """How the latest start ended. One that was killed or interrupted leaves no word, and an older word is not its."""
    starts, ended = store.events("open", 1), store.events("ended", 1)
    if not starts:
        return "it was never started"
    last_seen, start, _ = starts[-1]
    if ended and ended[-1][0] >= float(start):
        return f"it ended with: {ended[-1][1]}"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(last_seen))
    return f"it ended without a word (interrupted, killed, or `rri generate`); open at {when} for the last time"
