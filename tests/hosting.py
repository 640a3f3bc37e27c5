"""Runs that are open and hosted in this process, with their client and the models behind them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rri.client import ServiceClient
from rri.config import RunConfig
from rri.rundir import RunDir
from rri.service.host import hosted
from rri.service.material import gather
from rri.service.run import OpenRun
from rri.testing import ChatRequest, Fault, Reply, ScriptedServer, role_models
from rri.wire import GradeResponse, Row
from tests.passages import write_passages
from tests.rigs import scripted_config

__all__ = ["Hosting", "Rig", "hosted_rig", "hosting"]

Models = Mapping[str, Callable[[ChatRequest], Reply | Fault | str]]


@dataclass
class Hosting:
    """A hosted run and a client of it."""

    run: OpenRun
    client: ServiceClient


@dataclass
class Rig(Hosting):
    """A hosted run with its model server. `faults` maps a model to what it does instead."""

    models: ScriptedServer
    faults: dict[str, Fault]

    def grade(self, *rows: Row, cycle: int = 0) -> GradeResponse:
        return asyncio.run(self.client.grade(cycle, rows, timeout_s=30))


@contextmanager
def hosting(folder: Path, config: RunConfig, model: Path, patience_s: float = 60) -> Iterator[Hosting]:
    """The run in `folder`, new or going on, open and hosted while the block lasts."""
    material = gather(config, model)
    run_dir = RunDir.create_or_resume(folder, config, facts=material.facts())
    try:
        run = OpenRun.open(run_dir, config, material)
        try:
            with hosted(run) as address:
                client = ServiceClient(address.url, address.token, patience_s=patience_s)
                yield Hosting(run, client)
                client.close()
        finally:
            run.close()
    finally:
        run_dir.close()


@contextmanager
def hosted_rig(folder: Path, model: Path, models: Models | None = None, **sections: Any) -> Iterator[Rig]:
    """A new run in `folder`/run on a model server of its own. `sections` are merged over the scripted config."""
    faults: dict[str, Fault] = {}
    with ScriptedServer(role_models(**(models or {})), fault=lambda r: faults.get(r.model)) as server:
        corpus = str(write_passages(folder / "passages.jsonl"))
        config = scripted_config(server.url, corpus=corpus, **sections)
        with hosting(folder / "run", config, model) as open_run:
            yield Rig(open_run.run, open_run.client, server, faults)
