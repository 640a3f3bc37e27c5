"""What goes over the wire between the service and its clients (DESIGN, seam 2)."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from rri.types import Message, Split

__all__ = [
    "Generation",
    "GradeRequest",
    "GradeResponse",
    "GradedRow",
    "Health",
    "LoraSettings",
    "ReasoningMarkers",
    "ReportRequest",
    "ReportResponse",
    "ResumeRequest",
    "Row",
    "RunInfo",
    "SearchRequest",
    "SearchResponse",
    "ServedTask",
    "ServiceAddress",
    "ToolSettings",
    "ValidationSet",
    "ValidationTask",
    "Waiting",
]


Generation = Literal["transformers", "vllm-colocate", "vllm-server"]
"""What writes the rollouts: the model in training itself, vLLM on the same GPUs, or a vLLM server."""


class Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LoraSettings(Wire):
    """Low-rank adapters in place of whole weights."""

    r: int = Field(default=32, ge=1, description="rank of the adapters")
    alpha: int = Field(default=64, ge=1, description="the delta is scaled by alpha / r")
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] = Field(default=(), description="names of modules; every linear layer when empty")


class ReasoningMarkers(Wire):
    """What opens and closes a model's reasoning channel in its text."""

    open: str = Field(min_length=1)
    close: str = Field(min_length=1)


def _no_web_search(on: bool) -> bool:
    if on:
        raise ValueError("web search has no provider in this version; leave it off and search the knowledge base")
    return on


class ToolSettings(Wire):
    """How the solver searches while it answers (METHOD 6). A search brings one brief, which the summarizer writes."""

    max_calls: int = Field(default=2, ge=1, description="calls a rollout; a further one gets an error as its result")
    passages: int = Field(default=5, ge=1, le=50, description="passages of one search, from which its brief is written")
    brief_words: int = Field(default=400, ge=1, description="longest brief; the rest is cut off")
    result_chars: int = Field(default=6000, ge=1, description="longest text of a result; the rest is cut off")
    answer_tokens: int = Field(
        default=1536,
        ge=1,
        description="left for the answer, at most half of max_completion_tokens; a result that would leave fewer is "
        "withheld",
    )
    timeout_s: float = Field(default=60.0, gt=0, description="of one search; a slower one has failed")
    web_search: Annotated[bool, AfterValidator(_no_web_search)] = False


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
    max_prompt_tokens: int | None = Field(default=None, description="longest prompt that is served")
    generation: Generation = "transformers"
    lora: LoraSettings | None = Field(default=None, description="None trains all weights")
    reasoning: tuple[ReasoningMarkers, ...] | None = Field(
        default=None, description="None takes the markers that the model's own vocabulary and template name"
    )
    retrieval: bool = Field(default=False, description="the solver searches with tools while it answers")
    tools: ToolSettings = Field(default=ToolSettings(), description="how it searches, where `retrieval` is true")
    validate_every_cycles: int = Field(default=0, ge=0, description="0: the run has no validation tasks")


class ServedTask(Wire):
    """The task at one position, the same for every rank and after every resume. No rubric in it."""

    position: int = Field(ge=0)
    task_id: str
    version: int
    prompt: tuple[Message, ...]


class ValidationTask(Wire):
    """A task that is never trained on. No rubric in it; its place in the list is its position."""

    task_id: str
    prompt: tuple[Message, ...]


class ValidationSet(Wire):
    """What is answered in every round. `validated` are the cycles whose rounds are complete."""

    rollouts_per_task: int
    tasks: tuple[ValidationTask, ...]
    validated: tuple[int, ...] = ()


class SearchRequest(Wire):
    """A query to the run's passages."""

    query: str = Field(min_length=1)
    passages: int = Field(ge=1, le=50, description="the nearest ones, from which the brief is written")


class SearchResponse(Wire):
    """What the run's passages say about a query, in one brief; empty where no passage was found."""

    brief: str


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
    """Rollouts of one rank in one generation batch. Sending the same rows again returns the same scores.

    In the validation split `cycle` is the one after which the round runs, and a position is a place in `ValidationSet`.
    """

    cycle: int = Field(ge=0)
    split: Split = "train"
    rows: tuple[Row, ...] = Field(min_length=1)


class GradedRow(Wire):
    """`score` None means unscored, which is not zero; `unscored` then says why.

    `patched`: the version was made by a patch of the loop, after the task's admission.
    """

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
    patched: bool = False


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
    """The report is kept. `backlog` cycles wait for the loop's work, this one included.

    `alarm` says that training and validation part ways; empty while they do not.
    """

    report: int
    backlog: int
    alarm: str = ""
