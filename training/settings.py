"""The settings of GRPO (METHOD 6): what the method fixes, what follows from the run, and what may not clash."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rri.errors import ConfigError
from rri.wire import RunInfo

__all__ = [
    "Schedule",
    "base_settings",
    "check_settings",
    "default_batch",
    "derive_settings",
    "generation_settings",
    "solver_settings",
]

# Other values would silently change which positions are trained on or how a cycle maps to updates.
REQUIRED: dict[str, Any] = {
    "shuffle_dataset": False,  # the service decides the order; True would also read a thousand tasks ahead
    "remove_unused_columns": False,  # position and task id must reach the reward
    "ignore_data_skip": True,  # the stream itself starts at the resumed position
    "dataloader_num_workers": 0,  # the stream holds the client's connection
    "save_strategy": "steps",
    "save_only_model": False,  # a checkpoint without optimizer cannot be resumed from
}


@dataclass(frozen=True)
class Schedule:
    """How cycles, updates and positions relate in one run."""

    updates_per_cycle: int
    tasks_per_cycle: int

    def cycle_of(self, global_step: int) -> int:
        """The cycle that `global_step` finished updates lead up to."""
        return global_step // self.updates_per_cycle

    def position_of(self, global_step: int) -> int:
        """The first position that is not trained on after `global_step` updates."""
        return self.cycle_of(global_step) * self.tasks_per_cycle


def base_settings(*, cuda: bool) -> dict[str, Any]:
    """GRPOConfig fields as METHOD 6 has them, all written out, so that a new TRL default changes nothing."""
    settings: dict[str, Any] = {
        **REQUIRED,
        "loss_type": "dapo",  # token mean over the tokens of the update
        "scale_rewards": "none",
        "beta": 0.0,
        "epsilon": 0.2,
        "epsilon_high": None,
        "num_iterations": 1,
        "importance_sampling_level": "token",
        "entropy_coef": 0.0,
        "use_adaptive_entropy": False,
        "top_entropy_quantile": 1.0,
        "mask_truncated_completions": False,
        "off_policy_mask_threshold": None,
        "multi_objective_aggregation": "sum_then_normalize",
        "max_tool_calling_iterations": 2,  # unlimited otherwise
        "ds3_gather_for_generation": True,  # without it generation gathers layer by layer, and seems to hang
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": None,
        "repetition_penalty": 1.0,
        "max_completion_length": 8192,
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "optim": "adamw_torch",  # DeepSpeed's own CPU Adam would be compiled at first use
        "save_total_limit": 2,  # a torn newest checkpoint must leave a whole one
        "logging_steps": 1,
        "logging_first_step": True,
        "report_to": "tensorboard",
        "eval_strategy": "no",
    }
    if cuda:
        return settings | {"bf16": True, "gradient_checkpointing": True}
    return settings | {"use_cpu": True, "bf16": False, "gradient_checkpointing": False}


def generation_settings(info: RunInfo, max_completion_length: int) -> dict[str, Any]:
    """GRPOConfig fields of what writes the rollouts.

    vLLM's probabilities are not quite the trainer's, which the ratio of both corrects. It is cut token by token: the
    ratio of a whole answer is a product over thousands of tokens, and masking by it would leave out the long answers.
    Watch `sampling/importance_sampling_ratio/*` in the log.

    Args:
        info: the run.
        max_completion_length: tokens of the longest answer.
    """
    settings: dict[str, Any] = {
        "use_vllm": info.generation != "transformers",
        "vllm_mode": "server" if info.generation == "vllm-server" else "colocate",
        "vllm_importance_sampling_correction": True,
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": 3.0,
        "vllm_importance_sampling_clip_min": None,
        "vllm_gpu_memory_utilization": 0.3,
        "vllm_tensor_parallel_size": 1,
    }
    if info.max_prompt_tokens is not None:
        # A model's own context may be a hundred times what a rollout takes, and vLLM reserves for it.
        settings["vllm_max_model_length"] = info.max_prompt_tokens + max_completion_length
    return settings


def solver_settings(solver: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The run's own GRPOConfig fields.

    Raises:
        ConfigError: a key is no GRPOConfig field.
    """
    if unknown := sorted(set(solver) - set(known)):
        raise ConfigError(
            f"solver has {', '.join(unknown)}, which is no GRPOConfig field",
            "Correct or remove it under `solver` in the run's config",
        )
    return dict(solver)


