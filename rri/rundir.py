"""The run directory: lock, resolved config, manifest (DESIGN, data)."""

import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from rri.config import RunConfig, parse_config
from rri.errors import RunConfigChanged, RunDirError, RunLocked, RunVersionMismatch

__all__ = ["LAYOUT", "RESUMABLE", "RunDir", "fixed_part", "write_atomically"]

LAYOUT = 1
"""Version of the run directory's layout."""

KEPT_STARTS = 50
LOCK_TRIES, LOCK_PAUSE_S = 5, 0.02

CONFIG, MANIFEST, LOCK = "run.yaml", "manifest.json", "run.lock"
VERSIONED = ("rri", "dspy", "torch", "transformers", "trl", "accelerate", "deepspeed", "chromadb", "xllamacpp")


RESUMABLE: dict[str, set[str] | None] = {
    # What may change between a start and a resume: budgets, endpoints, concurrency and waiting.
    "budget": None,
    "endpoints": None,
    "service": None,
    "cache": None,
    "loop": None,
    "generation": {"concurrency", "failures_in_a_row"},
    "admission": {"concurrency"},
    "grading": {"concurrency", "unscored_in_a_row", "deadline_s", "warm_prefix"},
    "pool": {"fresh_wait_s", "ahead"},
    "exploits": {"concurrency"},
    "patches": {"concurrency"},
    "evolution": {"concurrency"},
    "solver": {"launch", "per_device_batch", "grade_timeout_s", "serve_timeout_s"},
    "validation": {"alarm_rounds", "alarm_tolerance"},
}


