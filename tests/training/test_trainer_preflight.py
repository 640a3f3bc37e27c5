"""What a start refuses, each with the sentence that says it, and what this machine is seen to be."""

import importlib.metadata
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from rri.errors import ConfigError, RriError, ServiceUnavailable
from rri.wire import LoraSettings, RunInfo
from training import preflight
from training.model_shape import ModelShape
from training.preflight import (
    Machine,
    ModelFacts,
    await_vllm_server,
    check_room,
    check_start,
    findings,
    inspect_start,
    load_text_side,
    model_facts,
    model_shape,
    this_machine,
)

MakeInfo = Callable[..., RunInfo]

GPUS = Machine(
    gpus=8, bf16=True, ranks=8, local_ranks=8, mixed_precision="bf16", sharding="zero", zero_stage=3,
    whole_weights=True, offload=False, compiler=True,
    versions={"tensorboard": "2", "peft": "0.21.2", "vllm": "0.31.0+cu130", "requests": "2"},
)  # fmt: skip
CPU = replace(GPUS, gpus=0, bf16=False, ranks=2, local_ranks=2, mixed_precision="no")
MODEL = ModelFacts(has_template=True, unrendered="", has_end=True, context=32768)
LAYERS = {"model.layers.0.q_proj": (64, 64), "model.layers.0.k_proj": (64, 16), "lm_head": (64, 1000)}
SHAPE = ModelShape(parameters=10**9, weight_bytes=2, modules=frozenset({"", "model", *LAYERS}), linears=LAYERS)


def args(**changes: Any) -> SimpleNamespace:
    values: dict[str, Any] = {
        "report_to": ["tensorboard"], "bf16": True, "use_vllm": False, "vllm_mode": "colocate",
        "vllm_tensor_parallel_size": 1, "vllm_max_model_length": None, "max_completion_length": 8192,
    }  # fmt: skip
    return SimpleNamespace(**values | changes)


def without(*packages: str) -> Machine:
    return replace(GPUS, versions={k: v for k, v in GPUS.versions.items() if k not in packages})


VLLM = {"use_vllm": True}
PAPER = {"max_prompt_tokens": 6144, "base_model": "M"}
LORA = {"lora": LoraSettings()}


@pytest.mark.parametrize(
    ("chosen", "run", "machine", "model", "words"),
    [
        # hardware
        ({"bf16": False}, {}, replace(CPU, mixed_precision="bf16"), MODEL, "asks for bf16, and there is no GPU"),
        ({}, {}, replace(GPUS, gpus=4), MODEL, "8 ranks share 4 GPUs on this node; launch with --num_processes 4"),
        ({}, {}, replace(GPUS, bf16=False), MODEL, "the GPU does not compute in bfloat16"),
        ({}, {}, replace(GPUS, offload=True, compiler=False), MODEL, "g++ or ninja is missing"),
        ({}, {}, replace(GPUS, whole_weights=False), MODEL, "a checkpoint would hold no whole weights"),
        # packages
        ({"report_to": ["tensorboard", "wandb"]}, {}, GPUS, MODEL, "report_to names wandb, which is not installed"),
        ({"report_to": ["trackio"]}, {}, GPUS, MODEL, "report_to names trackio, which is not installed"),
        ({}, {}, without("tensorboard"), MODEL, "report_to names tensorboard, which is not installed"),
        ({}, LORA, without("peft"), MODEL, "solver.lora needs peft"),
        (VLLM, {"generation": "vllm-colocate"}, without("vllm"), MODEL, "generation vllm-colocate needs vllm"),
        (VLLM, {}, replace(GPUS, versions={**GPUS.versions, "vllm": "0.32.0"}), MODEL, "vllm 0.32.0 is installed"),
        (VLLM, {}, replace(GPUS, versions={**GPUS.versions, "vllm": "0.21.9"}), MODEL, "works with 0.22.0 to 0.31.0"),
        ({**VLLM, "vllm_mode": "server"}, {}, without("requests"), MODEL, "vllm-server needs requests"),
        # model
        ({}, PAPER, GPUS, replace(MODEL, has_template=False), "M has no chat template"),
        ({}, PAPER, GPUS, replace(MODEL, unrendered="no system"), "refuses a system message (no system)"),
        ({}, PAPER, GPUS, replace(MODEL, has_end=False), "M has no end token"),
        ({}, PAPER, GPUS, replace(MODEL, context=14335), "answers of 8192 tokens do not fit into the 14335"),
        ({}, {"lora": LoraSettings(targets=("q_proj", "lm_head"))}, GPUS, MODEL, "solver.lora.targets names lm_head"),
        (
            {}, {**PAPER, "lora": LoraSettings(targets=("wq", "q_proj", "wv"))}, GPUS, replace(MODEL, shape=SHAPE),
            "names wq, wv, which M does not have; it has k_proj, q_proj",
        ),
        # generation
        (VLLM, {"retrieval": True, "generation": "vllm-colocate"}, GPUS, MODEL, "tools with generation vllm-colocate"),
        ({}, {**PAPER, "retrieval": True}, GPUS, replace(MODEL, no_tools="it has none"), "cannot use tools, because"),
        (VLLM, {"generation": "vllm-server"}, CPU, MODEL, "generation vllm-server needs a GPU"),
        ({**VLLM, "vllm_tensor_parallel_size": 3}, {}, GPUS, MODEL, "size 3 does not divide the 8 ranks"),
        ({**VLLM, "vllm_max_model_length": 14335}, PAPER, GPUS, MODEL, "14335, and prompt and answer take up to 14336"),
    ],
)  # fmt: skip
def test_each_refusal(
    make_info: MakeInfo, chosen: dict[str, Any], run: dict[str, Any], machine: Machine, model: ModelFacts, words: str
) -> None:
    found = list(findings(args(**chosen), make_info(**run), machine, model))
    assert len(found) == 1 and words in found[0], found
    assert "; " in found[0], "what to do about it comes after"
    with pytest.raises(ConfigError) as caught:
        check_start(args(**chosen), make_info(**run), machine, model)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("chosen", "run", "machine", "model"),
    [
        ({}, PAPER, GPUS, replace(MODEL, context=14336)),
        ({}, PAPER, GPUS, replace(MODEL, context=None)),
        ({"report_to": []}, {}, without("tensorboard"), MODEL),
        ({"report_to": ["comet_ml"]}, {}, GPUS, MODEL),
        ({"bf16": False}, LORA, CPU, MODEL),
        ({}, LORA, GPUS, replace(MODEL, shape=SHAPE)),
        ({}, {"lora": LoraSettings(targets=("q_proj", "0.k_proj"))}, GPUS, replace(MODEL, shape=SHAPE)),
        ({}, {"lora": LoraSettings(targets=("wq",))}, GPUS, MODEL),
        ({}, {"retrieval": True}, GPUS, MODEL),
        ({}, {}, GPUS, replace(MODEL, no_tools="it has none")),
        ({**VLLM, "vllm_tensor_parallel_size": 4, "vllm_max_model_length": 14336}, PAPER, GPUS, MODEL),
        ({**VLLM, "vllm_mode": "server", "vllm_tensor_parallel_size": 3}, {}, GPUS, MODEL),
        ({}, {}, replace(GPUS, versions={**GPUS.versions, "vllm": "0.99"}), MODEL),
        ({}, {}, replace(GPUS, offload=True), MODEL),
        ({}, {}, replace(GPUS, gpus=8, local_ranks=8, ranks=16), MODEL),
    ],
)
def test_what_can_start(
    make_info: MakeInfo, chosen: dict[str, Any], run: dict[str, Any], machine: Machine, model: ModelFacts
) -> None:
    assert list(findings(args(**chosen), make_info(**run), machine, model)) == []


