"""The config of a run in the world: whole, layered by arms, with METHOD's own numbers where they apply."""

from pathlib import Path

import pytest
import yaml

from eval.world.config import world_config, write_corpus
from eval.world.facts import World, passages, vocabulary
from eval.world.models import MODELS
from rri.config import ARMS, load_config, parse_config
from rri.knowledge import load_corpus
from rri.lm import resolve_routes
from tests.eval.world.rig import WORLD


def config_file(folder: Path, **sections: object) -> Path:
    corpus = write_corpus(WORLD, folder / "passages.jsonl")
    path = folder / "world.yaml"
    path.write_text(yaml.safe_dump(world_config(WORLD, "http://127.0.0.1:1/v1", corpus, folder / "base", sections)))
    return path


WITHOUT_RETRIEVAL = [arm for arm in ARMS if arm != "co-evolve-only"]
"""The world has no tools. Without retrieval Co-evolve Only is Evolution Only."""


@pytest.mark.parametrize("arm", WITHOUT_RETRIEVAL)
def test_an_arm_laid_over_it_is_that_arm(tmp_path: Path, arm: str) -> None:
    config = load_config([config_file(tmp_path), arm])
    assert config.arm == arm
    assert config.seed == WORLD.seed
    assert {role: route.model for role, route in resolve_routes(config).items()} == {r: r for r in MODELS}


def test_arms_differ_in_their_switches_alone(tmp_path: Path) -> None:
    file = config_file(tmp_path)
    switches = {"admission", "exploits", "patches", "evolution", "memo"}
    kept = []
    for arm in WITHOUT_RETRIEVAL:
        data = load_config([file, arm]).model_dump()
        for name in switches:
            data[name].pop("enabled")
        kept.append(data)
    assert all(data == kept[0] for data in kept)


def test_votes_margins_bands_and_shares_are_the_methods() -> None:
    config = parse_config(world_config(WORLD, "http://127.0.0.1:1/v1", Path("p"), "base"), where="test")
    method = load_config("default")
    assert config.admission.model_dump(exclude={"min_answer_chars", "concurrency"}) == method.admission.model_dump(
        exclude={"min_answer_chars", "concurrency"}
    )
    assert config.grading.votes == method.grading.votes == 3
    assert config.patches == method.patches
    assert config.evolution == method.evolution
    assert config.exploits.gap == method.exploits.gap
    assert config.generation.positives == method.generation.positives
    assert config.generation.negative_share == method.generation.negative_share
    assert config.pool.model_dump(exclude={"min_tasks", "ahead", "fresh_wait_s"}) == method.pool.model_dump(
        exclude={"min_tasks", "ahead", "fresh_wait_s"}
    )
    assert not config.cache.enabled


def test_sections_are_laid_over_it(tmp_path: Path) -> None:
    config = load_config(config_file(tmp_path, solver={"cycles": 3}, generation={"tasks": 40}))
    assert (config.solver.cycles, config.generation.tasks, config.solver.tasks_per_cycle) == (3, 40, 8)


def test_the_solver_is_asked_in_words_that_it_knows(tmp_path: Path) -> None:
    config = load_config(config_file(tmp_path))
    assert set(config.domain.system_prompt.split()) <= set(vocabulary(WORLD))
    assert set(config.domain.topics) == set(WORLD.relations)


def test_the_corpus_file_holds_the_worlds_passages(tmp_path: Path) -> None:
    world = World.make(101, entities=5)
    corpus = load_corpus(write_corpus(world, tmp_path / "p.jsonl"))
    assert [p.model_dump() for p in corpus.passages] == passages(world)
    assert corpus.refused == ()
