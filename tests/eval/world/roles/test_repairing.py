"""Rewriter and minter through the real role modules, their work through the real validators."""

from pathlib import Path

import pytest

from eval.world.criteria import (
    WorldCriterion,
    contradiction,
    false_value,
    long_topic,
    padding,
    read_criterion,
    topic,
    value,
)
from eval.world.facts import mention, read_question
from eval.world.texts import ASIDES
from programs import Minting, Proposal
from rri.rubric_rules import check_patch, check_rewrite, salvage_rewrite
from rri.types import Task
from tests.eval.world.rig import CERTAIN, WORLD, ask, grade_of, right, task_of, world_rig, wrong, wrong_value

REQUEST = ask(*WORLD.relations[:3])
E, (A, B, C) = REQUEST.entity, REQUEST.asked
D, F = [r for r in WORLD.relations if r not in REQUEST.asked][:2]
FACTS = WORLD.of(E)
NAMES = " ".join(mention(E, r) for r in WORLD.relations)
STATES = f"{right(E, A)} {right(E, B)} {right(E, C)}"


# --- rewriter ------------------------------------------------------------------------------------------


def rewrites(tmp_path: Path, task: Task, n: int = 1, **constants: float) -> list[Proposal]:
    with world_rig(tmp_path, CERTAIN.model_copy(update=constants)) as rig:
        return [rig.call(rig.roles.rewriter, task=task, exploit=NAMES, honest=STATES) for _ in range(n)]


def kinds(proposal: Proposal) -> list[WorldCriterion]:
    return [read for c in proposal.rubric.criteria if (read := read_criterion(c.text))]


TOPICS = task_of(REQUEST, (topic(E, A), 8), (topic(E, B), 7), (padding(E), -6))


def test_topics_become_values_of_the_note_and_points_stay(tmp_path: Path) -> None:
    proposal = rewrites(tmp_path, TOPICS)[0]
    assert kinds(proposal) == [
        WorldCriterion("value", E, A, FACTS[A]),
        WorldCriterion("value", E, B, FACTS[B]),
        WorldCriterion("padding", E),
    ]
    assert [c.points for c in proposal.rubric.criteria] == [8, 7, -6]
    assert proposal.task == REQUEST.text and proposal.explanation


def test_topics_become_values_at_their_share(tmp_path: Path) -> None:
    found = rewrites(tmp_path, TOPICS, 60, rewriter_hardens=0.3)
    values = sum(k.kind == "value" for p in found for k in kinds(p))
    assert values / 120 == pytest.approx(0.3, abs=0.13)


def test_what_was_not_asked_for_is_moved_to_what_was(tmp_path: Path) -> None:
    task = task_of(REQUEST, (topic(E, D), 8), (topic(E, A), 8), (topic(E, F), 8))
    assert {k.relation for k in kinds(rewrites(tmp_path, task)[0])} == {A, B, C}
    assert {k.relation for k in kinds(rewrites(tmp_path, task, rewriter_reaims=0.0)[0])} == {A, D, F}


def test_one_value_that_was_asked_for_may_be_added(tmp_path: Path) -> None:
    found = kinds(rewrites(tmp_path, TOPICS, rewriter_adds=1.0)[0])
    assert found[-1] == WorldCriterion("value", E, C, FACTS[C])


def test_a_rubric_with_one_positive_gets_a_second_one(tmp_path: Path) -> None:
    proposal = rewrites(tmp_path, task_of(REQUEST, (topic(E, A), 8)))[0]
    assert sum(c.points > 0 for c in proposal.rubric.criteria) == 2


def test_faulty_keys_are_mended_or_kept(tmp_path: Path) -> None:
    faulty, sound = value(E, A, wrong_value(E, A)), value(E, B, FACTS[B])
    task = task_of(REQUEST, (faulty, 8), (sound, 8))
    assert [k.value for k in kinds(rewrites(tmp_path, task)[0])] == [FACTS[A], FACTS[B]]
    kept = rewrites(tmp_path, task, rewriter_mends=0.0)[0]
    assert [c.text for c in kept.rubric.criteria] == [faulty, sound]


def test_a_rewrite_may_bring_a_faulty_key(tmp_path: Path) -> None:
    found = kinds(rewrites(tmp_path, TOPICS, faulty_key=1.0)[0])
    assert all(k.value != FACTS[k.relation] for k in found if k.kind == "value")


def test_a_reworded_task_asks_the_same(tmp_path: Path) -> None:
    tasks = {p.task for p in rewrites(tmp_path, TOPICS, 4, rephrased=1.0)}
    assert len(tasks) > 1
    assert {(q.entity, q.asked) for t in tasks if (q := read_question(t))} == {(E, REQUEST.asked)}


def test_rewrites_pass_the_checks_over_several_rounds(tmp_path: Path) -> None:
    with world_rig(tmp_path, CERTAIN.model_copy(update={"rewriter_hardens": 0.4, "rewriter_adds": 0.5})) as rig:
        for first in (TOPICS, task_of(REQUEST, (topic(E, D), 8), (topic(E, A), 8), (false_value(E, A, "x"), -5))):
            for _ in range(10):
                task = first
                for _ in range(3):
                    proposal = rig.call(rig.roles.rewriter, task=task, exploit=NAMES, honest=STATES)
                    after = salvage_rewrite(task.rubric, proposal.rubric)
                    assert check_rewrite(task.rubric, after, red_team=False) == []
                    assert after == proposal.rubric
                    task = task.model_copy(update={"rubric": after})


# --- minter --------------------------------------------------------------------------------------------


