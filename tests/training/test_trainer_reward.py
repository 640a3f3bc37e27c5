"""The reward function: row numbers across ranks, null scores, reasoning, and replies that do not match."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rri.client import ServiceClient
from rri.errors import ServiceRefused, ServiceUnavailable
from rri.wire import GradedRow, GradeResponse, ReasoningMarkers, Row, RunInfo
from tests.training.fake_service import FakeService
from training.peers import Peers
from training.reasoning import Reasoning
from training.reward import rubric_reward

EOS = 1


class Grader:
    """Grades with a list of scores, in order; drops the rows in `lost`."""

    def __init__(self, scores: Sequence[float | None], lost: Sequence[int] = ()) -> None:
        self.scores, self.lost = scores, lost
        self.seen: list[tuple[int, list[Row]]] = []

    async def grade(self, cycle: int, rows: Sequence[Row], *, timeout_s: float) -> GradeResponse:
        self.seen.append((cycle, list(rows)))
        graded = [
            GradedRow(
                position=row.position, row=row.row, task_id="t", version=1, score=score, raw=score, met=2, unmet=1,
                unknown=int(score is None),
            )
            for row, score in zip(rows, self.scores, strict=True)
        ]  # fmt: skip
        kept = [row for index, row in enumerate(graded) if index not in self.lost]
        return GradeResponse(rows=tuple(reversed(kept)), seconds=1.5)


def call(
    client: Any,
    position: Sequence[int],
    *,
    rank: int = 0,
    answers: Sequence[Any] = (),
    timeout_s: float = 5,
    whole: bool = False,
    **options: Any,
) -> tuple[list[float | None], dict[str, list[float]]]:
    """Scores and logged values for these rows; every answer but the first is cut, unless they are `whole`."""
    logged: dict[str, list[float]] = {}
    reward = rubric_reward(
        client,
        tasks_per_cycle=3,
        rollouts_per_task=4,
        rank=rank,
        eos_token_ids={EOS},
        timeout_s=timeout_s,
        peers=Peers(1.0),
        **options,
    )
    assert asyncio.iscoroutinefunction(reward), "TRL asks"
    answers = answers or [[{"role": "assistant", "content": "x" * index}] for index in range(len(position))]
    scores = asyncio.run(
        reward(
            prompts=[[]] * len(position),
            completions=answers,
            completion_ids=[[5, EOS] if index == 0 or whole else [5, 6] for index in range(len(position))],
            position=position,
            task_id=["t"] * len(position),
            log_metric=lambda name, value: logged.setdefault(name, []).append(value),
        )
    )
    return scores, logged


def test_groups_that_span_ranks_get_distinct_rows() -> None:
    positions = [[3, 3, 3, 3, 4, 4], [4, 4, 5, 5, 5, 5]]
    keys = []
    for rank, position in enumerate(positions):
        grader = Grader([0.5] * 6)
        call(grader, position, rank=rank)
        ((cycle, rows),) = grader.seen
        assert cycle == 1
        keys += [(row.position, row.row) for row in rows]
    assert keys == [(p, r) for p in (3, 4, 5) for r in range(4)]


def test_null_stays_null_and_figures_leave_it_out() -> None:
    scores, logged = call(Grader([1.0, None, 0.0, 0.5, None, None, None, 0.25]), [0] * 4 + [1] * 4)
    assert scores == [1.0, None, 0.0, 0.5, None, None, None, 0.25]
    assert logged["grade/score_mean"] == [1.0, 0.0, 0.5, 0.25], "a value a row: TRL averages over the ranks' rows"
    assert logged["grade/unscored_share"] == [0, 1, 0, 0, 1, 1, 1, 0]
    assert logged["grade/service_seconds"] == [1.5]
    assert "grade/tool_calls" not in logged


def test_all_null_logs_no_mean() -> None:
    scores, logged = call(Grader([None] * 4), [0] * 4)
    assert scores == [None] * 4
    assert logged["grade/unscored_share"] == [1.0] * 4
    assert not {"grade/score_mean", "grade/score_std", "grade/zero_variance_share"} & logged.keys()


def test_tool_calls_are_counted_where_there_are_tools() -> None:
    search = {"type": "function", "function": {"name": "search", "arguments": {"query": "q"}}}
    rollout = [
        {"role": "assistant", "content": "", "tool_calls": [search, search]},
        {"role": "tool", "name": "search", "content": "r"},
        {"role": "assistant", "content": "", "tool_calls": [search]},
        {"role": "tool", "name": "search", "content": "r"},
        {"role": "assistant", "content": "a"},
    ]
    none = [{"role": "assistant", "content": "b"}]
    _, logged = call(Grader([0.0] * 4), [0] * 4, answers=[rollout, none, none, none], tools=True)
    assert logged["grade/tool_calls"] == [3, 0, 0, 0]


def test_reasoning_is_not_sent_and_unclosed_reasoning_counts_as_unfinished() -> None:
    grader = Grader([0.0] * 4)
    texts = ["so</think>\n\none", "thinking on and on", "a</think>two<think>", "</think>"]
    answers = [[{"role": "assistant", "content": text}] for text in texts]
    think = ReasoningMarkers(open="<think>", close="</think>")
    call(grader, [0] * 4, answers=answers, whole=True, reasoning=Reasoning((think,), opened=think))
    rows = grader.seen[0][1]
    assert [(row.answer, row.finished) for row in rows] == [("one", True), ("", False), ("", False), ("", True)]


def test_finished_and_the_text_that_is_sent() -> None:
    grader = Grader([0.0] * 4)
    turns = [
        {"role": "assistant", "content": "call"},
        {"role": "tool", "content": "r"},
        {"role": "assistant", "content": "a"},
    ]
    call(grader, [0] * 4, answers=["plain", turns, [{"role": "assistant", "content": None}], []])
    rows = grader.seen[0][1]
    assert [(row.answer, row.finished) for row in rows] == [("plain", True), ("a", False), ("", False), ("", False)]


def test_a_missing_row_is_an_error() -> None:
    with pytest.raises(ServiceRefused, match=r"graded 3 of 4 answers.*\(0, 2\)"):
        call(Grader([0.0] * 4, lost=[2]), [0] * 4)


def test_positions_that_do_not_fit_the_groups_are_an_error() -> None:
    with pytest.raises(ServiceRefused, match="groups of 4"):
        call(Grader([0.0] * 4), [0, 0, 1, 1])


def test_over_http_and_when_the_service_stays_away(make_info: Callable[..., RunInfo]) -> None:
    with FakeService(make_info(), refuse={"/v1/grade": 1}) as service:
        client = ServiceClient(service.url)
        assert call(client, [0] * 4)[0] == [0.0, 1 / 7, 2 / 7, 3 / 7], "asked again after one 503"
        service.refuse["/v1/grade"] = -1
        with pytest.raises(ServiceUnavailable):
            call(client, [0] * 4, timeout_s=0.3)
        client.close()
