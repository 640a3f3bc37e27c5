"""The exported model folder: whole weights as they are, adapters added to their base, and nothing half done."""

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rri.errors import InputError
from rri.wire import LoraSettings
from training.checkpoints import FINAL
from training.export import export, main
from training.lora import peft_config_of


@pytest.fixture
def adapters(tmp_path: Path, tiny_model: Path) -> Path:
    """The result of a run with adapters whose deltas are not zero, as Trainer leaves it."""
    config = peft_config_of(LoraSettings(r=2, alpha=6, targets=("q_proj", "down_proj")))
    model: Any = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), config)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn_like(weight) / 10)
    folder = tmp_path / FINAL
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    (folder / "trainer_state.json").write_text('{"global_step": 2}')
    return folder


def test_merged_weights_are_base_plus_delta(adapters: Path, tiny_model: Path, tmp_path: Path) -> None:
    assert main([str(adapters), str(tmp_path / "out")]) == 0
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "out").state_dict()
    base = AutoModelForCausalLM.from_pretrained(tiny_model).state_dict()
    low = load_file(adapters / "adapter_model.safetensors")
    assert merged.keys() == base.keys()
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    layer = "model.layers.0."
    assert changed == {f"{layer}self_attn.q_proj.weight", f"{layer}mlp.down_proj.weight"}
    for name in changed:
        at = f"base_model.model.{name.removesuffix('.weight')}"
        delta = 6 / 2 * low[f"{at}.lora_B.weight"] @ low[f"{at}.lora_A.weight"]
        torch.testing.assert_close(merged[name], base[name] + delta)
    kept = {path.name for path in (tmp_path / "out").iterdir()}
    assert kept >= {"model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"}
    assert not {name for name in kept if name.startswith("adapter_")} | kept & {"trainer_state.json", "README.md"}
    assert AutoTokenizer.from_pretrained(tmp_path / "out").chat_template


def test_the_base_model_may_have_moved(adapters: Path, tiny_model: Path, tmp_path: Path) -> None:
    config = adapters / "adapter_config.json"
    config.write_text(config.read_text().replace(str(tiny_model), "/moved"))
    with pytest.raises(InputError, match="into /moved"):
        export(adapters, tmp_path / "out")
    assert export(adapters, tmp_path / "out", tiny_model)


def test_adapters_of_another_model_are_refused(adapters: Path, tiny_model: Path, tmp_path: Path) -> None:
    wrong: Any = AutoModelForCausalLM.from_pretrained(tiny_model).config
    wrong.hidden_size = 64
    other: Any = AutoModelForCausalLM.from_config(wrong)
    other.save_pretrained(tmp_path / "other")
    with pytest.raises(InputError, match="cannot merge the adapters"):
        export(adapters, tmp_path / "out", tmp_path / "other")
    assert {path.name for path in tmp_path.iterdir()} == {FINAL, "other"}, "no scratch folder stays"


def test_whole_weights_are_copied(tiny_model: Path, tmp_path: Path) -> None:
    assert export(tiny_model, tmp_path / "deep" / "out") is False
    ours, original = (
        AutoModelForCausalLM.from_pretrained(path).state_dict() for path in (tmp_path / "deep" / "out", tiny_model)
    )
    assert all(torch.equal(tensor, original[name]) for name, tensor in ours.items())
    with pytest.raises(InputError, match="is there already"):
        export(tiny_model, tmp_path / "deep" / "out")
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty"), str(tmp_path / "other")]) == 2
    assert not (tmp_path / "other").exists()
