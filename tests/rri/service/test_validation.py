"""Validation through the service: apart from the pool, graded at its own places, taken back with a resume, alarmed."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rri.config import ValidationConfig
from rri.errors import ConfigError, RunConfigChanged, ServiceRefused, TaskFileError
from rri.evidence import Admission
from rri.rundir import RunDir
from rri.service.material import gather
from rri.service.metrics import metrics_text
from rri.service.run import OpenRun
from rri.service.validation import HeldOut, load_held_out, read_held_out
from rri.store import Origin, Store
from rri.testing import ChatRequest, ScriptedServer, role_models
from rri.tokens import SolverTokenizer
from rri.types import Message, Task
from rri.wire import GradeResponse, Row
from tests.hosting import Rig, hosted_rig
from tests.passages import write_passages
from tests.rigs import make_task, scripted_config

HELD_OUT = ("Explain the first held out rule.", "Explain the second held out rule.")


def line(text: str, **changes: Any) -> str:
    row = {"prompt": text, "rubric": [{"criterion": "Mentions the held out topic", "points": 8}], **changes}
    return json.dumps(row) + "\n"


def write(folder: Path, *lines: str) -> Path:
    path = folder / "validation.jsonl"
    path.write_text("".join(lines or map(line, HELD_OUT)), encoding="utf-8")
    return path


def asking(text: str, task_id: str = "000009-abc") -> Task:
    return make_task(task_id=task_id).model_copy(update={"conversation": (Message(role="user", content=text),)})


# --- the file --------------------------------------------------------------------------------------------------


def loaded(path: Path, model: Path, max_prompt_tokens: int = 512) -> HeldOut:
    config = ValidationConfig(file=str(path))
    return load_held_out(config, SolverTokenizer(model), list, max_prompt_tokens)


def test_the_file_is_read_in_order_and_its_digest_is_of_content(tmp_path: Path, tiny_model: Path) -> None:
    found = loaded(write(tmp_path), tiny_model)
    assert [task.request for task in found.tasks] == list(HELD_OUT)
    facts = found.facts()["validation"]
    assert facts["tasks"] == 2
    other = loaded(write(tmp_path, *map(line, reversed(HELD_OUT))), tiny_model)
    assert other.facts()["validation"]["digest"] != facts["digest"]
    assert load_held_out(ValidationConfig(), SolverTokenizer(tiny_model), list, 1).facts() == {}


def test_long_rubrics_of_benchmarks_are_taken(tmp_path: Path, tiny_model: Path) -> None:
    rubric = [{"criterion": f"Names the value of item number {i}", "points": 5} for i in range(40)]
    assert len(loaded(write(tmp_path, line("Q?", rubric=rubric)), tiny_model).tasks[0].rubric.criteria) == 40


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((line("Q?"), line("Q?")), "line 2: line 1 has this task too"),
        ((line("Q?", id="a"), line("R?", id="a")), "line 2: line 1 has id 'a' too"),
        ((line("Q?"), line("R?", rubric=[])), "line 2: rubric"),
        ((line("long " * 600),), "tokens, the solver takes 512"),
        (("{}\n", "{\n"), "2 lines cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(
    lines: tuple[str, ...], words: str, tmp_path: Path, tiny_model: Path
) -> None:
    with pytest.raises(TaskFileError, match=r"validation\.file") as caught:
        loaded(write(tmp_path, *lines), tiny_model)
    assert words in str(caught.value)


@pytest.mark.parametrize(("content", "words"), [(None, "no task file"), ("", "holds no task")])
def test_a_file_that_cannot_be_read_names_its_setting(content: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "held-out.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TaskFileError, match=rf"^validation\.file: .*{words}") as caught:
        read_held_out(ValidationConfig(file=str(path)))
    assert str(path) in caught.value.what and caught.value.fix


def test_without_a_tokenizer_a_file_is_read_all_the_same(tmp_path: Path) -> None:
    found = read_held_out(ValidationConfig(file=str(write(tmp_path, line("long " * 600)))))
    assert len(found.tasks) == 1
    with pytest.raises(TaskFileError, match="line 1: no"):
        read_held_out(ValidationConfig(file=str(write(tmp_path))), lambda task: "no")


def test_a_resume_with_other_tasks_under_the_same_name_is_refused(tmp_path: Path, tiny_model: Path) -> None:
    corpus = str(write_passages(tmp_path / "passages.jsonl"))
    config = scripted_config("http://127.0.0.1:9", corpus=corpus, validation={"file": str(write(tmp_path))})
    for expected in (None, None, RunConfigChanged):
        if expected is not None:
            write(tmp_path, *map(line, reversed(HELD_OUT)))
        facts = gather(config, tiny_model).facts()
        if expected is None:
            RunDir.create_or_resume(tmp_path / "run", config, facts=facts).close()
            continue
        with pytest.raises(expected, match="validation tasks"):
            RunDir.create_or_resume(tmp_path / "run", config, facts=facts)


# --- apart from the pool ---------------------------------------------------------------------------------------


def test_the_same_request_with_another_rubric_is_the_same_task_to_training() -> None:
    refuse = HeldOut((asking(HELD_OUT[0], "v1"),)).refuser()
    assert refuse(make_task()) == ""
    other = asking(HELD_OUT[0]).model_copy(update={"rubric": make_task(5, -9).rubric})
    assert refuse(other) == "it asks the same as validation task 'v1'"
    assert HeldOut().refuser()(other) == ""


def test_drafts_that_ask_the_same_are_refused_with_the_reason(tmp_path: Path, tiny_model: Path) -> None:
    """Imported, forked and written tasks all come into the pool this way."""
    path = write(tmp_path)
    with ScriptedServer(role_models()) as server:
        corpus = str(write_passages(tmp_path / "passages.jsonl"))
        config = scripted_config(server.url, corpus=corpus, validation={"file": str(path)})
        material = gather(config, tiny_model)
        folder = RunDir.create_or_resume(tmp_path / "run", config, facts=material.facts())
        store = Store(folder.path)
        drafts = [asking(HELD_OUT[1], "000101-abc"), asking("Explain another rule.", "000102-abc")]
        asyncio.run(store.add_drafts(drafts, Origin(source="imported")))
        store.close()
        run = OpenRun.open(folder, config, material)
        try:
            run.gateway.loop.run(run.start())
            run.gateway.loop.run(run.finished_admitting())
            refused = [a for a in run.store.admissions() if a.outcome == "refused"]
            assert [(a.task.task_id, a.why.partition("task ")[0]) for a in refused] == [
                ("000101-abc", "it asks the same as validation ")
            ]
            assert run.pool.size == 4
            assert "000101-abc" not in dict(run.store.servable())
        finally:
            run.close()
            folder.close()


def test_a_run_whose_pool_holds_a_validation_task_does_not_open(tmp_path: Path, tiny_model: Path) -> None:
    """Also when a repair has changed its request since."""
    path = write(tmp_path)
    corpus = str(write_passages(tmp_path / "passages.jsonl"))
    config = scripted_config("http://127.0.0.1:9", corpus=corpus, validation={"file": str(path)})
    material = gather(config, tiny_model)
    folder = RunDir.create_or_resume(tmp_path / "run", config, facts=material.facts())
    store = Store(folder.path)
    born = asking(HELD_OUT[0])
    repaired = asking("Explain it well.").model_copy(update={"version": 2})
    asyncio.run(store.add_admission(Admission(original=born, task=repaired, outcome="repaired")))
    store.close()
    with pytest.raises(ConfigError, match=r"1 of its requests are in the pool .*000009-abc") as caught:
        OpenRun.open(folder, config, material)
    assert caught.value.fix
    folder.close()


# --- rounds ------------------------------------------------------------------------------------------------------


def judge_good(request: ChatRequest) -> str:
    return json.dumps({"reason": "", "met": request.block("answer").startswith("good")})


@pytest.fixture
def rig(tmp_path: Path, tiny_model: Path) -> Iterator[Rig]:
    validation = {"file": str(write(tmp_path)), "every_cycles": 1, "alarm_rounds": 2, "rollouts_per_task": 2}
    solver = {"cycles": 5, "judge_truncated": False}
    switches = {name: {"enabled": False} for name in ("admission", "exploits", "patches", "evolution", "memo")}
    with hosted_rig(
        tmp_path, tiny_model, {"judge": judge_good}, validation=validation, solver=solver, **switches
    ) as rig:
        yield rig


def graded(rig: Rig, cycle: int, *rows: Row, split: Any = "validation") -> GradeResponse:
    return asyncio.run(rig.client.grade(cycle, rows, split=split, timeout_s=30))


def validate(rig: Rig, cycle: int, good: int) -> GradeResponse:
    """A whole round of four rollouts, `good` of which are met."""
    rows = [Row(position=i // 2, row=i % 2, answer="good" if i < good else f"bad {cycle}") for i in range(4)]
    return graded(rig, cycle, *rows)


def train(rig: Rig, cycle: int, good: int) -> None:
    positions = (2 * cycle, 2 * cycle + 1)
    for position in positions:
        rig.client.served(position)
    rows = [Row(position=positions[i // 4], row=i % 4, answer="good" if i < good else "bad") for i in range(8)]
    graded(rig, cycle, *rows, split="train")


def test_the_set_has_ids_and_prompts_and_no_rubric(rig: Rig) -> None:
    found = rig.client.validation()
    assert [task.prompt[1].content for task in found.tasks] == list(HELD_OUT)
    assert found.tasks[0].prompt[0].content == "Answer briefly."
    assert set(found.tasks[0].model_dump()) == {"task_id", "prompt"}
    assert (found.rollouts_per_task, found.validated) == (2, ())
    assert rig.client.run_info().validate_every_cycles == 1


def test_a_round_is_graded_at_its_own_places(rig: Rig) -> None:
    train(rig, 0, good=8)
    before = (rig.run.store.score_summary(), rig.run.pool.evicted, rig.run.stats()["grading"])
    response = validate(rig, 0, good=1)
    assert [(r.position, r.row, r.score) for r in response.rows] == [(0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 1, 0)]
    assert {r.task_id for r in response.rows} == {t.task_id for t in rig.client.validation().tasks}
    assert (rig.run.store.score_summary(), rig.run.pool.evicted, rig.run.stats()["grading"]) == before
    asked = rig.models.count("judge")
    assert validate(rig, 0, good=1).rows == response.rows
    assert rig.models.count("judge") == asked, "what is sent again is not judged again"
    assert rig.client.validation().validated == (0,)
    stats = rig.client.stats()["validation"]
    assert (stats["rounds"], stats["cycle"], stats["score"], stats["alarm"]) == (1, 0, 0.25, "")
    assert b"rri_validation_score 0.25" in metrics_text(rig.run.stats())


def test_a_cut_answer_gets_the_floor_of_its_own_group(rig: Rig) -> None:
    cut = Row(position=1, row=0, answer="good but cut", finished=False)
    response = graded(rig, 0, cut, Row(position=1, row=1, answer="good"))
    assert [r.score for r in response.rows] == [0.0, 1.0]
    assert rig.run.stats()["grading"]["truncated"] == 0
    assert rig.client.validation().validated == (), "half a round is none"
    assert rig.client.stats()["validation"]["rounds"] == 0


@pytest.mark.parametrize("row", [Row(position=2, row=0, answer="x"), Row(position=0, row=2, answer="x")])
def test_a_place_that_the_set_does_not_have_is_refused(rig: Rig, row: Row) -> None:
    with pytest.raises(ServiceRefused, match="it has 2 tasks of 2 rollouts"):
        graded(rig, 0, row)
    assert rig.client.health().status == "ok"


def test_a_resume_takes_later_rounds_back_and_an_unfinished_one(rig: Rig) -> None:
    for cycle in (0, 1, 2):
        validate(rig, cycle, good=2)
    rig.client.resume(2)
    assert rig.client.validation().validated == (0, 1)
    graded(rig, 2, Row(position=0, row=0, answer="good"))
    rig.client.resume(3)
    assert rig.run.store.validation_rows()[-1].cycle == 1, "half a round after the last whole cycle is begun anew"
    assert rig.client.validation().validated == (0, 1)
    rig.client.resume(2)
    assert rig.client.validation().validated == (0, 1), "a whole one is not"


def test_the_alarm_is_in_reports_stats_and_events(rig: Rig) -> None:
    alarms = []
    for cycle, (trained, validated) in enumerate([(2, 3), (4, 2), (6, 1)]):
        train(rig, cycle, good=trained)
        validate(rig, cycle, good=validated)
        alarms.append(rig.client.report(cycle, cycle + 1).alarm)
    assert alarms[:2] == ["", ""]
    assert "over 2 rounds (after cycles 0 to 2)" in alarms[2]
    assert rig.client.stats()["validation"]["alarm"] == alarms[2]
    assert b"rri_validation_alarm 1.0" in metrics_text(rig.run.stats())
    rig.client.report(2, 3)
    assert [message for _, message, _ in rig.run.store.events("validation_alarm")] == alarms[2:]
    train(rig, 3, good=6)
    validate(rig, 3, good=3)
    assert rig.client.report(3, 4).alarm == ""


def test_a_run_without_validation_has_none(tmp_path: Path, tiny_model: Path) -> None:
    with hosted_rig(tmp_path, tiny_model) as rig:
        assert rig.client.run_info().validate_every_cycles == 0
        assert rig.client.validation().tasks == ()
        with pytest.raises(ServiceRefused, match="0 tasks"):
            graded(rig, 0, Row(position=0, row=0, answer="x"))
        assert rig.client.stats()["validation"]["rounds"] == 0
