"""Turn a GGUF of a llama into a model folder that transformers trains from.

    python -m training.base_model GGUF_FILE OUT_DIR

Done once: the folder holds dense weights (safetensors), config, tokenizer and chat template, and needs no
GGUF any more. OUT_DIR is either absent or complete.
"""

import argparse
import logging
import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

from rri.errors import InputError, RriError

__all__ = ["convert"]

log = logging.getLogger("training.base_model")


def convert(gguf: Path, out: Path) -> Path:
    """Write `gguf` as a model folder; a folder that is there already is left alone.

    Returns:
        `out`.

    Raises:
        InputError: the file is missing, is no GGUF that transformers can read, or lacks a chat template.
    """
    if out.exists():
        log.info("%s is there already", out)
        return out
    if not gguf.is_file():
        raise InputError(f"{gguf} is no file", "Name a GGUF file")
    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        _write(gguf, scratch)
        scratch.chmod(0o755)
        scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return out


def _write(gguf: Path, folder: Path) -> None:
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    try:
        # Without dequantize the model counts as quantized, and Trainer refuses to train it.
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            **where, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32, output_loading_info=True
        )
        tokenizer: Any = AutoTokenizer.from_pretrained(**where)
    except (OSError, ValueError, KeyError, NotImplementedError, struct.error) as error:
        raise InputError(f"cannot read {gguf}: {error}", "A llama-architecture GGUF is needed") from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        # transformers only warns, and fills them with random numbers.
        raise InputError(f"{gguf} lacks {', '.join(missing[:5])}", "Take a complete llama-architecture GGUF")
    if not tokenizer.chat_template:
        raise InputError(f"{gguf} has no chat template", "Take an instruction-tuned model")
    _repair_special_tokens(tokenizer, model.config)
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _repair_special_tokens(tokenizer: Any, config: Any) -> None:
    """Take the special tokens from the model's config, which has them right.

    The tokenizer made from a GGUF may call the first special token its end token (it does for SmolLM2); an
    answer would then never count as finished.
    """
    eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(eos)
    if tokenizer.pad_token_id in (None, config.bos_token_id):
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.model_max_length = config.max_position_embeddings
    # Meant for word-piece vocabularies: it would eat spaces before punctuation.
    tokenizer.clean_up_tokenization_spaces = False


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="training.base_model", description="GGUF to a model folder, once.")
    parser.add_argument("gguf", type=Path, metavar="GGUF_FILE")
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    chosen = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        log.info("%s", convert(chosen.gguf, chosen.out))
    except RriError as error:
        sys.stderr.write(f"training.base_model: {' '.join(str(error).split())}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
