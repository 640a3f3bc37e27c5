"""Judge and referee through the real role modules."""

import json
import random
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.world.criteria import contradiction, padding, topic, value
from eval.world.facts import World, make_request, mention, quality, statement
from eval.world.models import WorldModels
from eval.world.prompts import Prompt
from eval.world.roles.judging import standing
from programs import Judge
from rri.errors import ModelError
from rri.lm import role_lm
from rri.types import Vote
from tests.eval.world.rig import CERTAIN, WORLD, Rig, ask, right, task_of, world_rig, wrong

REQUEST = ask(*WORLD.relations[:3])
E, (A, B, C) = REQUEST.entity, REQUEST.asked
TASK = task_of(REQUEST, (topic(E, A), 8))
VALUE = value(E, A, WORLD.facts[E, A])


def vote(rig: Rig, answer: str, criterion: str, strict: bool) -> Vote:
    judge = Judge(strict=strict)
    judge.set_lm(role_lm("judge", rig.gateway))
    found: Vote = rig.call(judge, task=TASK, answer=answer, criterion=criterion)
    return found


# --- judge ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("criterion", "answer", "outcome"),
    [
        (topic(E, A), mention(E, A), "met"),
        (topic(E, A), mention(E, B), "unmet"),
        (VALUE, right(E, A), "met"),
        (VALUE, wrong(E, A), "unmet"),
        (VALUE, mention(E, A), "unmet"),
        (contradiction(E, A, WORLD.facts[E, A]), wrong(E, A), "met"),
        (padding(E), right(E, A), "unmet"),
    ],
)
def test_a_criterion_is_read_to_the_letter(
    tmp_path: Path, strict: bool, criterion: str, answer: str, outcome: str
) -> None:
    with world_rig(tmp_path) as rig:
        found = vote(rig, answer, criterion, strict)
    assert found.outcome == outcome and 0 < len(found.reason.split()) <= 10


def test_without_the_strict_note_a_mention_may_pass_for_a_value(tmp_path: Path) -> None:
    with world_rig(tmp_path, CERTAIN.model_copy(update={"judge_lenient": 1.0})) as rig:
        assert vote(rig, mention(E, A), VALUE, strict=False).outcome == "met"
        assert vote(rig, mention(E, A), VALUE, strict=True).outcome == "unmet"
        assert vote(rig, wrong(E, A), VALUE, strict=False).outcome == "unmet"
        assert vote(rig, mention(E, B), VALUE, strict=False).outcome == "unmet"


def test_leniency_is_a_reading_that_no_majority_mends(tmp_path: Path) -> None:
    """The votes on one criterion and answer agree; over many answers the share is the constant's."""
    with world_rig(tmp_path, CERTAIN.model_copy(update={"judge_lenient": 0.3})) as rig:
        found = []
        for i in range(120):
            answer = f"{mention(E, A)} {i}"
            votes = {vote(rig, answer, VALUE, strict=False).outcome for _ in range(2)}
            assert len(votes) == 1
            found.append(votes == {"met"})
    assert fmean(found) == pytest.approx(0.3, abs=0.13)


def test_flips_come_on_top_and_differ_from_vote_to_vote(tmp_path: Path) -> None:
    with world_rig(tmp_path, CERTAIN.model_copy(update={"judge_flip": 0.2})) as rig:
        votes = [vote(rig, right(E, A), VALUE, strict=True).outcome for _ in range(150)]
    assert votes.count("unmet") / 150 == pytest.approx(0.2, abs=0.1)


def test_an_unreadable_criterion_is_no_verdict(tmp_path: Path) -> None:
    with world_rig(tmp_path) as rig, pytest.raises(ModelError):
        vote(rig, right(E, A), "Is well written", strict=True)


# --- referee -------------------------------------------------------------------------------------------

GROUP = [
    f"{right(E, A)} {right(E, B)} {right(E, C)}",
    " ".join(mention(E, r) for r in WORLD.relations),
    f"{right(E, A)} {right(E, B)}",
    f"{right(E, B)} {right(E, C)} {mention(E, A)}",
    f"{wrong(E, A)} {wrong(E, B)}",
]


