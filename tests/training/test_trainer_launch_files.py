"""The launch files, read by accelerate itself."""

from pathlib import Path

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DistributedType

from tests.training.starts import ROOT

FILES = sorted((ROOT / "training").glob("*.yaml"))

SHAPES = {
    "cpu": (DistributedType.NO, 1, 1, "no"),
    "zero3": (DistributedType.DEEPSPEED, 1, 8, "bf16"),
    "zero3_cpu": (DistributedType.DEEPSPEED, 1, 2, "no"),
    "zero3_multinode": (DistributedType.DEEPSPEED, 2, 16, "bf16"),
    "zero3_offload": (DistributedType.DEEPSPEED, 1, 8, "bf16"),
    "fsdp2": (DistributedType.FSDP, 1, 8, "bf16"),
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_accelerate_reads_each_file(file: Path) -> None:
    """Its loader refuses unknown keys at the top; below it every key must be an option of the launcher."""
    config = load_config_from_file(str(file))
    shape = (config.distributed_type, config.num_machines, config.num_processes, config.mixed_precision)
    assert shape == SHAPES[file.stem]
    known = {action.dest for action in launch_command_parser()._actions}
    assert {*config.deepspeed_config, *config.fsdp_config} <= known


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_launcher_takes_what_each_file_says(file: Path) -> None:
    parsed = launch_command_parser().parse_args(["--config_file", str(file), "-m", "training.grpo"])
    parsed, _, _ = _validate_launch_command(parsed)
    if file.stem.startswith("zero3"):
        offload = "cpu" if file.stem == "zero3_offload" else "none"
        assert parsed.use_deepspeed and parsed.zero_stage == 3
        assert parsed.zero3_save_16bit_model is True, "a checkpoint must hold whole weights"
        assert (parsed.offload_optimizer_device, parsed.offload_param_device) == (offload, offload)
        assert parsed.main_process_port == (29500 if parsed.num_machines > 1 else 0), "0 takes a free one"
    if file.stem == "fsdp2":
        assert parsed.use_fsdp and (parsed.fsdp_version, parsed.fsdp_state_dict_type) == (2, "FULL_STATE_DICT")
    assert parsed.use_cpu is (file.stem == "cpu"), "true would pass DeepSpeed by"


def test_every_launch_file_says_what_it_is_for() -> None:
    assert {file.stem for file in FILES} == SHAPES.keys()
    assert all(file.read_text().startswith("# ") for file in FILES)
    gpus = [yaml.safe_load(f.read_text()) for f in FILES if SHAPES[f.stem][3] == "bf16"]
    assert all(set(config) <= set(gpus[0]) | {"deepspeed_config", "fsdp_config"} for config in gpus)
