"""Adapters: which layers have one, and what is trained."""

from pathlib import Path
from typing import Any

from peft import get_peft_model
from transformers import AutoModelForCausalLM

from rri.wire import LoraSettings
from training.lora import peft_config_of


def adapted(model: Path, lora: LoraSettings) -> Any:
    return get_peft_model(AutoModelForCausalLM.from_pretrained(model), peft_config_of(lora))


def test_without_settings_all_weights_are_trained() -> None:
    assert peft_config_of(None) is None


def test_every_linear_layer_but_the_head_has_an_adapter_by_default(tiny_model: Path) -> None:
    model = adapted(tiny_model, LoraSettings(r=4, alpha=8, dropout=0.1))
    named = {
        name.rpartition(".lora_A")[0].rpartition(".")[2] for name, _ in model.named_parameters() if "lora_A" in name
    }
    assert named == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert all(("lora_" in name) == weight.requires_grad for name, weight in model.named_parameters())
    layer = model.base_model.model.model.layers[0].self_attn.q_proj
    assert (layer.r["default"], layer.scaling["default"], layer.lora_dropout["default"].p) == (4, 2.0, 0.1)


def test_named_layers_alone_have_one(tiny_model: Path) -> None:
    model = adapted(tiny_model, LoraSettings(targets=("v_proj",)))
    assert sum("lora_A" in name for name, _ in model.named_parameters()) == 1
