"""A service that goes away: what was trained is saved at the end of a cycle, and the next start goes on from there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rri.wire import GradeRequest, RunInfo
from tests.training.fake_service import FakeService
from tests.training.starts import Start
from training.checkpoints import newest_complete
from training.reporting import UNREPORTED, deliver_unreported

MakeInfo = Callable[..., RunInfo]


@pytest.fixture
def info(make_info: MakeInfo) -> RunInfo:
    """Four cycles of two updates; only the end of the run would be saved by itself."""
    return make_info(cycles=4, tasks_per_update=1, save_every_cycles=4, grade_timeout_s=0.4, serve_timeout_s=0.4)


def saved(run: Path) -> list[int]:
    """Updates of the complete checkpoints; another one would fail the test."""
    folder = run / "checkpoints"
    steps = sorted(int(path.name.removeprefix("checkpoint-")) for path in folder.glob("checkpoint-*"))
    newest = newest_complete(folder, updates_per_cycle=2)
    assert (newest.step if newest else None) == (steps[-1] if steps else None)
    return steps


def paths(service: FakeService) -> list[str]:
    return [request.path for request in service.requests]


def test_away_while_a_cycle_is_graded(info: RunInfo, start: Start, tmp_path: Path) -> None:
    """The answers of cycle 2 get no grade: cycles 0 and 1 are saved, and the next start answers cycle 2 again."""
    with FakeService(info) as service:
        service.on_grade = lambda request: request.cycle != 2
        code, lines = start(service)
        assert code == 75 and "cycle 2: 8 answers not graded within 0.4 s" in lines[0]
        assert saved(tmp_path) == [4]
        assert json.loads((tmp_path / "trainer_exit.json").read_text())["code"] == 75
        refused = service.grades[-1]
        # Away again before anything was trained: there is nothing to save, and nothing is lost.
        assert start(service)[0] == 75
        assert saved(tmp_path) == [4]
        service.on_grade = lambda request: True
        assert start(service) == (0, [])
    assert service.resumed == [0, 2, 2]
    assert service.reported == [(0, 2), (1, 4), (2, 6), (3, 8)]
    again: list[GradeRequest] = [grade for grade in service.grades if grade.cycle == 2]
    assert again[-1] == refused, "the same answers as before, so grades that the service has already can be used"
    assert saved(tmp_path) == [4, 8]


def test_away_before_the_first_update(info: RunInfo, start: Start, tmp_path: Path) -> None:
    with FakeService(info, refuse={"/v1/grade": -1}) as service:
        assert start(service)[0] == 75
    assert saved(tmp_path) == []


def test_away_while_tasks_are_asked_for_ahead(info: RunInfo, start: Start, tmp_path: Path) -> None:
    """Cycle 2 is asked for while cycle 1 is under way, which is trained to its end, reported and saved."""
    with FakeService(info, refuse={"/v1/served/5": -1}) as service:
        code, lines = start(service)
        assert code == 75 and "/v1/served/5: gave up after 0.4 s" in lines[0]
        assert saved(tmp_path) == [4]
        assert service.reported == [(0, 2), (1, 4)]
        service.refuse.clear()
        assert start(service) == (0, [])
    assert service.resumed == [0, 2]
    assert service.reported == [(0, 2), (1, 4), (2, 6), (3, 8)]


def test_away_when_a_cycle_is_reported(info: RunInfo, start: Start, tmp_path: Path) -> None:
    """The report that did not arrive is sent before training goes on, or the loop would never work on that cycle."""
    with FakeService(info, refuse={"/v1/report": -1}) as service:
        code, lines = start(service)
        assert code == 75 and "/v1/report: gave up" in lines[0]
        assert saved(tmp_path) == [2]
        kept = json.loads((tmp_path / "checkpoints" / UNREPORTED).read_text())
        assert (kept["cycle"], kept["step"]) == (0, 2)
        service.requests.clear()
        service.refuse.clear()
        assert start(service) == (0, [])
    assert paths(service)[:3] == ["/v1/run", "/v1/report", "/v1/resume"]
    assert service.reported == [(0, 2), (1, 4), (2, 6), (3, 8)]
    assert not (tmp_path / "checkpoints" / UNREPORTED).exists()


def test_a_report_of_a_cycle_that_is_trained_again_is_dropped(make_info: MakeInfo, tmp_path: Path) -> None:
    from rri.client import ServiceClient

    with FakeService(make_info()) as service:
        client = ServiceClient(service.url)
        for text, step in (('{"cycle": 1, "step": 4, "metrics": {}}', 2), ('{"cycle": 1, "st', 4)):
            (tmp_path / UNREPORTED).write_text(text)
            deliver_unreported(client, tmp_path, step)
            assert not (tmp_path / UNREPORTED).exists()
        deliver_unreported(client, tmp_path, 4)
        client.close()
        assert service.requests == []
