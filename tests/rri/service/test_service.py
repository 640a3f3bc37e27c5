"""The service over real HTTP: serving, grading, health and access, on one open run with scripted models."""

import asyncio
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import signatures
from rri.client import SERVICE_FILE, ServiceClient, write_address
from rri.errors import ConfigError, ServiceRefused, ServiceUnavailable
from rri.rundir import RunDir
from rri.service.grading import RolloutGrader
from rri.service.host import hosted
from rri.service.run import OpenRun
from rri.store import Place, read_calls
from rri.testing import hang, role_models, status
from rri.testing.roles import HONEST_MARK
from rri.wire import GradeRequest, GradeResponse, Row, ServedTask, ServiceAddress
from tests.hosting import Rig, hosted_rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Rig]:
    with hosted_rig(tmp_path_factory.mktemp("service"), tiny_model, grading={"unscored_in_a_row": 1000}) as rig:
        yield rig


@pytest.fixture(autouse=True)
def no_faults_left(rig: Rig) -> Iterator[None]:
    yield
    rig.faults.clear()


def test_the_address_file_is_for_its_owner_alone(rig: Rig) -> None:
    path = rig.run.folder.path / SERVICE_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ServiceClient.connect(run=rig.run.folder.path).health().status == "ok"


def test_every_path_but_health_asks_for_the_token(rig: Rig) -> None:
    stranger = ServiceClient(rig.client.url, "wrong", patience_s=1)
    assert stranger.health().status == "ok"
    for ask in (stranger.run_info, lambda: stranger.served(0), stranger.stats, lambda: stranger.resume(0)):
        with pytest.raises(ServiceRefused, match="token"):
            ask()
    with pytest.raises(ServiceRefused, match="token"):
        asyncio.run(stranger.grade(0, [Row(position=0, row=0, answer="x")], timeout_s=5))


def test_run_info_carries_what_the_trainer_needs(rig: Rig) -> None:
    info = rig.client.run_info()
    assert (info.cycles, info.tasks_per_cycle, info.rollouts_per_task) == (2, 2, 4)
    assert info.solver["max_completion_length"] == 16
    assert "per_device_train_batch_size" not in info.solver


def test_a_served_task_is_repaired_and_carries_no_rubric(rig: Rig) -> None:
    task = rig.client.served(0)
    assert (task.prompt[0].role, task.prompt[0].content) == ("system", "Answer briefly.")
    assert task.version == 2, "scripted rubrics are exploitable at birth and repaired once"
    assert "State each value." in task.prompt[1].content, "the prompt is of the version that grades"
    assert set(ServedTask.model_fields) == {"position", "task_id", "version", "prompt"}


def test_a_position_is_the_same_for_every_asker(rig: Rig) -> None:
    first = [rig.client.served(k) for k in (3, 1, 0, 2)]
    again = [ServiceClient.connect(run=rig.run.folder.path).served(k) for k in (3, 1, 0, 2)]
    assert first == again


def test_positions_outside_the_run_are_refused(rig: Rig) -> None:
    with pytest.raises(ServiceRefused, match="past the run's last one, 3"):
        rig.client.served(4)
    with pytest.raises(ServiceRefused, match="-1 is below 0"):
        rig.client.served(-1)
    assert rig.client.health().status == "ok", "a wrong request is no failure of the run"


def test_grades_come_in_the_order_of_the_rows_and_are_kept(rig: Rig) -> None:
    rig.client.served(0)
    good, bad = f"{HONEST_MARK} Indeed.", "nothing"
    response = rig.grade(Row(position=0, row=1, answer=bad), Row(position=0, row=0, answer=good))
    assert [(r.position, r.row) for r in response.rows] == [(0, 1), (0, 0)]
    kept = rig.run.store.find_grade(Place("train", 0, 0, 0), good)
    assert kept is not None
    assert kept.score == response.rows[1].score
    assert response.rows[1].unknown == 0
    assert response.rows[1].version == 2


