"""Running the command line as a user does, in this process or in one of its own."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from rri.cli.main import main
from rri.config import RunConfig

__all__ = ["Outcome", "rri_here", "start_rri", "write_config"]

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str

    @property
    def error_line(self) -> str:
        """The one line that starts with `error:`; fails when there is another number of them."""
        lines = [line for line in self.err.splitlines() if line.startswith("error:")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]


def write_config(path: Path, config: RunConfig) -> str:
    """The config as a YAML file; its path."""
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")), encoding="utf-8")
    return str(path)


def rri_here(capsys: pytest.CaptureFixture[str], *arguments: str) -> Outcome:
    """`rri ARGUMENTS` in this process."""
    before, sys.argv = sys.argv, ["rri", *arguments]
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        sys.argv = before
    printed = capsys.readouterr()
    return Outcome(int(end.value.code or 0), printed.out, printed.err)


def start_rri(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """`rri ARGUMENTS` in a process of its own, its output in `log`."""
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "rri.cli.main", *arguments], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT
        )
