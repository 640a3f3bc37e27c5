"""Whether our judge's memory grows: `python -m tests.perf.judge_memory URL`.

100,000 judge calls in one process, in batches, ledger, store and vote cache on. The last line is one JSON object;
sizes are resident memory of the process, in MB, with garbage collected as it comes.
"""

import argparse
import json
import time
from functools import partial

import psutil

from rri.aio import collect
from tests.perf.judge_clients import make_task, open_judge
from tests.perf.judge_work import CONCURRENCY, answer

__all__ = ["CALLS", "measure_growth"]

CALLS, WARM, BATCH = 100_000, 10_000, 250
"""Calls in all, calls before the first measure, answers in a batch."""


def measure_growth(url: str, calls: int = CALLS) -> dict[str, float]:
    """Resident size after the first 10,000 calls and at the end."""
    process, task = psutil.Process(), make_task()
    sizes: list[float] = []
    with open_judge(url) as (gateway, grader):

        async def grade(first: int) -> int:
            """A batch; the calls so far."""
            grades = [partial(grader.grade, task, answer(a)) for a in range(first, first + BATCH)]
            await collect(grades, CONCURRENCY)
            return gateway.ledger.total().calls

        started, cpu, done, graded = time.monotonic(), time.process_time(), 0, 0
        while done < calls:
            done = gateway.loop.run(grade(graded))
            graded += BATCH
            if done >= WARM:
                sizes.append(process.memory_info().rss / 2**20)
        wall, cpu = time.monotonic() - started, time.process_time() - cpu
    return {
        "calls": done,
        "first_mb": sizes[0],
        "last_mb": sizes[-1],
        "peak_mb": max(sizes),
        "growth_mb": sizes[-1] - sizes[0],
        "wall_s": wall,
        "cpu_ms": 1000 * cpu / done,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    print(json.dumps(measure_growth(parser.parse_args().url)))


if __name__ == "__main__":
    main()
