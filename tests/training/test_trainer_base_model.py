"""Conversion of a GGUF, on a tiny one written here with the metadata of a real one."""

from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rri.errors import InputError
from tests.tiny import MERGES, SPECIAL, TEMPLATE
from training.base_model import convert, main


def write_gguf(file: Path, model_folder: Path, *, template: str = TEMPLATE, leave_out: str = "") -> None:
    """The model of `model_folder` as a dense GGUF with a byte-level vocabulary, end token 1 and start token 0.

    The head is tied to the embedding and not written; neither is the tensor `leave_out`.
    """
    model = AutoModelForCausalLM.from_pretrained(model_folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(model_folder)
    config, writer = model.config, gguf.GGUFWriter(file, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_vocab_size(config.vocab_size)
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    kinds = [gguf.TokenType.CONTROL if token in SPECIAL else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if template:
        writer.add_chat_template(template)
    names: Any = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name in ("lm_head.weight", leave_out):
            continue
        if "q_proj" in name or "k_proj" in name:
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            # GGUF interleaves the halves of rotary dimensions.
            tensor = tensor.view(heads, 2, -1, tensor.shape[1]).swapaxes(1, 2).reshape(tensor.shape)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight",)), tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_same_model_with_its_own_end_token(tmp_path: Path, tiny_model: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", tiny_model)
    out = tmp_path / "models" / "tiny"
    assert main([str(tmp_path / "tiny.gguf"), str(out)]) == 0
    assert [path.name for path in out.parent.iterdir()] == ["tiny"], "no scratch folder stays"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    assert not getattr(model, "is_quantized", False), "Trainer refuses quantized models"
    original = AutoModelForCausalLM.from_pretrained(tiny_model).state_dict()
    assert all(torch.equal(tensor, original[name]) for name, tensor in model.state_dict().items())
    assert [tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token] == [*SPECIAL, SPECIAL[1]]
    chat = [{"role": "user", "content": "hi"}]
    assert tokenizer.decode(tokenizer.encode("the thing, in 12 parts")) == "the thing, in 12 parts"
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"

    (out / "config.json").touch()
    before = (out / "model.safetensors").stat().st_mtime_ns
    assert convert(tmp_path / "tiny.gguf", out) == out
    assert (out / "model.safetensors").stat().st_mtime_ns == before, "done once"


def test_what_cannot_be_converted_leaves_nothing(tmp_path: Path, tiny_model: Path) -> None:
    write_gguf(tmp_path / "plain.gguf", tiny_model, template="")
    with pytest.raises(InputError, match="no chat template"):
        convert(tmp_path / "plain.gguf", tmp_path / "out")
    write_gguf(tmp_path / "part.gguf", tiny_model, leave_out="model.norm.weight")
    with pytest.raises(InputError, match=r"lacks model\.norm\.weight"):
        convert(tmp_path / "part.gguf", tmp_path / "out")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF but not really")
    with pytest.raises(InputError, match="cannot read"):
        convert(tmp_path / "broken.gguf", tmp_path / "out")
    with pytest.raises(InputError, match="is no file"):
        convert(tmp_path / "absent.gguf", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.gguf", "part.gguf", "plain.gguf"]
