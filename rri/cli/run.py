"""`rri run` and `rri serve`."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rri.cli.console import Pace, ProgressLine, progress_line
from rri.cli.opening import given_config, launch_config, open_folder, opened, saved_config, start_trainer
from rri.cli.plan import plan_lines
from rri.cli.summary import print_summary, summary_of
from rri.config import Sources
from rri.errors import Interrupted, TrainerFailed
from rri.service.host import hosted
from rri.service.run import OpenRun

__all__ = ["interruptible", "run_command", "serve_command"]

POLL_S = 0.5
TRAINER_AWAY = 75
"""Exit code of a trainer that saved and left because the service was away or paused (EX_TEMPFAIL)."""
MAX_RELAUNCHES = 20
TRAINER_EXIT = "trainer_exit.json"


def run_command(
    directory: Path,
    source: Sources | None,
    overrides: Mapping[str, Any],
    *,
    quiet: bool,
    as_json: bool,
    dry_run: bool,
) -> int:
    """Serve a run and train on it, or only print its plan; the exit code."""
    if dry_run:
        config = given_config(directory, source, overrides) or saved_config(directory)
        launch_config(config.solver.launch)
        sys.stdout.write("".join(f"{line}\n" for line in plan_lines(config)))
        sys.stdout.write(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True))
        return 0
    with (
        interruptible(),
        progress_line(quiet) as line,
        open_folder(directory, source, overrides, line.say) as (folder, config, material),
    ):
        launch = launch_config(config.solver.launch)
        with opened(folder, config, material, line.say) as run, hosted(run) as address:
            line.say(f"service at {address.url}, run directory {directory}")
            pace = Pace(run.stats())
            if config.solver.cycles:
                _train(run, directory, launch, line, pace)
            _wait_for(run, run.finished_admitting(), line, pace)
            _wait_for(run, run.finished_looping(), line, pace)
            run.store.log_sync("ended", "finished")
            summary = summary_of(run.store, folder)
    print_summary(summary, as_json=as_json)
    return 0


def serve_command(directory: Path, source: Sources | None, overrides: Mapping[str, Any], *, quiet: bool) -> int:
    """Serve a run until a signal or a failure."""
    with (
        interruptible(),
        progress_line(quiet) as line,
        open_folder(directory, source, overrides, line.say) as (folder, config, material),
        opened(folder, config, material, line.say) as run,
        hosted(run) as address,
    ):
        line.say(f"service at {address.url}; stop it with Ctrl-C")
        pace = Pace(run.stats())
        while run.error is None:
            line.update(pace.describe(run.stats()))
            time.sleep(POLL_S)
        raise run.error


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: cleanly, resumable, with one line."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    on_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, interrupt) if on_main else None
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted", "Run the same command again to go on") from None
    finally:
        if on_main:
            signal.signal(signal.SIGTERM, before)


def _train(run: OpenRun, directory: Path, launch: Path, line: ProgressLine, pace: Pace) -> None:
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
            code = _watch(run, trainer, line, pace)
        finally:
            _end(trainer)
        if code == 0:
            run.store.log_sync("stage", "training", seconds=time.monotonic() - started)
            return
        code, why = _told(directory, code, log)
        if code != TRAINER_AWAY:
            failure = TrainerFailed(f"the trainer ended with exit code {code}: {why}", f"Look at {log}")
            run.store.log_sync("ended", str(failure))
            raise failure
        run.store.log_sync("relaunch", "the trainer left because the service was away")
    raise TrainerFailed(f"the trainer left {MAX_RELAUNCHES} times", f"Look at {log}")


def _watch(run: OpenRun, trainer: subprocess.Popen[bytes], line: ProgressLine, pace: Pace) -> int:
    while (code := trainer.poll()) is None:
        if run.error is not None:
            raise run.error
        line.update(pace.describe(run.stats()))
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


def _wait_for(run: OpenRun, work: Coroutine[Any, Any, None], line: ProgressLine, pace: Pace) -> None:
    """Wait for background work that training did not wait for."""
    future = run.gateway.loop.submit(work)
    while not future.done():
        line.update(pace.describe(run.stats()))
        time.sleep(POLL_S)
    future.result()


def _told(directory: Path, code: int, log: Path) -> tuple[int, str]:
    """The trainer's own exit code and message: launchers turn every code into 1."""
    try:
        told = json.loads((directory / TRAINER_EXIT).read_text(encoding="utf-8"))
        return int(told["code"]), str(told["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return code, _last_words(log)


_SIGNAL = re.compile(r"traceback *: (Signal .+)")
"""How a launcher of several ranks says which signal ended one of them."""


def _last_words(log: Path) -> str:
    """Of a trainer that died without a word: the signal that ended a rank, or the last line that says anything."""
    text = log.read_text(encoding="utf-8", errors="replace")
    if signals := _SIGNAL.findall(text):
        return f"a rank was ended: {signals[-1][:300]}"
    lines = [line.strip() for line in text.splitlines() if any(map(str.isalpha, line))]
    return lines[-1][:300] if lines else "no output"
