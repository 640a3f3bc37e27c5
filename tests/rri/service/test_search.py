"""`/v1/search`: one brief of what is found, and a search that fails alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rri.client import ServiceClient
from rri.errors import ServiceError, ServiceRefused, ServiceUnavailable
from rri.service.metrics import metrics_text
from rri.store import read_calls
from rri.testing import Fault, empty, hang, status, truncated
from tests.hosting import Rig, hosted_rig

RETRIEVING = {"cycles": 1, "retrieval": True}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Rig]:
    with hosted_rig(tmp_path_factory.mktemp("search"), tiny_model, solver=RETRIEVING) as rig:
        yield rig


def shown(rig: Rig) -> list[str]:
    """Ids of the passages that the last summarizer call was shown."""
    return [p["id"] for p in json.loads(rig.models.of("summarizer")[-1].block("passages"))]


def failure(rig: Rig, match: str) -> None:
    """A search fails, and is counted and kept as failed; the run goes on."""
    before = rig.client.stats()["search"]
    with pytest.raises(ServiceUnavailable, match=f"the search failed: {match}"):
        rig.client.search("q", 1, timeout_s=30)
    assert rig.client.health().status == "ok"
    after = rig.client.stats()["search"]
    assert (after["searches"] - before["searches"], after["failures"] - before["failures"]) == (1, 1)
    assert f"rri_searches_failed_total {after['failures']}.0".encode() in metrics_text(rig.run.stats())
    assert [message for _, message, _ in rig.run.store.events("search_failed")][-1] == after["last_error"]


# -- a brief ------------------------------------------------------------------------------


def test_one_brief_of_the_nearest_passages_comes_back(rig: Rig) -> None:
    found = rig.client.search("Rule 1 has the value 41.", 2, timeout_s=30)
    assert found.brief.startswith("Rule 1 has the value 41. [p1, Rule 1]\n")
    assert rig.models.of("summarizer")[-1].block("query") == "Rule 1 has the value 41."
    assert shown(rig)[0] == "p1" and len(shown(rig)) == 2
    rig.client.search("anything", 50, timeout_s=30)
    assert len(shown(rig)) == 3, "the corpus has no more"


def test_its_call_is_kept_and_counted_under_its_role(rig: Rig) -> None:
    before = len(list(read_calls(rig.run.folder.path, role="summarizer")))
    rig.client.search("Rule 2", 1, timeout_s=30)
    number = rig.client.stats()["search"]["searches"]
    kept = [call.record for call in read_calls(rig.run.folder.path, role="summarizer")]
    assert len(kept) == before + 1
    assert (kept[-1].tag.task_id, kept[-1].tag.sample) == ("", f"search-{number}")
    assert rig.client.stats()["calls"]["summarizer"]["calls"] >= 1


def test_no_passage_means_no_call(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(rig.run.search.index, "asearch", nothing)
    asked = rig.models.count("summarizer")
    assert rig.client.search("q", 5, timeout_s=30).brief == ""
    assert rig.models.count("summarizer") == asked


# -- refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"query": "", "passages": 1}, {"query": "q", "passages": 0}, {"query": "q"}])
def test_a_wrong_request_is_refused(rig: Rig, body: dict[str, Any]) -> None:
    reply = httpx.post(f"{rig.client.url}/v1/search", json=body, headers=rig.client._headers)
    assert reply.status_code == 422


def test_a_stranger_may_not_search(rig: Rig) -> None:
    with pytest.raises(ServiceRefused, match="token"):
        ServiceClient(rig.client.url, "wrong").search("q", 1, timeout_s=30)


def test_a_run_that_does_not_retrieve_needs_asks_and_answers_nothing(tmp_path: Path, tiny_model: Path) -> None:
    """Its summarizer goes to an endpoint that is not there, which nobody finds out."""
    away = {"endpoints": {"away": {"url": "http://127.0.0.1:9/v1"}}, "roles": {"summarizer": {"endpoint": "away"}}}
    with hosted_rig(tmp_path, tiny_model, solver={"cycles": 1}, **away) as rig:
        with pytest.raises(ServiceRefused, match=r"solver\.retrieval is false"):
            rig.client.search("q", 1, timeout_s=30)
        assert rig.client.health().status == "ok"
        assert "away" not in str(rig.run.gateway.routes)
        assert rig.models.count("summarizer") == 0


def test_one_that_retrieves_asks_for_its_summarizer_first(tmp_path: Path, tiny_model: Path) -> None:
    """Every model has a name of its own here, so each is asked once."""
    with hosted_rig(tmp_path, tiny_model, solver=RETRIEVING) as rig:
        (first,) = [r for r in rig.models.of("summarizer") if r.schema_name == "Ready"]
    assert first.messages


# -- failures -------------------------------------------------------------------------------


def test_an_index_that_fails_fails_one_search(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> Any:
        raise RuntimeError("index file is\ngone")

    with monkeypatch.context() as patch:
        patch.setattr(rig.run.search.index._collection, "query", broken, raising=False)
        failure(rig, "RuntimeError: index file is gone")
    assert rig.client.search("q", 1, timeout_s=30).brief


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        (status(400), "EndpointRefused: role summarizer"),
        (status(503), "EndpointFailed: role summarizer"),
        (empty(), "EmptyReply: role summarizer"),
        (truncated(), "TruncatedReply: role summarizer"),
    ],
)
def test_a_summarizer_that_fails_fails_one_search(rig: Rig, fault: Fault, match: str) -> None:
    """No passage is given out in place of the brief."""
    rig.faults["summarizer"] = fault
    try:
        failure(rig, match)
    finally:
        rig.faults.clear()
    assert rig.client.search("q", 1, timeout_s=30).brief


def test_a_brief_that_takes_too_long_is_a_failed_search(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rig.run.search.timeout_s == rig.run.config.solver.tools.timeout_s
    monkeypatch.setattr(rig.run.search, "timeout_s", 0.2)
    rig.faults["summarizer"] = hang()
    try:
        failure(rig, r"no brief within 0\.2 s")
    finally:
        rig.faults.clear()


def test_an_exhausted_budget_ends_the_run(tmp_path: Path, tiny_model: Path) -> None:
    with hosted_rig(tmp_path, tiny_model, solver=RETRIEVING, budget={"calls": 100_000}) as rig:
        rig.run.gateway.ledger.budget = rig.run.config.budget.model_copy(update={"calls": 1})
        with pytest.raises(ServiceError, match="budget"):
            rig.client.search("q", 1, timeout_s=30)
        assert rig.client.health().status == "failed"
        assert rig.run.search.failures == 0


def test_a_service_that_is_away_is_asked_once() -> None:
    waits: list[str] = []
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        ServiceClient("http://127.0.0.1:9", patience_s=60, on_wait=waits.append).search("q", 1, timeout_s=5)
    assert waits == []
