"""The plan's arithmetic: the paper's models at known numbers, monotonicity, and what is advised."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rri.architecture import Architecture, published
from rri.config import load_config
from rri.config.run import SolverConfig
from rri.errors import ConfigError
from rri.memory_plan import GB, GpuPlan, placement_of, plan_memory

PAPER = load_config("paper-9b").solver


def model(name: str = "Qwen/Qwen3.5-9B") -> Architecture:
    found = published(name)
    assert found is not None
    return found


def one(gpus: int = 8, memory_gb: int = 80, name: str = "Qwen/Qwen3.5-9B", **changes: Any) -> GpuPlan:
    solver = SolverConfig.model_validate(PAPER.model_dump() | changes)
    return plan_memory(model(name), solver, [gpus], memory_gb).plans[0]


def in_gb(plan: GpuPlan, *names: str) -> list[float]:
    return [round(getattr(plan, name) / GB, 1) for name in names]


def test_the_papers_9b_on_eight_gpus() -> None:
    """9.41G parameters: 18.8 GB in bf16, 16 bytes each with gradients and optimizer, over eight."""
    plan = one()
    assert in_gb(plan, "weights", "gradients", "optimizer", "gathered") == [2.4, 2.4, 14.1, 18.8]
    # 64 answers of 14,336 tokens: 32 KiB a token in eight layers, and 53 MB of state in 24.
    assert in_gb(plan, "cache") == [round(64 * (14336 * 32768 + 4 * 13_369_344) / GB, 1)] == [33.5]
    # Eight answers in a pass: 8 KiB a token at the ends of 32 layers, and one layer anew.
    assert in_gb(plan, "activations") == [round(8 * 14336 * (8192 * 32 + 2 * (3 * 12288 + 8 * 4096)) / GB, 1)] == [46.0]
    assert (plan.batch, plan.accumulation, plan.answers, plan.tokens_a_step) == (8, 2, 64, 128 * 14336)
    assert plan.training_peak == pytest.approx(
        plan.weights + plan.gradients + plan.optimizer + plan.working_layers + plan.activations + plan.head
    )
    assert plan.generation_peak == pytest.approx(
        plan.weights + plan.optimizer + plan.gathered + plan.cache + plan.prefill
    )
    assert not plan.fits and one(memory_gb=141).fits


def test_what_the_placement_changes() -> None:
    sharded, offloaded, whole = (one(launch=launch) for launch in ("zero3", "zero3_offload", "cpu"))
    assert offloaded.weights == offloaded.optimizer == 0 < offloaded.gradients
    assert offloaded.main_memory == pytest.approx(sharded.weights + sharded.optimizer)
    assert whole.optimizer == pytest.approx(8 * sharded.optimizer)
    assert whole.gathered == 0 < sharded.gathered == offloaded.gathered
    assert [placement_of(n) for n in ("zero3", "fsdp2", "zero3_cpu", "cpu", "my/own.yaml", "zero3_offload")] == [
        "sharded", "sharded", "sharded", "whole", "sharded", "offloaded",
    ]  # fmt: skip


def test_adapters_have_small_gradients_and_states() -> None:
    whole, adapters = one(), one(lora={"r": 32})
    trained = model().adapter_parameters(32)
    assert adapters.optimizer == pytest.approx(12 * trained / 8) and adapters.optimizer < whole.optimizer / 50
    assert (adapters.weights, adapters.activations) == (whole.weights, whole.activations)
    assert adapters.update_seconds < whole.update_seconds


def test_what_writes_the_rollouts() -> None:
    server = one(generation="vllm-server")
    assert server.gathered == server.cache == server.prefill == server.vllm == 0
    shared = one(generation="vllm-colocate")
    assert shared.vllm == pytest.approx(0.3 * 80 * GB) and shared.vllm_short == 0
    assert shared.training_peak - server.training_peak == pytest.approx(shared.vllm)
    # 54.7 GB of weights in 24 GB of room; over four GPUs they fit.
    large = one(name="Qwen/Qwen3.6-27B", generation="vllm-colocate", gpus=64)
    assert large.vllm_short / GB == pytest.approx(31.8, abs=0.1) and not large.fits
    spread = one(name="Qwen/Qwen3.6-27B", generation="vllm-colocate", gpus=64, trl={"vllm_tensor_parallel_size": 4})
    assert spread.vllm_short == 0 and spread.fits
    more = one(generation="vllm-colocate", trl={"vllm_gpu_memory_utilization": 0.5})
    assert more.vllm == pytest.approx(0.5 * 80 * GB)


def test_advice_is_the_fewest_changes_and_they_do_fit() -> None:
    plan = plan_memory(model(), PAPER, [8, 16], 80)
    assert list(plan.advice) == [8]
    assert plan.advice[8][0] == "solver.per_device_batch=4 solver.generation=vllm-server"
    for line in plan.advice[8]:
        changed = load_config("paper-9b", dict(change.split("=") for change in line.split())).solver
        assert plan_memory(model(), changed, [8], 80).plans[0].fits, line
    nothing = plan_memory(model("Qwen/Qwen3.6-27B"), PAPER, [1], 24)
    assert nothing.advice[1][0].startswith("no change of the config makes it fit; most is")


def test_an_update_that_cannot_be_spread() -> None:
    with pytest.raises(ConfigError, match=r"128 answers .* which 7 GPUs with batches of 8, 7, .* do not divide"):
        one(gpus=7)
    with pytest.raises(ConfigError, match="which 8 GPUs with batches of 3 do not divide"):
        one(per_device_batch=3)
    assert one(gpus=128).batch == 1


@given(st.sampled_from([1, 2, 4, 8, 16, 32]), st.sampled_from(["transformers", "vllm-colocate", "vllm-server"]))
def test_more_gpus_never_need_more_each_and_never_take_longer(gpus: int, generation: str) -> None:
    few, many = one(gpus, generation=generation), one(2 * gpus, generation=generation)
    assert many.generation_peak <= few.generation_peak and many.training_peak <= few.training_peak
    assert many.cycle_seconds < few.cycle_seconds
    assert few.tokens_a_step == many.tokens_a_step


@given(st.integers(2048, 12288), st.integers(1, 12288))
def test_longer_answers_need_more_and_take_longer(short: int, more: int) -> None:
    low, high = one(max_completion_tokens=short), one(max_completion_tokens=short + more)
    assert high.generation_peak > low.generation_peak and high.training_peak > low.training_peak
    assert high.cycle_seconds > low.cycle_seconds


def test_the_edge_of_what_fits() -> None:
    plan = one(gpus=64)
    assert plan.fits
    at_limit = plan.model_copy(update={"training_peak": plan.limit})
    assert at_limit.fits and not plan.model_copy(update={"training_peak": plan.limit + 1}).fits


def test_time_is_arithmetic_over_stated_assumptions() -> None:
    found = plan_memory(model(), PAPER, [8], 141, mean_answer=1000)
    plan, tokens = found.plans[0], 6144 + 1000
    attention = 5 * 2 * tokens * 4096 * 8
    operations = 512 * tokens * (10 * model().text_parameters + attention)
    assert plan.update_seconds == pytest.approx(operations / (8 * 989e12 * 0.35))
    assert found.assumptions["mean answer, tokens"] == 1000
    assert plan_memory(model(), PAPER, [8], 96).gpu.name == "GPU of 96 GB, as fast as an H100"
