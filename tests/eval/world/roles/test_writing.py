"""Proposer and generator through the real role modules."""

from pathlib import Path
from typing import Any

import pytest

from eval.world.criteria import WorldCriterion, read_criterion
from eval.world.facts import is_held_out, read_question, read_statements, vocabulary
from eval.world.roles.evolving import GUIDANCE_B, MEMOS
from eval.world.texts import BRIEF, FULL
from programs import Draft, Generator
from rri.cases import GuidanceVersion, MemoVersion
from rri.errors import ModelError
from rri.rubric_rules import check_rubric
from signatures.proposer import WantedRequest
from tests.eval.world.rig import CERTAIN, WORLD, Rig, ask, passage_of, world_rig

REQUEST = ask(*WORLD.relations[:3])
OFF = [r for r in WORLD.relations if r not in REQUEST.asked]


# --- proposer ------------------------------------------------------------------------------------------


def proposed(rig: Rig, n: int = 6, entities: int = 3, avoid: list[str] | None = None, **wish: str) -> list[str]:
    wanted = [WantedRequest(**{"use_case": FULL, **wish}) for _ in range(n)]
    passages = [passage_of(entity) for entity in WORLD.entities[:entities]]
    found: list[str] = rig.call(rig.roles.proposer, domain="d", passages=passages, wanted=wanted, avoid=avoid or [])
    return found


def test_requests_are_about_the_passages_and_in_words_of_the_world(tmp_path: Path) -> None:
    with world_rig(tmp_path) as rig:
        texts = proposed(rig, 12)
    for text in texts:
        question = read_question(text)
        assert question is not None and question.entity in WORLD.entities[:3] and len(set(question.asked)) == 3
        assert {s.relation: s.value for s in read_statements(text)} == WORLD.of(question.entity)
        assert set(text.split()) <= set(vocabulary(WORLD))


def test_no_held_out_question_and_none_twice_is_proposed(tmp_path: Path) -> None:
    with world_rig(tmp_path) as rig:
        first = proposed(rig, 12)
        second = proposed(rig, 12, avoid=first)
    questions = [q for text in first + second if (q := read_question(text))]
    assert not any(is_held_out(q.entity, q.asked) for q in questions)
    assert len({(q.entity, frozenset(q.asked)) for q in questions}) == 24


def test_no_question_comes_twice_in_one_call(tmp_path: Path) -> None:
    """One entity has some 45 questions that may be asked, so that chance alone would repeat some of twelve."""
    with world_rig(tmp_path) as rig:
        for topic in WORLD.relations[:3]:
            questions = [read_question(text) for text in proposed(rig, 12, entities=1, topic=topic)]
            assert len({frozenset(q.asked) for q in questions if q}) == 12


@pytest.mark.parametrize("topic", WORLD.relations[:3])
def test_a_wished_topic_is_asked_for(tmp_path: Path, topic: str) -> None:
    with world_rig(tmp_path) as rig:
        texts = proposed(rig, 6, topic=topic)
    assert all(topic in (read_question(text) or REQUEST).asked for text in texts)


def test_use_cases_have_wordings_of_their_own(tmp_path: Path) -> None:
    with world_rig(tmp_path) as rig:
        brief, full = proposed(rig, use_case=BRIEF), proposed(rig, use_case=FULL)
    assert all("brief" in text or "list" in text for text in brief)
    assert not any("brief" in text or "list" in text for text in full)


# --- generator -----------------------------------------------------------------------------------------


def drafts(rig: Rig, n: int, module: Generator | None = None, **fields: Any) -> list[Draft]:
    arguments = {"request": REQUEST.text, "passages": [passage_of(REQUEST.entity)], "positives": 3, "negative": True}
    module = module or rig.roles.generator
    return [rig.call(module, **{**arguments, **fields}) for _ in range(n)]


def meanings(found: list[Draft], positive: bool = True) -> list[WorldCriterion]:
    criteria = [c for draft in found for c in draft.rubric.criteria if (c.points > 0) is positive]
    read = [read_criterion(c.text) for c in criteria]
    assert None not in read
    return [r for r in read if r is not None]


def values_share(found: list[Draft]) -> float:
    read = meanings(found)
    return sum(r.kind == "value" for r in read) / len(read)


@pytest.mark.parametrize("positives", [1, 2, 3, 4])
@pytest.mark.parametrize("negative", [True, False])
def test_a_rubric_has_the_shape_that_was_asked_for(tmp_path: Path, positives: int, negative: bool) -> None:
    with world_rig(tmp_path) as rig:
        found = drafts(rig, 5, positives=positives, negative=negative)
    for draft in found:
        points = [c.points for c in draft.rubric.criteria]
        assert (sum(p > 0 for p in points), sum(p < 0 for p in points)) == (positives, int(negative))
        assert all(5 <= abs(p) <= 10 for p in points)
        assert check_rubric(draft.rubric) == []
    read = meanings(found)
    assert {r.entity for r in read} == {REQUEST.entity}
    assert all(len({r.relation for r in meanings([d])}) == positives for d in found)


