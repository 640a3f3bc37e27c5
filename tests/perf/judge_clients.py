"""Clients that run in this environment: `python -m tests.perf.judge_clients CLIENT URL ANSWERS`.

The last line is the JSON of `Meter.report`. Every client has its own defaults for faults, said beside it.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import dspy
from openai import AsyncOpenAI

from programs.grader import Grader
from programs.judge import judge_fields
from rri.heap import settle_heap
from rri.lm import Gateway, Ledger, ModelRequest, Reply, ReplyCache, output_spec, render, resolve_routes
from rri.store import Store
from rri.types import Criterion, Message, Rubric, Task
from signatures import JudgeCriterion
from tests.perf.judge_work import (
    CONCURRENCY,
    CRITERIA,
    DEADLINE_S,
    POINTS,
    QUESTION,
    VOTES,
    Judged,
    Meter,
    answer,
    by_vote,
)
from tests.rigs import scripted_config

__all__ = ["RUNNERS", "TimedGateway", "make_task", "open_judge"]

REASON_WORDS = 60
OUTCOMES = {"met": True, "unmet": False, "unknown": None}


def make_task() -> Task:
    criteria = tuple(Criterion(text=text, points=POINTS) for text in CRITERIA)
    return Task(task_id="t", conversation=(Message(role="user", content=QUESTION),), rubric=Rubric(criteria=criteria))


def fields(answers: int) -> list[dict[str, Any]]:
    """The judge's input values for every vote, those of a criterion one after another."""
    task = make_task()
    each = [judge_fields(task, answer(a), text, REASON_WORDS) for a in range(answers) for text in CRITERIA]
    return [values for values in each for _ in range(VOTES)]


def bodies(answers: int) -> list[dict[str, Any]]:
    """The request of every vote, as our judge would send it."""
    schema = output_spec(JudgeCriterion).response_format()
    return [
        {
            "model": "judge",
            "messages": render(JudgeCriterion, [], values),
            "max_tokens": 512,
            "temperature": 0.6,
            "response_format": schema,
        }
        for values in fields(answers)
    ]


def run_aiohttp(url: str, answers: int, meter: Meter) -> list[Judged]:
    """The floor: no schema check, no retry; aiohttp gives up after 300 s."""

    async def work() -> list[Judged]:
        payloads = bodies(answers)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:

            async def call(payload: dict[str, Any]) -> bool:
                async with session.post(f"{url}/chat/completions", json=payload) as reply:
                    reply.raise_for_status()
                    return bool(json.loads((await reply.json())["choices"][0]["message"]["content"])["met"])

            with meter:
                votes = await meter.spread([partial(call, payload) for payload in payloads])
            return by_vote(votes)

    return asyncio.run(work())


def run_openai(url: str, answers: int, meter: Meter) -> list[Judged]:
    """Its defaults: two retries for 429, 5xx and lost connections with pauses of 0.5 to 8 s; a call may take 600 s."""

    async def work() -> list[Judged]:
        payloads = bodies(answers)
        async with AsyncOpenAI(base_url=url, api_key="x") as client:

            async def call(payload: dict[str, Any]) -> bool:
                reply = await client.chat.completions.create(**payload)
                return bool(json.loads(reply.choices[0].message.content or "")["met"])

            with meter:
                votes = await meter.spread([partial(call, payload) for payload in payloads])
            return by_vote(votes)

    return asyncio.run(work())


def run_dspy(url: str, answers: int, meter: Meter) -> list[Judged]:
    """dspy as it comes: its own adapter, engine and pool. Its defaults: three retries for 429, 5xx and timeouts, none
    for a reply that does not parse. The cache is off, or the three votes would be one.
    """
    lm = dspy.LM("openai/judge", api_base=url, api_key="x", cache=False, temperature=0.6, max_tokens=512)
    dspy.configure(lm=lm, adapter=dspy.JSONAdapter(), disable_history=True)
    predict = dspy.Predict(JudgeCriterion)

    async def call(values: dict[str, Any]) -> bool:
        return bool((await predict.acall(**values)).met)

    async def work() -> list[Judged]:
        calls = [partial(call, values) for values in fields(answers)]
        with meter:
            votes = await meter.spread(calls)
        return by_vote(votes)

    return asyncio.run(work())


class TimedGateway(Gateway):
    """A gateway that knows its slowest call: waiting for a slot, all tries and pauses of one vote."""

    slowest_s = 0.0

    async def complete(self, request: ModelRequest) -> Reply:
        started = time.monotonic()
        try:
            return await super().complete(request)
        finally:
            self.slowest_s = max(self.slowest_s, time.monotonic() - started)


@contextmanager
def open_judge(url: str) -> Iterator[tuple[TimedGateway, Grader]]:
    """Our judge as a run has it: ledger, store, a settled heap, a vote cache that is cold.

    Up to five retries within the deadline of a vote, each try bounded to a third of that; a reply of another shape gets
    one fresh sample.
    """
    endpoint = {
        "concurrency": CONCURRENCY,
        "timeout_s": DEADLINE_S / 3,
        "deadline_s": DEADLINE_S,
        "retries": 5,
        "retry_wait_s": 0.05,
        "retry_wait_max_s": 1.0,
        "breaker_failures": 32,
    }
    config = scripted_config(url, endpoints={"main": endpoint})
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        cache = ReplyCache(Path(folder) / "votes")
        gateway = TimedGateway(resolve_routes(config), ledger=Ledger(config.budget), sink=store, cache=cache)
        settle_heap()
        try:
            yield gateway, Grader(gateway, "healthbench", config.grading)
        finally:
            gateway.close_sync()
            gateway.loop.close()
            store.close()


def run_rri(url: str, answers: int, meter: Meter) -> list[Judged]:
    """The grader, all answers of a step at once."""
    task = make_task()
    with open_judge(url) as (gateway, grader):
        calls = [partial(grader.grade, task, answer(a)) for a in range(answers)]

        async def work() -> list[Judged]:
            with meter:
                grades = await meter.spread(calls)
            return [
                Judged(OUTCOMES[verdict.outcome], [OUTCOMES[vote.outcome] for vote in verdict.votes])
                for grade in grades
                for verdict in (grade.verdicts if grade is not None else ())
            ]

        judged = gateway.loop.run(work())
        meter.extra = {"slowest_grade_s": meter.slowest_s}
        meter.slowest_s = gateway.slowest_s
    # An answer whose grading raised has none of its votes.
    missing = answers * len(CRITERIA) - len(judged)
    return [*judged, *[Judged(None, [None] * VOTES)] * missing]


RUNNERS: dict[str, Callable[[str, int, Meter], list[Judged]]] = {
    "aiohttp": run_aiohttp,
    "rri": run_rri,
    "openai": run_openai,
    "dspy": run_dspy,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=RUNNERS)
    parser.add_argument("url")
    parser.add_argument("answers", type=int)
    options = parser.parse_args()
    meter = Meter()
    print(meter.report(RUNNERS[options.client](options.url, options.answers, meter)))


if __name__ == "__main__":
    main()
