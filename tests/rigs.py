"""Configs and parts that many tests share."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rri.config import ROLES, RunConfig, parse_config
from rri.lm import Gateway, Ledger, resolve_routes
from rri.lm.calls import CallSink
from rri.types import Criterion, Labels, Message, Rubric, Task

__all__ = ["make_task", "open_test_gateway", "scripted_config"]


def _merge(base: dict[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in top.items():
        base[key] = _merge(base.get(key, {}), value) if isinstance(value, Mapping) else value
    return base


def scripted_config(url: str, **sections: Any) -> RunConfig:
    """A small config whose roles all go to one scripted server, each under its own model name.

    Retries wait milliseconds. `sections` are merged over it, e.g. `endpoints={"main": {"retries": 0}}`.
    """
    data: dict[str, Any] = {
        "domain": {
            "name": "rules",
            "description": "questions about rules",
            "expert": "librarian",
            "system_prompt": "Answer briefly.",
            "use_cases": [{"name": "explain", "weight": 1}],
            "red_team_share": 0.0,
            "score_rule": "healthbench",
        },
        "endpoints": {
            "main": {
                "url": url,
                "retries": 2,
                "retry_wait_s": 0.001,
                "retry_wait_max_s": 0.002,
                "timeout_s": 5,
                "breaker_failures": 1000,
            }
        },
        "roles": {role: {"endpoint": "main", "model": role, "temperature": 0.6, "max_tokens": 512} for role in ROLES},
        "generation": {
            "tasks": 4,
            "min_task_chars": 1,
            "requests_per_call": 2,
            "passages_per_task": 2,
            "concurrency": 2,
        },
        "pool": {"min_tasks": 2, "fresh_wait_s": 0.05},
        "cache": {"enabled": False},
        "solver": {
            "base_model": "unused",
            "cycles": 2,
            "tasks_per_cycle": 2,
            "tasks_per_update": 2,
            "rollouts_per_task": 4,
            "max_prompt_tokens": 496,
            "max_completion_tokens": 16,
            "judge_truncated": True,
        },
    }
    return parse_config(_merge(data, sections), where="test config")


@contextmanager
def open_test_gateway(config: RunConfig, sink: CallSink | None = None) -> Iterator[Gateway]:
    """A gateway on a config, closed with its loop at the end."""
    gateway = Gateway(resolve_routes(config), ledger=Ledger(config.budget), sink=sink)
    try:
        yield gateway
    finally:
        gateway.close_sync()
        gateway.loop.close()


def make_task(*points: float, task_id: str = "000001-abc", red_team: bool = False) -> Task:
    """A task with one criterion for each of `points`."""
    criteria = tuple(
        Criterion(text=f"Mentions topic {i} of rule one" if p > 0 else f"Claims that rule {i} was repealed", points=p)
        for i, p in enumerate(points or (8, 8, -6))
    )
    return Task(
        task_id=task_id,
        conversation=(Message(role="user", content="Explain rule one."),),
        rubric=Rubric(criteria=criteria),
        labels=Labels(use_case="explain", red_team=red_team),
    )
