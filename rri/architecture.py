"""The size of a language model, from its config.json: parameters, and what a token of it takes. Arithmetic alone.

Known are decoders with grouped-query attention and a gated MLP (Llama, Mistral, Qwen2, Qwen3), and the hybrid ones of
Qwen3.5, of whose layers one in four has full attention and the others a Gated DeltaNet. h is the hidden size, i the
MLP's, V the vocabulary, q and k the heads of queries and keys times their dimension, K and W the keys and values of a
linear layer, w its value heads, c its convolution.

    embedding        V h, and again for a head of its own
    MLP              3 h i
    full attention   h q (twice with an output gate) + 2 h k + q h, biases q + 2 k, norms of heads 2 head_dim
    linear attention h (2 K + W) + c (2 K + W) + h W + 2 h w + 2 w + value_dim + W h
    norms            2 h a layer, h at the end
    adapters         r (in + out) for every linear layer named above but the head

Vision towers are counted as they are, and their adapters and activations left out: rollouts are text.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rri.errors import InputError

__all__ = ["PUBLISHED", "Architecture", "architecture_of", "published"]


class Architecture(BaseModel):
    """Sizes of one decoder. Counts are of parameters, dimensions of elements."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = Field(description="where the sizes come from")
    hidden: int
    layers: int
    full_layers: int = Field(description="layers whose keys and values are cached; the others are linear")
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool = Field(description="head and embedding are one")
    gated: bool = Field(default=False, description="attention has an output gate")
    head_norms: bool = Field(default=False, description="queries and keys are normalised")
    bias: bool = Field(default=False, description="queries, keys and values have biases")
    linear_keys: int = 0
    linear_key_dim: int = 0
    linear_values: int = 0
    linear_value_heads: int = 0
    linear_value_dim: int = 0
    linear_conv: int = 0
    vision: int = Field(default=0, description="parameters of the vision tower")

    @property
    def parameters(self) -> int:
        """All of them, the vision tower too."""
        return self.text_parameters + self.vision

    @property
    def text_parameters(self) -> int:
        """Those that a token of text passes."""
        ends = self.vocab * self.hidden * (1 if self.tied else 2) + self.hidden
        return ends + self.full_layers * self._layer(linear=False) + self.linear_layers * self._layer(linear=True)

    @property
    def linear_layers(self) -> int:
        return self.layers - self.full_layers

    @property
    def largest_layer(self) -> int:
        """Parameters of the largest block: a layer, or the embedding."""
        blocks = [self.vocab * self.hidden, self._layer(linear=False)]
        return max([*blocks, self._layer(linear=True)] if self.linear_layers else blocks)

    @property
    def kv_elements(self) -> int:
        """Elements that one cached token takes, over all layers."""
        return 2 * self.kv_heads * self.head_dim * self.full_layers

    @property
    def state_elements(self) -> int:
        """Elements that the linear layers keep of one sequence, whatever its length."""
        convolved = self.linear_conv * (2 * self.linear_keys + self.linear_values)
        return self.linear_layers * (self.linear_values * self.linear_key_dim + convolved)

    def adapter_parameters(self, rank: int) -> int:
        """Parameters of adapters of that rank on every linear layer but the head."""
        mlp = 3 * (self.hidden + self.intermediate)
        full = sum(a + b for a, b in self._full_matrices()) + mlp
        linear = sum(a + b for a, b in self._linear_matrices()) + mlp
        return rank * (self.full_layers * full + self.linear_layers * linear)

    def _full_matrices(self) -> list[tuple[int, int]]:
        q, k = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return [(self.hidden, q * (2 if self.gated else 1)), (self.hidden, k), (self.hidden, k), (q, self.hidden)]

    def _linear_matrices(self) -> list[tuple[int, int]]:
        h, values, heads = self.hidden, self.linear_values, self.linear_value_heads
        return [(h, 2 * self.linear_keys + values), (h, values), (h, heads), (h, heads), (values, h)]

    def _layer(self, *, linear: bool) -> int:
        common = 3 * self.hidden * self.intermediate + 2 * self.hidden
        if linear:
            rest = self.linear_conv * (2 * self.linear_keys + self.linear_values)
            rest += 2 * self.linear_value_heads + self.linear_value_dim
            return common + sum(a * b for a, b in self._linear_matrices()) + rest
        q, k = self.heads * self.head_dim, self.kv_heads * self.head_dim
        rest = (q + 2 * k if self.bias else 0) + (2 * self.head_dim if self.head_norms else 0)
        return common + sum(a * b for a, b in self._full_matrices()) + rest


_MIXTURE = ("num_experts", "num_local_experts", "n_routed_experts")


