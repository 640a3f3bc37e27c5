"""The service's own CPU in the recursive loop, and whether it grows with the store: `make bench-loop`.

Model calls are answered at once by a loopback server in a process of its own, with scripted replies of realistic
length. So what is measured is ours: writer, admission with its attacks and repairs, grader, referee, patcher, gateway,
vote cache, and a store that keeps every call. A first run in an empty store admits 200 tasks and works one cycle. Its
rows, copied under other numbers, make stores of 1,000 and of 100,000 tasks. In turns the run is opened on each and does
the same work there: 300 tasks admitted, 200 groups graded and ranked, 60 cases patched. Medians count, since other work
on the machine disturbs single turns. Opening a run is told apart. The last line is one JSON object.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from rri.store.database import DATABASE
from tests.perf.loop_store import fill
from tests.perf.loop_turn import STAGES, Turn
from tests.tiny import make_tiny_model

__all__ = ["main"]

SEED_TASKS = 200
TASKS, GROUPS, CASES = 300, 200, 60
LOOP = ("admission", "ranking", "patching")
"""What the figures are about. Grading is the judge's benchmark, and is shown beside them."""
UNITS = {
    "admission": ("task", "tasks"),
    "grading": ("group of 8", "groups of 8"),
    "ranking": ("group", "groups"),
    "patching": ("case", "cases"),
    "evolution": ("round", "rounds"),
}
KB_A_TASK = 80
"""Size of a store on disk."""
TURN_S = 1800

Report = dict[str, Any]


