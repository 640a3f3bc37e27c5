"""What training a model takes on so many GPUs: memory of each, and an estimate of the time. Arithmetic alone.

P parameters, T of them trained (P, or the adapters'), N GPUs of M bytes, S = solver.max_prompt_tokens +
solver.max_completion_tokens, b answers in one forward pass of a GPU, B = the answers of a cycle / N. h, i, L as in
`rri/architecture.py`. Weights, gradients and activations take 2 bytes a number, optimizer states 4. GB is 10^9 bytes.

At rest, sharded over N (ZeRO-3, FSDP2), else whole
    weights       2 P
    gradients     2 T
    optimizer     4 T master weights + 8 T moments of AdamW; with offload these and the weights rest in main memory
While answers are written by the trainer (generation: transformers), all B of a GPU at once
    gathered      2 P where it is sharded: TRL gathers the whole model on every GPU
    KV cache      B (S * 2 * elements of a cached token + 4 * elements of a linear layer's state)
    prefill       B * solver.max_prompt_tokens * 2 (2 i + 4 h)
While weights are updated
    layers        2 * 2 * parameters of the largest block: the one at work and the one fetched ahead
    activations   b S 2 h L kept between the layers (checkpointing), and b S 2 (3 i + 8 h) of the one computed anew
    head          LOGITS_TOKENS * V * 8: log-probabilities are computed in chunks
vLLM on the same GPUs takes VLLM_SHARE of each, within which its own 2 P and the cache of a rollout must fit; what does
not fit at once waits, which the time leaves out. A vLLM server has GPUs of its own. On top of all that come RESERVED
bytes for the CUDA context and libraries, and FRAGMENTED of the rest.

Time of a cycle of A answers with prompts and answers of mean lengths p and a, at the assumed shares of what a GPU can
do. Grading and the loop's work come on top where training has to wait for them.
    updates       A (p + a) * (8 P_text + 2 P_text where a cycle has several updates) / (N * FLOPs * TRAIN_SHARE): two
                  for forward, four for backward, two for the checkpointed layers computed anew, and the old
                  probabilities. Adapters need 6 of the 8. Full attention adds 4 (or 5) * 2 * (p + a) * heads * head_dim
                  a layer.
    prefill       A p * 2 P_text / (N * FLOPs * TRAIN_SHARE)
    decoding      longest answer * (2 P + B (p + a / 2) * bytes of a cached token) / (bandwidth * DECODE_SHARE): all
                  answers of a GPU are written in step, until the longest one ends
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rri.architecture import Architecture
from rri.config.run import SolverConfig
from rri.errors import ConfigError

__all__ = ["GB", "GPUS", "Gpu", "GpuPlan", "MemoryPlan", "Placement", "placement_of", "plan_memory"]

GB = 1e9
"""Bytes."""
RESERVED = 2 * GB
FRAGMENTED = 0.08
VLLM_SHARE = 0.3
LOGITS_TOKENS = 2048
TRAIN_SHARE = 0.35
DECODE_SHARE = {"transformers": 0.15, "vllm-colocate": 0.5, "vllm-server": 0.5}
"""Assumed share of the memory's bandwidth that decoding reaches, by what writes the rollouts."""
MEAN_ANSWER = 2048
"""Assumed mean answer in tokens, where the limit allows more."""
MOST_ADVICE = 4

Placement = Literal["whole", "sharded", "offloaded"]


