"""An environment for each grading library, made on demand under build/peers and kept."""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FOLDER", "PEERS", "NotInstalled", "Peer", "ensure", "version"]

FOLDER = Path(__file__).parents[2] / "build" / "peers"
INSTALL_S = 900


@dataclass(frozen=True)
class Peer:
    """A library by its name on PyPI, what its manual has users install beside it, and the verdicts that it asks for.

    Each has an environment of its own: they pin versions of one another's parts that exclude each other.
    """

    name: str
    dialect: str
    beside: tuple[str, ...] = ()


PEERS = (
    Peer("autorubric", "status"),
    Peer("rubric", "status", ("openai",)),
    Peer("inspect-ai", "letter", ("openai",)),
    Peer("verifiers", "named"),
)


class NotInstalled(Exception):
    """Why an environment could not be made."""


def ensure(peer: Peer, say: Callable[[str], None]) -> Path:
    """The environment's Python.

    Raises:
        NotInstalled: it could not be made; the next run tries again.
    """
    folder = FOLDER / peer.name
    python, stamp = folder / "bin" / "python", folder / ".installed"
    packages = [peer.name, *peer.beside]
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == json.dumps(packages):
        return python
    say(f"installing {', '.join(packages)} under {folder}")
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    stamp.write_text(json.dumps(packages), encoding="utf-8")
    return python


def version(peer: Peer) -> str:
    """The installed version.

    Raises:
        NotInstalled: the environment lacks the library.
    """
    site = [str(path) for path in (FOLDER / peer.name / "lib").glob("python*/site-packages")]
    found = next(iter(importlib.metadata.distributions(name=peer.name, path=site)), None)
    if found is None:
        raise NotInstalled(f"{peer.name} is not in {FOLDER / peer.name}")
    return found.version


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"not installed: {error}") from None
    if done.returncode:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise NotInstalled(f"not installed: {lines[-1] if lines else f'exit code {done.returncode}'}")
