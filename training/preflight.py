"""What is missing for the chosen way of training, said before it starts instead of an hour in."""

import importlib.metadata
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import torch
import transformers
from packaging.version import Version
from transformers import AutoConfig, AutoTokenizer

from rri.errors import ConfigError, ServiceUnavailable
from rri.wire import LoraSettings, RunInfo
from training.checkpoints import steps_in
from training.disk_room import checkpoint_bytes, disk_need, free_bytes, why_no_room
from training.model_shape import HEAD, ModelShape
from training.peers import Peers
from training.reasoning import Reasoning, reasoning_of
from training.tools import why_no_tools

__all__ = [
    "Machine",
    "ModelFacts",
    "await_vllm_server",
    "check_room",
    "check_start",
    "findings",
    "inspect_start",
    "load_text_side",
    "model_facts",
    "model_shape",
    "this_machine",
]

VLLM_FROM, VLLM_TO = "0.22.0", "0.31.0"
"""Versions of vLLM that TRL 1.16 works with. It only warns about others."""

TRACKERS = {"tensorboard": "tensorboard", "trackio": "trackio", "wandb": "wandb", "mlflow": "mlflow"}
"""What report_to may name -> the package that it needs. Trainer knows more, and refuses by itself what it does not."""

Sharding = Literal["none", "zero", "fsdp"]


@dataclass(frozen=True)
class Machine:
    """What this rank runs on.

    Args:
        gpus: GPUs of this node; `bf16`: whether they compute in bfloat16.
        ranks, local_ranks: processes of the whole start, and of this node.
        mixed_precision: of the launch file.
        sharding: of the launch file; `zero_stage` 0 where it is not ZeRO.
        whole_weights: whether a checkpoint holds whole weights, from which the result is taken.
        offload: whether the optimizer's states rest in main memory; `compiler`: whether g++ and ninja are there.
        versions: package -> version of what is installed.
    """

    gpus: int
    bf16: bool
    ranks: int
    local_ranks: int
    mixed_precision: str
    sharding: Sharding
    zero_stage: int
    whole_weights: bool
    offload: bool
    compiler: bool
    versions: Mapping[str, str]


@dataclass(frozen=True)
class ModelFacts:
    """What the base model's tokenizer and config say. `unrendered` is why its chat template refused a probe, `no_tools`
    why the model's tool calls cannot be used. `shape` is None where the config alone does not tell it.
    """

    has_template: bool
    unrendered: str
    has_end: bool
    context: int | None
    no_tools: str = ""
    shape: ModelShape | None = None


def inspect_start(args: Any, info: RunInfo, peers: Peers) -> Reasoning:
    """Look at machine, packages, base model and disk; how that model marks its reasoning.

    Args:
        args: the GRPOConfig.
        info: the run.
        peers: the other ranks.

    Raises:
        ConfigError: everything that is missing.
        ServiceUnavailable: the vLLM server does not answer.
    """
    tokenizer, config = load_text_side(info.base_model, trust_remote_code=args.trust_remote_code)
    machine, model = this_machine(args), model_facts(tokenizer, config, model_shape(args, config))
    check_start(args, info, machine, model)
    failure: ConfigError | None = None
    # Others may write to the same disk meanwhile, so one rank looks, and all stop where it finds no room.
    if args.distributed_state.is_main_process:
        try:
            check_room(args, info, machine, model.shape)
        except ConfigError as error:
            failure = error
    peers.fail_together(failure)
    if args.use_vllm and args.vllm_mode == "server" and args.distributed_state.is_main_process:
        await_vllm_server(args)
    return reasoning_of(tokenizer, info.reasoning, args.chat_template_kwargs)


def check_start(args: Any, info: RunInfo, machine: Machine, model: ModelFacts) -> None:
    """Refuse a start that cannot succeed.

    Raises:
        ConfigError: everything that is missing, in one message.
    """
    if found := list(findings(args, info, machine, model)):
        raise ConfigError("; ".join(found))


def check_room(args: Any, info: RunInfo, machine: Machine, shape: ModelShape | None) -> None:
    """Refuse a start whose checkpoints cannot fit on the disk.

    Nothing is known without `shape`, or where the disk cannot be asked.

    Raises:
        ConfigError: how much is free, how much is needed, and what to do.
    """
    if shape is None:
        return
    output, optim = Path(str(args.output_dir)), str(getattr(args.optim, "value", args.optim))
    each, result = checkpoint_bytes(
        shape, info.lora, sharding=machine.sharding, zero_stage=machine.zero_stage, optim=optim
    )
    need = disk_need(args, each, result, steps_in(output))
    try:
        free = free_bytes(output)
    except OSError:
        return
    if why := why_no_room(args, need, free):
        raise ConfigError(why)


