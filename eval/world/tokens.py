"""The solver's tokenizer: one token for each word of the world, so that no text of the world holds an unknown one."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from eval.world.facts import World, vocabulary
from eval.world.texts import SYSTEM_PROMPT

__all__ = ["BEGIN", "CHAT_TEMPLATE", "CONTEXT_TOKENS", "END", "PAD", "ROLES", "UNKNOWN", "chat", "make_tokenizer"]

BEGIN, END, PAD, UNKNOWN = "<bos>", "<eos>", "<pad>", "<unk>"
ROLES: Mapping[str, str] = MappingProxyType({role: f"<{role}>" for role in ("system", "user", "assistant")})
"""Role of a chat message -> the token that opens its turn."""

CONTEXT_TOKENS = 512
"""Longest sequence: a prompt takes about 90 tokens and an answer about 40, and a world may have more relations."""

CHAT_TEMPLATE = (
    BEGIN + "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }}"
    "{% if message['role'] == 'assistant' %} " + END + "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}" + ROLES["assistant"] + "{% endif %}"
)
"""Every turn begins with its role's token; only the assistant's has an end, which the solver must write itself."""


def make_tokenizer(world: World) -> Any:
    """A word-level `PreTrainedTokenizerFast` with a chat template. `save_pretrained` writes what AutoTokenizer loads.

    Numbers of the special tokens come first and are the same in every world. Upper case is read as lower case.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, BEGIN, END, UNKNOWN, *ROLES.values()]
    words = {word: number for number, word in enumerate([*special, *vocabulary(world)])}
    core = Tokenizer(models.WordLevel(vocab=words, unk_token=UNKNOWN))
    core.normalizer = normalizers.Lowercase()
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    make: Any = PreTrainedTokenizerFast
    return make(
        tokenizer_object=core,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        additional_special_tokens=list(ROLES.values()),
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_TOKENS,
        padding_side="left",
        # Meant for word pieces: it would join a word and the mark after it.
        clean_up_tokenization_spaces=False,
    )


def chat(request: str) -> list[dict[str, str]]:
    """The messages under which the solver is asked: standing instructions, then the request's text."""
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": request}]
