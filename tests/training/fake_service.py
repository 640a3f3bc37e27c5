"""A loopback service that speaks the contract of rri/client.py, grades by rule, and records every request."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rri.types import Message
from rri.wire import (
    GradedRow,
    GradeRequest,
    GradeResponse,
    ReportRequest,
    ReportResponse,
    ResumeRequest,
    Row,
    RunInfo,
    SearchRequest,
    SearchResponse,
    ServedTask,
    ValidationSet,
    ValidationTask,
    Waiting,
)

Scorer = Callable[[Row], float | None]


def by_length(row: Row) -> float | None:
    """Depends on the answer, so that scores within a group differ."""
    return len(row.answer) % 7 / 7


@dataclass(frozen=True)
class Request:
    """One request as it came in; `peer` is the port of the connection, one per client process."""

    method: str
    path: str
    peer: int
    body: Any = None


@dataclass
class FakeService:
    """Start with `with service:`.

    `refuse` maps a path to the number of leading 503 replies (-1: all), `waits` a position to the number of
    202 replies; `lost` rows are left out of grades; where `on_grade` gives False the grade is refused (503). Tasks at
    the positions in `patched` count as patched.
    """

    info: RunInfo
    score: Scorer = by_length
    refuse: dict[str, int] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)
    lost: set[tuple[int, int]] = field(default_factory=set)
    patched: set[int] = field(default_factory=set)
    on_grade: Callable[[GradeRequest], bool] = lambda request: True
    held_out: int = 0
    """Validation tasks, each answered twice. A round counts as complete once every one of its rows is graded."""
    found: str = ""
    """The brief that every search gets."""
    alarm: str = ""
    requests: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> "FakeService":
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    # -- what was asked ------------------------------------------------------

    @property
    def resumed(self) -> list[int]:
        """Cycles announced, in order."""
        return [r.body["cycle"] for r in self.requests if r.path == "/v1/resume"]

    @property
    def reported(self) -> list[tuple[int, int]]:
        """(cycle, step) of the reports, in order."""
        return [(r.body["cycle"], r.body["step"]) for r in self.requests if r.path == "/v1/report"]

    @property
    def queries(self) -> list[str]:
        """What was searched for, in order."""
        return [r.body["query"] for r in self.requests if r.path == "/v1/search"]

    def rounds(self) -> dict[int, dict[tuple[int, int], Row]]:
        """Cycle -> validation rows by place, as they were sent."""
        rounds: dict[int, dict[tuple[int, int], Row]] = {}
        for request in self.graded_requests:
            if request.split == "validation":
                rounds.setdefault(request.cycle, {}).update({(r.position, r.row): r for r in request.rows})
        return rounds

    @property
    def positions(self) -> dict[int, list[int]]:
        """Positions asked for, in order, by client process."""
        asked: dict[int, list[int]] = {}
        for request in self.requests:
            if request.path.startswith("/v1/served/"):
                asked.setdefault(request.peer, []).append(int(request.path.rsplit("/", 1)[1]))
        return asked

    @property
    def grades(self) -> list[GradeRequest]:
        """Training rows that were sent."""
        return [request for request in self.graded_requests if request.split == "train"]

    @property
    def graded_requests(self) -> list[GradeRequest]:
        return [GradeRequest.model_validate(r.body) for r in self.requests if r.path == "/v1/grade"]

    # -- answers -------------------------------------------------------------

    def answer(self, request: Request) -> tuple[int, Any]:
        with self.lock:
            self.requests.append(request)
            left = next((n for path, n in self.refuse.items() if request.path.startswith(path) and n), 0)
            if left:
                for path in self.refuse:
                    if request.path.startswith(path):
                        self.refuse[path] = left - 1 if left > 0 else left
                return 503, {"detail": "paused"}
        if request.path == "/v1/run":
            return 200, self.info.model_dump()
        if request.path.startswith("/v1/served/"):
            return self._served(int(request.path.rsplit("/", 1)[1]))
        if request.path == "/v1/resume":
            ResumeRequest.model_validate(request.body)
            return 200, {}
        if request.path == "/v1/report":
            ReportRequest.model_validate(request.body)
            return 200, ReportResponse(report=1, backlog=1, alarm=self.alarm).model_dump()
        if request.path == "/v1/validation":
            return 200, self.validation().model_dump()
        if request.path == "/v1/search":
            SearchRequest.model_validate(request.body)
            return 200, SearchResponse(brief=self.found).model_dump()
        if request.path == "/v1/grade":
            return self._grade(GradeRequest.model_validate(request.body))
        return 404, {"detail": f"no {request.path}"}

    def validation(self) -> ValidationSet:
        system = Message(role="system", content="be brief")
        tasks = tuple(
            ValidationTask(task_id=f"v{i}", prompt=(system, Message(role="user", content=f"held out {i}")))
            for i in range(self.held_out)
        )
        validated = tuple(cycle for cycle, rows in self.rounds().items() if len(rows) == 2 * self.held_out)
        return ValidationSet(rollouts_per_task=2, tasks=tasks, validated=validated)

    def _served(self, position: int) -> tuple[int, Any]:
        if position >= self.info.cycles * self.info.tasks_per_cycle:
            return 409, {"detail": f"position {position} is past the end"}
        with self.lock:
            if self.waits.get(position, 0) > 0:
                self.waits[position] -= 1
                return 202, Waiting(waiting=f"pool is thin at {position}").model_dump()
        prompt = (Message(role="system", content="be brief"), Message(role="user", content=f"task {position}"))
        return 200, ServedTask(position=position, task_id=f"t{position}", version=1, prompt=prompt).model_dump()

    def _grade(self, request: GradeRequest) -> tuple[int, Any]:
        if not self.on_grade(request):
            return 503, {"detail": "paused"}
        rows = tuple(self.graded(row) for row in request.rows if (row.position, row.row) not in self.lost)
        return 200, GradeResponse(rows=rows, seconds=0.5).model_dump()

    def graded(self, row: Row) -> GradedRow:
        score = self.score(row)
        unscored = "judge away" if score is None else ""
        return GradedRow(
            position=row.position, row=row.row, task_id=f"t{row.position}", version=1, score=score, raw=score,
            unscored=unscored, met=1, unmet=1, unknown=int(score is None),
            patched=row.position in self.patched,
        )  # fmt: skip


def _handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self, method: str) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, reply = service.answer(Request(method, self.path, self.client_address[1], body))
            content = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            self._reply("GET")

        def do_POST(self) -> None:
            self._reply("POST")

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