@contextmanager
def model_server() -> Iterator[str]:
    """The URL of the scripted models."""
    command = [sys.executable, "-m", "tests.perf.loop_models"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().decode().strip()
    finally:
        server.kill()
        server.wait()


@dataclass(frozen=True)
class Bench:
    """Where stores lie and who answers. Every turn has a run directory of its own, for it has tasks of its own."""

    folder: Path
    url: str
    base_model: Path
    say: Console

    def turn(self, name: str, store: Path | None = None, tasks: int = TASKS) -> Report:
        """What one process reports; `store` is moved to where it works."""
        folder = self.folder / name
        folder.mkdir()
        if store is not None:
            store.rename(folder / DATABASE)
        turn = Turn(str(folder), self.url, str(self.base_model), tasks, GROUPS, CASES)
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "tests.perf.loop_turn", json.dumps(asdict(turn))],
            capture_output=True,
            text=True,
            check=False,
            timeout=TURN_S,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            raise SystemExit(f"{name} failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
        self.say.print(f"{name}: {time.monotonic() - started:.0f} s")
        report: Report = json.loads(done.stdout.splitlines()[-1])
        return report

    def filled(self, seed: Path, tasks: int) -> Path:
        """A store of so many tasks, made from the seed's."""
        path = self.folder / f"filled-{tasks}.db"
        shutil.copy(seed, path)
        started = time.monotonic()
        fill(path, tasks)
        size = path.stat().st_size / 2**20
        self.say.print(f"a store of {tasks:,} tasks ({size:,.0f} MB): {time.monotonic() - started:.0f} s")
        return path


def measure(bench: Bench, sizes: Sequence[int], turns: int) -> tuple[Report, dict[int, list[Report]]]:
    """The first run's report, and those of the turns by size."""
    first = bench.turn("first", tasks=SEED_TASKS)
    seed = bench.folder / "first" / DATABASE
    large = bench.filled(seed, max(sizes))
    reports: dict[int, list[Report]] = {size: [] for size in sizes}
    for number in range(turns):
        # The order changes, so that neither size always has the warmer machine.
        for size in sizes if number % 2 == 0 else sizes[::-1]:
            name = f"{size}-turn-{number + 1}"
            # The small store is made anew for each turn; to the large one a few hundred tasks more are nothing.
            store = large if size == max(sizes) else bench.filled(seed, size)
            reports[size].append(bench.turn(name, store))
            if size == max(sizes):
                large = bench.folder / name / DATABASE
            else:
                shutil.rmtree(bench.folder / name)
    return first, reports


def unit_ms(report: Report, stage: str) -> float:
    """CPU of one unit of a stage."""
    part = report["parts"][stage]
    return 1000 * float(part["cpu_s"]) / int(part["units"])


def task_ms(report: Report) -> float:
    """CPU of one task that is admitted, ranked once and patched once."""
    return sum(unit_ms(report, stage) for stage in LOOP)


def total(reports: Sequence[Report], stages: Sequence[str], key: str) -> float:
    return float(sum(report["parts"][stage][key] for report in reports for stage in stages))


def call_ms(reports: Sequence[Report], stages: Sequence[str]) -> float:
    return 1000 * total(reports, stages, "cpu_s") / total(reports, stages, "calls")


def parts_table(reports: Sequence[Report], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("part", no_wrap=True)
    for head in ("units", "model calls", "CPU ms/call", "CPU ms/unit", "wall s"):
        table.add_column(head, justify="right")
    for stage in STAGES:
        units, calls = (int(total(reports, [stage], key)) for key in ("units", "calls"))
        cpu, wall = (total(reports, [stage], key) for key in ("cpu_s", "wall_s"))
        name = f"{units:,} {UNITS[stage][units != 1]}"
        table.add_row(
            stage, name, f"{calls:,}", f"{1000 * cpu / calls:.2f}", f"{1000 * cpu / units:.1f}", f"{wall:.1f}"
        )
    calls = int(total(reports, LOOP, "calls"))
    table.add_section()
    table.add_row(", ".join(LOOP), "", f"{calls:,}", f"{call_ms(reports, LOOP):.2f}", "", "")
    return table


@dataclass(frozen=True)
class Growth:
    """CPU of a unit at both sizes: medians, their ratio, and the lowest and highest ratio of a single turn."""

    small: float
    large: float
    low: float
    high: float

    @classmethod
    def of(cls, small: Sequence[float], large: Sequence[float]) -> "Growth":
        ratios = [b / a for a, b in zip(small, large, strict=True)]
        return cls(statistics.median(small), statistics.median(large), min(ratios), max(ratios))

    @property
    def ratio(self) -> float:
        return self.large / self.small


def growths(small: Sequence[Report], large: Sequence[Report]) -> dict[str, Growth]:
    """By stage, and "loop" for one task through all of `LOOP`."""
    found = {s: Growth.of([unit_ms(r, s) for r in small], [unit_ms(r, s) for r in large]) for s in STAGES}
    return {**found, "loop": Growth.of([task_ms(r) for r in small], [task_ms(r) for r in large])}


def growth_table(found: Mapping[str, Growth], sizes: Sequence[int], turns: int) -> Table:
    table = Table(title=f"CPU ms of a unit by tasks in the store, medians of {turns}", title_justify="left")
    table.add_column("part", no_wrap=True)
    for head in (f"{sizes[0]:,}", f"{sizes[1]:,}", "ratio", "single turns"):
        table.add_column(head, justify="right")
    for stage, growth in found.items():
        if stage == "loop":
            table.add_section()
        name = f"{stage}, a {UNITS[stage][0]}" if stage in UNITS else f"{', '.join(LOOP)}, one each"
        spread = f"{growth.low:.2f} to {growth.high:.2f}"
        table.add_row(name, f"{growth.small:.1f}", f"{growth.large:.1f}", f"{growth.ratio:.2f}", spread)
    return table


def median(reports: Sequence[Report], *path: str) -> float:
    def at(report: Any) -> float:
        for key in path:
            report = report[key]
        return float(report)

    return statistics.median(map(at, reports))


def opening_table(reports: Mapping[int, Sequence[Report]]) -> Table:
    table = Table(title="Opening a run, and asking it for its figures", title_justify="left")
    heads = ("tasks", "store MB", "open s", "of that store s", "CPU s", "first stats() ms", "later ones ms")
    for head in heads:
        table.add_column(head, justify="right")
    for size, found in reports.items():
        opening = [median(found, "opening", key) for key in ("whole_s", "store_s", "cpu_s")]
        table.add_row(
            f"{size:,}",
            f"{median(found, 'stored_mb'):,.0f}",
            *(f"{seconds:.1f}" for seconds in opening),
            f"{median(found, 'stats_first_ms'):,.1f}",
            f"{median(found, 'stats_ms'):.1f}",
        )
    return table


def summary(first: Report, reports: Mapping[int, Sequence[Report]], found: Mapping[str, Growth]) -> Report:
    small, large = reports.values()
    cheap = [first, *small]
    result: Report = {
        "cpu_ms_per_call": round(call_ms(cheap, LOOP), 2),
        "growth_1k_100k": round(found["loop"].ratio, 3),
        "sizes": list(reports),
        "growth_single_turns": [round(found["loop"].low, 3), round(found["loop"].high, 3)],
        "growth_by_part": {stage: round(found[stage].ratio, 3) for stage in STAGES},
        "cpu_ms_per_call_by_part": {stage: round(call_ms(cheap, [stage]), 2) for stage in STAGES},
        "cpu_ms_per_call_large": round(call_ms(large, LOOP), 2),
        "tasks_admitted": int(total(cheap, ["admission"], "units")),
        "cases_patched": int(total(cheap, ["patching"], "units")),
    }
    for name, runs in (("small", small), ("large", large)):
        result |= {
            f"opening_{name}_s": round(median(runs, "opening", "whole_s"), 2),
            f"opening_{name}_store_s": round(median(runs, "opening", "store_s"), 2),
            f"stats_{name}_ms": round(median(runs, "stats_ms"), 2),
        }
    return result


def machine() -> str:
    memory, load = psutil.virtual_memory().total / 2**30, os.getloadavg()[0]
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}, load {load:.1f} at the start"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs=2, default=(1_000, 100_000), metavar=("SMALL", "LARGE"))
    parser.add_argument("--turns", type=int, default=3, help="turns on each size")
    parser.add_argument("--folder", type=Path, help="where the stores lie meanwhile; the system's temporary one")
    options = parser.parse_args()
    small, large = options.sizes
    if small % SEED_TASKS or large % SEED_TASKS or not 0 < small < large:
        parser.error(f"sizes must be two multiples of {SEED_TASKS}, the smaller one first")
    say, console = Console(stderr=True, style="dim"), Console(width=120)
    console.print(machine())
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="bench-loop-") as name, model_server() as url:
        needed, free = (small + large) * KB_A_TASK / 2**20, shutil.disk_usage(name).free / 2**30
        if free < needed:
            raise SystemExit(f"{name} has {free:.0f} GB free and {needed:.0f} are needed: give another --folder")
        bench = Bench(Path(name), url, make_tiny_model(Path(name) / "solver"), say)
        first, reports = measure(bench, options.sizes, options.turns)
    found = growths(*reports.values())
    for table in (
        parts_table([first, *reports[small]], f"The first run, and every turn on {small:,} tasks"),
        parts_table(reports[large], f"Every turn on {large:,} tasks"),
        growth_table(found, options.sizes, options.turns),
        opening_table(reports),
    ):
        console.print(table)
    print(json.dumps(summary(first, reports, found)))


if __name__ == "__main__":
    main()
