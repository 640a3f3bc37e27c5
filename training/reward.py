"""The one reward function: this rank's answers go to the service, scores or None come back.

None means unscored. It is left out of the group's baseline and gets no advantage; it is never a zero.
"""

import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Protocol

from rri.errors import ServiceError, ServiceRefused
from rri.wire import GradedRow, GradeResponse, Row
from training.metrics import grade_metrics
from training.peers import Peers
from training.reasoning import NO_REASONING, Reasoning, Visible

__all__ = ["Grades", "RewardFunction", "answer_row", "rows_of", "rubric_reward"]

RewardFunction = Callable[..., Coroutine[Any, Any, list[float | None]]]


class Grades(Protocol):
    """What the reward needs of `ServiceClient`."""

    async def grade(self, cycle: int, rows: Sequence[Row], *, timeout_s: float) -> GradeResponse: ...


class _Unscored(logging.Filter):
    """Drops TRL's advice to return a reward for every row; the share of unscored rows is a metric here."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("All reward functions returned None")


def rubric_reward(
    client: Grades,
    *,
    tasks_per_cycle: int,
    rollouts_per_task: int,
    rank: int,
    eos_token_ids: Collection[int],
    timeout_s: float,
    peers: Peers,
    reasoning: Reasoning = NO_REASONING,
    tools: bool = False,
) -> RewardFunction:
    """Build the reward function of one rank.

    TRL gives rank r the r-th slice of the generation batch, so a group may span two ranks. A row's number within its
    group follows from the rank's offset.

    Args:
        client: the service.
        tasks_per_cycle: positions of one generation batch.
        rollouts_per_task: answers of one group.
        rank: this process among all.
        eos_token_ids: tokens that end an answer; one that ends otherwise was cut at the token limit.
        timeout_s: how long one request may take, retries included.
        peers: the other ranks, which stop together with this one.
        reasoning: what the model thinks aloud, which is never judged.
        tools: whether the solver has tools, whose use is then counted.

    Returns:
        An async function for `GRPOTrainer(reward_funcs=...)`. It raises a ServiceError on every rank alike.
    """
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(_Unscored())

    async def rubric(
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        position: Sequence[int],
        log_metric: Callable[[str, float], None],
        turns: Sequence[Any] = (),
        **_columns: Any,
    ) -> list[float | None]:
        completions = turns or completions  # with tools, TRL has all turns of a rollout as one text
        rows = rows_of(
            completions,
            completion_ids,
            position,
            first=rank * len(position),
            rollouts_per_task=rollouts_per_task,
            eos_token_ids=eos_token_ids,
            reasoning=reasoning,
        )
        graded, seconds = await _together(client, position[0] // tasks_per_cycle, rows, timeout_s, peers)
        figures = grade_metrics(rows, graded) | (_tool_figures(completions) if tools else {})
        log_metric("grade/service_seconds", seconds)
        for name, value in ((name, value) for name, values in figures.items() for value in values):
            log_metric(f"grade/{name}", value)
        return [row.score for row in graded]

    return rubric


async def _together(
    client: Grades, cycle: int, rows: Sequence[Row], timeout_s: float, peers: Peers
) -> tuple[list[GradedRow], float]:
    """Grades in the order of `rows`, and the service's seconds, once every rank has its own.

    Raises:
        ServiceError: what any rank met.
    """
    graded: list[GradedRow] = []
    seconds, failure = 0.0, None
    try:
        response = await client.grade(cycle, rows, timeout_s=timeout_s)
        graded, seconds = _match(rows, response.rows), response.seconds
    except ServiceError as error:
        failure = error
    peers.fail_together(failure)
    return graded, seconds


def _tool_figures(completions: Sequence[Any]) -> dict[str, list[float]]:
    return {
        "tool_calls": [float(_tool_calls(completion)) for completion in completions],
        "tool_errors": [float(bool(m.get("failed"))) for c in completions for m in _results(c)],
    }


def rows_of(
    completions: Sequence[Any],
    completion_ids: Sequence[Sequence[int]],
    positions: Sequence[int],
    *,
    first: int,
    rollouts_per_task: int,
    eos_token_ids: Collection[int],
    reasoning: Reasoning = NO_REASONING,
) -> list[Row]:
    """This rank's answers as rows; `first` is the number of its first answer within the generation batch.

    An answer is finished when it ended by itself and its reasoning was closed (METHOD 6).

    Raises:
        ServiceRefused: the positions are not laid out in whole groups, so a row number would be wrong.
    """
    rows = [
        answer_row(
            completion,
            ids,
            position,
            (first + index) % rollouts_per_task,
            eos_token_ids=eos_token_ids,
            reasoning=reasoning,
        )
        for index, (completion, ids, position) in enumerate(zip(completions, completion_ids, positions, strict=True))
    ]
    expected = [positions[0] + (first + i) // rollouts_per_task - first // rollouts_per_task for i in range(len(rows))]
    if expected != list(positions):
        raise ServiceRefused(
            f"positions {list(positions)} do not come in groups of {rollouts_per_task} from answer {first}",
            "Leave the batch settings of GRPO to the trainer",
        )
    return rows


def answer_row(
    completion: Any,
    ids: Sequence[int],
    position: int,
    row: int,
    *,
    eos_token_ids: Collection[int],
    reasoning: Reasoning = NO_REASONING,
) -> Row:
    """One answer as it is sent for grading: the text that is judged, and whether it is finished.

    Args:
        completion: the messages of its turns, or a plain text.
        ids: its tokens.
        position, row: its place.
        eos_token_ids: tokens that end an answer.
        reasoning: what the model thinks aloud, which is never judged.
    """
    answer = _visible(completion, reasoning)
    finished = answer.closed and bool(ids) and ids[-1] in eos_token_ids
    return Row(position=position, row=row, answer=answer.text, finished=finished)


def _visible(completion: Any, reasoning: Reasoning) -> Visible:
    """What is judged: of the last assistant turn, or of a plain text. A turn that calls a tool is no answer."""
    if isinstance(completion, str):
        return reasoning.visible(completion)
    turns = [message for message in completion if message["role"] == "assistant"]
    if turns and turns[-1].get("tool_calls"):
        return Visible("", closed=False)
    return reasoning.visible_of(turns[-1]) if turns else Visible("", closed=True)


def _tool_calls(completion: Any) -> int:
    """How often tools were called in a rollout."""
    return sum(len(message.get("tool_calls") or ()) for message in completion if message["role"] == "assistant")


def _results(completion: Any) -> list[Any]:
    """The messages in which tools answered."""
    return [message for message in completion if message["role"] == "tool"]


def _match(rows: Sequence[Row], graded: Sequence[GradedRow]) -> list[GradedRow]:
    """The grades in the order of `rows`.

    Raises:
        ServiceRefused: a row is missing; taking it for unscored would hide a fault.
    """
    by_key = {(row.position, row.row): row for row in graded}
    missing = [(row.position, row.row) for row in rows if (row.position, row.row) not in by_key]
    if missing:
        raise ServiceRefused(
            f"the service graded {len(rows) - len(missing)} of {len(rows)} answers; (position, row) missing: "
            f"{missing[:5]}",
            "Trainer and service must be of one version",
        )
    return [by_key[row.position, row.row] for row in rows]
