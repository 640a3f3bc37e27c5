"""A result as a model folder of its own: whole weights as safetensors, adapters merged, with tokenizer.

    python -m training.export RESULT OUT [--base FOLDER]

RESULT is a run's DIR/checkpoints/final. Whole weights are copied as they are. Adapters are added to the weights of
the base model that they were trained on, in the precision that those are stored in. OUT is either absent or complete.
"""

import argparse
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import transformers
from peft import PeftModel
from safetensors import SafetensorError
from transformers import AutoConfig

from rri.errors import InputError, RriError

__all__ = ["export"]

log = logging.getLogger("training.export")

ADAPTER = "adapter_config.json"
# What is about the training rather than about the model.
NOT_THE_MODEL = shutil.ignore_patterns("trainer_state.json", "README.md", "training_args.bin", "adapter_*")


def export(result: Path, out: Path, base: Path | None = None) -> bool:
    """Write the model of `result` as the folder `out`; whether adapters were merged.

    Args:
        result: folder with weights or adapters, config and tokenizer.
        out: the folder to make.
        base: where the base model of adapters lies; None looks where it lay during training.

    Raises:
        InputError: `out` is there, or one of the models cannot be read.
    """
    if out.exists():
        raise InputError(f"{out} is there already", "Name a new folder")
    merged = (result / ADAPTER).is_file()
    if not merged and not (result / "config.json").is_file():
        raise InputError(f"{result} holds no model", "Name the folder checkpoints/final of a finished run")
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        shutil.copytree(result, scratch, ignore=NOT_THE_MODEL, dirs_exist_ok=True)
        if merged:
            _merge(result, base or _base_of(result), scratch)
        scratch.chmod(0o755)
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return merged


def _base_of(result: Path) -> Path:
    try:
        return Path(json.loads((result / ADAPTER).read_text(encoding="utf-8"))["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot read {result / ADAPTER}: {error}", "Train the run to its end again") from None


def _merge(result: Path, base: Path, folder: Path) -> None:
    try:
        # The class that the trainer took: names of adapters are paths into it.
        kind: Any = getattr(transformers, AutoConfig.from_pretrained(base).architectures[0])
        model: Any = kind.from_pretrained(base, dtype="auto")
        adapted: Any = PeftModel.from_pretrained(model, str(result))
        adapted.merge_and_unload(safe_merge=True).save_pretrained(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
        raise InputError(
            f"cannot merge the adapters of {result} into {base}: {error}",
            "Pass --base FOLDER with the base model of the run",
        ) from error


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="training.export", description="A result as a model folder of its own.")
    parser.add_argument("result", type=Path, metavar="RESULT")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--base", type=Path, metavar="FOLDER", help="the base model of adapters")
    chosen = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        merged = export(chosen.result, chosen.out, chosen.base)
    except RriError as error:
        sys.stderr.write(f"training.export: {' '.join(str(error).split())}\n")
        return error.exit_code
    log.info("%s, %s", chosen.out, "adapters merged" if merged else "whole weights")
    return 0


if __name__ == "__main__":
    sys.exit(main())
