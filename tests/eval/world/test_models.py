"""The models together: replies that follow from seed, prompt and count, and from nothing else."""

import json
import random
from collections import Counter
from typing import Any

import pytest

from eval.world.constants import WorldConstants
from eval.world.criteria import topic, value
from eval.world.facts import World, read_statements
from eval.world.models import MODELS, WorldModels
from eval.world.prompts import Prompt
from programs.judge import judge_fields
from rri.config import ROLES
from rri.errors import InputError
from rri.lm.adapter import render
from signatures import HonestAnswer, JudgeCriterion
from tests.eval.world.rig import CERTAIN, WORLD, ask, right, task_of

REQUEST = ask(*WORLD.relations[:3])
E, R = REQUEST.entity, REQUEST.asked[0]


def judged(answer: str, criterion: str) -> Prompt:
    task = task_of(REQUEST, (criterion, 8))
    return Prompt("judge", render(JudgeCriterion, [], judge_fields(task, answer, criterion, 5)), "JudgeCriterion")


def honest(seed: int = 0) -> Prompt:
    fields = {"standing_instructions": "x", "conversation": list(task_of(ask(*REQUEST.asked, seed=seed)).conversation)}
    return Prompt("honest", render(HonestAnswer, [], fields))


def noisy(**constants: Any) -> WorldModels:
    return WorldModels(WORLD, CERTAIN.model_copy(update=constants))


def test_there_is_a_model_for_every_role_but_the_summarizer() -> None:
    """Only a solver that retrieves needs one, and the world's does not."""
    assert set(ROLES) - set(MODELS) == {"summarizer"}
    assert set(MODELS) <= set(ROLES)


def test_a_rerun_repeats_every_reply_whatever_the_order_of_the_prompts() -> None:
    prompts = [honest(i) for i in range(10)] * 3
    first = WorldModels(WORLD)
    told = [first.reply(p) for p in prompts]
    again, shuffled = WorldModels(WORLD), random.Random(1).sample(range(10), 10)
    found = {i: [again.reply(prompts[i]) for _ in range(3)] for i in shuffled}
    assert [found[i % 10][i // 10] for i in range(30)] == told


def test_asking_again_is_another_draw() -> None:
    models = WorldModels(WORLD)
    assert len({models.reply(honest()) for _ in range(40)}) > 5


def test_other_worlds_draw_otherwise() -> None:
    other = World.make(101)
    a, b = noisy(judge_flip=0.5), WorldModels(other, WorldConstants(judge_flip=0.5))
    prompt = judged(right(E, R), topic(E, R))
    assert [a.reply(prompt) for _ in range(30)] != [b.reply(prompt) for _ in range(30)]


def test_votes_on_one_prompt_flip_independently() -> None:
    """A majority of three is wrong as often as three independent draws are (METHOD 11: 2.7% becomes about 0.2%)."""
    models = noisy(judge_flip=0.1)
    wrong_votes = []
    for i in range(1500):
        prompt = judged(f"{right(E, R)} {i}", topic(E, R))
        wrong_votes.append(sum(not json.loads(models.reply(prompt))["met"] for _ in range(3)))
    votes = sum(wrong_votes) / 4500
    majority = sum(n >= 2 for n in wrong_votes) / 1500
    assert 0.085 < votes < 0.115
    assert 0.015 < majority < 0.042  # 3 * 0.1**2 - 2 * 0.1**3 = 0.028


def test_no_model_knows_a_fact_that_its_prompt_does_not_state() -> None:
    """The note says otherwise than the world, and the honest answer follows the note."""
    models = noisy()
    told = ask(*REQUEST.asked)
    facts = WORLD.of(E)
    lies = {r: next(v for v in WORLD.values[r] if v != facts[r]) for r in facts}
    text = told.text
    for r, v in facts.items():
        text = text.replace(f"the {r} of {E} is {v} .", f"the {r} of {E} is {lies[r]} .")
    prompt = honest()
    content = prompt.messages[-1]["content"].replace(json.dumps(told.text)[1:-1], json.dumps(text)[1:-1])
    reply = models.reply(Prompt("honest", [prompt.messages[0], {"role": "user", "content": content}]))
    assert {(s.relation, s.value) for s in read_statements(reply)} == {(r, lies[r]) for r in REQUEST.asked}


def test_every_role_says_that_it_is_ready() -> None:
    models = WorldModels(WORLD)
    for name in MODELS:
        assert json.loads(models.reply(Prompt(name, [{"role": "user", "content": "ready?"}], "Ready"))) == {
            "ready": True
        }


def test_calls_are_counted_by_role() -> None:
    models = WorldModels(WORLD)
    for _ in range(3):
        models.reply(honest())
    models.reply(judged("", value(E, R, "x")))
    assert models.calls == Counter(honest=3, judge=1)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"no model 'oracle'.*proposer"):
        WorldModels(WORLD).reply(Prompt("oracle", []))
