"""Processes that the tests start: the trainer, or any Python module."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DEADLINE_S = 120
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Started:
    """A process; what it prints goes to a file, so that it never blocks on a full pipe."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text()

    def wait(self) -> int:
        """The exit code; fails the test at the deadline."""
        return self.process.wait(timeout=DEADLINE_S)


Launch = Callable[..., Started]

Start = Callable[..., tuple[int, list[str]]]
"""Runs the trainer's main() in this process; its exit code and its own lines on stderr."""


def trainer(launch: Launch, config: str, run: Path, url: str, *flags: str, **env: str) -> Started:
    """`accelerate launch` of the trainer with a launch file of `training/`, or one given as a whole path."""
    run.mkdir(exist_ok=True)
    where = ("--run", str(run), "--service", url)
    file = str(ROOT / "training" / config)
    return launch("accelerate.commands.launch", "--config_file", file, "-m", "training.grpo", *where, *flags, **env)
