"""The service's HTTP interface: a thin shell over one open run."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from rri.client import POLL_S
from rri.errors import RriError, ServiceRefused, ServiceUnavailable
from rri.service.metrics import CONTENT_TYPE, metrics_text
from rri.service.run import OpenRun
from rri.wire import (
    GradeRequest,
    GradeResponse,
    Health,
    ReportRequest,
    ReportResponse,
    ResumeRequest,
    RunInfo,
    SearchRequest,
    SearchResponse,
    ServedTask,
    ValidationSet,
    Waiting,
)

__all__ = ["make_app"]

CONFLICT, UNPROCESSABLE, UNAVAILABLE = 409, 422, 503


def make_app(run: OpenRun, token: str) -> FastAPI:
    """The application. Every path but /v1/health asks for the token when there is one."""
    app = FastAPI(title="rri service", openapi_url="/v1/openapi.json", docs_url="/v1/docs", redoc_url=None)
    expected = f"Bearer {token}".encode()

    @app.middleware("http")
    async def check_token(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        given = request.headers.get("authorization", "").encode()
        if token and request.url.path != "/v1/health" and not hmac.compare_digest(given, expected):
            return JSONResponse({"detail": "missing or wrong token"}, 401)
        return await call_next(request)

    _explain_errors(app, run)

    @app.get("/v1/health")
    async def health() -> Health:
        return run.health

    @app.get("/v1/run")
    async def info() -> RunInfo:
        return run.info()

    @app.get("/v1/stats")
    async def stats() -> dict[str, Any]:
        return run.stats()

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(metrics_text(run.stats()), media_type=CONTENT_TYPE)

    _trainer_routes(app, run)
    return app


def _trainer_routes(app: FastAPI, run: OpenRun) -> None:
    """What trainers ask for."""

    def closed() -> Response | None:
        """An answer for work that the run cannot take now: gone for good, or try later."""
        health = run.health
        if health.status in ("ok", "paused"):
            # While an endpoint is away, tasks are served and grading waits for it.
            return None
        status = CONFLICT if health.status == "failed" else UNAVAILABLE
        return JSONResponse({"detail": f"the run is {health.status}: {health.reason}"}, status)

    @app.get("/v1/served/{position}", response_model=ServedTask | Waiting)
    async def served(position: int) -> Any:
        if answer := closed():
            return answer
        found = await run.served(position, POLL_S)
        if answer := closed():
            return answer
        return JSONResponse(found.model_dump(), 202) if isinstance(found, Waiting) else found

    @app.post("/v1/grade", response_model=GradeResponse)
    async def grade(request: GradeRequest) -> Any:
        return closed() or await run.grade(request)

    @app.get("/v1/validation", response_model=ValidationSet)
    async def validation() -> Any:
        return closed() or run.validation.served()

    @app.post("/v1/search", response_model=SearchResponse)
    async def search(request: SearchRequest) -> Any:
        if answer := closed():
            return answer
        with run.failing():
            return await run.search.search(request)

    @app.post("/v1/report", response_model=ReportResponse)
    async def report(request: ReportRequest) -> Any:
        return closed() or await run.report(request)

    @app.post("/v1/resume")
    async def resume(request: ResumeRequest) -> dict[str, int]:
        return {"superseded": await run.resume(request.cycle)}


def _explain_errors(app: FastAPI, run: OpenRun) -> None:
    """Errors as JSON: 422 for a wrong request, 503 for one to try again, 409 for what has failed the run."""

    @app.exception_handler(RriError)
    async def ours(_: Request, error: RriError) -> Response:
        if isinstance(error, ServiceRefused):
            return JSONResponse({"detail": str(error)}, UNPROCESSABLE)
        status = UNAVAILABLE if isinstance(error, ServiceUnavailable) else CONFLICT
        return JSONResponse({"detail": str(error)}, status)

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        run.fail(error)
        return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, CONFLICT)
