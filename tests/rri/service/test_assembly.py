"""What a run begins with, and that texts put into force reach the models."""

import json
from pathlib import Path
from typing import Any

import pytest

from programs import Generator
from rri.cases import GuidanceVersion, MemoVersion
from rri.config import RunConfig
from rri.errors import ConfigError
from rri.service.assembly import first_texts
from rri.testing import ScriptedServer, role_models
from tests.fake_trainer import FakeTrainer
from tests.hosting import Rig, hosted_rig, hosting
from tests.passages import write_passages
from tests.programs.loop_world import LoopWorld
from tests.rigs import scripted_config

GUIDANCE = "Guidance for this stage of training:"
GOOD = """
guidance_a: Ask as nurses do.
guidance_b: |
  State doses.
  State durations.
memo: Do not name a topic; write its value instead.
"""


def starting(path: Path, text: str, **sections: Any) -> RunConfig:
    path.write_text(text, encoding="utf-8")
    return scripted_config("http://127.0.0.1:9/v1", evolution={"start": str(path)}, **sections)


# --- the file ----------------------------------------------------------------------------------------


def test_without_a_file_a_run_begins_with_empty_texts() -> None:
    guidance, memo = first_texts(scripted_config("http://127.0.0.1:9/v1"))
    assert (guidance, memo) == (GuidanceVersion(version=0), MemoVersion(version=0))


def test_a_file_gives_all_three_texts_and_says_where_they_are_from(tmp_path: Path) -> None:
    path = tmp_path / "start.yaml"
    guidance, memo = first_texts(starting(path, GOOD))
    assert (guidance.version, guidance.cycle, memo.version, memo.decision) == (0, -1, 0, "initial")
    assert guidance.guidance_a == "Ask as nurses do."
    assert guidance.guidance_b == "State doses.\nState durations.\n"
    assert memo.memo == "Do not name a topic; write its value instead."
    assert guidance.summary == memo.summary == f"from {path}"