def test_the_same_rollout_is_judged_once(rig: Rig) -> None:
    row = Row(position=0, row=2, answer="asked twice")
    first = rig.grade(row)
    calls = rig.models.count("judge")
    assert rig.grade(row).rows == first.rows
    assert rig.models.count("judge") == calls


def test_a_rollout_sent_again_while_it_is_graded_is_judged_once(rig: Rig) -> None:
    async def twice() -> list[GradeResponse]:
        row = Row(position=1, row=0, answer="asked at once")
        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(rig.client.grade(0, [row], timeout_s=30)) for _ in range(2)]
        return [job.result() for job in jobs]

    rig.client.served(1)
    before = rig.models.count("judge")
    first, second = asyncio.run(twice())
    assert first.rows == second.rows
    task = rig.run.store.task(first.rows[0].task_id, first.rows[0].version)
    assert task is not None
    assert rig.models.count("judge") - before <= 3 * len(task.rubric.criteria)


def test_a_judge_that_fails_gives_null_not_zero(rig: Rig) -> None:
    rig.client.served(0)
    rig.faults["judge"] = status(500)
    row = rig.grade(Row(position=0, row=3, answer="judge is down")).rows[0]
    assert row.score is None
    assert row.unmet == 0
    assert row.unknown > 0
    assert "500" in row.unscored


def test_an_unserved_position_is_not_graded(rig: Rig) -> None:
    with pytest.raises(ServiceRefused, match="never served"):
        rig.grade(Row(position=99, row=0, answer="x"))


def test_resuming_supersedes_later_rows_and_keeps_them(rig: Rig) -> None:
    rig.client.served(2)
    rig.grade(Row(position=2, row=0, answer="late"), cycle=1)
    before = rig.run.store.score_summary()["rollouts"]
    rig.client.resume(1)
    assert rig.run.store.find_grade(Place("train", 1, 2, 0), "late") is None
    assert rig.run.store.score_summary()["rollouts"] == before - 1


def test_scores_that_training_goes_back_on_leave_the_difficulty_band_at_once(rig: Rig) -> None:
    """Else a task could be evicted by rollouts that no longer count."""
    task_id, version = served_task(rig, 1)
    rig.client.resume(0)
    evicted = rig.run.pool.evicted

    def score(times: int) -> None:
        for _ in range(times):
            rig.run.gateway.loop.run(rig.run.pool.scored(task_id, version, 1.0))

    score(3)
    rig.client.resume(0)
    score(3)
    assert rig.run.pool.evicted == evicted
    score(1)
    assert rig.run.pool.evicted == evicted + 1


def test_stats_count_admission_grading_and_calls(rig: Rig) -> None:
    stats = rig.client.stats()
    assert stats["admission"]["target"] == 4
    assert stats["calls"]["judge"]["calls"] > 0
    assert json.dumps(stats)


def test_bad_requests_are_refused_by_shape(rig: Rig) -> None:
    headers = {"Authorization": f"Bearer {json.loads((rig.run.folder.path / SERVICE_FILE).read_text())['token']}"}
    reply = httpx.post(f"{rig.client.url}/v1/grade", json={"cycle": -1, "rows": []}, headers=headers)
    assert reply.status_code == 422


