"""Rounds of validation: when they run, what is sent, what is logged, and how an unfinished one is made up for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rri.wire import GradeRequest, Row, RunInfo
from tests.training.fake_service import FakeService, by_length
from tests.training.starts import Launch, trainer
from training.validation import share_of

MakeInfo = Callable[..., RunInfo]


@given(places=st.integers(1, 40), ranks=st.integers(1, 9))
def test_ranks_share_the_places_and_write_equally_often(places: int, ranks: int) -> None:
    every = [(i, 0) for i in range(places)]
    shares = [share_of(every, rank, ranks) for rank in range(ranks)]
    assert len({len(share) for share, _ in shares}) == 1
    assert sorted(place for share, counted in shares for place in share[:counted]) == every


def logged(run: Path) -> list[dict[str, Any]]:
    state = json.loads((run / "checkpoints" / "final" / "trainer_state.json").read_text())
    entries: list[dict[str, Any]] = state["log_history"]
    return entries


def metrics(service: FakeService) -> list[dict[str, float]]:
    return [r.body["metrics"] for r in service.requests if r.path == "/v1/report"]


def test_rounds_run_at_the_interval_and_at_the_end(launch: Launch, make_info: MakeInfo, tmp_path: Path) -> None:
    """Five cycles, a round every two of them: after the second, the fourth and the last."""
    info = make_info(cycles=5, save_every_cycles=5, validate_every_cycles=2)
    run = tmp_path / "run"
    with FakeService(info, held_out=3, alarm="they part ways") as service:
        started = trainer(launch, "cpu.yaml", run, service.url)
        assert started.wait() == 0, started.output
    rounds = service.rounds()
    assert sorted(rounds) == [1, 3, 4]
    for rows in rounds.values():
        assert set(rows) == {(p, r) for p in range(3) for r in range(2)}
    steps = {entry["step"]: entry for entry in logged(run)}
    reports = metrics(service)
    for cycle, answers in rounds.items():
        rows = answers.values()
        mean = sum(by_length(row) or 0.0 for row in rows) / 6
        cut = sum(not row.finished for row in rows) / 6
        figures = {"validation/score": mean, "validation/truncated_share": cut, "validation/unscored_share": 0.0}
        for name, value in figures.items():
            assert steps[cycle + 1][name] == pytest.approx(value), "beside the figures of the cycle's last update"
            assert reports[cycle][name] == pytest.approx(value), "and with the report of the cycle"
    assert not any("validation/score" in steps[step] for step in (1, 3))
    assert not any("validation/score" in reports[cycle] for cycle in (0, 2))
    order = [(r.path, r.body["cycle"]) for r in service.requests if r.path in ("/v1/report", "/v1/grade")]
    assert order.index(("/v1/report", 1)) == max(i for i, o in enumerate(order) if o == ("/v1/grade", 1)) + 1
    assert started.output.count("ALARM: they part ways") == 5
    # What training writes does not depend on whether it is validated.
    with FakeService(make_info(cycles=5, save_every_cycles=5)) as plain:
        other = trainer(launch, "cpu.yaml", tmp_path / "plain", plain.url)
        assert other.wait() == 0, other.output
    assert [r.answer for g in plain.grades for r in g.rows] == [r.answer for g in service.grades for r in g.rows]
    assert plain.rounds() == {}


def test_unscored_answers_have_no_score_and_no_zero(launch: Launch, make_info: MakeInfo, tmp_path: Path) -> None:
    def score(row: Row) -> float | None:
        return None if row.row == 1 else 0.5

    info = make_info(cycles=1, validate_every_cycles=5)
    with FakeService(info, held_out=2, score=score) as service:
        started = trainer(launch, "cpu.yaml", tmp_path / "run", service.url)
        assert started.wait() == 0, started.output
    (entry,) = [entry for entry in logged(tmp_path / "run") if "validation/unscored_share" in entry]
    assert entry["validation/unscored_share"] == 0.5
    assert entry["validation/score"] == 0.5


def test_two_zero3_ranks_share_a_round_that_is_made_up_for(launch: Launch, make_info: MakeInfo, tmp_path: Path) -> None:
    """The service goes away in the round after the first cycle: saved, left with 75, and begun with it anew.

    Three tasks of two rollouts over two ranks, two cycles.
    """
    info = make_info(validate_every_cycles=1, grade_timeout_s=0.5, tasks_per_cycle=1, tasks_per_update=1)
    run = tmp_path / "run"
    ops = {"TORCH_EXTENSIONS_DIR": str(tmp_path / "ops")}

    def refuse(request: GradeRequest) -> bool:
        return request.split == "train"

    with FakeService(info, held_out=3, on_grade=refuse) as service:
        first = trainer(launch, "zero3_cpu.yaml", run, service.url, **ops)
        assert first.wait() != 0
        assert json.loads((run / "trainer_exit.json").read_text())["code"] == 75, first.output
        assert (run / "checkpoints" / "checkpoint-1" / "trainer_state.json").exists()
        refused = [r for r in service.requests if r.path == "/v1/grade" and r.body["split"] == "validation"]
        service.requests.clear()
        service.on_grade = lambda request: True
        second = trainer(launch, "zero3_cpu.yaml", run, service.url, **ops)
        assert second.wait() == 0, second.output
    assert service.resumed == [1]
    rounds = service.rounds()
    assert sorted(rounds) == [0, 1], "the round after cycle 0 comes first, with the policy of its end"
    for rows in rounds.values():
        assert set(rows) == {(p, r) for p in range(3) for r in range(2)}
    sent = [(g.cycle, g.split) for g in service.graded_requests]
    assert sent[:2] == [(0, "validation")] * 2, "one request a rank"
    shares = [{(r.position, r.row) for r in g.rows} for g in service.graded_requests[:2]]
    assert shares[0].isdisjoint(shares[1]) and [len(share) for share in shares] == [3, 3]
    tried = {(r["position"], r["row"]): r["answer"] for one in refused for r in one.body["rows"]}
    assert tried == {place: row.answer for place, row in rounds[0].items()}, "the same seeds and weights"
