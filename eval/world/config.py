"""The config of a run in the known-truth world: METHOD's numbers, scaled to short answers and a run of minutes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.world.constants import WorldConstants
from eval.world.facts import World, passages
from eval.world.models import MODELS
from eval.world.texts import BRIEF, FULL, SYSTEM_PROMPT
from rri.config.merging import merge
from rri.config.models import ROLES

__all__ = ["world_config", "write_corpus"]


def write_corpus(world: World, path: Path) -> Path:
    """Write the world's passages as a corpus file (`rri.knowledge.load_corpus`); returns `path`."""
    lines = [json.dumps(passage) for passage in passages(world)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def world_config(
    world: World,
    url: str,
    corpus: Path,
    base_model: Path | str,
    sections: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A whole config, to be written as YAML or given to `rri.config.parse_config`. It names no arm: lay one over it.

    Shorter than METHOD's are the numbers that follow from answers of a few dozen words and from a pool of hundreds of
    tasks. Votes, margins, bands, gaps and shares are METHOD's own. The solver does not retrieve, since every request
    holds its note: without retrieval Co-evolve Only is the arm `evolution-only`.

    Args:
        world: what the tasks are about; its seed is the run's.
        url: of the world's models (`eval.world.server.WorldServer`).
        corpus: what `write_corpus` wrote.
        base_model: folder of the solver's base model.
        sections: laid over it, e.g. `{"solver": {"cycles": 50}}`.
    """
    data: dict[str, Any] = {
        "seed": world.seed,
        "corpus": str(corpus),
        "domain": _domain(world),
        "endpoints": {"world": {"url": url, "concurrency": 128, "timeout_s": 60, "retries": 2, "retry_wait_s": 0.1}},
        "roles": {
            role: {"endpoint": "world", "model": role, "temperature": 0.6, "max_tokens": 2048}
            for role in ROLES
            if role in MODELS
        },
        "generation": {"tasks": 600, "passages_per_task": 1, "recent_requests": 12, "concurrency": 8},
        "admission": {"min_answer_chars": 20, "concurrency": 16},
        "grading": {"reason_words": 10, "concurrency": 256},
        "exploits": {"min_answer_chars": 16},
        "pool": {"min_tasks": 32, "ahead": 48, "fresh_wait_s": 5},
        # A round brings a few dozen probes of a memo; a decision on two of them would be a throw of dice.
        "memo": {"min_observations": 8},
        "solver": {
            "base_model": str(base_model),
            "launch": "cpu",
            "cycles": 120,
            "tasks_per_cycle": 8,
            "tasks_per_update": 8,
            "rollouts_per_task": 8,
            "max_prompt_tokens": 160,
            "max_completion_tokens": WorldConstants().answer_tokens,
            "learning_rate": 1e-4,
            "save_every_cycles": 40,
        },
        # Votes of one run must not answer for another one: its models would look more certain than they are.
        "cache": {"enabled": False},
    }
    return merge(data, dict(sections or {}))


def _domain(world: World) -> dict[str, Any]:
    return {
        "name": "known world",
        "description": (
            "questions about the relations of the entities of a small closed world, each asked with a note that holds "
            "what is recorded"
        ),
        "expert": "keeper of the record",
        "system_prompt": SYSTEM_PROMPT,
        "use_cases": [
            {"name": FULL, "weight": 0.5, "description": "a question that asks for a full account"},
            {"name": BRIEF, "weight": 0.5, "description": "a question that asks for a brief list"},
        ],
        "topics": list(world.relations),
        "red_team_share": 0.0,
        "score_rule": "healthbench",
    }