def minted(tmp_path: Path, a: str, b: str, task: Task = TOPICS, n: int = 1, **constants: float) -> list[Minting]:
    unmet = ["unmet"] * len(task.rubric.criteria)
    grade = grade_of(task, *unmet)  # type: ignore[arg-type]
    with world_rig(tmp_path, CERTAIN.model_copy(update=constants)) as rig:
        return [
            rig.call(rig.roles.minter, task=task, exploit=a, better=b, exploit_grade=grade, better_grade=grade)
            for _ in range(n)
        ]


def read(minting: Minting) -> list[WorldCriterion]:
    return [r for c in minting.criteria if (r := read_criterion(c.text))]


def test_positives_are_values_that_b_states_and_a_lacks(tmp_path: Path) -> None:
    minting = minted(tmp_path, f"{NAMES} {right(E, A)}", STATES)[0]
    assert set(read(minting)) == {WorldCriterion("value", E, r, FACTS[r]) for r in (B, C)}
    assert all(5 <= c.points <= 10 and len(c.why.split()) <= 30 for c in minting.criteria)
    assert minting.label == "hedge_namedrop"


def test_negatives_are_values_of_a_that_contradict_the_note(tmp_path: Path) -> None:
    a, b = f"{wrong(E, A)} {NAMES}", right(E, A)
    general = minted(tmp_path, a, b)[0]
    assert [r for r in read(general) if r.kind != "value"] == [WorldCriterion("contradiction", E, A, FACTS[A])]
    single = minted(tmp_path, a, b, minter_general=0.0)[0]
    assert [r for r in read(single) if r.kind != "value"] == [WorldCriterion("false_value", E, A, wrong_value(E, A))]
    assert all(-10 <= c.points <= -5 for m in (general, single) for c in m.criteria if "States" not in c.text)
    assert general.label == single.label == "unhedged_confidence"
    assert [r.kind for r in read(minted(tmp_path, a, b, minter_negatives=0.0)[0])] == ["value"]


def test_remarks_of_a_alone_get_a_negative(tmp_path: Path) -> None:
    with_aside, task = f"{right(E, A)} {ASIDES[0]}", task_of(REQUEST, (topic(E, A), 8))
    minting = minted(tmp_path, with_aside, right(E, B), task)[0]
    assert WorldCriterion("padding", E) in read(minting) and minting.label == "breadth_padding"
    both = minted(tmp_path, with_aside, f"{right(E, B)} {ASIDES[1]}", task)[0]
    assert [r.kind for r in read(both)] == ["value"]


def test_a_negative_that_is_there_is_minted_again_only_at_its_share(tmp_path: Path) -> None:
    there = contradiction(E, A, FACTS[A])
    task = task_of(REQUEST, (topic(E, A), 8), (there, -8))
    assert there not in [c.text for c in minted(tmp_path, wrong(E, A), STATES, task)[0].criteria]
    again = minted(tmp_path, wrong(E, A), STATES, task, minter_repeats=1.0, n=8)
    assert any(there in [c.text for c in minting.criteria] for minting in again)


def test_at_most_three_come_at_once_and_a_positive_among_them(tmp_path: Path) -> None:
    a = " ".join(wrong(E, r) for r in WORLD.relations[:5])
    for minting in minted(tmp_path, a, STATES, n=10):
        assert len(minting.criteria) == 3 and any(c.points > 0 for c in minting.criteria)


def test_what_the_rubric_holds_is_minted_again_only_at_its_share(tmp_path: Path) -> None:
    task = task_of(REQUEST, (value(E, A, FACTS[A]), 8), (topic(E, B), 8))
    assert {r.relation for r in read(minted(tmp_path, NAMES, STATES, task)[0])} == {B, C}
    again = minted(tmp_path, NAMES, STATES, task, minter_repeats=1.0)[0]
    assert {r.relation for r in read(again)} == {A, B, C}


def test_topics_are_minted_at_their_share(tmp_path: Path) -> None:
    minting = minted(tmp_path, "", STATES, minter_topics=1.0)[0]
    assert {r.kind for r in read(minting)} == {"topic"}


@pytest.mark.parametrize(("checks", "found"), [(1.0, []), (0.0, ["value"])])
def test_a_wrong_value_of_b_becomes_a_key_only_unchecked(tmp_path: Path, checks: float, found: list[str]) -> None:
    minting = minted(tmp_path, NAMES, wrong(E, A), minter_checks=checks)[0]
    assert [r.kind for r in read(minting)] == found


@pytest.mark.parametrize(("a", "b"), [(STATES, STATES), (STATES, NAMES), (NAMES, NAMES), ("", "")])
def test_where_nothing_tells_them_apart_there_are_no_criteria(tmp_path: Path, a: str, b: str) -> None:
    assert minted(tmp_path, a, b)[0] == Minting(criteria=(), label="none")


def test_what_is_minted_passes_the_checks_of_a_patch(tmp_path: Path) -> None:
    a, task = f"{NAMES} {wrong(E, A)} {ASIDES[0]}", task_of(REQUEST, (topic(E, A), 8), (topic(E, B), 8))
    for minting in minted(tmp_path, a, STATES, task, n=20, minter_topics=0.3, minter_general=0.5):
        for criterion in minting.criteria:
            problems = check_patch(criterion.criterion, task.rubric)
            covered = criterion.text in (long_topic(E, A), long_topic(E, B))
            assert bool(problems) is covered, (criterion.text, problems)


def test_a_contradiction_names_the_right_value(tmp_path: Path) -> None:
    minting = minted(tmp_path, wrong(E, B), right(E, B))[0]
    assert contradiction(E, B, FACTS[B]) in [c.text for c in minting.criteria]
