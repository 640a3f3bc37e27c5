"""The recursive loop in a process of its own: killed at any moment, it goes on; failing for good, it ends aloud.

The models are scripted, misbehave at random, and outlive the service, as does the trainer.
"""

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rri.client import ServiceClient
from rri.config import RunConfig
from rri.store import Store
from rri.testing import ChatRequest, Fault, ScriptedServer, hang, role_models, status
from tests.fake_trainer import Answer, FakeTrainer
from tests.forks import Forge
from tests.programs import loop_checks as holds
from tests.programs.loop_runs import Ran, Rows, kept_rows, loop_config
from tests.programs.loop_world import LoopWorld
from tests.rri.cli.commands import write_config

NOWHERE = "http://127.0.0.1:9"
SEED = 7

Moment = Callable[[ChatRequest], bool]


@pytest.fixture(scope="module")
def forge() -> Iterator[Forge]:
    with Forge() as forge:
        yield forge


class Killed(Exception):
    """The service is gone, and the trainer has noticed."""


class Assassin:
    """Kills a process in the middle of a request that its moment matches; that request is never answered."""

    def __init__(self) -> None:
        self.struck = threading.Event()
        self._lock = threading.Lock()
        self._pid, self._matches, self._left = 0, (lambda request: False), 0

    def aim(self, pid: int, matches: Moment, after: int) -> None:
        """Strike at the request that comes after `after` others of this moment."""
        with self._lock:
            self._pid, self._matches, self._left = pid, matches, after
            self.struck.clear()

    def fault(self, request: ChatRequest) -> Fault | None:
        with self._lock:
            if not self.struck.is_set() and request.schema_name != "Ready" and self._matches(request):
                self._left -= 1
                if self._left < 0:
                    self.struck.set()
                    os.kill(self._pid, signal.SIGKILL)
            return hang() if self.struck.is_set() else None

    def tell(self, why: str) -> None:
        """What a client does that has to wait."""
        if self.struck.is_set():
            raise Killed(why)


def strict(request: ChatRequest) -> bool:
    return "to the letter" in request.messages[0]["content"]


def of_policy(request: ChatRequest) -> bool:
    return request.model == "judge" and request.block("answer").startswith(("Game", "Good", "Plain", "Sure", "Copy"))


ONCE: dict[str, Moment] = {"a memo is written": lambda r: r.model == "memo_optimizer"}
"""Due in the first round for sure."""
ADMITTING: dict[str, Moment] = {
    "a task is written": lambda r: r.model == "generator",
    "a task is attacked": lambda r: r.model == "farmer",
    "a task is repaired": lambda r: r.model == "rewriter",
}
"""Admission is over before the loop is."""
REPAIRING: dict[str, Moment] = {
    "criteria are minted": lambda r: r.model == "minter",
    "a minted criterion is judged": lambda r: of_policy(r) and strict(r),
}
"""Rubrics that were repaired are beaten less and less."""
ALWAYS: dict[str, Moment] = {
    "rollouts are graded": lambda r: of_policy(r) and not strict(r),
    "groups are ranked": lambda r: r.model == "referee",
    "cases are diagnosed": lambda r: r.model == "analyst",
    "guidance is written": lambda r: r.model == "meta_optimizer",
}


def moments(rng: random.Random) -> list[tuple[str, Moment, int]]:
    """(name, moment, how many requests pass before it) of every kind of work, each group in random order."""
    found = []
    for group, passed in ((ONCE, 1), (ADMITTING, 2), (REPAIRING, 2), (ALWAYS, 4)):
        names = rng.sample(list(group), len(group))
        found += [(name, group[name], rng.randrange(passed)) for name in names]
    return found


def policy(world: LoopWorld) -> Answer:
    """Every other position is answered so that a rubric as it was born is beaten."""
    return lambda task, row, starts: (world.answer if task.position % 2 else world.exploit)(task, row, starts)


def connected(run: Path, assassin: Assassin) -> ServiceClient:
    """A client that waits for the service of `run` to come up."""
    return ServiceClient(NOWHERE, run=run, patience_s=120, on_wait=assassin.tell)


def config_of(url: str, folder: Path, model: Path, **sections: Any) -> RunConfig:
    base: dict[str, Any] = {
        "generation": {"tasks": 20},
        "admission": {"rounds": 1},
        "pool": {"ahead": 4, "min_tasks": 3, "evict": False},
        "solver": {"base_model": str(model), "cycles": 18, "tasks_per_cycle": 2, "tasks_per_update": 2},
    }
    base["solver"]["rollouts_per_task"] = 5
    return loop_config(url, folder / "passages.jsonl", **{**base, **sections})


def check_acknowledged(run: Path, trainer: FakeTrainer, before: dict[str, Rows]) -> dict[str, Rows]:
    """Nothing that was there or was acknowledged has gone or changed; all that is there now."""
    now = kept_rows(run)
    for table, rows in before.items():
        assert rows <= now[table], f"{table} lost rows"
    assert {(p, t.task_id, t.version) for p, t in trainer.served.items()} <= {row[:3] for row in now["served"]}
    grades = {(row[2], row[3], row[4], row[7]): row[8] for row in now["grades"]}
    for (cycle, *_), (row, graded) in trainer.graded.items():
        assert grades[cycle, row.position, row.row, row.answer] == graded.score
    for row, graded in trainer.lost:
        assert graded.score in [g[8] for g in now["grades"] if (*g[3:5], g[7]) == (row.position, row.row, row.answer)]
    assert set(trainer.reports) <= {(row[1], row[0]) for row in now["reports"]}
    return now