def test_some_criteria_are_not_delivered_but_never_all(tmp_path: Path) -> None:
    constants = CERTAIN.model_copy(update={"positive_delivery": 0.5, "negative_delivery": 0.5})
    with world_rig(tmp_path, constants) as rig:
        found = drafts(rig, 40)
    counts = [sum(c.points > 0 for c in d.rubric.criteria) for d in found]
    negatives = sum(any(c.points < 0 for c in d.rubric.criteria) for d in found)
    assert min(counts) == 1 and max(counts) == 3 and 8 < negatives < 32
    with world_rig(tmp_path, CERTAIN.model_copy(update={"positive_delivery": 0.0})) as rig:
        least = drafts(rig, 3)
    assert all(sum(c.points > 0 for c in d.rubric.criteria) == 1 for d in least)


def guided(rig: Rig, guidance: str, memo: str) -> Generator:
    texts = GuidanceVersion(version=1, guidance_b=guidance), MemoVersion(version=1, memo=memo)
    return rig.roles.guided(*texts)[1]


STRONG, WEAK = GUIDANCE_B[1.0], GUIDANCE_B[0.5]


def test_values_come_with_what_guidance_and_memo_say(tmp_path: Path) -> None:
    constants = CERTAIN.model_copy(update={"value_share": 0.1, "guidance_lift": 0.4, "memo_lift": 0.4})
    cases = {
        ("", ""): 0.1,
        ("Vary who asks, and be kind.", "Be kind."): 0.1,
        (WEAK, ""): 1 - 0.9 * 0.8,
        (STRONG, ""): 1 - 0.9 * 0.6,
        ("", MEMOS[1]): 1 - 0.9 * 0.6,
        (STRONG, MEMOS[1]): 1 - 0.9 * 0.36,
    }
    with world_rig(tmp_path, constants) as rig:
        shares = {texts: values_share(drafts(rig, 60, guided(rig, *texts))) for texts in cases}
    for texts, expected in cases.items():
        assert shares[texts] == pytest.approx(expected, abs=0.12), texts
    assert shares["", ""] < shares[WEAK, ""] < shares[STRONG, MEMOS[1]]


def test_values_are_those_of_the_note_unless_the_key_is_faulty(tmp_path: Path) -> None:
    always = CERTAIN.model_copy(update={"value_share": 1.0})
    facts = WORLD.of(REQUEST.entity)
    with world_rig(tmp_path, always) as rig:
        assert all(r.value == facts[r.relation] for r in meanings(drafts(rig, 5)))
    with world_rig(tmp_path, always.model_copy(update={"faulty_key": 1.0})) as rig:
        read = meanings(drafts(rig, 5))
    assert all(r.value != facts[r.relation] and r.value in WORLD.values[r.relation] for r in read)


def test_criteria_are_about_what_was_asked_or_beyond_it(tmp_path: Path) -> None:
    for share, allowed in ((0.0, REQUEST.asked), (1.0, OFF)):
        with world_rig(tmp_path, CERTAIN.model_copy(update={"off_request": share})) as rig:
            read = meanings(drafts(rig, 5, positives=2))
        assert {r.relation for r in read} <= set(allowed)


def test_a_negative_is_a_trap_of_form_or_a_false_value_that_was_asked_for(tmp_path: Path) -> None:
    with world_rig(tmp_path, CERTAIN.model_copy(update={"value_negatives": 0.0})) as rig:
        assert {r.kind for r in meanings(drafts(rig, 5), positive=False)} == {"padding"}
    with world_rig(tmp_path, CERTAIN.model_copy(update={"value_negatives": 1.0})) as rig:
        read = meanings(drafts(rig, 8), positive=False)
    assert {r.kind for r in read} == {"false_value"}
    assert all(r.relation in REQUEST.asked and r.value != WORLD.facts[r.entity, r.relation] for r in read)


def test_a_rephrased_task_asks_the_same_from_the_same_note(tmp_path: Path) -> None:
    with world_rig(tmp_path) as rig:
        assert {d.task for d in drafts(rig, 3)} == {REQUEST.text}
    with world_rig(tmp_path, CERTAIN.model_copy(update={"rephrased": 1.0})) as rig:
        tasks = {d.task for d in drafts(rig, 6)}
    assert len(tasks) > 3
    for task in tasks:
        question = read_question(task)
        assert question is not None and (question.entity, question.asked) == (REQUEST.entity, REQUEST.asked)
        assert {s.relation: s.value for s in read_statements(task)} == WORLD.of(REQUEST.entity)
        assert set(task.split()) <= set(vocabulary(WORLD))


@pytest.mark.parametrize(
    ("feedback", "level"),
    [("", "intermediate"), ("so write harder tasks", "advanced"), ("so write easier tasks", "basic")],
)
def test_difficulty_is_a_label(tmp_path: Path, feedback: str, level: str) -> None:
    with world_rig(tmp_path) as rig:
        assert drafts(rig, 1, difficulty=feedback)[0].level == level


def test_a_request_of_another_world_gets_no_task(tmp_path: Path) -> None:
    """A model that cannot do its work is an error of the call, never a made-up task."""
    with world_rig(tmp_path, endpoints={"world": {"retries": 0}}) as rig, pytest.raises(ModelError):
        drafts(rig, 1, request="Please explain the law.")


def test_no_relation_comes_twice_in_a_rubric(tmp_path: Path) -> None:
    """Also where more criteria are wanted than relations were asked for."""
    for share in (0.0, 0.5, 1.0):
        with world_rig(tmp_path, CERTAIN.model_copy(update={"off_request": share})) as rig:
            found = drafts(rig, 5, positives=5)
        assert all(len({r.relation for r in meanings([d])}) == 5 for d in found)
