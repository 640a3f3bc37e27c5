"""What goes over the wire between the service and its clients (DESIGN, seam 2)."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from rri.types import Message, Split

__all__ = [
    "GradeRequest",
    "GradeResponse",
    "GradedRow",
    "Health",
    "ReportRequest",
    "ReportResponse",
    "ResumeRequest",
    "Row",
    "RunInfo",
    "ServedTask",
    "ServiceAddress",
    "Waiting",
]


class Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ServiceAddress(Wire):
    """Content of SERVICE_FILE."""

    url: str
    token: str
    pid: int


class Health(Wire):
    """`ok` serves and grades; `paused` serves, and grading waits for an endpoint; `failed` does neither."""

    status: Literal["starting", "ok", "paused", "failed", "stopping"]
    reason: str = ""


class RunInfo(Wire):
    """What the trainer must know of the run, resolved by the service."""

    run_id: str
    seed: int
    base_model: str = Field(description="folder or name that transformers loads")
    cycles: int = Field(description="generation batches to train on, at least 1")
    tasks_per_cycle: int = Field(description="positions of one generation batch (64 in the paper)")
    tasks_per_update: int = Field(
        description="tasks of one optimizer update (16 in the paper); divides tasks_per_cycle"
    )
    rollouts_per_task: int
    save_every_cycles: int
    judge_truncated: bool = Field(description="whether answers cut at the token limit are sent as gradable")
    grade_timeout_s: float
    serve_timeout_s: float
    solver: dict[str, Any] = Field(description="GRPOConfig fields by name")


class ServedTask(Wire):
    """The task at one position, the same for every rank and after every resume. No rubric in it."""

    position: int = Field(ge=0)
    task_id: str
    version: int
    prompt: tuple[Message, ...]


class Waiting(Wire):
    """The pool has no task for this position yet."""

    waiting: str


class Row(Wire):
    """One rollout: `row` is its number within the group of its position, `finished` whether it ended by itself."""

    position: int = Field(ge=0)
    row: int = Field(ge=0)
    answer: str
    finished: bool = True


class GradeRequest(Wire):
    """Rollouts of one rank in one generation batch. Sending the same rows again returns the same scores."""

    cycle: int = Field(ge=0)
    split: Split = "train"
    rows: tuple[Row, ...] = Field(min_length=1)


class GradedRow(Wire):
    """`score` None means unscored, which is not zero; `unscored` then says why."""

    position: int
    row: int
    task_id: str
    version: int
    score: float | None
    raw: float | None
    unscored: str = ""
    met: int = 0
    unmet: int = 0
    unknown: int = 0


class GradeResponse(Wire):
    """In the order of the request's rows. `seconds` is the service's own time for the request."""

    rows: tuple[GradedRow, ...]
    seconds: float


class ResumeRequest(Wire):
    """The trainer (re)starts at this cycle: later graded rows are superseded, kept, and out of every window."""

    cycle: int = Field(ge=0)


class ReportRequest(Wire):
    """The trainer has finished a cycle: its last update is `step`. `metrics` are its latest logged figures."""

    cycle: int = Field(ge=0)
    step: int = Field(ge=0)
    metrics: dict[str, float] = Field(default_factory=dict)


class ReportResponse(Wire):
    """The report is kept. `backlog` cycles wait for the loop's work, this one included."""

    report: int
    backlog: int