def findings(args: Any, info: RunInfo, machine: Machine, model: ModelFacts) -> Iterator[str]:
    """What is missing, each with what to do about it.

    Args:
        args: the GRPOConfig, or any object with its fields.
        info: the run.
        machine: this rank's node.
        model: the base model.
    """
    yield from _of_hardware(args, machine)
    yield from _of_packages(args, info, machine)
    yield from _of_model(args, info, model)
    yield from _of_generation(args, info, machine)
    yield from _of_tools(args, info, model)
    if not machine.whole_weights:
        yield (
            "a checkpoint would hold no whole weights; set zero3_save_16bit_model: true (ZeRO-3) or "
            "fsdp_state_dict_type: FULL_STATE_DICT in the launch file"
        )
    if info.lora is not None:
        yield from _of_adapters(info.base_model, info.lora, model.shape)


def _of_hardware(args: Any, machine: Machine) -> Iterator[str]:
    if machine.gpus == 0 and machine.mixed_precision not in ("", "no"):
        yield (
            f"the launch file asks for {machine.mixed_precision}, and there is no GPU; take training/cpu.yaml or "
            "training/zero3_cpu.yaml"
        )
    if machine.gpus and machine.local_ranks > machine.gpus:
        yield (
            f"{machine.local_ranks} ranks share {machine.gpus} GPUs on this node; launch with --num_processes "
            f"{machine.gpus} a node"
        )
    if machine.gpus and args.bf16 and not machine.bf16:
        yield "the GPU does not compute in bfloat16; launch with --mixed_precision fp16 --bf16 False --fp16 True"
    if machine.offload and not machine.compiler:
        yield (
            "the launch file offloads the optimizer, for which DeepSpeed compiles its CPU Adam, and g++ or ninja is "
            "missing; install both, or take training/zero3.yaml"
        )


def _of_packages(args: Any, info: RunInfo, machine: Machine) -> Iterator[str]:
    for tracker in args.report_to or ():
        package = TRACKERS.get(tracker)
        if package is not None and package not in machine.versions:
            yield f"report_to names {tracker}, which is not installed; pip install {package}, or name another tracker"
    if info.lora is not None and "peft" not in machine.versions:
        yield "solver.lora needs peft, which is not installed; pip install 'rri[train]'"
    if not args.use_vllm:
        return
    version = machine.versions.get("vllm")
    if version is None:
        yield f"generation {info.generation} needs vllm, which is not installed; pip install 'rri[vllm]'"
    elif not Version(VLLM_FROM) <= Version(Version(version).base_version) <= Version(VLLM_TO):
        yield f"vllm {version} is installed, and TRL works with {VLLM_FROM} to {VLLM_TO}; pip install vllm=={VLLM_TO}"
    if args.vllm_mode == "server" and "requests" not in machine.versions:
        yield "generation vllm-server needs requests, which is not installed; pip install requests"


def _of_model(args: Any, info: RunInfo, model: ModelFacts) -> Iterator[str]:
    if not model.has_template:
        yield f"{info.base_model} has no chat template; take an instruction-tuned model"
    elif model.unrendered:
        yield (
            f"the chat template of {info.base_model} refuses a system message ({model.unrendered}); take a model whose "
            "template has that role, for the solver's standing instructions"
        )
    if not model.has_end:
        yield f"{info.base_model} has no end token, so no answer would count as finished; set one in its tokenizer"
    prompt, answer = info.max_prompt_tokens or 0, args.max_completion_length
    if model.context is not None and prompt + answer > model.context:
        yield (
            f"prompts of {prompt} and answers of {answer} tokens do not fit into the {model.context} tokens of "
            f"{info.base_model}; lower solver.max_prompt_tokens or solver.max_completion_tokens"
        )


def _of_adapters(base_model: str, lora: LoraSettings, shape: ModelShape | None) -> Iterator[str]:
    if HEAD in lora.targets:
        yield f"solver.lora.targets names {HEAD}, whose adapter TRL would never train; leave it out"
    # peft passes over a name that matches nothing, as long as another one does.
    if shape is not None and (unmatched := [t for t in shape.unmatched(lora.targets) if t != HEAD]):
        yield (
            f"solver.lora.targets names {', '.join(unmatched)}, which {base_model} does not have; it has "
            f"{', '.join(shape.layer_names())}"
        )


def _of_tools(args: Any, info: RunInfo, model: ModelFacts) -> Iterator[str]:
    if not info.retrieval:
        return
    if args.use_vllm:
        yield (
            f"tools with generation {info.generation} were never run on a GPU; set solver.generation to transformers, "
            "or solver.retrieval to false"
        )
    if model.no_tools and model.has_template:
        yield (
            f"{info.base_model} cannot use tools, because {model.no_tools}; take a model with the template of a Qwen3, "
            "or set solver.retrieval to false"
        )


def _of_generation(args: Any, info: RunInfo, machine: Machine) -> Iterator[str]:
    if not args.use_vllm:
        return
    if machine.gpus == 0:
        yield f"generation {info.generation} needs a GPU, and there is none; set solver.generation to transformers"
    if args.vllm_mode != "colocate":
        return
    if machine.ranks % args.vllm_tensor_parallel_size:
        yield (
            f"vllm_tensor_parallel_size {args.vllm_tensor_parallel_size} does not divide the {machine.ranks} ranks; "
            "set it to a divisor of them"
        )
    needed, limit = (info.max_prompt_tokens or 0) + args.max_completion_length, args.vllm_max_model_length
    if limit is not None and limit < needed:
        yield f"vllm_max_model_length is {limit}, and prompt and answer take up to {needed} tokens; set it to {needed}"


