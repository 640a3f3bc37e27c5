"""`rri status` on validation: the latest round and the alarm, while a run goes on and after it."""

import asyncio
import json
from pathlib import Path

import pytest

from rri.rundir import RunDir
from rri.service.material import gather
from rri.store import GradeRow, Place, Store
from rri.testing import ScriptedServer, role_models
from rri.types import Grade
from tests.hosting import hosting
from tests.passages import write_passages
from tests.rigs import scripted_config
from tests.rri.cli.commands import Outcome, rri_here

LINE = {"prompt": "Held out?", "rubric": [{"criterion": "Mentions the held out topic", "points": 8}]}


def rows(split: str, cycle: int, score: float | None, *, finished: bool = True) -> GradeRow:
    grade = Grade(verdicts=(), score=score, raw=score, unscored="" if score is not None else "judge away")
    return GradeRow(Place(split, cycle, 0, 0), "t", 1, "an answer", finished, grade)  # type: ignore[arg-type]


def told(capsys: pytest.CaptureFixture[str], folder: Path) -> Outcome:
    return rri_here(capsys, "status", str(folder))


def test_rounds_and_the_alarm_are_told(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "validation.jsonl"
    file.write_text(json.dumps(LINE) + "\n")
    folder = tmp_path / "run"
    with ScriptedServer(role_models()) as server:
        config = scripted_config(
            server.url,
            corpus=str(write_passages(tmp_path / "passages.jsonl")),
            validation={"file": str(file), "every_cycles": 1, "alarm_rounds": 1},
        )
        RunDir.create_or_resume(folder, config, facts=gather(config, tiny_model).facts()).close()
        assert "validation" not in told(capsys, folder).out
        store = Store(folder)
        asyncio.run(store.add_grades([rows("train", 0, 0.25), rows("validation", 0, 0.5, finished=False)]))
        asyncio.run(store.add_grades([rows("train", 1, 0.5), rows("validation", 1, 0.25)]))
        store.close()
        ended = told(capsys, folder).out
        with hosting(folder, config, tiny_model):
            going = told(capsys, folder).out
    for said in (ended, going):
        assert "  validation after cycle 1 on 1 tasks: score 0.250, 0% unscored, 0% truncated\n" in said
        assert "  ALARM: training and validation part ways: over 1 round (after cycles 0 to 1)" in said


def test_a_round_without_a_score_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = scripted_config("http://127.0.0.1:9", corpus="starter")
    facts = {"validation": {"tasks": 1, "digest": "d"}}
    RunDir.create_or_resume(tmp_path / "run", config, facts=facts).close()
    store = Store(tmp_path / "run")
    asyncio.run(store.add_grades([rows("validation", 4, None)]))
    store.close()
    assert "on 1 tasks: none scored, 100% unscored" in told(capsys, tmp_path / "run").out
