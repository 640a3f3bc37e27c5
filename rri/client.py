"""Typed HTTP client of the service: what the trainer knows of the rest of rri (DESIGN, seam 2).

Needs neither dspy nor torch. `ServiceClient.connect(run=DIR)` reads DIR/service.json, or the environment
variables RRI_SERVICE_URL and RRI_SERVICE_TOKEN where nodes share no disk.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from rri.errors import ServiceRefused, ServiceUnavailable
from rri.types import Split
from rri.wire import (
    GradeRequest,
    GradeResponse,
    Health,
    ReportRequest,
    ReportResponse,
    ResumeRequest,
    Row,
    RunInfo,
    SearchRequest,
    SearchResponse,
    ServedTask,
    ServiceAddress,
    ValidationSet,
    Waiting,
)

__all__ = ["POLL_S", "SERVICE_FILE", "ServiceClient", "write_address"]

SERVICE_FILE = "service.json"
"""File in the run directory with URL and token of the running service, mode 0600."""

POLL_S = 20.0
"""Longest that one request for a served task is held open by the service."""
RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between tries while the service is away; the last one repeats until the bound."""


M = TypeVar("M", bound=BaseModel)


def _problem(response: httpx.Response) -> str:
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = response.text[:200]
    return str(detail)


class WrongToken(ServiceRefused):
    """HTTP 401. After a restart of the service it may be right again under the new address."""


def _address(run: Path) -> ServiceAddress:
    """The running service of a run directory.

    Raises:
        ServiceRefused: none runs there.
    """
    path = run / SERVICE_FILE
    try:
        return ServiceAddress.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ServiceRefused(
            f"no service runs on {run} ({path} is missing)", f"Start it with: rri serve {run}"
        ) from None
    except (OSError, ValidationError) as error:
        raise ServiceRefused(f"cannot read {path}: {error}", f"Restart the service: rri serve {run}") from None


