"""`rri run` and `rri serve`."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rri.cli.console import ProgressLine, describe, progress_line
from rri.cli.opening import launch_config, open_folder, opened, start_trainer
from rri.cli.summary import print_summary, summary_of
from rri.config import RunConfig, load_config
from rri.errors import TrainerFailed
from rri.rundir import RunDir
from rri.service.host import hosted
from rri.service.run import OpenRun

__all__ = ["run_command", "serve_command"]

POLL_S = 0.5
TRAINER_AWAY = 75
"""Exit code of a trainer that saved and left because the service was away or paused (EX_TEMPFAIL)."""
MAX_RELAUNCHES = 20
TRAINER_EXIT = "trainer_exit.json"


def run_command(
    directory: Path,
    source: str | None,
    overrides: Mapping[str, Any],
    *,
    quiet: bool,
    as_json: bool,
    dry_run: bool,
) -> int:
    """Serve a run and train on it; the exit code."""
    if dry_run:
        config = load_config(source, overrides) if source else RunDir.existing(directory).config()
        launch_config(config.solver.launch)
        sys.stdout.write(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))
        return 0
    with _interruptible(), open_folder(directory, source, overrides) as (folder, config), progress_line(quiet) as line:
        launch = launch_config(config.solver.launch)
        with opened(folder, config, line.say) as run, hosted(run) as address:
            line.say(f"service at {address.url}, run directory {directory}")
            run.gateway.loop.run(run.store.log("started", "run"))
            if config.solver.cycles:
                _train(run, directory, launch, line)
            _admit_all(run, config, line)
            summary = summary_of(run.store, folder)
    print_summary(summary, as_json=as_json)
    return 0


def serve_command(directory: Path, source: str | None, overrides: Mapping[str, Any], *, quiet: bool) -> int:
    """Serve a run until a signal or a failure."""
    with (
        _interruptible(),
        open_folder(directory, source, overrides) as (folder, config),
        progress_line(quiet) as line,
        opened(folder, config, line.say) as run,
        hosted(run) as address,
    ):
        line.say(f"service at {address.url}; stop it with Ctrl-C")
        while run.error is None:
            _show(run, config, line)
            time.sleep(POLL_S)
        raise run.error


class _interruptible:  # noqa: N801  (reads as a verb)
    """SIGTERM ends a command as Ctrl-C does: cleanly, resumable."""

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._raise)

    @staticmethod
    def _raise(*_: object) -> None:
        raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _show(run: OpenRun, config: RunConfig, line: ProgressLine) -> None:
    stats = run.stats()
    line.update(describe(stats, time.monotonic() - line.started, config.solver.cycles))


def _train(run: OpenRun, directory: Path, launch: Path, line: ProgressLine) -> None:
    """Run the trainer to its end, again after each exit 75.

    Raises:
        RriError: what failed the run, or `TrainerFailed`.
    """
    log = run.folder.logs / "trainer.log"
    started = time.monotonic()
    for _ in range(MAX_RELAUNCHES):
        (directory / TRAINER_EXIT).unlink(missing_ok=True)
        trainer = start_trainer(directory, launch, log)
        try:
            code = _watch(run, trainer, line)
        finally:
            _end(trainer)
        if code == 0:
            run.store.log_sync("stage", "training", seconds=time.monotonic() - started)
            return
        code, why = _told(directory, code, log)
        if code != TRAINER_AWAY:
            raise TrainerFailed(f"the trainer ended with exit code {code}: {why}", f"Look at {log}")
        run.store.log_sync("relaunch", "the trainer left because the service was away")
    raise TrainerFailed(f"the trainer left {MAX_RELAUNCHES} times", f"Look at {log}")


def _watch(run: OpenRun, trainer: subprocess.Popen[bytes], line: ProgressLine) -> int:
    while (code := trainer.poll()) is None:
        if run.error is not None:
            raise run.error
        _show(run, run.config, line)
        time.sleep(POLL_S)
    if run.error is not None:
        raise run.error
    return code


def _end(trainer: subprocess.Popen[bytes]) -> None:
    if trainer.poll() is None:
        trainer.terminate()
        try:
            trainer.wait(timeout=10)
        except subprocess.TimeoutExpired:
            trainer.kill()
            trainer.wait()


def _admit_all(run: OpenRun, config: RunConfig, line: ProgressLine) -> None:
    """Wait for the tasks that training did not need."""
    future = run.gateway.loop.submit(run.finished_admitting())
    while not future.done():
        _show(run, config, line)
        time.sleep(POLL_S)
    future.result()


def _told(directory: Path, code: int, log: Path) -> tuple[int, str]:
    """The trainer's own exit code and message: launchers turn every code into 1."""
    try:
        told = json.loads((directory / TRAINER_EXIT).read_text(encoding="utf-8"))
        return int(told["code"]), str(told["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return code, _last_line(log)  # it died without a word


def _last_line(log: Path) -> str:
    lines = [text for text in log.read_text(encoding="utf-8", errors="replace").splitlines() if text.strip()]
    return lines[-1][:300] if lines else "no output"
