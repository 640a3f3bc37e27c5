"""The trainer's entry point in this process: exit codes, one-line errors, and starts with nothing to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rri.wire import RunInfo
from tests.training.fake_service import FakeService
from tests.training.starts import Start
from training.options import configure, option_parser

MakeInfo = Callable[..., RunInfo]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--per_device_train_batch_size", "3"), "per_device_train_batch_size 3 x 1 ranks"),
        (("--num_generations", "2"), "num_generations is 2, but this run needs 4"),
        (("--max_steps", "5"), "the run's cycles allow 2"),
        (("--lerning_rate", "1"), "--lerning_rate"),
        (
            ("--learning_rate", "1", "--loss_type", "dapo", "--top_k", "0", "--vllm_importance_sampling_clip_min", "9"),
            "clip_min",
        ),
    ],
)
def test_config_errors_are_one_line(
    make_info: MakeInfo, start: Start, tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    with FakeService(make_info()) as service:
        code, lines = start(service, *flags)
        assert code == 2
        assert len(lines) == 1 and words in lines[0]
        assert service.resumed == []
    assert json.loads((tmp_path / "trainer_exit.json").read_text())["code"] == 2


def test_no_service(start: Start) -> None:
    code, lines = start(None)
    assert code == 8
    assert len(lines) == 1 and "rri serve" in lines[0]


def test_service_that_stays_away_during_training(make_info: MakeInfo, start: Start, tmp_path: Path) -> None:
    (tmp_path / "trainer_exit.json").write_text("{}")
    with FakeService(make_info(grade_timeout_s=0.5), refuse={"/v1/grade": -1}) as service:
        code, lines = start(service)
        assert code == 75
        assert len(lines) == 1 and "not graded within 0.5 s" in lines[0]
        assert service.resumed == [0]
    assert json.loads((tmp_path / "trainer_exit.json").read_text())["code"] == 75


def test_a_row_that_the_service_loses_ends_the_run(make_info: MakeInfo, start: Start) -> None:
    with FakeService(make_info(), lost={(1, 2)}) as service:
        code, lines = start(service)
        assert code == 8
        assert len(lines) == 1 and "graded 7 of 8 answers" in lines[0]


def test_service_that_is_away_from_the_start(make_info: MakeInfo, start: Start) -> None:
    with FakeService(make_info(), refuse={"/v1/run": -1}) as service:
        assert start(service, "--patience_s", "0.1")[0] == 75


def test_finished_run_is_left_alone(make_info: MakeInfo, start: Start, tmp_path: Path) -> None:
    final = tmp_path / "checkpoints" / "final"
    final.mkdir(parents=True)
    (final / "trainer_state.json").write_text('{"global_step": 2}')
    with FakeService(make_info()) as service:
        assert start(service) == (0, [])
        assert [request.path for request in service.requests] == ["/v1/run"]


def test_settings_reach_the_trainer_in_order(make_info: MakeInfo, tmp_path: Path) -> None:
    """Flags over the run's solver over METHOD's settings."""
    parser = option_parser()
    info = make_info(solver={"learning_rate": 5e-6, "temperature": 0.9})
    args, _ = configure(parser, ["--temperature", "0.8", "--run", str(tmp_path)], info, tmp_path)
    assert (args.learning_rate, args.temperature, args.seed) == (5e-6, 0.8, 3)
    assert (args.loss_type, args.scale_rewards, args.beta, args.epsilon) == ("dapo", "none", 0.0, 0.2)
    assert (args.use_cpu, args.bf16, args.output_dir) == (True, False, str(tmp_path / "checkpoints"))
    assert (args.entropy_coef, args.mask_truncated_completions, args.num_iterations) == (0.0, False, 1)
    assert (args.use_vllm, args.report_to, args.max_tool_calling_iterations) == (False, ["tensorboard"], 2)


def test_another_tracker_by_flag_and_vllm_by_config(make_info: MakeInfo, tmp_path: Path) -> None:
    solver = {"vllm_server_base_url": "http://vllm:8000", "report_to": ["tensorboard", "trackio"]}
    info = make_info(generation="vllm-server", solver=solver)
    args, _ = configure(option_parser(), ["--output_dir", "out"], info, None)
    assert args.report_to == ["tensorboard", "trackio"]
    flagged, _ = configure(option_parser(), ["--output_dir", "out", "--report_to", "wandb"], info, None)
    assert flagged.report_to == ["wandb"]
    assert (args.use_vllm, args.vllm_mode, args.vllm_server_base_url) == (True, "server", "http://vllm:8000")


@pytest.mark.parametrize(
    ("changes", "flags", "words"),
    [
        ({}, ("--report_to", "wandb"), "report_to names wandb, which is not installed"),
        ({"max_prompt_tokens": 512}, (), "prompts of 512 and answers of 12 tokens do not fit into the 512"),
        ({"generation": "vllm-colocate"}, (), "generation vllm-colocate needs a GPU"),
        ({}, ("--base_model", "/absent"), "cannot read tokenizer and config of /absent"),
    ],
)
def test_what_is_missing_is_said_before_the_run_is_touched(
    make_info: MakeInfo, start: Start, changes: dict[str, Any], flags: tuple[str, ...], words: str
) -> None:
    with FakeService(make_info(**changes)) as service:
        code, lines = start(service, *flags)
        assert code == 2 and len(lines) == 1 and words in lines[0]
        assert service.resumed == []
