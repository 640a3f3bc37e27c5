"""The one reward function: this rank's answers go to the service, scores or None come back.

None means unscored. It is left out of the group's baseline and gets no advantage; it is never a zero.
"""

import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from statistics import fmean, pstdev
from typing import Any, Protocol

from rri.errors import ServiceRefused
from rri.wire import GradedRow, GradeResponse, Row

__all__ = ["Grades", "RewardFunction", "rows_of", "rubric_reward"]

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
) -> RewardFunction:
    """Build the reward function of one rank.

    TRL gives rank r the r-th contiguous slice of the generation batch, so a group may span two ranks; the
    number of a row within its group follows from the rank's offset and is the same however ranks are cut.

    Args:
        client: the service.
        tasks_per_cycle: positions of one generation batch.
        rollouts_per_task: answers of one group.
        rank: this process among all.
        eos_token_ids: tokens that end an answer; one that ends otherwise was cut at the token limit.
        timeout_s: how long one request may take, retries included.

    Returns:
        An async function for `GRPOTrainer(reward_funcs=...)`. It raises ServiceUnavailable when no grade
        comes in time and ServiceRefused when a reply does not match the rows sent.
    """
    logging.getLogger("trl.trainer.grpo_trainer").addFilter(_Unscored())

    async def rubric(
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        position: Sequence[int],
        log_metric: Callable[[str, float], None],
        **_columns: Any,
    ) -> list[float | None]:
        rows = rows_of(
            completions,
            completion_ids,
            position,
            first=rank * len(position),
            rollouts_per_task=rollouts_per_task,
            eos_token_ids=eos_token_ids,
        )
        cycle = position[0] // tasks_per_cycle
        response = await client.grade(cycle, rows, timeout_s=timeout_s)
        graded = _match(rows, response.rows)
        for name, value in _metrics(rows, graded).items():
            log_metric(f"grade/{name}", value)
        log_metric("grade/service_seconds", response.seconds)
        return [row.score for row in graded]

    return rubric


def rows_of(
    completions: Sequence[Any],
    completion_ids: Sequence[Sequence[int]],
    positions: Sequence[int],
    *,
    first: int,
    rollouts_per_task: int,
    eos_token_ids: Collection[int],
) -> list[Row]:
    """This rank's answers as rows; `first` is the number of its first answer within the generation batch.

    Raises:
        ServiceRefused: the positions are not laid out in whole groups, so a row number would be wrong.
    """
    rows = [
        Row(
            position=position,
            row=(first + index) % rollouts_per_task,
            answer=_text(completion),
            finished=bool(ids) and ids[-1] in eos_token_ids,
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


def _text(completion: Any) -> str:
    """The answer: the last assistant turn, or the plain text of a prompt that is no chat."""
    if isinstance(completion, str):
        return completion
    turns = [message.get("content") or "" for message in completion if message["role"] == "assistant"]
    return str(turns[-1]) if turns else ""


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


def _metrics(rows: Sequence[Row], graded: Sequence[GradedRow]) -> dict[str, float]:
    """Figures of this rank's rows; TRL averages over the ranks that have a figure, so absent beats NaN."""
    scores = [row.score for row in graded if row.score is not None]
    unknown = sum(row.unknown for row in graded)
    verdicts = unknown + sum(row.met + row.unmet for row in graded)
    by_position: dict[int, list[float]] = {}
    for row in graded:
        if row.score is not None:
            by_position.setdefault(row.position, []).append(row.score)
    compared = [group for group in by_position.values() if len(group) > 1]
    figures = {
        "unscored_share": 1 - len(scores) / len(graded),
        "truncated_share": fmean(not row.finished for row in rows),
        "answer_chars": fmean(len(row.answer) for row in rows),
    }
    if scores:
        figures |= {"score_mean": fmean(scores), "score_std": pstdev(scores)}
    if verdicts:
        figures["unknown_share"] = unknown / verdicts
    if compared:
        figures["zero_variance_share"] = fmean(max(group) == min(group) for group in compared)
    return figures