def test_what_a_file_leaves_out_is_empty(tmp_path: Path) -> None:
    guidance, memo = first_texts(starting(tmp_path / "start.yaml", "memo: Write values."))
    assert (guidance.guidance_a, guidance.guidance_b, memo.memo) == ("", "", "Write values.")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "valid dictionary"),
        ("- a\n- b\n", "valid dictionary"),
        ("guidance: Ask.", "guidance"),
        ("guidance_a: [1]", "guidance_a"),
        ("guidance_a: {", "while parsing"),
        ("guidance_a: Give partial credit for near answers.", "guidance_a: suggests credit for a part"),
        ("guidance_b: Give partial credit for near answers.", "guidance_b: suggests credit for a part"),
        ("memo: Write fewer negative criteria.", "memo: "),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_what_is_wrong(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "start.yaml"
    with pytest.raises(ConfigError) as refused:
        first_texts(starting(path, text))
    assert f"evolution.start: {path}" in refused.value.what
    assert told in refused.value.what
    assert "\n" not in refused.value.what
    assert refused.value.fix


def test_every_broken_rule_is_told_at_once(tmp_path: Path) -> None:
    text = "guidance_a: Give partial credit.\nguidance_b: Give partial credit.\nmemo: Write fewer criteria.\n"
    with pytest.raises(ConfigError, match=r"guidance_a: .*; guidance_b: .*; memo: "):
        first_texts(starting(tmp_path / "start.yaml", text))


@pytest.mark.parametrize(("words", "fits"), [(300, True), (301, False)])
def test_the_limits_are_those_of_evolved_texts(tmp_path: Path, words: int, fits: bool) -> None:
    config = starting(tmp_path / "start.yaml", f"guidance_a: {' '.join(['ask'] * words)}")
    if fits:
        assert first_texts(config)[0].guidance_a
    else:
        with pytest.raises(ConfigError, match="guidance_a"):
            first_texts(config)


@pytest.mark.parametrize(("chars", "fits"), [(2400, True), (2401, False)])
def test_the_memo_has_its_own_limit(tmp_path: Path, chars: int, fits: bool) -> None:
    config = starting(tmp_path / "start.yaml", f"memo: {'x' * chars}")
    if fits:
        assert len(first_texts(config)[1].memo) == chars
    else:
        with pytest.raises(ConfigError, match="memo"):
            first_texts(config)


def test_a_file_that_is_not_there_or_is_no_text_is_refused(tmp_path: Path) -> None:
    config = scripted_config("http://127.0.0.1:9/v1", evolution={"start": str(tmp_path / "none.yaml")})
    with pytest.raises(ConfigError, match="No such file"):
        first_texts(config)
    (tmp_path / "none.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"evolution\.start"):
        first_texts(config)


# --- a run on it -------------------------------------------------------------------------------------


def test_a_bad_file_stops_a_run_before_any_model_is_asked(tmp_path: Path, tiny_model: Path) -> None:
    path = tmp_path / "start.yaml"
    path.write_text("memo: Write fewer criteria.\n", encoding="utf-8")
    with ScriptedServer(role_models()) as server:
        corpus = str(write_passages(tmp_path / "passages.jsonl"))
        config = scripted_config(server.url, corpus=corpus, evolution={"start": str(path)})
        with pytest.raises(ConfigError, match=r"evolution\.start"), hosting(tmp_path / "run", config, tiny_model):
            pass
        assert server.total == 0


def test_a_run_writes_under_its_first_texts_and_goes_on_without_the_file(tmp_path: Path, tiny_model: Path) -> None:
    path = tmp_path / "start.yaml"
    path.write_text(GOOD, encoding="utf-8")
    world = LoopWorld(4, faulty=False)
    with ScriptedServer(role_models(**world.models())) as server:
        config = scripted_config(
            server.url,
            corpus=str(write_passages(tmp_path / "passages.jsonl")),
            evolution={"start": str(path), "every_cycles": 1},
            pool={"ahead": 2},
            generation={"tasks": 6},
            solver={"cycles": 3},
            loop={"max_backlog": 0},
        )
        with hosting(tmp_path / "run", config, tiny_model) as first:
            trainer = FakeTrainer(first.client, world.answer)
            trainer.train(1)
            trainer.ask([2])
            assert first.run.stats()["loop"]["guidance"] == 1
        path.unlink()
        with hosting(tmp_path / "run", config, tiny_model) as second:
            trainer.client = second.client
            trainer.train(2)
            assert second.run.stats()["loop"]["guidance"] in (1, 2)
            versions = second.run.store.guidance_versions()
        prompts = [r.messages[0]["content"] for r in server.of("generator") if r.schema_name != "Ready"]
    assert versions[0].guidance_b == "State doses.\nState durations.\n"
    assert f"{GUIDANCE}\nState doses.\nState durations." in prompts[0]
    assert "Memo on known exploits:\nDo not name a topic; write its value instead." in prompts[0]
    assert f"{GUIDANCE}\n{versions[1].guidance_b}" in prompts[-1] and "State doses." not in prompts[-1]


def test_compiled_programs_hold_in_a_run_together_with_its_guidance(tmp_path: Path, tiny_model: Path) -> None:
    """The file holds other instructions, as a compilation leaves them; guidance comes below them."""
    compiled = Generator()
    compiled.predict.signature = compiled.predict.signature.with_instructions("Compiled instructions.")
    compiled.save(str(tmp_path / "generator.json"))
    start = tmp_path / "start.yaml"
    start.write_text(GOOD, encoding="utf-8")
    roles = {"generator": {"program": str(tmp_path / "generator.json")}}
    with hosted_rig(tmp_path, tiny_model, roles=roles, evolution={"start": str(start)}) as rig:
        check_compiled(rig)


def check_compiled(rig: Rig) -> None:
    rig.client.served(0)
    asked = [r for r in rig.models.of("generator") if r.schema_name != "Ready"]
    assert asked[0].messages[0]["content"].startswith(f"Compiled instructions.\n\n{GUIDANCE}\nState doses.")
    assert asked[0].schema_name == "GenerateTask"
    assert json.dumps(rig.run.stats())