def fixed_part(config: RunConfig) -> dict[str, Any]:
    """The part of a config that a resumed run must share with its start."""
    data = config.model_dump(mode="json")
    for section, fields in RESUMABLE.items():
        if fields is None:
            data.pop(section)
        else:
            for field in fields:
                data[section].pop(field)
    return data


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a kill leaves the old one or the new one, never half of it."""
    scratch = path.with_name(f".{path.name}.tmp")
    try:
        with scratch.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as error:
        raise RunDirError(f"cannot write {path}: {error.strerror}", "Check the disk and the rights") from None


class RunDir:
    """One run's folder, owned by this process while it is open.

    Use `create_or_resume` to own it, `existing` to look at it beside its owner.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: Any = None

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def index(self) -> Path:
        return self.path / "index"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @classmethod
    def existing(cls, path: Path) -> Self:
        """A run directory to read from.

        Raises:
            RunDirError: it is none, or of another layout version.
        """
        run = cls(path)
        if not (path / MANIFEST).is_file():
            raise RunDirError(f"{path} is no run directory ({MANIFEST} is missing)", "Start one with: rri run DIR")
        run._check_layout()
        return run

    @classmethod
    def create_or_resume(cls, path: Path, config: RunConfig | None, *, facts: Mapping[str, Any] | None = None) -> Self:
        """Lock the directory; write the config into a new one, check it against an old one.

        Args:
            path: the directory, made when missing.
            config: the config to start or resume with; None resumes with the saved one.
            facts: digests and seeds for the manifest of a new run.

        Raises:
            RunLocked: another process owns it.
            RunVersionMismatch: it has another layout version.
            RunConfigChanged: the config differs in more than may change.
            RunDirError: it cannot be made, or it is new and no config is given.
        """
        run = cls(path)
        try:
            run.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirError(f"cannot make {path}: {error.strerror}", "Choose another folder") from None
        run._acquire()
        try:
            run._start_or_check(config, facts or {})
        except BaseException:
            run.close()
            raise
        return run

    def _start_or_check(self, config: RunConfig | None, facts: Mapping[str, Any]) -> None:
        if (self.path / MANIFEST).is_file():
            self._check_layout()
            self._check_facts(facts)
            if config is not None:
                self._check_unchanged(config)
                self.save_config(config)
        elif config is None:
            raise RunDirError(f"{self.path} holds no run yet", "Name a config or preset with --config")
        else:
            self.save_config(config)
            manifest = {"layout": LAYOUT, "run_id": _run_id(self.path), "created": time.time(), **facts}
            # Written last: a directory without a manifest is a run that never began.
            write_atomically(self.path / MANIFEST, json.dumps(manifest, indent=2) + "\n")

    def _acquire(self) -> None:
        self._lock = (self.path / LOCK).open("a+", encoding="utf-8")
        if not self._try_lock():
            self._lock.seek(0)
            owner = self._lock.read().strip() or "unknown"
            self._lock.close()
            self._lock = None
            raise RunLocked(f"{self.path} is in use by process {owner}", "Wait for it, or stop it") from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()

    def _try_lock(self) -> bool:
        """A few tries, because `owner` of another process holds the lock for a moment."""
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(LOCK_PAUSE_S)
            else:
                return True
        return False

    def close(self) -> None:
        """Give the directory back."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def owner(self) -> int | None:
        """Process that owns the directory now, None when nobody does."""
        try:
            with (self.path / LOCK).open("r+", encoding="utf-8") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    text = lock.read().strip()
                    return int(text) if text.isdigit() else -1
        except FileNotFoundError:
            return None
        return None

    def config(self) -> RunConfig:
        """The config as resolved.

        Raises:
            RunDirError: it cannot be read.
        """
        path = self.path / CONFIG
        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RunDirError(f"cannot read {path}: {error}", "Restore the file from a backup") from None
        return parse_config(data, where=str(path))

    def save_config(self, config: RunConfig) -> None:
        text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        write_atomically(self.path / CONFIG, text)

    def manifest(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        return data

    def add_start(self, **facts: Any) -> None:
        """Add what this start runs with to the manifest; the latest KEPT_STARTS are kept."""
        manifest = self.manifest()
        start = {"at": time.time(), **_versions(), **facts}
        manifest["starts"] = [*manifest.get("starts", []), start][-KEPT_STARTS:]
        write_atomically(self.path / MANIFEST, json.dumps(manifest, indent=2) + "\n")

    def _check_layout(self) -> None:
        try:
            layout = self.manifest().get("layout")
        except (OSError, ValueError) as error:
            raise RunDirError(
                f"cannot read {self.path / MANIFEST}: {error}", "Restore the file from a backup"
            ) from None
        if layout != LAYOUT:
            raise RunVersionMismatch(
                f"{self.path} has layout version {layout}, this rri reads version {LAYOUT}",
                "Use the rri version that wrote it, or start a new run",
            )

    def _check_facts(self, facts: Mapping[str, Any]) -> None:
        """Passages, weights and validation tasks lie outside the directory and may have changed under their names."""
        manifest = self.manifest()
        for name, read in (
            ("passages", ("corpus", "digest")),
            ("base model's weights", ("weights",)),
            ("validation tasks", ("validation", "digest")),
        ):
            old, new = _at(manifest, read), _at(facts, read)
            if old and new and old != new:
                raise RunConfigChanged(
                    f"the {name} of {self.path} have changed since its start (digest {old[:12]}, now {new[:12]})",
                    "Restore them, or start a new run",
                )

    def _check_unchanged(self, config: RunConfig) -> None:
        saved, given = fixed_part(self.config()), fixed_part(config)
        for key, old, new in _differences(saved, given):
            raise RunConfigChanged(
                f"{self.path} was started with {key} = {old!r}, now it is {new!r}",
                "Resume without --config, or start a new run; only budgets, endpoints, concurrency and waits "
                "may change",
            )


def _differences(saved: Mapping[str, Any], given: Mapping[str, Any], at: str = "") -> list[tuple[str, Any, Any]]:
    found: list[tuple[str, Any, Any]] = []
    for key in [*saved, *(k for k in given if k not in saved)]:
        old, new = saved.get(key), given.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(old, new, f"{at}{key}.")
        elif old != new:
            found.append((f"{at}{key}", old, new))
    return found


def _at(facts: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        facts = facts.get(key) if isinstance(facts, Mapping) else None  # type: ignore[assignment]
    return facts


def _run_id(path: Path) -> str:
    return hashlib.blake2b(f"{path.resolve()}:{time.time_ns()}".encode(), digest_size=6).hexdigest()


def _versions() -> dict[str, Any]:
    versions = {}
    for name in VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {"python": platform.python_version(), "packages": versions}