def architecture_of(config: Mapping[str, Any], source: str) -> Architecture:
    """Read the sizes from the content of a config.json.

    Args:
        config: as transformers writes it; a multimodal one holds the decoder's under `text_config`.
        source: what the plan calls it.

    Raises:
        InputError: a size is missing, or the model is of a kind that the formulas do not know.
    """
    text: Mapping[str, Any] = config.get("text_config", config)
    if any(text.get(name) for name in _MIXTURE):
        raise InputError(f"{source} is a mixture of experts, which the plan does not know", "Plan a dense model")
    try:
        hidden, layers, heads = (int(text[n]) for n in ("hidden_size", "num_hidden_layers", "num_attention_heads"))
        kind = str(text.get("model_type", ""))
        full = _full_layers(text, layers)
        linear = _linear_sizes(text) if full < layers else {}
        return Architecture(
            source=source,
            hidden=hidden,
            layers=layers,
            full_layers=full,
            heads=heads,
            kv_heads=int(text.get("num_key_value_heads") or heads),
            head_dim=int(text.get("head_dim") or hidden // heads),
            intermediate=int(text["intermediate_size"]),
            vocab=int(text["vocab_size"]),
            tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
            gated=kind.startswith("qwen3_5") or bool(text.get("attn_output_gate", False)),
            head_norms=kind.startswith("qwen3"),
            bias=kind == "qwen2" or bool(text.get("attention_bias", False)),
            vision=_vision(config["vision_config"]) if "vision_config" in config else 0,
            **linear,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{source} lacks a size that the plan needs: {error}", "Give a complete config.json") from None


def _full_layers(text: Mapping[str, Any], layers: int) -> int:
    if kinds := text.get("layer_types"):
        # Sliding windows cache too, at most as much as full attention.
        return sum(kind != "linear_attention" for kind in kinds)
    interval = text.get("full_attention_interval")
    return layers // int(interval) if interval else layers


def _linear_sizes(text: Mapping[str, Any]) -> dict[str, int]:
    heads, dim = int(text["linear_num_value_heads"]), int(text["linear_value_head_dim"])
    key_dim = int(text["linear_key_head_dim"])
    return {
        "linear_keys": int(text["linear_num_key_heads"]) * key_dim,
        "linear_key_dim": key_dim,
        "linear_values": heads * dim,
        "linear_value_heads": heads,
        "linear_value_dim": dim,
        "linear_conv": int(text["linear_conv_kernel_dim"]),
    }


def _vision(vision: Mapping[str, Any]) -> int:
    """A tower of Qwen's kind: patches, positions, blocks, and a merger of the patches that make one token."""
    d, inner, out = (int(vision[name]) for name in ("hidden_size", "intermediate_size", "out_hidden_size"))
    patch = int(vision["in_channels"]) * int(vision["temporal_patch_size"]) * int(vision["patch_size"]) ** 2
    block = 4 * d * d + 4 * d + 2 * d * inner + inner + d + 4 * d
    merged = d * int(vision["spatial_merge_size"]) ** 2
    merger = 2 * d + merged * merged + merged + merged * out + out
    return patch * d + d + int(vision["num_position_embeddings"]) * d + int(vision["depth"]) * block + merger


_QWEN_VISION = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "in_channels": 3,
    "patch_size": 16,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "num_position_embeddings": 2304,
}
_QWEN_TEXT = {
    "model_type": "qwen3_5_text",
    "full_attention_interval": 4,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 248320,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}

PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "Qwen/Qwen3.5-9B": (
        "published sizes (default config of qwen3_5 in transformers)",
        {
            "text_config": {
                **_QWEN_TEXT,
                "hidden_size": 4096,
                "num_hidden_layers": 32,
                "num_attention_heads": 16,
                "intermediate_size": 12288,
                "linear_num_value_heads": 32,
            },
            "vision_config": {**_QWEN_VISION, "out_hidden_size": 4096},
        },
    ),
    "Qwen/Qwen3.6-27B": (
        "published sizes (model card of Qwen3.6-27B)",
        {
            "text_config": {
                **_QWEN_TEXT,
                "hidden_size": 5120,
                "num_hidden_layers": 64,
                "num_attention_heads": 24,
                "intermediate_size": 17408,
                "linear_num_value_heads": 48,
            },
            "vision_config": {**_QWEN_VISION, "out_hidden_size": 5120},
        },
    ),
    "embedded": (
        "published sizes (config of SmolLM2-135M-Instruct)",
        {
            "model_type": "llama",
            "hidden_size": 576,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "intermediate_size": 1536,
            "vocab_size": 49152,
            "tie_word_embeddings": True,
        },
    ),
}
"""Model -> where its sizes are published, and the part of its config.json that the plan reads."""


def published(name: str) -> Architecture | None:
    """The sizes of a model of the method; None for another one."""
    if name not in PUBLISHED:
        return None
    source, config = PUBLISHED[name]
    return architecture_of(config, source)