class Plan(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Gpu(Plan):
    """What one GPU can do: bytes, dense bf16 operations a second, bytes a second."""

    name: str
    memory: float
    flops: float
    bandwidth: float


GPUS: dict[int, Gpu] = {
    80: Gpu(name="H100 80 GB", memory=80 * GB, flops=989e12, bandwidth=3.35e12),
    141: Gpu(name="H200 141 GB", memory=141 * GB, flops=989e12, bandwidth=4.8e12),
}
"""Memory in GB -> data sheet. Other sizes are planned as an H100 of that memory."""


class GpuPlan(Plan):
    """What one GPU of N holds, in bytes, and the time of a cycle, in seconds."""

    gpus: int
    placement: Placement
    batch: int = Field(description="answers in one forward pass")
    accumulation: int = Field(description="forward passes of one update")
    answers: int = Field(description="answers of a cycle that this GPU writes and trains on")
    tokens_a_step: int = Field(description="of all GPUs in one update, prompts and answers at their limits")
    weights: float
    gradients: float
    optimizer: float
    vllm: float
    gathered: float
    cache: float
    prefill: float
    working_layers: float
    activations: float
    head: float
    generation_peak: float
    training_peak: float
    limit: float = Field(description="bytes that may be used: memory less what is reserved and fragmented")
    main_memory: float = Field(description="bytes of main memory for each GPU")
    generation_seconds: float
    update_seconds: float
    vllm_short: float = Field(default=0.0, description="bytes that vLLM lacks for its weights and one rollout")

    @property
    def peak(self) -> float:
        return max(self.generation_peak, self.training_peak)

    @property
    def fits(self) -> bool:
        return self.peak <= self.limit and not self.vllm_short

    @property
    def cycle_seconds(self) -> float:
        return self.generation_seconds + self.update_seconds


class MemoryPlan(Plan):
    """Plans for several numbers of GPUs; `advice` says of each that does not fit what would."""

    model: Architecture
    gpu: Gpu
    trained: int = Field(description="parameters that are trained")
    plans: tuple[GpuPlan, ...]
    advice: dict[int, tuple[str, ...]]
    assumptions: dict[str, float]


def plan_memory(
    model: Architecture, solver: SolverConfig, gpus: Sequence[int], memory_gb: int = 80, mean_answer: int | None = None
) -> MemoryPlan:
    """Plan a run's training for each number of GPUs.

    Args:
        model: the solver's base model.
        solver: the run's.
        gpus: numbers of GPUs, all machines together.
        memory_gb: of one GPU.
        mean_answer: tokens of a mean answer; MEAN_ANSWER or the limit where it is None.

    Raises:
        ConfigError: the answers of an update cannot be spread over a number of GPUs.
    """
    gpu = GPUS.get(memory_gb) or GPUS[80].model_copy(
        update={"name": f"GPU of {memory_gb} GB, as fast as an H100", "memory": memory_gb * GB}
    )
    mean = min(mean_answer or MEAN_ANSWER, solver.max_completion_tokens)
    plans = tuple(_plan(model, solver, gpu, n, mean) for n in gpus)
    return MemoryPlan(
        model=model,
        gpu=gpu,
        trained=_trained(model, solver),
        plans=plans,
        advice={p.gpus: tuple(_advice(model, solver, gpu, p, mean)) for p in plans if not p.fits},
        assumptions={
            "share of the GPU's operations in training (MFU)": TRAIN_SHARE,
            "share of the memory's bandwidth in decoding": DECODE_SHARE[solver.generation],
            "mean answer, tokens": mean,
            "reserved a GPU, GB": RESERVED / GB,
            "lost to fragmentation": FRAGMENTED,
        },
    )


def placement_of(launch: str) -> Placement:
    """Where a launch file puts the states; one that is not ours is taken for sharded."""
    if "offload" in launch:
        return "offloaded"
    return "whole" if launch.removesuffix(".yaml").endswith("cpu") and "zero" not in launch else "sharded"


def _trained(model: Architecture, solver: SolverConfig) -> int:
    return model.adapter_parameters(solver.lora.r) if solver.lora else model.parameters


def _batch(solver: SolverConfig, gpus: int) -> int:
    """Answers in one forward pass, as the trainer chooses them.

    Raises:
        ConfigError: no number of at most 8 divides an update.
    """
    per_update = solver.tasks_per_update * solver.rollouts_per_task
    sizes = [solver.per_device_batch] if solver.per_device_batch else range(8, 0, -1)
    for size in sizes:
        if per_update % (size * gpus) == 0:
            return size
    raise ConfigError(
        f"one update has {per_update} answers (tasks_per_update {solver.tasks_per_update} x rollouts_per_task "
        f"{solver.rollouts_per_task}), which {gpus} GPUs with batches of {', '.join(map(str, sizes))} do not divide",
        "Choose a number of GPUs that divides it, or other tasks_per_update",
    )


def _plan(model: Architecture, solver: SolverConfig, gpu: Gpu, gpus: int, mean_answer: int) -> GpuPlan:
    batch, placement = _batch(solver, gpus), placement_of(solver.launch)
    per_update = solver.tasks_per_update * solver.rollouts_per_task
    answers = solver.tasks_per_cycle * solver.rollouts_per_task / gpus
    length = solver.max_prompt_tokens + solver.max_completion_tokens
    rest = _at_rest(model, solver, gpus, placement)
    writing = _writing(model, solver, gpu, answers, length)
    training = _training(model, batch, length)
    resident = sum(rest[name] for name in ("weights", "gradients", "optimizer")) + writing["vllm"]
    generation_seconds, update_seconds = _seconds(model, solver, gpu, gpus, mean_answer)
    held = writing["gathered"] + writing["cache"] + writing["prefill"]
    return GpuPlan(
        gpus=gpus,
        placement=placement,
        batch=batch,
        accumulation=per_update // (batch * gpus),
        answers=round(answers),
        tokens_a_step=per_update * length,
        **rest,
        **writing,
        **training,
        # Gradients are gone while answers are written.
        generation_peak=resident - rest["gradients"] + held,
        training_peak=resident + sum(training.values()),
        limit=(gpu.memory - RESERVED) * (1 - FRAGMENTED),
        generation_seconds=generation_seconds,
        update_seconds=update_seconds,
    )


def _at_rest(model: Architecture, solver: SolverConfig, gpus: int, placement: Placement) -> dict[str, float]:
    trained, shards = _trained(model, solver), 1 if placement == "whole" else gpus
    weights, gradients, optimizer = 2 * model.parameters / shards, 2 * trained / shards, 12 * trained / shards
    away = weights + optimizer if placement == "offloaded" else 0.0
    if away:
        weights = optimizer = 0.0
    return {"weights": weights, "gradients": gradients, "optimizer": optimizer, "main_memory": away}


def _writing(model: Architecture, solver: SolverConfig, gpu: Gpu, answers: float, length: int) -> dict[str, float]:
    """What writing the answers takes on a training GPU."""
    nothing = {"vllm": 0.0, "gathered": 0.0, "cache": 0.0, "prefill": 0.0, "vllm_short": 0.0}
    if solver.generation == "vllm-server":
        return nothing
    one = _cached(model, length)
    if solver.generation == "vllm-colocate":
        parallel = int(solver.trl.get("vllm_tensor_parallel_size", 1))
        room = float(solver.trl.get("vllm_gpu_memory_utilization", VLLM_SHARE)) * gpu.memory
        short = max(0.0, (2 * model.parameters + one) / parallel - room)
        return nothing | {"vllm": room, "vllm_short": short}
    return nothing | {
        "gathered": 0.0 if placement_of(solver.launch) == "whole" else 2.0 * model.parameters,
        "cache": answers * one,
        "prefill": answers * solver.max_prompt_tokens * 2.0 * (2 * model.intermediate + 4 * model.hidden),
    }


def _cached(model: Architecture, length: float) -> float:
    return length * 2 * model.kv_elements + 4 * model.state_elements


def _training(model: Architecture, batch: int, length: int) -> dict[str, float]:
    tokens = batch * length
    kept = tokens * model.hidden * 2.0 * model.layers
    anew = tokens * 2.0 * (3 * model.intermediate + 8 * model.hidden)
    return {
        "working_layers": 4.0 * model.largest_layer,
        "activations": kept + anew,
        "head": LOGITS_TOKENS * model.vocab * 8.0,
    }


def _seconds(model: Architecture, solver: SolverConfig, gpu: Gpu, gpus: int, mean_answer: int) -> tuple[float, float]:
    """Seconds of a cycle: writing its answers, and its updates."""
    prompt, answers = solver.max_prompt_tokens, solver.tasks_per_cycle * solver.rollouts_per_task
    tokens, speed = prompt + mean_answer, gpus * gpu.flops * TRAIN_SHARE
    old = solver.tasks_per_cycle > solver.tasks_per_update or solver.generation != "transformers"
    dense = (6 if solver.lora else 8) + (2 if old else 0)
    attention = (5 if old else 4) * 2 * tokens * model.heads * model.head_dim * model.full_layers
    update = answers * tokens * (dense * model.text_parameters + attention) / speed
    prefill = answers * prompt * 2 * model.text_parameters / speed
    read = 2 * model.parameters + answers / gpus * _cached(model, prompt + mean_answer / 2)
    share = DECODE_SHARE[solver.generation]
    return prefill + solver.max_completion_tokens * read / (gpu.bandwidth * share), update


def _advice(model: Architecture, solver: SolverConfig, gpu: Gpu, plan: GpuPlan, mean: int) -> list[str]:
    """The fewest changes of the config that make it fit, several ways; where none does, what is largest."""
    changes = _changes(solver, plan)
    for size in range(1, len(changes) + 1):
        fitting: dict[frozenset[str], str] = {}
        for chosen in combinations(changes, size):
            kinds = frozenset(kind for kind, _, _ in chosen)
            updates = [update for _, _, update in chosen]
            if len({key for update in updates for key in update}) < size or kinds in fitting:
                continue  # two values of one setting, or a milder change of the same kind fits already
            changed = solver.model_copy(update={key: value for update in updates for key, value in update.items()})
            if _plan(model, changed, gpu, plan.gpus, mean).fits:
                fitting[kinds] = " ".join(name for _, name, _ in chosen)
        if fitting:
            return list(fitting.values())[:MOST_ADVICE]
    training = plan.training_peak >= plan.generation_peak
    names = ("activations",) if training else ("gathered", "cache", "prefill")
    parts = {name: float(getattr(plan, name)) for name in ("weights", "optimizer", "gradients", "vllm", *names)}
    largest = max(parts, key=lambda name: parts[name])
    return [f"no change of the config makes it fit; most is {largest}, {parts[largest] / GB:.0f} GB: use more GPUs"]


def _changes(solver: SolverConfig, plan: GpuPlan) -> list[tuple[str, str, dict[str, Any]]]:
    """Changes one could make, the mildest of a kind first: kind, as an option of the command line, fields."""
    changes: list[tuple[str, str, dict[str, Any]]] = []
    smaller = [size for size in range(plan.batch - 1, 0, -1) if plan.batch % size == 0]
    changes += [("batch", f"solver.per_device_batch={n}", {"per_device_batch": n}) for n in smaller]
    if solver.generation == "transformers":
        others = ("vllm-colocate", "vllm-server")
        changes += [(name, f"solver.generation={name}", {"generation": name}) for name in others]
    if plan.vllm_short:
        spread, name = [n for n in (2, 4, 8) if plan.gpus % n == 0], "vllm_tensor_parallel_size"
        changes += [("parallel", f"solver.trl.{name}={n}", {"trl": {**solver.trl, name: n}}) for n in spread]
    if plan.placement != "offloaded":
        changes.append(("offload", "solver.launch=zero3_offload", {"launch": "zero3_offload"}))
    half = solver.max_completion_tokens // 2
    if half:
        changes.append(("shorter", f"solver.max_completion_tokens={half}", {"max_completion_tokens": half}))
    return changes
