"""Low-rank adapters in place of whole weights."""

from peft import LoraConfig

from rri.wire import LoraSettings

__all__ = ["peft_config_of"]


def peft_config_of(lora: LoraSettings | None) -> LoraConfig | None:
    """What GRPOTrainer makes adapters from; None trains all weights. Without targets every linear layer has one."""
    if lora is None:
        return None
    return LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or "all-linear",
        bias="none",
        task_type="CAUSAL_LM",
    )
