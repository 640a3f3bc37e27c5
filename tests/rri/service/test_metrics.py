"""The counters as a scrape: what they are called, that they are the run's own figures, and who may read them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rri.client import SERVICE_FILE
from rri.service.metrics import CONTENT_TYPE, metrics_text
from rri.testing.roles import HONEST_MARK
from rri.wire import Row
from tests.hosting import Rig, hosted_rig

Samples = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Rig]:
    with hosted_rig(tmp_path_factory.mktemp("metrics"), tiny_model, evolution={"every_cycles": 1}) as rig:
        for position in (0, 1):
            rig.client.served(position)
        rig.grade(*(Row(position=p, row=r, answer=f"{HONEST_MARK} {p} {r}") for p in (0, 1) for r in range(4)))
        rig.client.report(0, 1)
        rig.run.gateway.loop.run(rig.run.finished_looping())
        rig.run.gateway.loop.run(rig.run.finished_admitting())
        yield rig


def samples(text: str) -> Samples:
    """(name, label values) -> value."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(rig: Rig, token: str | None = None) -> httpx.Response:
    token = token or json.loads((rig.run.folder.path / SERVICE_FILE).read_text())["token"]
    return httpx.get(f"{rig.client.url}/metrics", headers={"Authorization": f"Bearer {token}"})


def test_a_scrape_holds_the_figures_of_the_run(rig: Rig) -> None:
    stats: dict[str, Any] = rig.client.stats()
    reply = scraped(rig)
    assert reply.headers["content-type"] == CONTENT_TYPE
    found = samples(reply.text)
    expected = {
        "rri_tasks_target": 4,
        "rri_tasks_admitted_total": 4,
        "rri_pool_tasks": 4,
        "rri_pool_unserved": stats["pool"]["unserved"],
        "rri_positions_total": 2,
        "rri_rollouts_total": 8,
        "rri_rollouts_unscored_total": 0,
        "rri_train_score_mean": stats["grading"]["mean_score"],
        "rri_admission_delta_before": stats["admission"]["delta_before"],
        "rri_admission_delta_after": stats["admission"]["delta_after"],
        "rri_loop_backlog": 0,
        "rri_loop_failures_total": 0,
        "rri_evolutions_total": 1,
        "rri_guidance_version": 1,
        "rri_memo_version": stats["loop"]["memo"],
        "rri_negative_rate": 0.75,
    }
    assert {name: found[name, ()] for name in expected} == pytest.approx(expected)
    assert found["rri_health", ("ok",)] == 1
    assert found["rri_admissions_total", ("repaired",)] == 4


def test_every_role_has_its_calls(rig: Rig) -> None:
    found = samples(scraped(rig).text)
    calls = rig.client.stats()["calls"]
    for role in ("judge", "analyst", "meta_optimizer"):
        for figure in ("calls", "failed", "reused", "tokens_in", "tokens_out", "cached", "seconds", "money"):
            assert found[f"rri_model_{figure}_total", (role,)] == pytest.approx(calls[role][figure], rel=0.5)
    assert {labels[0] for name, labels in found if name == "rri_model_calls_total"} == set(calls)


def test_every_metric_is_explained_and_of_one_kind(rig: Rig) -> None:
    families = list(text_string_to_metric_families(scraped(rig).text))
    names = [family.name for family in families]
    assert len(set(names)) == len(names) > 25
    for family in families:
        assert family.name.startswith("rri_")
        assert family.documentation
        assert family.type in ("gauge", "counter")


def test_figures_that_are_unknown_are_left_out_and_never_zero(rig: Rig) -> None:
    stats = rig.run.stats()
    stats["grading"]["mean_score"] = stats["admission"]["delta_before"] = None
    found = {name for name, _ in samples(metrics_text(stats).decode())}
    assert not {"rri_train_score_mean", "rri_admission_delta_before"} & found
    assert "rri_admission_delta_after" in found


@pytest.mark.parametrize("status", ["starting", "paused", "failed", "stopping"])
def test_the_state_of_the_run_is_told_by_its_label(rig: Rig, status: str) -> None:
    stats = rig.run.stats() | {"health": {"status": status, "reason": "because"}}
    states = {labels for name, labels in samples(metrics_text(stats).decode()) if name == "rri_health"}
    assert states == {(status,)}


def test_without_the_token_nothing_is_told(rig: Rig) -> None:
    reply = scraped(rig, token="wrong")
    assert reply.status_code == 401
    assert "rri_" not in reply.text
