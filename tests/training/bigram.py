"""A llama whose next token depends on the last one alone, by a table: small, and it calls tools when it is told to."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

__all__ = ["ASK", "ASK_ONE", "ASK_TWO", "CALLING", "END", "TOLD", "make_bigram", "token_id"]

END, ASK, TOLD = "<|im_end|>", "<tool_call>", "</tool_call>"
SPECIAL = ["<|im_start|>", END]


def call_of(query: str) -> str:
    return f'\n{{"name": "search_knowledge_base", "arguments": {{"query": "{query}"}}}}\n'


ASK_ONE, ASK_TWO = call_of("rule one"), call_of("rule two")

Table = Mapping[str, Mapping[str, float]]
"""Token -> the tokens that follow it, with their probabilities."""

NEWLINE = "Ċ"

CALLING: Table = {
    NEWLINE: {ASK: 0.5, "A": 0.25, "B": 0.25},
    ASK: {ASK_ONE: 0.5, ASK_TWO: 0.5},
    ASK_ONE: {TOLD: 1.0},
    ASK_TWO: {TOLD: 1.0},
    TOLD: {END: 1.0},
    "A": {"A": 0.5, "B": 0.2, END: 0.3},
    "B": {END: 1.0},
}
"""Half of the turns begin with a search, the others answer in As and Bs."""


def make_bigram(folder: Path, table: Table = CALLING) -> Path:
    """A model folder with the chat template of Qwen3; tokens that `table` does not name end the answer."""
    letters = sorted({c for c in map(chr, range(33, 127))} | {"Ġ", NEWLINE})
    core = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate([*SPECIAL, *letters])}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    make: Any = PreTrainedTokenizerFast
    tokenizer = make(tokenizer_object=core, eos_token=END, pad_token=END)
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in (ASK, TOLD, ASK_ONE, ASK_TWO)])
    tokenizer.chat_template = (resources.files("trl") / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    tokenizer.save_pretrained(folder)
    _model(tokenizer, table).save_pretrained(folder)
    return folder


def token_id(tokenizer: Any, token: str) -> int:
    return int(tokenizer.convert_tokens_to_ids(token))


def _model(tokenizer: Any, table: Table) -> Any:
    size = len(tokenizer) + len(tokenizer) % 2
    end = token_id(tokenizer, END)
    config = LlamaConfig(
        vocab_size=size, hidden_size=size, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, max_position_embeddings=4096, eos_token_id=end, pad_token_id=end, bos_token_id=0,
        tie_word_embeddings=False,
    )  # fmt: skip
    torch.manual_seed(0)
    made: Any = LlamaForCausalLM
    model = made(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(size))
        # Nothing is added to the token's own unit vector, which the norm makes `size ** 0.5` long.
        model.model.layers[0].self_attn.o_proj.weight.zero_()
        model.model.layers[0].mlp.down_proj.weight.zero_()
        logits = torch.full((size, size), -30.0)
        logits[end, :] = 0.0
        for token, following in table.items():
            column = logits[:, token_id(tokenizer, token)]
            column.fill_(-30.0)
            for after, chance in following.items():
                column[token_id(tokenizer, after)] = torch.tensor(chance).log()
        model.lm_head.weight.copy_(logits / size**0.5)
    return model