def test_another_host_needs_a_token(tmp_path: Path, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = rig.run.config.model_copy(update={"service": rig.run.config.service.model_copy(update={"host": "0.0.0.0"})})
    run = OpenRun(RunDir(tmp_path), shown, rig.run.store, rig.run.gateway, rig.run.material)
    with pytest.raises(ConfigError, match="RRI_SERVICE_TOKEN"), hosted(run):
        pass


def test_a_client_without_a_service_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(ServiceRefused, match="rri serve"):
        ServiceClient.connect(run=tmp_path)


def test_a_client_gives_up_after_its_patience() -> None:
    waits: list[str] = []
    client = ServiceClient("http://127.0.0.1:9", patience_s=0.3, on_wait=waits.append)
    with pytest.raises(ServiceUnavailable, match=r"gave up after 0\.3 s"):
        client.run_info()
    assert waits
    with pytest.raises(ServiceUnavailable, match="not graded"):
        asyncio.run(client.grade(0, [Row(position=0, row=0, answer="x")], timeout_s=0.3))


def test_a_truncated_answer_is_not_judged_and_gets_the_floor_of_its_group(rig: Rig) -> None:
    rig.client.served(3)
    grading = flooring(rig, rollouts_per_task=2)
    rows = (
        Row(position=3, row=0, answer="cut", finished=False),
        Row(position=3, row=1, answer=f"{HONEST_MARK} whole"),
    )
    cut, whole = rig.run.gateway.loop.run(grading.grade(GradeRequest(cycle=0, rows=rows))).rows
    assert whole.score is not None
    assert cut.score == min(0.0, whole.score)
    assert cut.met + cut.unmet + cut.unknown == 0
    assert grading.truncated == 1
    assert not any("cut" in r.block("answer") for r in rig.models.of("judge"))


@pytest.mark.parametrize("left", ["", " \n"])
def test_nothing_is_judged_where_an_answer_was_cut_within_its_reasoning(rig: Rig, left: str) -> None:
    """Also where answers cut at the limit are judged as they are."""
    rig.client.served(3)
    grading = flooring(rig, rollouts_per_task=2, judge_truncated=True)
    rows = (Row(position=3, row=0, answer=left, finished=False), Row(position=3, row=1, answer="cut", finished=False))
    empty, cut = rig.run.gateway.loop.run(grading.grade(GradeRequest(cycle=0, rows=rows))).rows
    assert cut.met + cut.unmet > 0 and cut.score is not None
    assert (empty.met + empty.unmet + empty.unknown, empty.raw, empty.score) == (0, None, min(0.0, cut.score))
    assert (empty.patched, grading.truncated) == (False, 1)


def flooring(
    rig: Rig, rollouts_per_task: int, floor_wait_s: float = 30.0, *, judge_truncated: bool = False
) -> RolloutGrader:
    return RolloutGrader(
        rig.run.grading.grader,
        rig.run.store,
        rig.run.pool,
        rig.run.config.grading,
        judge_truncated=judge_truncated,
        rollouts_per_task=rollouts_per_task,
        floor_wait_s=floor_wait_s,
    )


def test_the_floor_is_of_the_whole_group_also_when_ranks_send_it_apart(rig: Rig) -> None:
    """The negative criterion makes the other rank's answer score below 0, which the cut one must not beat."""
    rig.models.models["judge"] = lambda r: json.dumps({"reason": "", "met": "repealed" in r.block("criterion")})
    rig.client.served(3)
    task = rig.run.store.task(*served_task(rig, 3))
    assert task is not None
    grading = flooring(rig, rollouts_per_task=2)

    async def two_ranks() -> tuple[GradeResponse, GradeResponse]:
        cut = Row(position=3, row=0, answer="cut here", finished=False)
        bad = Row(position=3, row=1, answer="claims a repeal")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(grading.grade(GradeRequest(cycle=5, rows=(cut,))))
            second = group.create_task(grading.grade(GradeRequest(cycle=5, rows=(bad,))))
        return first.result(), second.result()

    try:
        first, second = rig.run.gateway.loop.run(two_ranks())
    finally:
        rig.models.models.update(role_models())
    other = second.rows[0].score
    assert other is not None
    assert first.rows[0].score == min(0.0, other)
    assert (other < 0) == any(c.points < 0 for c in task.rubric.criteria)


def served_task(rig: Rig, position: int) -> tuple[str, int]:
    task = rig.client.served(position)
    return task.task_id, task.version


def test_a_group_that_never_completes_is_floored_by_what_there_is(rig: Rig) -> None:
    rig.client.served(3)
    grading = flooring(rig, rollouts_per_task=4, floor_wait_s=0.01)
    row = Row(position=3, row=0, answer="cut alone", finished=False)
    assert rig.run.gateway.loop.run(grading.grade(GradeRequest(cycle=6, rows=(row,)))).rows[0].score == 0.0


def test_what_a_dead_trainer_left_under_way_is_dropped_at_a_resume(rig: Rig) -> None:
    """Its rows would else be kept after the resume, beside those of the new trainer."""
    rig.client.served(2)
    rig.faults["judge"] = hang()

    async def resumed_meanwhile() -> None:
        row = Row(position=2, row=3, answer="from a dead trainer")
        asked = rig.models.count("judge")
        job = asyncio.create_task(rig.run.grading.grade(GradeRequest(cycle=8, rows=(row,))))
        while rig.models.count("judge") == asked:
            await asyncio.sleep(0)
        await rig.run.resume(8)
        with pytest.raises(ServiceUnavailable, match="dropped"):
            await job

    rig.run.gateway.loop.run(resumed_meanwhile())
    assert rig.run.store.find_grade(Place("train", 8, 2, 3), "from a dead trainer") is None
    assert rig.run.health.status == "ok"


def test_calls_on_rollouts_carry_the_task(rig: Rig) -> None:
    task_id, _ = served_task(rig, 0)
    rig.grade(Row(position=0, row=1, answer="whose calls are these"), cycle=0)
    kept = list(read_calls(rig.run.folder.path, role="judge", task_id=task_id))
    assert any(call.record.tag.sample == "cycle-0-position-0-row-1" for call in kept)


def test_the_manifest_says_what_the_run_was_made_with(rig: Rig) -> None:
    manifest = rig.run.folder.manifest()
    assert len(manifest["weights"]) == 64
    assert manifest["corpus"]["passages"] == 3
    (start,) = manifest["starts"]
    assert start["routes"]["judge"]["model"] == "judge"
    assert start["routes"]["judge"]["url"] == rig.models.url
    assert set(start["prompts"]) == {s.__name__ for s in signatures.ALL}
    assert start["packages"]["dspy"]


def test_a_client_of_a_run_follows_a_restarted_service(rig: Rig, tmp_path: Path) -> None:
    """A restart takes another port and token; the run directory says which."""
    write_address(tmp_path, ServiceAddress(url="http://127.0.0.1:9", token="old", pid=1))
    client = ServiceClient.connect(run=tmp_path, patience_s=30)
    address = ServiceAddress.model_validate_json((rig.run.folder.path / SERVICE_FILE).read_text())
    write_address(tmp_path, address)
    assert client.run_info().run_id == rig.client.run_info().run_id
    write_address(tmp_path, ServiceAddress(url=address.url, token="old", pid=1))
    stale = ServiceClient.connect(run=tmp_path, patience_s=30)
    write_address(tmp_path, address)
    row = Row(position=0, row=0, answer="x")
    assert len(asyncio.run(stale.grade(0, [row], timeout_s=30)).rows) == 1


def test_an_explicit_run_beats_the_environment(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RRI_SERVICE_URL", "http://127.0.0.1:9")
    assert ServiceClient.connect(run=rig.run.folder.path).health().status == "ok"
    assert ServiceClient.connect().url == "http://127.0.0.1:9"


def test_a_store_that_breaks_fails_the_run_at_once(tmp_path: Path, tiny_model: Path) -> None:
    """Not an hour of retries: the trainer is told that waiting will not help."""
    with hosted_rig(tmp_path, tiny_model) as rig:
        rig.client.served(0)
        rig.run.store.close()
        with pytest.raises(ServiceRefused, match="409"):
            rig.client.resume(0)
        assert rig.client.health().status == "failed"


def test_a_dead_judge_fails_the_run_before_the_request_ends(tmp_path: Path, tiny_model: Path) -> None:
    with hosted_rig(tmp_path, tiny_model, grading={"unscored_in_a_row": 2}) as rig:
        rig.client.served(0)
        rig.faults["judge"] = status(400)
        with pytest.raises(ServiceRefused, match="failed on 2 answers in a row"):
            rig.grade(*(Row(position=0, row=i, answer=f"answer {i}") for i in range(4)))
        assert rig.client.health().status == "failed"
        with pytest.raises(ServiceRefused, match="the run is failed"):
            rig.client.served(0)
