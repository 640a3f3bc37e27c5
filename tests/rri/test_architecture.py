"""Parameters counted by formula, against models that transformers builds without memory."""

from typing import Any

import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model

from rri.architecture import PUBLISHED, Architecture, architecture_of, published
from rri.errors import InputError

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 200, "tie_word_embeddings": False,
}  # fmt: skip
QWEN35 = {
    "model_type": "qwen3_5_text", "hidden_size": 64, "num_hidden_layers": 8, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 96, "vocab_size": 200,
    "full_attention_interval": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_num_value_heads": 4,
    "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4,
}  # fmt: skip


def built(kind: str, values: dict[str, Any]) -> Any:
    """A model of transformers on no device; `kind` is the start of its class names."""
    config: Any = getattr(transformers, f"{kind}Config")(**{k: v for k, v in values.items() if k != "model_type"})
    with torch.device("meta"):
        return getattr(transformers, f"{kind}ForCausalLM")(config)


def counted(model: Any) -> int:
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("Llama", LLAMA),
        ("Llama", {**LLAMA, "tie_word_embeddings": True, "num_key_value_heads": 4}),
        ("Mistral", {**LLAMA, "head_dim": 32, "model_type": "mistral"}),
        ("Qwen2", {**LLAMA, "model_type": "qwen2"}),
        ("Qwen3", {**LLAMA, "model_type": "qwen3", "head_dim": 32, "tie_word_embeddings": True}),
    ],
)
def test_a_decoder_is_counted_exactly(kind: str, values: dict[str, Any]) -> None:
    model = built(kind, values)
    # As transformers writes it, and as a hand would.
    for config in (values, model.config.to_dict()):
        found = architecture_of(config, "here")
        assert found.parameters == found.text_parameters == counted(model)
        assert found.full_layers == 3 and found.state_elements == 0


@pytest.mark.parametrize("name", ["Qwen/Qwen3.5-9B", "Qwen/Qwen3.6-27B"])
def test_the_published_sizes_are_those_of_the_models(name: str) -> None:
    """With the vision tower. The 27B's card says 55.56 GB of bf16, its extra layer for drafts included."""
    sizes = PUBLISHED[name][1]
    config = transformers.Qwen3_5Config(text_config=sizes["text_config"], vision_config=sizes["vision_config"])
    with torch.device("meta"):
        model: Any = transformers.Qwen3_5ForConditionalGeneration(config)
    found = published(name)
    assert found is not None
    assert found.parameters == counted(model)
    assert found.vision == counted(model.model.visual)
    assert architecture_of(config.to_dict(), "here").parameters == found.parameters


def test_the_published_sizes_of_the_embedded_model() -> None:
    found = published("embedded")
    assert found is not None and found.parameters == 134_515_008
    assert published("someone/else") is None


def test_hybrid_layers_cache_less() -> None:
    found = architecture_of(QWEN35, "here")
    assert (found.full_layers, found.linear_layers) == (2, 6)
    assert found.kv_elements == 2 * 2 * 32 * 2, "keys and values, two heads of 32, in two layers"
    assert found.state_elements == 6 * (4 * 16 * 16 + 4 * (2 * 32 + 64)), "a matrix a value head, and the convolution"
    assert found.gated and found.head_norms


@pytest.mark.parametrize(
    ("kind", "values"), [("Llama", LLAMA), ("Qwen3", {**LLAMA, "model_type": "qwen3", "head_dim": 16})]
)
def test_adapters_are_counted_exactly(kind: str, values: dict[str, Any]) -> None:
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    model: Any = get_peft_model(built(kind, values), lora)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert architecture_of(values, "here").adapter_parameters(4) == trained


def test_adapters_of_hybrid_layers_are_counted_exactly() -> None:
    with torch.device("meta"):
        base: Any = transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(**QWEN35))
    model: Any = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert architecture_of(QWEN35, "here").adapter_parameters(4) == trained


@given(st.integers(1, 8), st.integers(1, 8), st.booleans())
def test_every_size_counts(layers: int, heads: int, tied: bool) -> None:
    sizes = {**LLAMA, "num_hidden_layers": layers, "num_attention_heads": heads, "tie_word_embeddings": tied}
    found = architecture_of({**sizes, "num_key_value_heads": heads, "head_dim": 16}, "here")
    more = architecture_of({**sizes, "num_key_value_heads": heads, "head_dim": 16, "num_hidden_layers": layers + 1}, "")
    assert more.parameters > found.parameters and more.kv_elements > found.kv_elements
    assert found.largest_layer <= found.parameters


@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size"])
def test_a_missing_size_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"here lacks a size that the plan needs: '{name}'"):
        architecture_of({key: value for key, value in LLAMA.items() if key != name}, "here")


def test_a_missing_size_of_a_linear_layer_is_named() -> None:
    with pytest.raises(InputError, match="linear_key_head_dim"):
        architecture_of({key: value for key, value in QWEN35.items() if key != "linear_key_head_dim"}, "here")


def test_a_mixture_of_experts_is_refused() -> None:
    with pytest.raises(InputError, match="mixture of experts"):
        architecture_of({**LLAMA, "num_experts": 8}, "here")


def test_it_can_be_kept_as_json() -> None:
    found = architecture_of(QWEN35, "here")
    assert Architecture.model_validate_json(found.model_dump_json()) == found
