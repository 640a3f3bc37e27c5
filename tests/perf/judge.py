"""The judge at the size of one training step: `make bench-judge`.

Grades 512 answers of 2,000 characters on 4 criteria with 3 votes against a loopback server of fixed latency, and runs
the same number of calls through a bare aiohttp client (the floor), the openai client and plain dspy.Predict. Each
client runs in a process of its own; CPU is the client's. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ANSWERS, CRITERIA, VOTES, ANSWER_CHARS = 512, 4, 3, 2000
CONCURRENCY, LATENCY_S, DEADLINE_S = 256, 0.05, 10.0
CLIENTS = ("aiohttp", "rri", "openai", "dspy")


def make_task() -> Any:
    from rri.types import Criterion, Message, Rubric, Task

    criteria = tuple(
        Criterion(text=f"States the value of quantity number {i} exactly", points=8) for i in range(CRITERIA)
    )
    question = "What follows from the findings? " * 8
    return Task(task_id="t", conversation=(Message(role="user", content=question),), rubric=Rubric(criteria=criteria))


def answer(number: int) -> str:
    return (f"Answer {number}. " + "The quantity is stated here with its unit and its source. " * 50)[:ANSWER_CHARS]


def prompts() -> list[list[dict[str, str]]]:
    """One rendered prompt for every call, in order."""
    from programs.judge import judge_fields
    from rri.lm import render
    from signatures import JudgeCriterion

    task = make_task()
    return [
        render(JudgeCriterion, [], judge_fields(task, answer(a), criterion.text, 60))
        for a in range(ANSWERS)
        for criterion in task.rubric.criteria
    ]


async def spread(calls: list[Callable[[], Awaitable[Any]]]) -> list[Any]:
    from rri.aio import collect

    return await collect(calls, CONCURRENCY)


def body(messages: list[dict[str, str]]) -> dict[str, Any]:
    from rri.lm import output_spec
    from signatures import JudgeCriterion

    return {
        "model": "judge",
        "messages": messages,
        "max_tokens": 512,
        "temperature": 0.6,
        "response_format": output_spec(JudgeCriterion).response_format(),
    }


def run_aiohttp(url: str) -> tuple[int, float, float]:
    import aiohttp

    async def work() -> tuple[int, float, float]:
        bodies = [body(p) for p in prompts() for _ in range(VOTES)]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:

            async def call(payload: dict[str, Any]) -> Any:
                async with session.post(f"{url}/chat/completions", json=payload) as reply:
                    return json.loads((await reply.json())["choices"][0]["message"]["content"])

            cpu, wall = time.process_time(), time.monotonic()
            await spread([partial(call, b) for b in bodies])
            return len(bodies), time.process_time() - cpu, time.monotonic() - wall

    return asyncio.run(work())


def run_openai(url: str) -> tuple[int, float, float]:
    from openai import AsyncOpenAI

    async def work() -> tuple[int, float, float]:
        client = AsyncOpenAI(base_url=url, api_key="x", max_retries=0, timeout=DEADLINE_S * 6)
        bodies = [body(p) for p in prompts() for _ in range(VOTES)]

        async def call(payload: dict[str, Any]) -> Any:
            reply = await client.chat.completions.create(**payload)
            return json.loads(reply.choices[0].message.content or "")

        cpu, wall = time.process_time(), time.monotonic()
        await spread([partial(call, b) for b in bodies])
        return len(bodies), time.process_time() - cpu, time.monotonic() - wall

    return asyncio.run(work())


def run_dspy(url: str) -> tuple[int, float, float]:
    """dspy as it comes: its own adapter, LM and pool. A quarter of the calls is enough for a rate."""
    import dspy

    from programs.judge import judge_fields
    from signatures import JudgeCriterion

    task = make_task()
    dspy.configure(
        lm=dspy.LM(
            "openai/judge", api_base=url, api_key="x", cache=False, num_retries=0, temperature=0.6, max_tokens=512
        ),
        adapter=dspy.JSONAdapter(),
        disable_history=True,
    )
    predict = dspy.Predict(JudgeCriterion)

    async def work() -> tuple[int, float, float]:
        fields = [judge_fields(task, answer(a), c.text, 60) for a in range(ANSWERS // 4) for c in task.rubric.criteria]
        calls = [partial(predict.acall, **f) for f in fields for _ in range(VOTES)]
        cpu, wall = time.process_time(), time.monotonic()
        await spread(calls)
        return len(calls), time.process_time() - cpu, time.monotonic() - wall

    return asyncio.run(work())


def run_rri(url: str) -> tuple[int, float, float]:
    """The grader with ledger and store, all answers of a step at once."""
    from programs.grader import Grader
    from rri.lm import Gateway, resolve_routes
    from rri.store import Store
    from tests.rigs import scripted_config

    endpoint = {
        "concurrency": CONCURRENCY,
        "timeout_s": DEADLINE_S / 3,
        "deadline_s": DEADLINE_S,
        "retries": 5,
        "retry_wait_s": 0.05,
    }
    config = scripted_config(url, endpoints={"main": endpoint})
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        gateway = Gateway(resolve_routes(config), sink=store)
        grader = Grader(gateway, "healthbench")
        task = make_task()
        grades = [partial(grader.grade, task, answer(a)) for a in range(ANSWERS)]

        async def work() -> tuple[float, float, list[Any]]:
            cpu, wall = time.process_time(), time.monotonic()
            done = await spread(grades)
            return time.process_time() - cpu, time.monotonic() - wall, done

        cpu, wall, done = gateway.loop.run(work())
        verdicts = [v.outcome for g in done for v in g.verdicts]
        print(json.dumps({"wrong": verdicts.count("unmet"), "unknown": verdicts.count("unknown")}), file=sys.stderr)
        calls = gateway.ledger.total().calls
        gateway.close_sync()
        store.close()
    return calls, cpu, wall


RUNNERS = {"aiohttp": run_aiohttp, "openai": run_openai, "dspy": run_dspy, "rri": run_rri}


def one(client: str, url: str) -> None:
    calls, cpu, wall = RUNNERS[client](url)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {"calls": calls, "cpu_ms": 1000 * cpu / calls, "rate": calls / wall, "wall_s": wall, "peak_mb": peak}
        )
    )


def measure(client: str, faults: dict[str, float]) -> dict[str, Any]:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.perf.model_server", str(LATENCY_S), json.dumps(faults)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        command = [sys.executable, "-m", "tests.perf.judge", "--client", client, "--url", url]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})
        if done.returncode:
            raise SystemExit(f"{client} failed:\n{done.stderr[-2000:]}")
        extra = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        return {**json.loads(done.stdout.splitlines()[-1]), **(extra[-1] if extra else {})}
    finally:
        server.kill()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=CLIENTS)
    parser.add_argument("--url", default="")
    options = parser.parse_args()
    if options.client:
        one(options.client, options.url)
        return
    results = {client: measure(client, {}) for client in CLIENTS}
    faulty = measure("rri", {"busy": 0.05, "malformed": 0.02, "hang": 0.01})
    table = Table("client", "requests", "calls/s", "CPU ms/call", "wall s", "peak MB")
    for name, row in [*results.items(), ("rri, with faults", faulty)]:
        figures = (f"{row['rate']:,.0f}", f"{row['cpu_ms']:.2f}", f"{row['wall_s']:.1f}", f"{row['peak_mb']:.0f}")
        table.add_row(name, f"{row['calls']:,}", *figures)
    Console(width=100).print(table)
    ours = results["rri"]
    print(
        json.dumps(
            {
                "cpu_ratio_aiohttp": round(ours["cpu_ms"] / results["aiohttp"]["cpu_ms"], 2),
                "rate_ratio_dspy": round(ours["rate"] / results["dspy"]["rate"], 2),
                "calls_ratio_votes": round(ours["calls"] / (ANSWERS * CRITERIA * VOTES), 3),
                "wrong_under_faults": faulty["wrong"],
                "unknown_under_faults": faulty["unknown"],
                "wall_under_faults_ratio": round(faulty["wall_s"] / ours["wall_s"], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
