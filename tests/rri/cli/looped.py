"""A run whose loop has been round: tasks repaired, groups graded, cases patched, guidance and memo rewritten.

The models are scripted and a few lines stand for the trainer; service, loop and store are the real ones.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rri.client import ServiceClient
from rri.rundir import RunDir
from rri.service.host import hosted
from rri.service.material import gather
from rri.service.run import OpenRun
from rri.testing import ChatRequest, Fault, ScriptedServer, role_models
from rri.wire import Row
from tests.passages import write_passages
from tests.rigs import scripted_config

__all__ = ["CYCLES", "Looped", "looped_run"]

CYCLES, TASKS_PER_CYCLE, ROLLOUTS = 4, 3, 6
LOOPED: dict[str, Any] = {
    # One after the other, so that the order of admission, and with it everything, is the same every time.
    "generation": {"tasks": 6, "concurrency": 1},
    "admission": {"concurrency": 1},
    "evolution": {"every_cycles": 2, "cases": 6},
    "solver": {"cycles": CYCLES, "tasks_per_cycle": 3, "tasks_per_update": 3, "rollouts_per_task": ROLLOUTS},
}


@dataclass(frozen=True)
class Looped:
    """An open run after some finished cycles. `faults` maps a model to what it does instead."""

    folder: Path
    run: OpenRun
    client: ServiceClient
    models: ScriptedServer
    faults: dict[str, Fault]

    def cycle(self, number: int) -> None:
        """What a trainer does in one cycle, and the loop's work on it."""
        positions = range(number * TASKS_PER_CYCLE, (number + 1) * TASKS_PER_CYCLE)
        for position in positions:
            self.client.served(position)
        rows = [
            Row(position=p, row=r, answer=f"Answer {r} at {p}: " + "rule one has its reasons. " * (r + 2))
            for p in positions
            for r in range(ROLLOUTS)
        ]
        asyncio.run(self.client.grade(number, rows, timeout_s=60))
        self.client.report(number, step=number + 1)
        self.run.gateway.loop.run(self.run.finished_looping())


@contextmanager
def looped_run(folder: Path, model: Path, cycles: int = CYCLES, **sections: Any) -> Iterator[Looped]:
    """A hosted run in `folder`/run after so many cycles, closed at the end of the block."""
    faults: dict[str, Fault] = {}

    def fault(request: ChatRequest) -> Fault | None:
        return faults.get(request.model)

    with ScriptedServer(role_models(), fault=fault) as models:
        corpus = str(write_passages(folder / "passages.jsonl"))
        merged = {key: {**LOOPED.get(key, {}), **sections.get(key, {})} for key in {*LOOPED, *sections}}
        merged["solver"]["base_model"] = str(model)
        config = scripted_config(models.url, corpus=corpus, **merged)
        material = gather(config, model)
        run_dir = RunDir.create_or_resume(folder / "run", config, facts={"arm": config.arm, **material.facts()})
        run = OpenRun.open(run_dir, config, material)
        try:
            with hosted(run) as address:
                client = ServiceClient(address.url, address.token, patience_s=60)
                looped = Looped(folder / "run", run, client, models, faults)
                run.gateway.loop.run(run.finished_admitting())
                for number in range(cycles):
                    looped.cycle(number)
                yield looped
                client.close()
        finally:
            run.close()
            run_dir.close()