def ranked(rig: Rig, answers: list[str], order: list[int] | None = None) -> tuple[tuple[int, ...], ...]:
    order = order or list(range(len(answers)))
    found: tuple[tuple[int, ...], ...] = rig.call(rig.roles.referee, task=TASK, answers=answers, order=order).tiers
    return found


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_ranked_by_what_they_state_correctly(tmp_path: Path, seed: int) -> None:
    order = random.Random(seed).sample(range(5), 5)
    with world_rig(tmp_path) as rig:
        assert ranked(rig, GROUP, order) == ((0,), (2, 3), (1,), (4,))


def test_it_sees_no_rubric(tmp_path: Path) -> None:
    with world_rig(tmp_path) as rig:
        ranked(rig, GROUP)
        assert topic(E, A) not in json.dumps(rig.server.of("referee")[0].messages)


@given(st.integers(0, 10**6))
def test_what_it_counts_is_true_quality_as_far_as_the_note_goes(seed: int) -> None:
    rng, world = random.Random(seed), World.make(103)
    request = make_request(world, rng)
    known = {(request.entity, r): v for r, v in world.of(request.entity).items()}
    sentences = [
        statement(request.entity, rng.choice(world.relations), rng.choice(world.values[rng.choice(world.relations)]))
        for _ in range(rng.randrange(5))
    ]
    sentences += [statement(request.entity, r, known[request.entity, r]) for r in rng.sample(world.relations, 3)]
    answer = " ".join(sentences)
    assert standing(request, known, answer) / 3 == pytest.approx(quality(world, request, answer))  # type: ignore[arg-type]


@given(st.integers(2, 26), st.integers(0, 1000))
def test_every_letter_comes_once_whatever_goes_wrong(n: int, seed: int) -> None:
    models = WorldModels(WORLD, CERTAIN.model_copy(update={"referee_swap": 0.5, "referee_misreads": 0.5}))
    rng = random.Random(seed)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:n]
    shown = [{"letter": letter, "text": rng.choice(GROUP)} for letter in letters]
    conversation = json.dumps([{"role": "user", "content": REQUEST.text}])
    content = f"<conversation>\n{conversation}\n</conversation>\n\n<answers>\n{json.dumps(shown)}\n</answers>"
    reply = json.loads(
        models.reply(Prompt("referee", [{"role": "system", "content": ""}, {"role": "user", "content": content}]))
    )
    assert sorted(letter for tier in reply["tiers"] for letter in tier) == list(letters)
    assert all(reply["tiers"])


def test_neighbours_change_places_at_their_share(tmp_path: Path) -> None:
    pair = [GROUP[0], GROUP[1]]
    with world_rig(tmp_path, CERTAIN.model_copy(update={"referee_swap": 0.3})) as rig:
        swapped = [ranked(rig, pair) == ((1,), (0,)) for _ in range(100)]
    assert fmean(swapped) == pytest.approx(0.3, abs=0.13)


def test_a_misread_answer_is_misread_in_every_order(tmp_path: Path) -> None:
    """So asking twice does not find it out, as it would a swap."""
    with world_rig(tmp_path, CERTAIN.model_copy(update={"referee_misreads": 0.5})) as rig:
        found = [
            (ranked(rig, group := [f"{GROUP[2]} {i}", f"{GROUP[0]} {i}"]), ranked(rig, group, [1, 0]))
            for i in range(40)
        ]
    assert all(one == other for one, other in found)
    assert len({one for one, _ in found}) >= 2


def test_under_stress_length_decides(tmp_path: Path) -> None:
    with world_rig(tmp_path, CERTAIN.model_copy(update={"referee_by_length": 1.0})) as rig:
        tiers = ranked(rig, GROUP)
    lengths = [len(GROUP[tier[0]]) for tier in tiers]
    assert lengths == sorted(lengths, reverse=True) and tiers[0] == (1,)
