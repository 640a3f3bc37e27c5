"""`rri calls`."""

import json
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from rri.config import ROLES
from rri.errors import ConfigError
from rri.rundir import RunDir
from rri.store import KeptCall, read_calls

__all__ = ["calls_command"]


def calls_command(directory: Path, *, role: str, task_id: str, last: int, since: str, as_json: bool) -> int:
    """Print kept calls, oldest first; exit code 0."""
    if role and role not in ROLES:
        raise ConfigError(f"no role {role!r}", f"Roles are {', '.join(ROLES)}")
    RunDir.existing(directory)
    kept = read_calls(directory, role=role, task_id=task_id, since=_time(since), last=last)
    console = Console()
    for call in kept:
        if as_json:
            sys.stdout.write(json.dumps({"id": call.id, "at": call.at, **asdict(call.record)}) + "\n")
        else:
            _show(console, call)
    return 0


def _time(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        raise ConfigError(f"--since {text!r} is no time", "Write for example 2026-05-01T12:00") from None


def _show(console: Console, call: KeptCall) -> None:
    r = call.record
    when = datetime.fromtimestamp(call.at).isoformat(timespec="seconds")
    console.print(Rule(f"call {call.id} {r.role} {r.tag.task_id} {r.tag.sample} at {when}"))
    usage = f"{r.usage.tokens_in} tokens in ({r.usage.cached} cached), {r.usage.tokens_out} out"
    console.print(f"{r.endpoint} {r.model}, try {r.attempt + 1}, {usage}, {r.seconds:.2f} s, {r.money:.6f} money")
    if r.error:
        console.print(Text(f"error: {r.error}", style="red"))
    for message in r.messages:
        console.print(Text(f"[{message['role']}]", style="bold"))
        console.print(Text(message["content"]))
    console.print(Text("[reply]", style="bold"))
    console.print(Text(r.reply or "(none)"))
