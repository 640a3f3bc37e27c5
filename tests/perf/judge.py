"""The judge at the size of one training step, beside others: `make bench-judge`.

Grades 512 answers of 2,000 characters on 4 criteria with 3 votes against a loopback server of fixed latency: our judge
with ledger, store and a cold vote cache, a bare aiohttp client (the floor), the openai client, plain dspy.Predict, and
libraries that grade by rubric, each in an environment of its own. Slow clients make fewer calls, as their row says.

Every client runs on a faultless server and on one with 5% HTTP 429, 2% replies of another shape and 1% that hang for
30 s, and keeps its own defaults for faults. The clients that the ratios are made of run three times in turn, and the
median counts. Runs with faults mostly wait, so all but ours go two at a time. Then our judge alone makes 100,000 calls,
for its memory. Each run is a process of its own; CPU is the client's, threads included. The last line is one JSON
object.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from tests.perf.judge_work import ANSWERS, CRITERIA, DEADLINE_S, LATENCY_S, VOTES
from tests.perf.peer_env import FOLDER, PEERS, NotInstalled, ensure, version

__all__ = ["CLIENTS", "FAULTS", "Client", "main"]

FAULTS = {"busy": 0.05, "malformed": 0.02, "hang": 0.01}
RUN_S = 420
"""Longest run of one client; one that takes longer is a row that says so."""
CALLS = ANSWERS * len(CRITERIA) * VOTES


@dataclass(frozen=True)
class Client:
    """One row. `answers` are those of the faultless run and of the run with faults; `unit` is what one call does."""

    name: str
    answers: tuple[int, int]
    unit: str
    repeats: int = 1
    peer: bool = False


CLIENTS = (
    Client("aiohttp", (ANSWERS, ANSWERS), "1 vote", repeats=3),
    Client("rri", (ANSWERS, ANSWERS), "1 vote", repeats=3),
    Client("openai", (256, 128), "1 vote"),
    Client("dspy", (128, 128), "1 vote", repeats=3),
    Client("autorubric", (128, 64), "12 votes", peer=True),
    Client("rubric", (128, 64), "4 votes", peer=True),
    Client("inspect-ai", (64, 32), "3 votes", peer=True),
    Client("verifiers", (32, 32), "4 votes", peer=True),
)

Row = dict[str, Any]


class Failed(Exception):
    """Why a client has no figures."""


@contextmanager
def model_server(latency_s: float, faults: dict[str, float], dialect: str) -> Iterator[str]:
    """A server in a process of its own; its URL."""
    command = [sys.executable, "-m", "tests.perf.model_server", str(latency_s), json.dumps(faults), dialect]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()


def run_python(python: Path | str, *arguments: str) -> Row:
    """The JSON that a module prints last.

    Raises:
        Failed: it ended otherwise.
    """
    # No price list is fetched, and nobody leaves traces in the user's home.
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "true", "XDG_DATA_HOME": str(FOLDER / "data")}
    try:
        done = subprocess.run(
            [str(python), "-m", *arguments], capture_output=True, text=True, check=False, timeout=RUN_S, env=env
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"did not end within {RUN_S} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Failed(lines[-1].strip() if lines else f"exit code {done.returncode}")
    try:
        result: Row = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise Failed(f"printed no figures: {done.stdout[-200:]!r}") from None
    return result


def measure(client: Client, faults: dict[str, float], say: Console) -> Row:
    """One run: the client's report, and the requests that the server has counted.

    Raises:
        Failed: the client could not be installed or run.
    """
    python, module, dialect = Path(sys.executable), "tests.perf.judge_clients", "rri"
    if client.peer:
        peer = next(p for p in PEERS if p.name == client.name)
        try:
            python, module, dialect = ensure(peer, say.print), "tests.perf.peers", peer.dialect
        except NotInstalled as error:
            raise Failed(str(error)) from None
    answers = client.answers[bool(faults)]
    with model_server(LATENCY_S, faults, dialect) as url:
        row = run_python(python, module, client.name, f"{url}/v1", str(answers))
        with urllib.request.urlopen(f"{url}/count", timeout=10) as count:
            requests = int(json.load(count)["requests"])
    row |= {"requests": requests, "rate": requests / row["wall_s"], "cpu_ms": 1000 * row["cpu_s"] / requests}
    return {**row, "work": answers * len(CRITERIA) * VOTES}


def measure_memory() -> Row:
    with model_server(0.0, {}, "rri") as url:
        return run_python(sys.executable, "tests.perf.judge_memory", f"{url}/v1")


def machine() -> str:
    """What the figures depend on; a machine that is busy with other work slows clients unequally."""
    memory, load = psutil.virtual_memory().total / 2**30, os.getloadavg()[0]
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, load {load:.1f} at the start"


def label(client: Client) -> str:
    if not client.peer:
        return client.name
    try:
        return f"{client.name} {version(next(p for p in PEERS if p.name == client.name))}"
    except NotInstalled:
        return client.name


def attempt(client: Client, faults: dict[str, float], say: Console) -> Row:
    """`measure`, with the failure of a library as its row. One of ours that fails ends the benchmark."""
    started = time.monotonic()
    try:
        row = measure(client, faults, say)
    except Failed as failure:
        if not client.peer:
            raise SystemExit(f"{client.name} failed: {failure}") from None
        row = {"failed": str(failure)}
    say.print(f"{client.name}, {'with faults' if faults else 'faultless'}: {time.monotonic() - started:.0f} s")
    return row


def middle(rows: Sequence[Row]) -> Row:
    """The median of every figure."""
    numbers = [key for key, value in rows[-1].items() if isinstance(value, int | float)]
    return rows[-1] | {key: statistics.median(row[key] for row in rows) for key in numbers}


def measure_faultless(clients: Sequence[Client], say: Console) -> dict[str, Row]:
    rows: dict[str, list[Row]] = {client.name: [] for client in clients}
    for turn in range(max((client.repeats for client in clients), default=0)):
        for client in clients:
            if turn < client.repeats:
                rows[client.name].append(attempt(client, {}, say))
    return {name: middle(found) for name, found in rows.items()}


def measure_faulty(clients: Sequence[Client], plain: dict[str, Row], say: Console) -> dict[str, Row]:
    rows = {client.name: attempt(client, FAULTS, say) for client in clients if client.name == "rri"}
    rows |= {name: row for name, row in plain.items() if "failed" in row}
    others = [client for client in clients if client.name not in rows]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda client: attempt(client, FAULTS, say), others))
    return rows | {client.name: row for client, row in zip(others, found, strict=True)}


def faultless_table(clients: Sequence[Client], rows: dict[str, Row]) -> Table:
    table = Table(title="Faultless server", title_justify="left")
    table.add_column("client", no_wrap=True)
    for head in ("votes", "requests sent", "calls/s", "CPU ms/call", "wall s", "peak MB"):
        table.add_column(head, justify="right")
    for client in clients:
        row = rows[client.name]
        if "failed" in row:
            table.add_row(label(client), "see below")
            continue
        figures = (f"{row['rate']:,.0f}", f"{row['cpu_ms']:.2f}", f"{row['wall_s']:.1f}", f"{row['peak_mb']:.0f}")
        table.add_row(label(client), f"{row['work']:,}", f"{row['requests']:,}", *figures)
    return table


def faults_table(clients: Sequence[Client], rows: dict[str, Row]) -> Table:
    table = Table(title="With faults: 5% HTTP 429, 2% of another shape, 1% hang 30 s", title_justify="left")
    table.add_column("client", no_wrap=True)
    for head in ("votes", "requests sent", "wall s", "criteria", "wrong", "unknown", "votes lost", "raised"):
        table.add_column(head, justify="right")
    table.add_column("slowest s", justify="right")
    table.add_column("a call")
    for client in clients:
        row = rows[client.name]
        if "failed" in row:
            table.add_row(client.name, "see below")
            continue
        counts = [f"{row[key]:,}" for key in ("criteria", "wrong", "unknown", "lost", "exceptions")]
        sent = (f"{row['work']:,}", f"{row['requests']:,}", f"{row['wall_s']:.1f}")
        table.add_row(client.name, *sent, *counts, f"{row['slowest_s']:.1f}", client.unit)
    return table


def notes(rows: dict[str, Row]) -> Iterator[str]:
    """What the tables have no room for: why a row is empty, and what was raised."""
    for name, row in rows.items():
        if "failed" in row:
            yield f"{name}: {row['failed']}"
        elif row["exceptions"]:
            yield f"{name} raised {', '.join(f'{kind} {count}' for kind, count in row['exception_kinds'].items())}"


def ratio(top: float | None, bottom: float | None, digits: int = 2) -> float | None:
    return round(top / bottom, digits) if top is not None and bottom else None


def summary(plain: dict[str, Row], faulty: dict[str, Row], memory: Row | None) -> Row:
    """The benchmark's figures; None where the clients that they need were left out."""
    ours, broken = plain.get("rri", {}), faulty.get("rri", {})
    floor, dspy = plain.get("aiohttp", {}), plain.get("dspy", {})
    rates = {name: row["rate"] for name, row in plain.items() if "rate" in row and name not in ("rri", "aiohttp")}
    walls = (ours.get("wall_s"), broken.get("wall_s"))
    return {
        "cpu_ratio_aiohttp": ratio(ours.get("cpu_ms"), floor.get("cpu_ms")),
        "rate_ratio_dspy": ratio(ours.get("rate"), dspy.get("rate")),
        "calls_ratio_votes": ratio(ours.get("requests"), CALLS, 3),
        "wrong_under_faults": broken.get("wrong"),
        "exceptions_under_faults": broken.get("exceptions"),
        "rss_growth_mb": round(memory["growth_mb"], 1) if memory else None,
        "unknown_under_faults": broken.get("unknown"),
        "votes_lost_under_faults": broken.get("lost"),
        "wall_faultless_s": round(walls[0], 2) if walls[0] else None,
        "wall_under_faults_s": round(walls[1], 2) if walls[1] else None,
        "wall_allowed_s": round(1.3 * walls[0] + DEADLINE_S, 2) if walls[0] else None,
        "slowest_call_under_faults_s": round(broken["slowest_s"], 2) if broken else None,
        "slowest_grade_under_faults_s": round(broken["slowest_grade_s"], 2) if broken else None,
        "rate": round(ours["rate"]) if ours else None,
        "rate_best_other": round(max(rates.values())) if rates else None,
        "best_other": max(rates, key=lambda name: rates[name]) if rates else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [client.name for client in CLIENTS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="CLIENT", help=f"these alone: {', '.join(names)}")
    parser.add_argument(
        "--no-peers", action="store_true", help="leave out the libraries with environments of their own"
    )
    parser.add_argument("--no-memory", action="store_true", help="leave out the memory run of 100,000 calls")
    options = parser.parse_args()
    clients = [c for c in CLIENTS if c.name in (options.only or names) and not (c.peer and options.no_peers)]
    progress, console = Console(stderr=True, style="dim"), Console(width=120)
    console.print(machine())
    plain = measure_faultless(clients, progress)
    faulty = measure_faulty(clients, plain, progress)
    memory = measure_memory() if "rri" in faulty and not options.no_memory else None
    for table in (faultless_table(clients, plain), faults_table(clients, faulty)):
        console.print(table)
    for note in notes(faulty):
        console.print(note, markup=False, highlight=False)
    if memory is not None:
        growth = f"{memory['first_mb']:.0f} MB after 10,000 calls, {memory['last_mb']:.0f} MB after {memory['calls']:,}"
        console.print(f"Memory of rri: {growth} ({memory['wall_s']:.0f} s, {memory['cpu_ms']:.2f} ms of CPU a call)")
    print(json.dumps(summary(plain, faulty, memory)))


if __name__ == "__main__":
    main()