def test_everything_that_is_missing_is_said_at_once(make_info: MakeInfo) -> None:
    with pytest.raises(ConfigError, match=r"wandb.*no chat template.*needs a GPU"):
        check_start(args(use_vllm=True, report_to=["wandb"]), make_info(), CPU, replace(MODEL, has_template=False))


# --- the disk ------------------------------------------------------------------------------------------


def saving(output: Path, **changes: Any) -> SimpleNamespace:
    values: dict[str, Any] = {
        "output_dir": str(output), "optim": "adamw_torch", "max_steps": 100, "save_steps": 10, "save_total_limit": 2,
    }  # fmt: skip
    return args(**values | changes)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let every disk have so many GB free."""
    return lambda gb: monkeypatch.setattr(preflight, "free_bytes", lambda folder: int(gb * 1e9))


def test_a_disk_without_room_is_refused_with_the_figures(
    make_info: MakeInfo, free: Callable[[float], None], tmp_path: Path
) -> None:
    machine = replace(GPUS, sharding="none", zero_stage=0)
    free(18.1)
    check_room(saving(tmp_path), make_info(), machine, SHAPE)
    free(17.9)
    with pytest.raises(ConfigError) as caught:
        check_room(saving(tmp_path), make_info(), machine, SHAPE)
    assert "17.9 GB free, and training needs 18 GB there: 3 checkpoints of 6 GB" in str(caught.value)
    assert "save_total_limit 2" in str(caught.value) and "; free some, " in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    check_room(saving(tmp_path), make_info(**LORA), machine, SHAPE)
    check_room(saving(tmp_path), make_info(), machine, None)


def test_checkpoints_that_are_there_need_no_room(
    make_info: MakeInfo, free: Callable[[float], None], tmp_path: Path
) -> None:
    free(6.1)
    machine = replace(GPUS, sharding="none", zero_stage=0)
    for step in (80, 90):
        (tmp_path / f"checkpoint-{step}").mkdir()
    check_room(saving(tmp_path), make_info(), machine, SHAPE)
    with pytest.raises(ConfigError, match=r"14 GB there: 1 checkpoint of 14 GB"):
        check_room(saving(tmp_path), make_info(), GPUS, SHAPE)


def test_a_disk_that_cannot_be_asked_is_no_hindrance(
    make_info: MakeInfo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(folder: Path) -> int:
        raise PermissionError(13, "no", str(folder))

    monkeypatch.setattr(preflight, "free_bytes", fail)
    check_room(saving(tmp_path), make_info(), GPUS, SHAPE)


@pytest.mark.parametrize("main", [True, False])
def test_one_rank_looks_at_the_disk_and_all_are_told(
    main: bool, make_info: MakeInfo, free: Callable[[float], None], tmp_path: Path
) -> None:
    told: list[RriError | None] = []
    chosen = saving(
        tmp_path, use_vllm=False, bf16=False, report_to=[], deepspeed_plugin=None, trust_remote_code=False,
        max_completion_length=64, model_init_kwargs=None, chat_template_kwargs=None,
        distributed_state=SimpleNamespace(is_main_process=main),
    )  # fmt: skip
    free(0)
    inspect_start(chosen, make_info(), SimpleNamespace(fail_together=told.append))  # type: ignore[arg-type]
    assert len(told) == 1, "every rank calls it once"
    assert isinstance(told[0], ConfigError) == main


# --- what is looked at ---------------------------------------------------------------------------------


def test_the_base_model_is_looked_at(tiny_model: Path) -> None:
    tokenizer, config = load_text_side(str(tiny_model))
    found = model_facts(tokenizer, config)
    assert (found.has_template, found.unrendered, found.has_end, found.context) == (True, "", True, 512)
    assert found.no_tools, "the tiny model's template renders no tool calls"
    tokenizer.chat_template = "{{ raise_exception('System role not supported') }}"
    assert model_facts(tokenizer, config).unrendered == "System role not supported"
    tokenizer.chat_template = None
    assert not model_facts(tokenizer, config).has_template
    with pytest.raises(ConfigError, match="cannot read tokenizer and config"):
        load_text_side(str(tiny_model / "absent"))


def test_the_base_model_is_made_without_its_values(tiny_model: Path) -> None:
    config = load_text_side(str(tiny_model))[1]
    found = model_shape(args(model_init_kwargs=None), config)
    assert found is not None
    model: Any = AutoModelForCausalLM.from_pretrained(tiny_model)
    assert found.parameters == model.num_parameters()
    assert found.modules == {name for name, _ in model.named_modules()}
    assert found.linears["model.layers.0.mlp.up_proj"] == (32, 64)
    assert found.weight_bytes == 4
    for given in ("bfloat16", torch.bfloat16):
        other = model_shape(args(model_init_kwargs={"dtype": given}), config)
        assert other is not None and other.weight_bytes == 2
    config.dtype = None
    unknown = model_shape(args(model_init_kwargs=None), config)
    assert unknown is not None and unknown.weight_bytes == 2, "no more than certain"


@pytest.mark.parametrize("architectures", [None, ["NoSuchModel"], ["LlamaForCausalLM"]])
def test_a_model_that_cannot_be_made_has_no_shape(architectures: list[str] | None) -> None:
    config = SimpleNamespace(architectures=architectures, get_text_config=lambda: None)
    assert model_shape(args(model_init_kwargs=None), config) is None


def plugin(stage: int, *, gather: bool, offload: str | None = None) -> Any:
    return SimpleNamespace(zero_stage=stage, offload_optimizer_device=offload, get_value=lambda key: gather)


@pytest.mark.parametrize(
    ("environ", "deepspeed", "sharding", "stage", "whole", "offload"),
    [
        ({}, None, "none", 0, True, False),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT"}, None, "fsdp", 0, True, False),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT"}, None, "fsdp", 0, False, False),
        ({}, plugin(3, gather=True, offload="none"), "zero", 3, True, False),
        ({}, plugin(3, gather=False, offload="cpu"), "zero", 3, False, True),
        ({}, plugin(2, gather=False), "zero", 2, True, False),
    ],
)
def test_the_launch_file_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    deepspeed: Any,
    sharding: str,
    stage: int,
    whole: bool,
    offload: bool,
) -> None:
    launched = {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "ACCELERATE_MIXED_PRECISION": "bf16"}
    for name, value in {**launched, **environ}.items():
        monkeypatch.setenv(name, value)
    found = this_machine(SimpleNamespace(deepspeed_plugin=deepspeed))
    assert (found.sharding, found.zero_stage, found.whole_weights, found.offload) == (sharding, stage, whole, offload)
    assert (found.ranks, found.local_ranks, found.mixed_precision) == (16, 8, "bf16")
    assert found.versions["trl"] == importlib.metadata.version("trl")


def test_a_vllm_server_is_waited_for_and_then_asked_for(make_info: MakeInfo) -> None:
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200 if len(seen) > 1 else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        await_vllm_server(SimpleNamespace(vllm_server_base_url=url, vllm_server_timeout=10))
        assert seen == ["/health", "/health"], "asked again after a 503"
        server.shutdown()
    with pytest.raises(
        ServiceUnavailable, match=r"no vLLM server at http://127.0.0.1:1 within 0.1 s.*vllm serve MODEL"
    ):
        host = {"vllm_server_base_url": None, "vllm_server_host": "127.0.0.1", "vllm_server_port": 1}
        await_vllm_server(SimpleNamespace(**host, vllm_server_timeout=0.1))