def default_batch(info: RunInfo, world_size: int) -> int:
    """The largest batch of at most 8 answers per rank that divides an update; 8 when none does."""
    per_update = info.tasks_per_update * info.rollouts_per_task
    return next((size for size in range(8, 0, -1) if per_update % (size * world_size) == 0), 8)


def derive_settings(
    info: RunInfo, *, world_size: int, batch_size: int, num_iterations: int
) -> tuple[dict[str, Any], Schedule]:
    """GRPOConfig fields that follow from the run and from the number of ranks.

    Args:
        info: the run.
        world_size: ranks.
        batch_size: answers in one forward pass of one rank (`per_device_train_batch_size`).
        num_iterations: optimizer passes over one generation batch.

    Raises:
        ConfigError: the numbers do not divide.
    """
    if info.tasks_per_cycle % info.tasks_per_update:
        raise ConfigError(
            f"tasks_per_cycle ({info.tasks_per_cycle}) is no multiple of tasks_per_update ({info.tasks_per_update})",
            "Change one of them in the run's config",
        )
    per_update, at_once = info.tasks_per_update * info.rollouts_per_task, batch_size * world_size
    if per_update % at_once:
        raise ConfigError(
            f"one update has {per_update} answers (tasks_per_update {info.tasks_per_update} x rollouts_per_task "
            f"{info.rollouts_per_task}), which {at_once} at a time (per_device_train_batch_size {batch_size} x "
            f"{world_size} ranks) do not divide",
            f"Set --per_device_train_batch_size so that its product with {world_size} divides {per_update}",
        )
    accumulation, updates = per_update // at_once, info.tasks_per_cycle // info.tasks_per_update
    schedule = Schedule(updates * num_iterations, info.tasks_per_cycle)
    derived = {
        "num_generations": info.rollouts_per_task,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": updates * accumulation,
        "generation_batch_size": None,
        "max_steps": info.cycles * schedule.updates_per_cycle,
        "save_steps": info.save_every_cycles * schedule.updates_per_cycle,
        "seed": info.seed,
        # A rank may wait for one grade and one task while the others stand in a collective.
        "ddp_timeout": int(1800 + info.grade_timeout_s + info.serve_timeout_s),
    }
    return derived, schedule


def check_settings(args: Any, derived: Mapping[str, Any], schedule: Schedule) -> None:
    """Refuse overrides that would break the mapping from updates to positions.

    Args:
        args: the GRPOConfig that is about to be used, or any object with its fields.
        derived: what `derive_settings` returned.
        schedule: the same.

    Raises:
        ConfigError: naming both values.
    """
    fixed = {key: derived[key] for key in ("num_generations", "gradient_accumulation_steps", "steps_per_generation")}
    for key, expected in {**REQUIRED, **fixed}.items():
        value = getattr(args, key)
        if getattr(value, "value", value) != expected:
            raise ConfigError(f"{key} is {value}, but this run needs {expected}", f"Leave --{key} and solver.{key} out")
    whole = f"a multiple of the {schedule.updates_per_cycle} updates of a cycle"
    for key in ("save_steps", "max_steps"):
        value = getattr(args, key)
        if value < 1 or value % schedule.updates_per_cycle:
            raise ConfigError(f"{key} is {value:g}, which is not {whole}", f"Set --{key} to {whole}")
    if args.max_steps > derived["max_steps"]:
        raise ConfigError(
            f"max_steps is {args.max_steps}, but the run's cycles allow {derived['max_steps']}",
            "Start a run with more `cycles` instead",
        )
