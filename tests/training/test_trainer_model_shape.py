"""Targets of adapters, as peft reads them."""

from pathlib import Path
from typing import Any

import pytest
from peft import get_peft_model
from transformers import AutoModelForCausalLM

from rri.wire import LoraSettings
from training.lora import peft_config_of
from training.model_shape import ModelShape
from training.preflight import load_text_side, model_shape


class NoOptions:
    model_init_kwargs = None


def shape_of(folder: Path) -> ModelShape:
    found = model_shape(NoOptions(), load_text_side(str(folder))[1])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("targets", "unmatched"),
    [
        ((), []),
        (("q_proj", "mlp.up_proj", "model.layers.0.self_attn.k_proj"), []),
        (("wq", "q_proj", "_proj", "layers.1.self_attn.q_proj"), ["wq", "_proj", "layers.1.self_attn.q_proj"]),
        (("embed_tokens",), []),
    ],
)
def test_a_target_is_the_end_of_a_path(targets: tuple[str, ...], unmatched: list[str], tiny_model: Path) -> None:
    assert shape_of(tiny_model).unmatched(targets) == unmatched


def test_the_layers_there_are_can_be_named(tiny_model: Path) -> None:
    names = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]
    assert shape_of(tiny_model).layer_names() == names


@pytest.mark.parametrize("targets", [(), ("q_proj",), ("up_proj", "k_proj")])
def test_adapters_have_as_many_numbers_as_peft_makes(targets: tuple[str, ...], tiny_model: Path) -> None:
    lora = LoraSettings(r=4, targets=targets)
    model: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), peft_config_of(lora))  # type: ignore[arg-type]
    assert shape_of(tiny_model).trained(lora) == model.get_nb_trainable_parameters()[0]
    assert shape_of(tiny_model).trained(None) == model.get_nb_trainable_parameters()[1] - shape_of(tiny_model).trained(
        lora
    )
