"""`rri export`: the trained model as a folder of its own, with a card that says how it came about."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

from rri.cli.console import ProgressLine, counted, progress_line, signed
from rri.cli.opening import resolve_base_model
from rri.cli.summary import summary_of
from rri.config import EMBEDDED, RunConfig
from rri.errors import InputError, RunDirError, TrainerFailed
from rri.lifetime import leashed
from rri.rundir import RunDir
from rri.store import Store

__all__ = ["CONFIG_FILE", "export_command", "model_card", "without_secrets"]

CONFIG_FILE = "rri-config.yaml"
"""File beside the card with the run's config as resolved."""

REMOVED = "removed"
SECRET = ("key", "token", "secret", "password", "authorization", "credential")
"""Parts of names whose values are never written."""

PUBLIC_NAME = {EMBEDDED: "HuggingFaceTB/SmolLM2-135M-Instruct"}


def export_command(directory: Path, out: Path, *, quiet: bool, as_json: bool) -> int:
    """Write weights, tokenizer, card and config of a finished run; exit code 0.

    Raises:
        RunDirError: the run has no result yet.
        InputError: `out` is there, or the adapters' base model is not.
    """
    folder = RunDir.existing(directory)
    final = folder.checkpoints / "final"
    if not final.is_dir():
        raise RunDirError(
            f"{directory} has no result yet ({final} is missing)", f"Train it to its end: rri run {directory}"
        )
    if out.exists():
        raise InputError(f"{out} is there already", "Name a new folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        with progress_line(quiet) as line:
            _write_model(folder.config(), final, scratch / "model", line)
        card = _facts(folder, final)
        (scratch / "model" / "README.md").write_text(model_card(out.name, card), encoding="utf-8")
        config = yaml.safe_dump(card["config"], sort_keys=False, allow_unicode=True)
        (scratch / "model" / CONFIG_FILE).write_text(config, encoding="utf-8")
        (scratch / "model").rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    told = {"folder": str(out), "merged": card["lora"] is not None, "updates": card["updates"]}
    sys.stdout.write(f"{json.dumps(told) if as_json else _said(told)}\n")
    return 0


def _said(told: Mapping[str, Any]) -> str:
    return f"{told['folder']}: {'adapters merged' if told['merged'] else 'whole weights'}, {told['updates']} updates"


def _write_model(config: RunConfig, final: Path, out: Path, line: ProgressLine) -> None:
    """Torch works in a process of its own, so that the commands stay light."""
    line.say("writing the model")
    command = [sys.executable, "-m", "training.export", str(final), str(out)]
    if config.solver.lora is not None:
        command += ["--base", str(resolve_base_model(config, line.say))]
    done = subprocess.run(leashed(command), capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        error = InputError if done.returncode == InputError.exit_code else TrainerFailed
        raise error(f"the model could not be written: {last.removeprefix('training.export: ')}")


def _facts(folder: RunDir, final: Path) -> dict[str, Any]:
    """What the card says, as JSON-able data."""
    config, manifest = folder.config(), folder.manifest()
    store = Store(folder.path)
    try:
        summary = summary_of(store, folder)
    finally:
        store.close()
    state = json.loads((final / "trainer_state.json").read_text(encoding="utf-8"))
    starts = manifest.get("starts", [])
    return {
        **{key: summary[key] for key in ("run_id", "domain", "outcomes", "cycles", "calls", "protocol", "note")},
        **{key: summary[key] for key in ("delta_before", "delta_after", "measured")},
        "arm": config.arm,
        "score_rule": config.domain.score_rule,
        "seed": config.seed,
        "base_model": config.solver.base_model,
        "lora": config.solver.lora.model_dump() if config.solver.lora else None,
        "updates": state["global_step"],
        "packages": starts[-1].get("packages", {}) if starts else {},
        "config": without_secrets(config),
    }


def model_card(name: str, facts: Mapping[str, Any]) -> str:
    """README.md of the folder, in Markdown with the front matter of the Hub.

    Args:
        name: what the model is called.
        facts: the figures, as `export_command` collects them.
    """
    base = PUBLIC_NAME.get(facts["base_model"], facts["base_model"])
    is_local = Path(base).is_absolute()
    front: dict[str, Any] = {"library_name": "transformers", "pipeline_tag": "text-generation"}
    front |= {"tags": ["rri", "grpo", "reinforcement-learning"]}
    if not is_local:
        front["base_model"] = base
    lines = [
        *("---", yaml.safe_dump(front, sort_keys=False).strip(), "---", "", f"# {name}", ""),
        f"{Path(base).name if is_local else base}, trained with GRPO on rubric rewards that were attacked and repaired "
        "first (`rri`).",
        "",
        *_origin(facts),
        *_rewards(facts),
        *_tasks(facts),
        *_cost(facts),
        f"The run's whole config is in `{CONFIG_FILE}`.",
        "",
    ]
    return "\n".join(lines)


def _origin(facts: Mapping[str, Any]) -> Iterator[str]:
    lora = facts["lora"]
    yield from ("## Training", "", "| | |", "|---|---|")
    rows = {
        "domain": facts["domain"],
        "arm": facts["arm"],
        "cycles": len(facts["cycles"]),
        "updates": facts["updates"],
        "weights": f"adapters of rank {lora['r']}, alpha {lora['alpha']}, merged" if lora else "all trained",
        "score rule": f"{facts['score_rule']}, judge protocol `{facts['protocol']}`",
        "seed": facts["seed"],
        "run": facts["run_id"],
        "versions": ", ".join(f"{name} {version}" for name, version in facts["packages"].items()) or "not kept",
    }
    yield from (f"| {name} | {value} |" for name, value in rows.items())
    yield ""
    if facts["note"]:
        yield from (f"**{facts['note']}**", "")


def _rewards(facts: Mapping[str, Any]) -> Iterator[str]:
    """Scores of our own judge protocol are no benchmark scores, and the card says so."""
    yield from ("## Mean training reward", "", "| cycle | rollouts | mean reward |", "|---:|---:|---:|")
    for row in facts["cycles"]:
        mean = "unscored" if row["mean_score"] is None else f"{row['mean_score']:.3f}"
        yield f"| {row['cycle']} | {row['rollouts']} | {mean} |"
    yield from ("", "Graded in training by the run's own judge; these are no scores of a benchmark.", "")


def _tasks(facts: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## Tasks", "", f"{counted(facts['outcomes'], 'none')}.", "")
    yield (
        f"Delta of exploit and honest answer, mean of {facts['measured']} measured: {signed(facts['delta_before'])} "
        f"before repair, {signed(facts['delta_after'])} after."
    )
    yield ""


def _cost(facts: Mapping[str, Any]) -> Iterator[str]:
    yield from ("## Cost", "", "| role | calls | tokens in | tokens out | money |", "|---|---:|---:|---:|---:|")
    keys = ("calls", "tokens_in", "tokens_out", "money")
    for role, row in facts["calls"].items():
        yield _cost_row(role, [row[key] for key in keys])
    yield _cost_row("all", [sum(row[key] for row in facts["calls"].values()) for key in keys])
    yield ""


def _cost_row(name: str, values: list[float]) -> str:
    *counts, money = values
    return f"| {name} | {' | '.join(f'{n:,.0f}' for n in counts)} | {money:.2f} |"


def without_secrets(config: RunConfig) -> dict[str, Any]:
    """The config as JSON-able data, without what gives access: credentials in URLs, and values under secret names.

    Keys of endpoints are not in a config: it names the environment variables that hold them.
    """
    data: dict[str, Any] = config.model_dump(mode="json")
    for part in (*data["endpoints"].values(), *data["roles"].values()):
        part["extra_body"] = _redacted(part["extra_body"])
    for endpoint in data["endpoints"].values():
        endpoint["url"] = _bare(endpoint["url"])
    data["solver"]["trl"] = _redacted(data["solver"]["trl"])
    return data


def _redacted(value: Any, name: str = "") -> Any:
    if any(part in name.lower() for part in SECRET) and not isinstance(value, bool | int | float | None):
        return REMOVED
    if isinstance(value, dict):
        return {key: _redacted(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_redacted(inner) for inner in value]
    return _bare(value) if isinstance(value, str) else value


def _bare(text: str) -> str:
    """A URL without user, password, query and fragment; any other text as it is."""
    try:
        parts = urlsplit(text)
        if not parts.netloc:
            return text
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return text
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
