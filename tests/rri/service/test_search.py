"""`/v1/search`: passages as they stand, and a search that fails alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rri.client import ServiceClient
from rri.errors import ServiceRefused, ServiceUnavailable
from rri.service.metrics import metrics_text
from tests.hosting import Rig, hosted_rig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Rig]:
    with hosted_rig(tmp_path_factory.mktemp("search"), tiny_model, solver={"cycles": 1}) as rig:
        yield rig


def test_the_nearest_passages_come_first_and_whole(rig: Rig) -> None:
    found = rig.client.search("Rule 1 has the value 41.", 2, timeout_s=30).passages
    assert found[0].id == "p1" and len(found) == 2
    assert (found[0].text, found[0].source) == ("Rule 1 has the value 41.", "made for tests")
    assert len(rig.client.search("anything", 50, timeout_s=30).passages) == 3, "the corpus has no more"


@pytest.mark.parametrize("body", [{"query": "", "passages": 1}, {"query": "q", "passages": 0}, {"query": "q"}])
def test_a_wrong_request_is_refused(rig: Rig, body: dict[str, Any]) -> None:
    reply = httpx.post(f"{rig.client.url}/v1/search", json=body, headers=rig.client._headers)
    assert reply.status_code == 422


def test_a_stranger_may_not_search(rig: Rig) -> None:
    with pytest.raises(ServiceRefused, match="token"):
        ServiceClient(rig.client.url, "wrong").search("q", 1, timeout_s=30)


def test_a_search_that_fails_fails_alone_and_is_counted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> Any:
        raise RuntimeError("index file is\ngone")

    with monkeypatch.context() as patch:
        patch.setattr(rig.run.search.index._collection, "query", broken, raising=False)
        with pytest.raises(ServiceUnavailable, match="the search failed: RuntimeError: index file is gone"):
            rig.client.search("q", 1, timeout_s=30)
    assert rig.client.health().status == "ok"
    stats = rig.client.stats()["search"]
    assert (stats["failures"], stats["last_error"]) == (1, "RuntimeError: index file is gone")
    assert b"rri_searches_failed_total 1.0" in metrics_text(rig.run.stats())
    assert [message for _, message, _ in rig.run.store.events("search_failed")] == [stats["last_error"]]
    assert rig.client.search("q", 1, timeout_s=30).passages


def test_a_service_that_is_away_is_asked_once() -> None:
    waits: list[str] = []
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        ServiceClient("http://127.0.0.1:9", patience_s=60, on_wait=waits.append).search("q", 1, timeout_s=5)
    assert waits == []