def this_machine(args: Any) -> Machine:
    """What this process finds; `args` is the GRPOConfig, whose plugin knows the ZeRO settings."""
    environ, plugin = os.environ, args.deepspeed_plugin
    fsdp = environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    stage, whole = 0, True
    if plugin is not None:
        stage = plugin.zero_stage
        gather = "zero_optimization.stage3_gather_16bit_weights_on_model_save"
        whole = stage < 3 or bool(plugin.get_value(gather))
    elif fsdp:
        whole = environ.get("FSDP_STATE_DICT_TYPE", "") == "FULL_STATE_DICT"
    gpus = torch.cuda.device_count()
    return Machine(
        gpus=gpus,
        bf16=gpus > 0 and torch.cuda.is_bf16_supported(),
        ranks=int(environ.get("WORLD_SIZE", "1")),
        local_ranks=int(environ.get("LOCAL_WORLD_SIZE", "1")),
        mixed_precision=environ.get("ACCELERATE_MIXED_PRECISION", "no"),
        sharding="zero" if plugin is not None else "fsdp" if fsdp else "none",
        zero_stage=stage,
        whole_weights=whole,
        offload=plugin is not None and plugin.offload_optimizer_device not in (None, "none"),
        compiler=all(map(shutil.which, ("g++", "ninja"))),
        versions={d.name.lower(): d.version for d in importlib.metadata.distributions() if d.name},
    )


def load_text_side(base_model: str, *, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """Tokenizer and config of the base model.

    Raises:
        ConfigError: they are not there.
    """
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(base_model, trust_remote_code=trust_remote_code)
        return tokenizer, AutoConfig.from_pretrained(base_model, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot read tokenizer and config of {base_model}: {error}",
            "Pass --base_model FOLDER where the model lies elsewhere on this machine",
        ) from error


def model_shape(args: Any, config: Any) -> ModelShape | None:
    """The base model without its values, in the class that TRL takes; None where it cannot be made from the config.

    Args:
        args: the GRPOConfig, which may say in what precision weights are loaded.
        config: the base model's config.
    """
    kind = getattr(transformers, (config.architectures or [""])[0], None)
    if kind is None:
        return None
    # Asked before the model is made, which may set what its config leaves open.
    stored = getattr(config, "dtype", None)
    given = (args.model_init_kwargs or {}).get("dtype", "auto")
    given = stored if given in ("auto", None) else given
    try:
        with torch.device("meta"):
            model: Any = kind(config)
    except Exception:  # noqa: BLE001  (a model's class is a program of its author)
        return None
    dtype = getattr(torch, given, None) if isinstance(given, str) else given
    modules = dict(model.named_modules())
    return ModelShape(
        parameters=sum(weight.numel() for weight in model.parameters()),
        weight_bytes=dtype.itemsize if isinstance(dtype, torch.dtype) else torch.bfloat16.itemsize,
        modules=frozenset(modules),
        linears={n: (m.in_features, m.out_features) for n, m in modules.items() if isinstance(m, torch.nn.Linear)},
    )


def model_facts(tokenizer: Any, config: Any, shape: ModelShape | None = None) -> ModelFacts:
    """What preflight must know of the base model."""
    probe = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    unrendered = ""
    if tokenizer.chat_template:
        try:
            tokenizer.apply_chat_template(probe, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # noqa: BLE001  (a template is a program of the model's author)
            unrendered = str(error) or type(error).__name__
    return ModelFacts(
        has_template=bool(tokenizer.chat_template),
        unrendered=unrendered,
        has_end=tokenizer.eos_token_id is not None,
        context=getattr(config.get_text_config(), "max_position_embeddings", None),
        no_tools=why_no_tools(tokenizer),
        shape=shape,
    )


def await_vllm_server(args: Any) -> None:
    """Wait for the vLLM server for at most `vllm_server_timeout` seconds.

    Raises:
        ServiceUnavailable: it does not answer; says how to start it.
    """
    url = args.vllm_server_base_url or f"http://{args.vllm_server_host}:{args.vllm_server_port}"
    deadline = time.monotonic() + args.vllm_server_timeout
    while True:
        try:
            if httpx.get(f"{url}/health", timeout=5.0, trust_env=False).is_success:
                return
            why = "it is not ready"
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
        left = deadline - time.monotonic()
        if left <= 0:
            raise ServiceUnavailable(
                f"no vLLM server at {url} within {args.vllm_server_timeout:g} s ({why})",
                "Start it with: VLLM_SERVER_DEV_MODE=1 vllm serve MODEL --weight-transfer-config "
                """'{"backend":"nccl"}' --logprobs-mode processed_logprobs --max-logprobs -1""",
            )
        time.sleep(min(0.5, left))
