"""What a model is made of: how many weights, and which layers adapters can sit on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rri.wire import LoraSettings

__all__ = ["HEAD", "ModelShape"]

HEAD = "lm_head"
"""The one linear layer that has no adapter unless it is named."""


@dataclass(frozen=True)
class ModelShape:
    """A model without its values.

    Args:
        parameters: numbers in its weights, tied ones once.
        weight_bytes: bytes of one of them, as they are loaded; the fewest where that is not known.
        modules: paths of all its modules, such as `model.layers.0.self_attn.q_proj`.
        linears: path -> inputs and outputs of each linear layer.
    """

    parameters: int
    weight_bytes: int
    modules: frozenset[str]
    linears: Mapping[str, tuple[int, int]]

    def unmatched(self, targets: Sequence[str]) -> list[str]:
        """The targets of adapters that name no module. A target is the end of a path, as peft reads it."""
        return [target for target in targets if not any(_named(path, (target,)) for path in self.modules)]

    def layer_names(self) -> list[str]:
        """Last names of the linear layers, each once, the head left out."""
        return sorted({path.rpartition(".")[2] for path in self.linears} - {HEAD})

    def trained(self, lora: LoraSettings | None) -> int:
        """Numbers that are trained: all, or those of the adapters."""
        if lora is None:
            return self.parameters
        chosen = [
            shape
            for path, shape in self.linears.items()
            if (_named(path, lora.targets) if lora.targets else not _named(path, (HEAD,)))
        ]
        return sum(lora.r * (inputs + outputs) for inputs, outputs in chosen)


def _named(path: str, targets: Sequence[str]) -> bool:
    return any(path == target or path.endswith(f".{target}") for target in targets)
