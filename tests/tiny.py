"""A llama that is small enough to train in a test, made on the spot."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|im_start|>", "<|im_end|>"]
MERGES = [("t", "h"), ("i", "n")]


def make_tiny_model(folder: Path) -> Path:
    """A llama of some ten thousand parameters over a hundred byte-level tokens, saved as a model folder."""
    letters = sorted({c for c in map(chr, range(33, 127))} | {"Ġ", "Ċ"})
    vocab = {token: number for number, token in enumerate([*SPECIAL, *letters, *map("".join, MERGES)])}
    core = Tokenizer(models.BPE(vocab=vocab, merges=MERGES))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|im_end|>")
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=512, eos_token_id=1, pad_token_id=1, bos_token_id=0,
        tie_word_embeddings=True,
    )  # fmt: skip
    model: Any = LlamaForCausalLM
    model(config).save_pretrained(folder)
    return folder