class ServiceClient:
    """Talks to one service. Safe to use from several threads and from any event loop.

    Args:
        url: the service's base URL.
        token: bearer token; empty for a loopback service that asks for none.
        patience_s: how long to keep trying while the service is away or paused, before
            `ServiceUnavailable` is raised.
        on_wait: called with a message whenever the client has to wait.
        run: the run directory, where a restarted service leaves its new address.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        patience_s: float = 600.0,
        on_wait: Callable[[str], None] | None = None,
        run: Path | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.patience_s = patience_s
        self._token = token
        self._run = run
        self._on_wait = on_wait or (lambda message: None)
        self._sync = httpx.Client(timeout=POLL_S + 30, trust_env=False)

    @classmethod
    def connect(cls, run: Path | None = None, url: str = "", **options: Any) -> Self:
        """Find the service by `url`, the run directory, or the environment, in this order.

        Raises:
            ServiceRefused: none of them names a service.
        """
        token = os.environ.get("RRI_SERVICE_TOKEN", "")
        if url:
            return cls(url, token, **options)
        if run is not None:
            address = _address(run)
            return cls(address.url, address.token, run=run, **options)
        if url := os.environ.get("RRI_SERVICE_URL", ""):
            return cls(url, token, **options)
        raise ServiceRefused("no service named", "Pass --run DIR or --service URL")

    def close(self) -> None:
        self._sync.close()

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _moved(self) -> bool:
        """Whether the run's service has another address by now: a restart takes a free port and a fresh token."""
        if self._run is None:
            return False
        try:
            address = _address(self._run)
        except ServiceRefused:
            return False
        before = (self.url, self._token)
        self.url, self._token = address.url.rstrip("/"), address.token
        return before != (self.url, self._token)

    # -- requests that wait ------------------------------------------------

    def health(self) -> Health:
        """The service's state, asked once.

        Raises:
            ServiceUnavailable: it does not answer.
        """
        try:
            response = self._sync.get(f"{self.url}/v1/health")
        except httpx.TransportError as error:
            raise ServiceUnavailable(f"{self.url} does not answer: {error}") from None
        return _read(Health, _checked(response))

    def run_info(self) -> RunInfo:
        """The run as the trainer needs it; waits while the service starts."""
        return _read(RunInfo, self._patiently("GET", "/v1/run"))

    def served(self, position: int) -> ServedTask:
        """The task at `position`; waits while the pool is thin.

        Raises:
            ServiceUnavailable: no task within `patience_s`, or the run failed or is paused.
            ServiceRefused: the position can never be served.
        """
        return _read(ServedTask, self._patiently("GET", f"/v1/served/{position}"))

    def resume(self, cycle: int) -> None:
        """Announce the cycle from which training goes on."""
        self._patiently("POST", "/v1/resume", json=ResumeRequest(cycle=cycle).model_dump())

    def report(self, cycle: int, step: int, metrics: Mapping[str, float] | None = None) -> ReportResponse:
        """Say that a cycle is finished. The same report again changes nothing."""
        body = ReportRequest(cycle=cycle, step=step, metrics=dict(metrics or {})).model_dump()
        return _read(ReportResponse, self._patiently("POST", "/v1/report", json=body))

    def validation(self) -> ValidationSet:
        """The tasks of the run's validation, and which rounds are complete."""
        return _read(ValidationSet, self._patiently("GET", "/v1/validation"))

    def search(self, query: str, passages: int, *, timeout_s: float) -> SearchResponse:
        """A brief of the passages nearest to `query`. One try: an answer being written does not wait for a service.

        Raises:
            ServiceUnavailable: no result within `timeout_s`.
            ServiceRefused: the request is wrong.
        """
        body = SearchRequest(query=query, passages=passages).model_dump()
        target = f"{self.url}/v1/search"
        try:
            response = self._sync.post(target, json=body, headers=self._headers, timeout=timeout_s)
        except httpx.TransportError as error:
            raise ServiceUnavailable(f"{target} does not answer: {str(error) or type(error).__name__}") from None
        return _read(SearchResponse, _checked(response))

    def stats(self) -> dict[str, Any]:
        """Counters of the run: pool, admission, grading, ledger by role."""
        try:
            response = _checked(self._sync.get(f"{self.url}/v1/stats", headers=self._headers))
        except httpx.TransportError as error:
            raise ServiceUnavailable(f"{self.url} does not answer: {error}") from None
        stats: dict[str, Any] = response.json()
        return stats

    def _patiently(self, method: str, path: str, **request: Any) -> httpx.Response:
        deadline = time.monotonic() + self.patience_s
        away = 0
        while True:
            try:
                response = _checked(self._sync.request(method, f"{self.url}{path}", headers=self._headers, **request))
            except (httpx.TransportError, ServiceUnavailable, WrongToken) as error:
                if self._moved():
                    continue
                if isinstance(error, WrongToken):
                    raise
                why, pause = f"service away ({error})", RETRY_S[min(away, len(RETRY_S) - 1)]
                away += 1
            else:
                if response.status_code != httpx.codes.ACCEPTED:
                    return response
                # The service held the request open already, so ask again at once.
                why, pause, away = _read(Waiting, response).waiting, 0.0, 0
            if time.monotonic() + pause >= deadline:
                raise ServiceUnavailable(f"{method} {self.url}{path}: gave up after {self.patience_s:g} s: {why}")
            self._on_wait(why)
            time.sleep(pause)

    # -- grading ------------------------------------------------------------

    async def grade(
        self, cycle: int, rows: Sequence[Row], *, split: Split = "train", timeout_s: float
    ) -> GradeResponse:
        """Scores of `rows`; asks again after a lost connection, which is safe because grading is idempotent.

        Raises:
            ServiceUnavailable: no grade within `timeout_s`.
            ServiceRefused: the request is wrong.
        """
        why = "timed out before the first try"
        body = GradeRequest(cycle=cycle, split=split, rows=tuple(rows)).model_dump(mode="json")
        deadline = time.monotonic() + timeout_s
        async with httpx.AsyncClient(trust_env=False) as http:
            for attempt in range(10_000):
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                try:
                    target = f"{self.url}/v1/grade"
                    response = _checked(await http.post(target, json=body, headers=self._headers, timeout=left))
                    return _read(GradeResponse, response)
                except (httpx.TransportError, ServiceUnavailable, WrongToken) as error:
                    if self._moved():
                        continue
                    if isinstance(error, WrongToken):
                        raise
                    why = str(error) or type(error).__name__
                    self._on_wait(f"grading again: {why}")
                    await asyncio.sleep(min(RETRY_S[min(attempt, len(RETRY_S) - 1)], max(0.0, left)))
        raise ServiceUnavailable(f"cycle {cycle}: {len(rows)} answers not graded within {timeout_s:g} s: {why}")


def _read(model: type[M], response: httpx.Response) -> M:
    """A reply as its model.

    Raises:
        ServiceRefused: it has another shape.
    """
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        first = error.errors()[0]
        raise ServiceRefused(
            f"{response.request.url} answered with another shape: {'.'.join(map(str, first['loc']))}: {first['msg']}",
            "Client and service must be of one rri version",
        ) from None


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        return response
    where = f"{response.request.method} {response.request.url}"
    if response.status_code in (502, 503, 504, 429):
        raise ServiceUnavailable(f"{where}: {_problem(response)}")
    if response.status_code == httpx.codes.UNAUTHORIZED:
        raise WrongToken(f"{where}: the token is wrong", "Use the token in service.json or RRI_SERVICE_TOKEN")
    raise ServiceRefused(f"{where}: HTTP {response.status_code}: {_problem(response)}")


def write_address(run: Path, address: ServiceAddress) -> None:
    """Write SERVICE_FILE atomically, readable by its owner alone."""
    path = run / SERVICE_FILE
    scratch = path.with_suffix(".tmp")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(address.model_dump(), file)
    os.replace(scratch, path)
