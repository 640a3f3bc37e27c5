"""The real role modules over the real gateway and real HTTP, with the world's models behind it."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eval.world.config import world_config, write_corpus
from eval.world.constants import WorldConstants
from eval.world.facts import World, WorldRequest, make_request, request_text, statement, write_note
from eval.world.models import MODELS, WorldModels
from eval.world.prompts import Prompt
from programs import Roles
from rri.config import RunConfig, parse_config
from rri.lm import Gateway
from rri.testing import Fault, ScriptedServer
from rri.testing.server import ChatRequest
from rri.types import Criterion, Grade, Labels, Message, Outcome, Reference, Rubric, Task, Verdict
from tests.rigs import open_test_gateway

__all__ = [
    "CERTAIN",
    "WORLD",
    "Rig",
    "ask",
    "grade_of",
    "passage_of",
    "right",
    "task_of",
    "world_rig",
    "wrong",
    "wrong_value",
]

WORLD = World.make(100)

CERTAIN = WorldConstants(
    positive_delivery=1,
    negative_delivery=1,
    rephrased=0,
    faulty_key=0,
    off_request=0,
    judge_flip=0,
    judge_lenient=0,
    honest_omits=0,
    honest_errs=0,
    honest_extra=0,
    honest_aside=0,
    farmer_slip=0,
    rewriter_hardens=1,
    rewriter_reaims=1,
    rewriter_adds=0,
    rewriter_mends=1,
    minter_topics=0,
    minter_repeats=0,
    minter_checks=1,
    minter_negatives=1,
    minter_general=1,
    referee_misreads=0,
    referee_swap=0,
    analyst_spots=1,
    analyst_misreads=0,
)
"""Constants without chance, wherever a share can be 0 or 1. A test changes the one that it is about."""


@dataclass
class Rig:
    """A world that is served, and what a run makes of it."""

    config: RunConfig
    roles: Roles
    gateway: Gateway
    server: ScriptedServer
    models: WorldModels

    def call(self, module: Any, **arguments: Any) -> Any:
        """One call of a role module."""
        return self.gateway.loop.run(module.acall(**arguments))


@contextmanager
def world_rig(
    tmp_path: Any,
    constants: WorldConstants = CERTAIN,
    *,
    world: World = WORLD,
    fault: Any = lambda request: None,
    **sections: Any,
) -> Iterator[Rig]:
    """The world's models behind a scripted server, which can also misbehave."""
    models = WorldModels(world, constants)

    def model(request: ChatRequest) -> Fault | str:
        return models.reply(Prompt(request.model, request.messages, request.schema_name))

    with ScriptedServer(dict.fromkeys(MODELS, model), fault=fault) as server:
        corpus = write_corpus(world, tmp_path / "passages.jsonl")
        config = parse_config(world_config(world, server.url, corpus, "none", sections), where="the world's config")
        with open_test_gateway(config) as gateway:
            yield Rig(config, Roles.bind(config, gateway), gateway, server, models)


# --- things to show to a role --------------------------------------------------------------------------


def ask(*relations: str, entity: str = "", seed: int = 0) -> WorldRequest:
    """A request for these relations of an entity, the first one by default; without relations, a drawn one."""
    rng = random.Random(seed)
    if not relations:
        return make_request(WORLD, rng)
    entity = entity or WORLD.entities[0]
    text = request_text(write_note(entity, WORLD.of(entity), rng), entity, relations, rng)
    return WorldRequest(entity, relations, text)


def task_of(request: WorldRequest, *criteria: tuple[str, float]) -> Task:
    return Task(
        task_id="000001-abc",
        conversation=(Message(role="user", content=request.text),),
        rubric=Rubric(criteria=tuple(Criterion(text=text, points=points) for text, points in criteria)),
        labels=Labels(use_case="full"),
    )


def grade_of(task: Task, *outcomes: Outcome) -> Grade:
    """A grade with these outcomes, and the score that follows from them."""
    met = sum(c.points for c, o in zip(task.rubric.criteria, outcomes, strict=True) if o == "met")
    raw = met / task.rubric.positive_total
    return Grade(verdicts=tuple(Verdict(outcome=o) for o in outcomes), score=raw, raw=raw)


def passage_of(entity: str) -> Reference:
    text = write_note(entity, WORLD.of(entity), random.Random(1))
    return Reference(id=entity, title=entity, text=text, source="the record")


def right(entity: str, relation: str) -> str:
    return statement(entity, relation, WORLD.facts[entity, relation])


def wrong(entity: str, relation: str) -> str:
    """A statement of the first value that is not the right one."""
    return statement(entity, relation, wrong_value(entity, relation))


def wrong_value(entity: str, relation: str) -> str:
    return next(v for v in WORLD.values[relation] if v != WORLD.facts[entity, relation])
