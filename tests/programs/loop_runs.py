"""Runs of the whole loop on random models, and what they left behind."""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rri.config import RunConfig
from rri.store import KeptCall, Store, read_calls
from rri.testing import ScriptedServer, role_models
from tests.fake_trainer import FakeTrainer
from tests.hosting import hosting
from tests.passages import write_passages
from tests.programs.loop_world import LoopWorld
from tests.rigs import scripted_config

__all__ = ["KEPT", "Ran", "block", "kept_rows", "loop_config", "play"]

KEPT = {
    "task_versions": "seq, task_id, version, digest, body, at",
    "admissions": "seq, task_id, version, outcome, evidence",
    "origins": "seq, task_id, source, guidance, memo, positives, negatives",
    "served": "position, task_id, version, source, at",
    "grades": "id, split, cycle, position, row, task_id, version, answer, score, raw, unscored, verdicts",
    "resumes": "id, cycle, superseded, at",
    "reports": "id, cycle, step, metrics, at",
    "rankings": "id, report, position, task_id, outcome, body",
    "cases": "id, report, cycle, position, task_id, version, gap, chosen, body",
    "patches": "seq, case_id, task_id, version, outcome, accepted, body",
    "honest_answers": "conversation, answer",
    "evictions": "seq, task_id, version, mean, variance, rollouts",
    "guidance": "version, cycle, body",
    "memos": "version, cycle, body",
    "rounds": "id, report, cycle, kind, outcome, data",
    "calls": "id, role, task_id, sample, messages, reply, error",
}
"""What never changes once it is there; whether a grade is superseded is all that may."""

Rows = set[tuple[Any, ...]]


def kept_rows(folder: Path, tables: Mapping[str, str] = KEPT) -> dict[str, Rows]:
    """Everything that a run's database holds, read beside its owner."""
    with sqlite3.connect(f"file:{folder / 'rri.db'}?mode=ro", uri=True) as db:
        return {table: set(db.execute(f"SELECT {columns} FROM {table}")) for table, columns in tables.items()}


def block(messages: Sequence[Mapping[str, str]], name: str) -> str:
    """An input block of a prompt as it was sent."""
    found = re.search(rf"<{name}>\n(.*?)\n</{name}>", messages[-1]["content"], re.DOTALL)
    assert found, f"no block {name} in {messages[-1]['content'][:300]}"
    return found.group(1)


@dataclass
class Ran:
    """A run that is over, with its store open to be read. `snapshots`: its rows after every cycle."""

    config: RunConfig = field(repr=False)
    folder: Path
    world: LoopWorld
    trainer: FakeTrainer = field(repr=False)
    store: Store
    snapshots: list[dict[str, Rows]] = field(default_factory=list, repr=False)

    def calls(self, role: str) -> list[KeptCall]:
        return [call for call in read_calls(self.folder, role=role) if call.record.tag.sample != "preflight"]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(f"file:{self.folder / 'rri.db'}?mode=ro", uri=True) as db:
            return db.execute(query).fetchall()

    def conversation(self, task_id: str, version: int) -> list[dict[str, str]]:
        task = self.store.task(task_id, version)
        assert task is not None
        return [message.model_dump() for message in task.conversation]


def loop_config(url: str, corpus: Path, **sections: Any) -> RunConfig:
    """Everything on, one vote, and failures that end nothing."""
    base: dict[str, Any] = {
        "endpoints": {"main": {"timeout_s": 2}},
        "admission": {"votes": 1},
        "grading": {"votes": 1, "unscored_in_a_row": 10_000},
        "patches": {"votes": 1},
        "evolution": {"every_cycles": 1, "cases": 6},
        "loop": {"failures_in_a_row": 10_000, "max_backlog": 0},
        "pool": {"min_tasks": 2, "fresh_wait_s": 60},
        "generation": {"failures_in_a_row": 10_000, "requests_per_call": 3},
        "solver": {"rollouts_per_task": 4, "judge_truncated": False},
    }
    merged = {key: {**base.get(key, {}), **sections.get(key, {})} for key in {*base, *sections}}
    return scripted_config(url, corpus=str(write_passages(corpus)), **merged)


@contextmanager
def play(
    folder: Path, model: Path, world: LoopWorld, *, stops: Sequence[int] = (), prefetch: bool = False, **sections: Any
) -> Iterator[Ran]:
    """All cycles of a run but the last, whose first position is asked for: by then the loop has caught up.

    The service is closed and opened again before each cycle of `stops`. `prefetch`: see `FakeTrainer`.
    """
    with ScriptedServer(role_models(**world.models()), fault=world.fault) as server:
        config = loop_config(server.url, folder / "passages.jsonl", **sections)
        trainer: FakeTrainer | None = None
        snapshots: list[dict[str, Rows]] = []
        last = config.solver.cycles - 1
        for stop in (*stops, last):
            with hosting(folder / "run", config, model) as hosted:
                trainer = trainer or FakeTrainer(hosted.client, world.answer, prefetch=prefetch)
                trainer.client = hosted.client
                trainer.ask(trainer.served)
                trainer.train(stop, lambda cycle: snapshots.append(kept_rows(folder / "run")))
                if stop == last:
                    trainer.ask([last * config.solver.tasks_per_cycle])
                assert hosted.run.error is None
        assert trainer is not None
        store = Store(folder / "run")
        try:
            yield Ran(config, folder / "run", world, trainer, store, snapshots)
        finally:
            store.close()


def shown_conversation(messages: Sequence[Mapping[str, str]]) -> Any:
    """The conversation that a prompt shows."""
    return json.loads(block(messages, "conversation"))
