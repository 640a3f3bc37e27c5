"""A trainer that waits is told why and gets no error; background work that fails is told too, and ends in time."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rri.client import SERVICE_FILE, ServiceClient
from rri.errors import ModelError, ServiceRefused
from rri.testing import hang, status
from tests.fake_trainer import FakeTrainer
from tests.hosting import Rig, hosted_rig
from tests.programs.loop_world import LoopWorld

GUARD_S = 20
"""Seconds after which a hung test fails; no test waits for it."""


@pytest.fixture(autouse=True)
def short_polls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A request for a position is held open for a moment, not for twenty seconds."""
    monkeypatch.setattr("rri.service.app.POLL_S", 0.02)
    yield


def ask(rig: Rig, position: int) -> httpx.Response:
    token = json.loads((rig.run.folder.path / SERVICE_FILE).read_text())["token"]
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{rig.client.url}/v1/served/{position}", headers=headers, timeout=GUARD_S)


def test_11_a_trainer_waits_with_a_message_while_the_pool_is_thin(tmp_path: Path, tiny_model: Path) -> None:
    sections: dict[str, Any] = {
        "endpoints": {"main": {"timeout_s": 0.5}},
        "generation": {"failures_in_a_row": 1000},
        "pool": {"min_tasks": 3},
    }
    with hosted_rig(tmp_path, tiny_model, **sections) as rig:
        rig.faults["generator"] = hang()
        reply = ask(rig, 0)
        assert reply.status_code == 202
        assert "training starts at 3" in reply.json()["waiting"]
        told: list[str] = []

        def wait(why: str) -> None:
            told.append(why)
            rig.faults.clear()

        client = ServiceClient.connect(run=rig.run.folder.path, on_wait=wait)
        assert client.served(0).position == 0
        assert told and all("training starts at 3" in why for why in told)
        assert rig.client.health().status == "ok"


def test_11_new_positions_wait_while_the_loop_is_behind_and_old_ones_do_not(tmp_path: Path, tiny_model: Path) -> None:
    """At the limit of one cycle the next is served, beyond it the trainer waits."""
    world = LoopWorld(3, faulty=False)
    sections: dict[str, Any] = {
        "endpoints": {"main": {"timeout_s": 0.5, "retries": 1000}},
        "generation": {"negative_share": 0.0},
        "admission": {"rounds": 0},
        "evolution": {"enabled": False},
        "memo": {"enabled": False},
        "solver": {"cycles": 3, "rollouts_per_task": 5},
    }
    with hosted_rig(tmp_path, tiny_model, world.models(), **sections) as rig:
        rig.faults["referee"] = hang()
        trainer = FakeTrainer(rig.client, world.exploit)
        trainer.train(1)
        assert rig.run.loop.backlog == rig.run.config.loop.max_backlog == 1
        trainer.train(2)
        assert rig.run.loop.backlog == 2
        waiting = ask(rig, 4)
        assert waiting.status_code == 202
        assert waiting.json() == {"waiting": "2 cycles wait for the loop (cases of cycle 0)"}
        trainer.ask(range(4))
        assert rig.run.store.served()[-1].position == 3, "nothing was decided meanwhile"
        rig.faults.clear()
        assert rig.client.served(4).position == 4


def test_12_evolution_that_fails_again_and_again_ends_the_run_and_not_before(tmp_path: Path, tiny_model: Path) -> None:
    """Rounds of another kind that succeed between do not hide it: guidance would freeze unseen."""
    world = LoopWorld(3, faulty=False, uniform=4)
    sections: dict[str, Any] = {
        "evolution": {"every_cycles": 1, "cases": 3},
        "memo": {"enabled": False},
        "loop": {"failures_in_a_row": 3, "max_backlog": 0},
        "solver": {"cycles": 5},
    }
    with hosted_rig(tmp_path, tiny_model, world.models(), **sections) as rig:
        rig.faults["meta_optimizer"] = status(400)
        trainer = FakeTrainer(rig.client, world.answer)
        for failures in (1, 2):
            trainer.train(failures)
            trainer.ask([2 * failures])
            loop = rig.client.stats()["loop"]
            assert (loop["failures"], loop["guidance"], loop["evolutions"]) == (failures, 0, 0)
            assert f"evolution of cycle {failures - 1}: role meta_optimizer" in loop["last_error"]
            assert rig.client.health().status == "ok"
        trainer.train(3)

        async def ended() -> None:
            await asyncio.wait_for(rig.run.finished_looping(), GUARD_S)

        with pytest.raises(ModelError, match=r"paused after 3 failed rounds of the loop in a row \(evolution\)"):
            rig.run.gateway.loop.run(ended())
        assert rig.client.health().status == "failed"
        with pytest.raises(ServiceRefused, match="paused after 3 failed rounds"):
            rig.client.served(6)
        assert [m for _, m, _ in rig.run.store.events("loop_failed")][-1].startswith("evolution of cycle 2")


def test_12_admission_that_fails_in_a_row_ends_the_run_with_the_reason(tmp_path: Path, tiny_model: Path) -> None:
    with hosted_rig(tmp_path, tiny_model, generation={"failures_in_a_row": 4}) as rig:
        rig.faults["generator"] = status(400)

        async def ended() -> None:
            await asyncio.wait_for(rig.run.finished_admitting(), GUARD_S)

        with pytest.raises(ModelError, match="4 tasks in a row failed; the last one: role generator"):
            rig.run.gateway.loop.run(ended())
        admission = rig.run.stats()["admission"]
        assert admission["failures"] == 4
        assert "HTTP 400" in admission["last_error"]
        with pytest.raises(ServiceRefused, match="4 tasks in a row failed"):
            rig.client.served(0)
