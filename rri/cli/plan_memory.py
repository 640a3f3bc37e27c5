"""`rri plan`: whether a run's training fits on so many GPUs, and about how long a cycle takes."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rri.architecture import PUBLISHED, Architecture, architecture_of, published
from rri.cli.console import plain_table, readable_time
from rri.cli.opening import local_model
from rri.config import EMBEDDED, load_config
from rri.errors import ConfigError, InputError
from rri.memory_plan import GB, GpuPlan, MemoryPlan, plan_memory

__all__ = ["architecture_for", "plan_command"]


def plan_command(
    sources: Sequence[str],
    overrides: Mapping[str, Any],
    gpus: Sequence[int],
    memory_gb: int,
    model_config: Path | None,
    *,
    as_json: bool,
) -> int:
    """Print the plan; exit code 0 when it fits on one of the numbers of GPUs, 10 when on none.

    Raises:
        ConfigError: a wrong config, or a number of GPUs over which an update cannot be spread.
        InputError: the model's sizes are unknown.
    """
    config = load_config(list(sources), overrides)
    plan = plan_memory(architecture_for(config.solver.base_model, model_config), config.solver, gpus, memory_gb)
    if as_json:
        sys.stdout.write(json.dumps(_as_data(plan)) + "\n")
    else:
        _show(Console(), f"{' + '.join(sources)}: {config.solver.base_model}", plan, config.solver.cycles)
    return 0 if any(p.fits for p in plan.plans) else 10


def architecture_for(base_model: str, config: Path | None) -> Architecture:
    """Sizes of the base model: from the file, else from the model where it lies here, else as published.

    Raises:
        InputError: none of them has it.
    """
    if config is None and base_model != EMBEDDED:
        try:
            config = Path(local_model(base_model)) / "config.json"
        except ConfigError:
            config = None
    if config is not None and config.is_dir():
        config /= "config.json"
    if config is None or (base_model in PUBLISHED and not config.is_file()):
        known = published(base_model)
        if known is None:
            names = ", ".join(PUBLISHED)
            raise InputError(
                f"the sizes of {base_model!r} are unknown (known are {names})",
                "Pass its config.json with --config FILE",
            )
        return known
    try:
        return architecture_of(json.loads(config.read_text(encoding="utf-8")), str(config))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {config}: {error}", "Give the config.json of a model") from None


def _as_data(plan: MemoryPlan) -> dict[str, Any]:
    """The plan with what follows from it: parameters of the model, whether each fits, its peak and time."""
    data = plan.model_dump(mode="json")
    data["model"]["parameters"] = plan.model.parameters
    for row, one in zip(data["plans"], plan.plans, strict=True):
        row |= {"fits": one.fits, "peak": one.peak, "cycle_seconds": one.cycle_seconds}
    return data


def _show(console: Console, title: str, plan: MemoryPlan, cycles: int) -> None:
    console.print(Rule(Text(f"plan of {title}")))
    model = plan.model
    trained = "all trained" if plan.trained >= model.parameters else f"{plan.trained / 1e6:,.0f}M trained"
    console.print(Text(f"{model.parameters / GB:.2f}G parameters, {trained}; {model.source}"))
    console.print(_memory(plan))
    for one in plan.plans:
        if not one.fits:
            console.print(Text(f"{one.gpus} GPUs: {_why(one)}", style="bold"))
            for line in plan.advice[one.gpus]:
                console.print(
                    Text(f"  {'' if line.startswith('no ') else '-s '}{line.replace(' solver.', ' -s solver.')}")
                )
    console.print(_time(plan, cycles))
    assumed = ", ".join(f"{name} {value:g}" for name, value in plan.assumptions.items())
    console.print(Text(f"assumed: {assumed}; {plan.gpu.name}", style="dim"))
    console.print(Text("An estimate by arithmetic, measured on no GPU. Grading is not in the times.", style="dim"))


def _why(one: GpuPlan) -> str:
    if one.vllm_short:
        return f"vLLM lacks {one.vllm_short / GB:.1f} GB for its weights and one rollout; what would fit:"
    phase = "training" if one.training_peak >= one.generation_peak else "generation"
    return f"{phase} needs {one.peak / GB:.1f} GB of {one.limit / GB:.1f} GB; what would fit:"


def _memory(plan: MemoryPlan) -> Table:
    table = plain_table("GB on each GPU", ("",), [f"{one.gpus} GPUs" for one in plan.plans])
    parts = (
        "weights",
        "gradients",
        "optimizer",
        "vllm",
        "gathered",
        "cache",
        "prefill",
        "working_layers",
        "activations",
        "head",
    )
    for name in parts:
        values = [float(getattr(one, name)) for one in plan.plans]
        if any(values):
            table.add_row(name.replace("_", " "), *(f"{value / GB:.1f}" for value in values))
    table.add_section()
    table.add_row("peak while writing", *(f"{one.generation_peak / GB:.1f}" for one in plan.plans))
    table.add_row("peak while training", *(f"{one.training_peak / GB:.1f}" for one in plan.plans))
    table.add_row("may be used", *(f"{one.limit / GB:.1f}" for one in plan.plans))
    if any(one.main_memory for one in plan.plans):
        table.add_row("main memory a GPU", *(f"{one.main_memory / GB:.1f}" for one in plan.plans))
    table.add_row("fits", *("yes" if one.fits else "NO" for one in plan.plans), style="bold")
    return table


def _time(plan: MemoryPlan, cycles: int) -> Table:
    table = plain_table("estimated time", ("",), [f"{one.gpus} GPUs" for one in plan.plans])
    table.add_row("answers in a pass", *(f"{one.batch} x {one.accumulation}" for one in plan.plans))
    table.add_row("tokens an update, at most", *(f"{one.tokens_a_step:,}" for one in plan.plans))
    table.add_row("writing a cycle", *(readable_time(one.generation_seconds) for one in plan.plans))
    table.add_row("updates of a cycle", *(readable_time(one.update_seconds) for one in plan.plans))
    table.add_row(f"{cycles} cycles", *(f"{one.cycle_seconds * cycles / 3600:,.1f} h" for one in plan.plans))
    return table
