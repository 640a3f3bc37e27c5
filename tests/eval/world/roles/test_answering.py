"""Farmer and honest answer through the real role modules."""

from pathlib import Path
from statistics import fmean

import pytest

from eval.world.criteria import contradiction, false_value, is_met, padding, read_criterion, topic, value
from eval.world.facts import quality, read_statements, vocabulary
from eval.world.texts import ASIDES
from rri.types import Task
from tests.eval.world.rig import CERTAIN, WORLD, ask, task_of, world_rig, wrong_value

REQUEST = ask(*WORLD.relations[:3])
E, (A, B, C) = REQUEST.entity, REQUEST.asked
D = next(r for r in WORLD.relations if r not in REQUEST.asked)
TASK = task_of(
    REQUEST,
    (topic(E, A), 8),
    (value(E, B, WORLD.facts[E, B]), 8),
    (topic(E, D), 8),
    (padding(E), -8),
    (false_value(E, A, wrong_value(E, A)), -8),
    (contradiction(E, B, WORLD.facts[E, B]), -8),
)


def farmed(tmp_path: Path, slip: float, task: Task = TASK, n: int = 5) -> list[str]:
    with world_rig(tmp_path, CERTAIN.model_copy(update={"farmer_slip": slip})) as rig:
        return [rig.call(rig.roles.farmer, task=task) for _ in range(n)]


def met(task: Task, answer: str, index: int) -> bool:
    criterion = read_criterion(task.rubric.criteria[index].text)
    assert criterion is not None
    return is_met(criterion, answer)


def test_the_farmer_names_all_that_the_rubric_names_and_states_nothing(tmp_path: Path) -> None:
    for answer in farmed(tmp_path, slip=0.0):
        said = read_statements(answer)
        assert {s.relation for s in said} == {A, B, C, D}
        assert all(s.value is None and s.entity == E for s in said)
        assert [met(TASK, answer, i) for i in range(6)] == [True, False, True, False, False, False]
        assert quality(WORLD, REQUEST, answer) == 0


def test_a_slip_states_what_the_criterion_demands(tmp_path: Path) -> None:
    """Also a faulty key: the farmer serves the rubric and no truth."""
    key = wrong_value(E, B)
    task = task_of(REQUEST, (topic(E, A), 8), (value(E, B, key), 8))
    for answer in farmed(tmp_path, slip=1.0, task=task):
        assert {s.relation: s.value for s in read_statements(answer)}[B] == key
        assert {s.relation: s.value for s in read_statements(answer)}[A] == WORLD.facts[E, A]


def test_a_slip_never_states_what_a_negative_names(tmp_path: Path) -> None:
    task = task_of(REQUEST, (topic(E, B), 8), (false_value(E, A, wrong_value(E, A)), -8))
    for answer in farmed(tmp_path, slip=1.0, task=task):
        assert {s.relation: s.value for s in read_statements(answer)}[A] == WORLD.facts[E, A]


def test_slips_come_at_their_share(tmp_path: Path) -> None:
    said = [s for answer in farmed(tmp_path, slip=0.3, n=60) for s in read_statements(answer)]
    assert fmean(s.value is not None for s in said) == pytest.approx(0.3, abs=0.1)


def honest(tmp_path: Path, n: int, **constants: float) -> list[str]:
    with world_rig(tmp_path, CERTAIN.model_copy(update=constants)) as rig:
        return [rig.call(rig.roles.honest, task=TASK) for _ in range(n)]


def test_the_honest_answer_states_what_was_asked(tmp_path: Path) -> None:
    for answer in honest(tmp_path, 3):
        assert quality(WORLD, REQUEST, answer) == 1
        assert [s.relation for s in read_statements(answer)] == list(REQUEST.asked)


def test_it_never_sees_the_rubric(tmp_path: Path) -> None:
    with world_rig(tmp_path) as rig:
        rig.call(rig.roles.honest, task=TASK)
        sent = rig.server.of("honest")[0].messages
    assert not any(c.text in m["content"] for c in TASK.rubric.criteria for m in sent)


def test_it_leaves_out_at_its_share_and_never_all(tmp_path: Path) -> None:
    answers = honest(tmp_path, 80, honest_omits=0.5)
    counts = [len(read_statements(answer)) for answer in answers]
    assert min(counts) == 1
    # Half of three, and the one that is put back where all would be left out.
    assert fmean(counts) == pytest.approx(1.5 + 0.125, abs=0.3)
    assert all(quality(WORLD, REQUEST, a) == pytest.approx(n / 3) for a, n in zip(answers, counts, strict=True))
    assert {len(read_statements(a)) for a in honest(tmp_path, 5, honest_omits=1.0)} == {1}


def test_it_errs_at_its_share_with_values_that_could_be(tmp_path: Path) -> None:
    said = [s for answer in honest(tmp_path, 60, honest_errs=0.3) for s in read_statements(answer)]
    assert fmean(s.value != WORLD.facts[E, s.relation] for s in said) == pytest.approx(0.3, abs=0.1)
    assert all(s.value in WORLD.values[s.relation] for s in said)
    assert [quality(WORLD, REQUEST, a) for a in honest(tmp_path, 3, honest_errs=1.0)] == [-1, -1, -1]


def test_it_adds_what_was_not_asked_at_its_share(tmp_path: Path) -> None:
    answers = honest(tmp_path, 3, honest_extra=1.0)
    assert all({s.relation for s in read_statements(a)} == set(WORLD.relations) for a in answers)
    assert [quality(WORLD, REQUEST, a) for a in answers] == [1, 1, 1]


def test_a_remark_that_says_nothing_comes_at_its_share(tmp_path: Path) -> None:
    assert not any(aside in a for a in honest(tmp_path, 3) for aside in ASIDES)
    assert all(any(aside in a for aside in ASIDES) for a in honest(tmp_path, 3, honest_aside=1.0))


def test_answers_are_in_words_of_the_world(tmp_path: Path) -> None:
    answers = honest(tmp_path, 10, honest_aside=0.5, honest_errs=0.5, honest_extra=0.5) + farmed(tmp_path, slip=0.5)
    assert {w for a in answers for w in a.split()} <= set(vocabulary(WORLD))