def test_killed_at_any_moment_the_loop_goes_on_and_loses_nothing(
    forge: Forge, tmp_path: Path, tiny_model: Path
) -> None:
    rng, world, assassin = random.Random(SEED), LoopWorld(SEED, uniform=4, taught=False), Assassin()
    run, log = tmp_path / "run", tmp_path / "log"
    trainer = FakeTrainer(ServiceClient(NOWHERE), policy(world))
    kept: dict[str, Rows] = {}
    with ScriptedServer(role_models(**world.models())) as server:
        server.fault = lambda request: assassin.fault(request) or world.fault(request)
        config = config_of(server.url, tmp_path, tiny_model)
        last = config.solver.cycles - 1
        command = ("serve", str(run), "--config", write_config(tmp_path / "config.yaml", config), "--quiet")
        for number, (moment, matches, after) in enumerate(moments(rng)):
            pid = forge.start(log, *command)
            assassin.aim(pid, matches, after)
            trainer.client = connected(run, assassin)
            try:
                if number % 3 == 2:
                    trainer.resume(max(0, trainer.cycle - 1))  # it died too, and its last cycle was not saved
                trainer.train(last)
            except Killed:
                pass
            else:
                pytest.fail(f"it never came that {moment}:\n{log.read_text()[-3000:]}")
            assert forge.wait(pid) == -signal.SIGKILL
            kept = check_acknowledged(run, trainer, kept)
        pid = forge.start(log, *command)
        assassin.aim(pid, lambda request: False, 0)
        trainer.client = connected(run, assassin)
        trainer.ask(trainer.served)
        trainer.train(last)
        trainer.ask([last * config.solver.tasks_per_cycle])
        assert trainer.client.health().status == "ok"
        os.kill(pid, signal.SIGTERM)
        assert forge.wait(pid) == 130, log.read_text()[-3000:]
    check_acknowledged(run, trainer, kept)
    store = Store(run)
    try:
        check_whole(Ran(config, run, world, trainer, store))
    finally:
        store.close()


def check_whole(ran: Ran) -> None:
    """The run is as one that was never killed."""
    done = Counter(report for (report,) in ran.rows("SELECT report FROM rounds WHERE kind = 'cycle'"))
    assert done == Counter(report for (report,) in ran.rows("SELECT id FROM reports")), "each report worked off once"
    worked = Counter(ran.rows("SELECT report, kind FROM rounds WHERE outcome = 'done'"))
    assert set(worked.values()) == {1}, "no work was kept twice"
    cases = ran.rows("SELECT report, position FROM cases")
    assert len(set(cases)) == len(cases), "no case was found twice"
    # A cycle that is trained again while it is worked on keeps what was found, and nobody repairs it.
    whole = "SELECT report FROM rounds WHERE kind = 'cycle' AND outcome = 'done'"
    due = {number for (number,) in ran.rows(f"SELECT id FROM cases WHERE chosen AND report IN ({whole})")}
    assert due <= {patch.case for patch in ran.store.patches()}, "all were repaired"
    holds.versions_count_up(ran)
    holds.nothing_changes_in_place(ran)
    holds.graded_as_served(ran)
    assert holds.guidance_changes_in_rounds_alone(ran) > 3
    holds.rollbacks_restore_the_text(ran)
    memos = [memo.version for memo in ran.store.memo_versions()]
    assert memos == list(range(len(memos)))
    rounds = Counter(row.data["memo"] for row in ran.store.rounds("evolution") if row.outcome == "done")
    assert all(rounds[version] == 1 for version in memos[1:])
    holds.adopted_rewrites_lower_delta(ran)
    assert holds.patches_raise_the_lead(ran)["patched"]
    holds.negatives_spare_the_honest_answer(ran)
    holds.criteria_stay_within_their_caps(ran)


# --- failing for good --------------------------------------------------------------------------------


def test_12_after_failures_in_a_row_the_command_ends_with_the_reason(
    forge: Forge, tmp_path: Path, tiny_model: Path
) -> None:
    """Twice the referee fails on everything and the run goes on, loudly; the third time in a row ends it."""
    world, assassin = LoopWorld(SEED, faulty=False), Assassin()
    run, log = tmp_path / "run", tmp_path / "log"
    sections: dict[str, Any] = {
        "generation": {"tasks": 10, "negative_share": 0.0},
        "admission": {"rounds": 0},
        "memo": {"enabled": False},
        "loop": {"failures_in_a_row": 3},
    }
    with ScriptedServer(role_models(**world.models())) as server:
        server.fault = lambda r: status(400) if r.model == "referee" and r.schema_name != "Ready" else None
        config = config_of(server.url, tmp_path, tiny_model, **sections)
        pid = forge.start(log, "serve", str(run), "--config", write_config(tmp_path / "config.yaml", config), "--quiet")
        trainer = FakeTrainer(connected(run, assassin), world.exploit)
        per_cycle = config.solver.tasks_per_cycle
        for failures in (1, 2):
            trainer.train(failures)
            trainer.ask([failures * per_cycle])  # decided once the loop has caught up
            loop = trainer.client.stats()["loop"]
            assert loop["failures"] == failures
            assert f"cases of cycle {failures - 1}: the referee failed on all" in loop["last_error"]
            assert trainer.client.health().status == "ok"
        trainer.train(3)
        assert forge.wait(pid) == 5
    (error,) = [line for line in log.read_text().splitlines() if line.startswith("error:")]
    assert "paused after 3 failed rounds of the loop in a row (cases)" in error
    assert "HTTP 400" in error
    store = Store(run)
    assert [r.outcome for r in store.rounds("cases")] == ["failed", "failed"]
    assert [m for _, m, _ in store.events("ended")] == [error.removeprefix("error: ")]
    assert [r.cycle for r in store.open_reports()] == [2], "its work is done again when the run goes on"
    store.close()
