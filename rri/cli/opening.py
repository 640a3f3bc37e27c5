"""What the commands that own a run share: its folder, its config, its base model, its processes."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from rri.cli.plan import why_refused
from rri.config import EMBEDDED, RunConfig, Sources, apply_overrides, load_config, parse_config
from rri.errors import ConfigError, EmbeddedModelError, RunDirError
from rri.heap import settle_heap
from rri.lifetime import leashed
from rri.lm.embedded import GGUF_SHA256, cache_dir, fetch_gguf
from rri.rundir import RunDir, fixed_part
from rri.service.host import check_access
from rri.service.material import Material, gather
from rri.service.run import OpenRun
from rri.types import digest_of

__all__ = [
    "given_config",
    "launch_config",
    "open_folder",
    "opened",
    "resolve_base_model",
    "saved_config",
    "start_trainer",
]

Progress = Callable[[str], None]


@contextlib.contextmanager
def open_folder(
    directory: Path, source: Sources | None, overrides: Mapping[str, Any], progress: Progress
) -> Iterator[tuple[RunDir, RunConfig, Material]]:
    """Check what a run is made from, then lock its directory, new or old, while the block lasts.

    Raises:
        ConfigError: the config is wrong, or asks for what this version cannot do.
    """
    given = given_config(directory, source, overrides)
    config = given or saved_config(directory)
    if why := why_refused(config):
        raise ConfigError(why, "Add -s solver.retrieval=false")
    check_access(config.service)
    material = gather(config, resolve_base_model(config, progress), progress)
    facts = {"seed": config.seed, "arm": config.arm, "config": digest_of(fixed_part(config)), **material.facts()}
    folder = RunDir.create_or_resume(directory, given, facts=facts)
    try:
        yield folder, config, material
    finally:
        folder.close()


def given_config(directory: Path, source: Sources | None, overrides: Mapping[str, Any]) -> RunConfig | None:
    """The config that a command names; None when it names none and the run's own holds.

    Args:
        directory: the run directory, whose config the overrides change when there is no source.
        source: presets and files, later ones over earlier ones.
        overrides: values by dotted key.
    """
    if source:
        return load_config(source, overrides)
    if not overrides:
        return None
    saved = RunDir.existing(directory).config().model_dump(mode="json")
    apply_overrides(saved, overrides)
    return parse_config(saved, where=str(directory / "run.yaml"))


def saved_config(directory: Path) -> RunConfig:
    """The config of a run that was started before.

    Raises:
        RunDirError: there is none.
    """
    if not directory.exists():
        raise RunDirError(f"{directory} holds no run yet", "Name a config or preset with --config")
    return RunDir.existing(directory).config()


@contextlib.contextmanager
def opened(folder: RunDir, config: RunConfig, material: Material, progress: Progress) -> Iterator[OpenRun]:
    """An open run while the block lasts."""
    run = OpenRun.open(folder, config, material, progress)
    settle_heap()
    try:
        yield run
    finally:
        run.close()


def resolve_base_model(config: RunConfig, progress: Progress) -> str | Path:
    """Folder or name of the solver's base model; the embedded one is converted once.

    Raises:
        EmbeddedModelError: the conversion failed.
        ConfigError: the model is not on this machine.
    """
    if config.solver.base_model != EMBEDDED:
        return local_model(config.solver.base_model)
    folder = cache_dir() / f"smollm2-135m-instruct-{GGUF_SHA256[:8]}"
    if (folder / "config.json").is_file():
        return folder
    gguf = fetch_gguf(progress)
    progress("converting the embedded model for training (once)")
    command = leashed([sys.executable, "-m", "training.base_model", str(gguf), str(folder)])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (folder / "config.json").is_file():
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise EmbeddedModelError(f"the embedded model could not be converted: {last}", "pip install 'rri[train]'")
    return folder


def local_model(name: str) -> str | Path:
    """A model's folder as it is, or the local snapshot of a hub's name: nothing is fetched in the middle of a run."""
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, HfHubHTTPError):
        raise ConfigError(
            f"solver.base_model {name!r} is no folder and not in the local cache",
            f"Fetch it first: hf download {name}",
        ) from None


def launch_config(name: str) -> Path:
    """Path of an accelerate config: a name in training/, or a path.

    Raises:
        ConfigError: there is no such file.
    """
    packaged = resources.files("training")
    for candidate in (Path(name), Path(str(packaged.joinpath(f"{name}.yaml"))), Path(str(packaged.joinpath(name)))):
        if candidate.is_file():
            return candidate
    known = sorted(f.name.removesuffix(".yaml") for f in packaged.iterdir() if f.name.endswith(".yaml"))
    raise ConfigError(f"solver.launch: no accelerate config {name!r}", f"Known are {', '.join(known)}, or give a path")


def start_trainer(directory: Path, launch: Path, log: Path, extra: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """`accelerate launch` of the solver, ended with this process, its output in `log`. Call it on the main thread."""
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        str(launch),
        "-m",
        "training.grpo",
        "--run",
        str(directory),
        *extra,
    ]
    # The trainer of this run must not follow a variable that names another one.
    environment = {k: v for k, v in os.environ.items() if k not in ("RRI_SERVICE_URL", "RRI_SERVICE_TOKEN")}
    with log.open("ab") as out:
        return subprocess.Popen(
            leashed(command), stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )
