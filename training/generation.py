"""What this package takes from inside TRL's trainer: how it writes answers, for those that it does not train on and for
those with tools. TRL 1.16 offers no public name for it, so all of it is here.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["log_figure", "prompt_ids_of", "result_ids_of", "sampling", "write_turn"]

Ids = list[int]


def prompt_ids_of(trainer: Any, prompts: Sequence[Any], tools: Sequence[Any] = ()) -> list[Ids]:
    """Token ids of prompts (lists of messages) up to where the answer begins; `tools` are offered to the model."""
    rendered = trainer.processing_class.apply_chat_template(
        conversation=list(prompts),
        tools=list(tools) or None,
        chat_template=trainer.chat_template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **trainer.chat_template_kwargs,
    )
    return [list(ids) for ids in rendered["input_ids"]]


def result_ids_of(trainer: Any, messages: Sequence[Any]) -> Ids:
    """Token ids of tool results after an assistant turn, up to where the next turn begins."""
    return list(trainer._get_tool_suffix_ids(list(messages)))


def write_turn(trainer: Any, prompts: Sequence[Ids]) -> list[Ids]:
    """What the policy writes after each prompt, up to and with its end token, or cut at the token limit.

    Every rank must call it equally often: the sharded weights are gathered, and ranks write in step.
    """
    written, _ = trainer._generate_single_turn(list(prompts), None, {}, 1)
    return [list(ids) for ids in written]


@contextmanager
def sampling(trainer: Any, *, temperature: float | None = None, max_tokens: int | None = None) -> Iterator[None]:
    """Other sampling than that of training while the block lasts; None leaves a setting as it is."""
    settings = trainer.vllm_generation if trainer.use_vllm else trainer.generation_config
    limit = "max_completion_length" if trainer.use_vllm else "max_new_tokens"
    wanted = {name: value for name, value in (("temperature", temperature), (limit, max_tokens)) if value is not None}
    before = {name: getattr(settings, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(settings, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


def log_figure(trainer: Any, name: str, value: float) -> None:
    """Show a figure with the next ones that the trainer logs. Call it on every rank with the same value."""
    trainer._metrics["train"][name].append(value)
