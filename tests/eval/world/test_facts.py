"""The world's facts, its one parser, requests, and true quality, which knows no rubric."""

import json
import random
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.world.facts import (
    HELD_OUT_SHARE,
    Question,
    Statement,
    World,
    is_held_out,
    make_request,
    mention,
    note,
    passages,
    quality,
    read_question,
    read_statements,
    request_text,
    statement,
    vocabulary,
    write_note,
)
from eval.world.texts import ASIDES, BRIEF, FULL, QUESTIONS, SYSTEM_PROMPT
from rri.errors import InputError
from rri.types import Reference
from tests.eval.world.rig import WORLD, ask, right, wrong

WORDS = st.sampled_from([*WORLD.entities, *WORLD.relations, "the", "of", "is", "or", "matters", ".", "amber", ","])
SEEDS = st.integers(0, 10**6)


def stated(entity: str, *relations: str) -> str:
    return " ".join(right(entity, r) for r in relations)


# --- the world -----------------------------------------------------------------------------------------


@given(SEEDS)
def test_a_world_follows_from_its_seed(seed: int) -> None:
    world = World.make(seed)
    assert world == World.make(seed)
    assert (len(world.entities), len(world.relations)) == (40, 8)
    assert {len(v) for v in world.values.values()} == {16}
    assert set(world.facts) == {(e, r) for e in world.entities for r in world.relations}
    assert all(value in world.values[r] for (_, r), value in world.facts.items())


def test_other_seeds_make_other_worlds() -> None:
    assert len({World.make(seed).entities for seed in range(100, 120)}) == 20
    assert len({tuple(World.make(seed).facts.values()) for seed in range(100, 120)}) == 20


@given(SEEDS)
def test_no_word_has_two_meanings(seed: int) -> None:
    world = World.make(seed)
    values = [v for pool in world.values.values() for v in pool]
    fixed = {word for text in (SYSTEM_PROMPT, *ASIDES) for word in text.split()}
    groups = [set(world.entities), set(world.relations), set(values), fixed]
    assert len(values) == len(set(values)) and len(world.entities) == len(set(world.entities))
    assert all(not a & b for a, b in combinations(groups, 2))


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"entities": 0}, "0 entities"),
        ({"relations": 11}, "11 relations"),
        ({"relations": 0}, "0 relations"),
        ({"values": 1}, "1 values"),
        ({"values": 21}, "21 values"),
    ],
)
def test_a_world_that_has_no_words_is_refused(sizes: dict[str, int], named: str) -> None:
    with pytest.raises(InputError, match=named):
        World.make(1, **sizes)


@pytest.mark.parametrize("sizes", [{"entities": 1}, {"relations": 1}, {"relations": 10}, {"values": 2}, {"values": 20}])
def test_a_world_at_the_edge_of_its_words_is_made(sizes: dict[str, int]) -> None:
    world = World.make(1, **sizes)
    assert len(world.facts) == len(world.entities) * len(world.relations)


def test_an_unknown_entity_is_refused() -> None:
    with pytest.raises(InputError, match="no entity 'nobody'"):
        WORLD.of("nobody")


# --- sentences -----------------------------------------------------------------------------------------


def test_sentences_are_written_as_they_are_read() -> None:
    assert statement("velor", "crest", "falcon") == "the crest of velor is falcon ."
    assert mention("velor", "crest") == "the crest of velor matters ."
    text = f"{statement('velor', 'crest', 'falcon')} {mention('velor', 'gem')}"
    assert read_statements(text) == [Statement("velor", "crest", "falcon"), Statement("velor", "gem", None)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("The Crest of Velor is FALCON.", ["falcon"]),
        ("so the crest of velor is falcon , you see", ["falcon"]),
        ("the crest of velor is falcon or otter .", ["falcon", "otter"]),
        ("the crest of velor is falcon the crest of velor is otter", ["falcon", "otter"]),
        ("the crest of velor matters the crest of velor is falcon .", [None, "falcon"]),
        ("the crest of velor", []),
        ("the crest of velor is", []),
        ("what are the gem and crest of velor ?", []),
        ("the crest matters . velor is falcon .", []),
        ("bathe crest of velor is falcon .", []),
        ("", []),
    ],
)
def test_what_a_text_states(text: str, values: list[str | None]) -> None:
    assert [s.value for s in read_statements(text)] == values


@given(st.lists(WORDS, max_size=40))
def test_any_text_can_be_read(words: list[str]) -> None:
    text = " ".join(words)
    found = read_statements(text)
    assert found == read_statements(text.upper())
    assert all(s.relation in words and s.entity in words for s in found)


@given(
    st.lists(st.tuples(st.sampled_from(WORLD.entities), st.sampled_from(WORLD.relations), st.booleans()), max_size=9)
)
def test_reading_gives_back_what_was_written_among_other_sentences(facts: list[tuple[str, str, bool]]) -> None:
    said = [Statement(e, r, WORLD.facts[e, r] if gives else None) for e, r, gives in facts]
    sentences = [statement(*s[:2], s.value) if s.value else mention(*s[:2]) for s in said]
    text = " ".join(f"{ASIDES[i % len(ASIDES)]} {sentence}" for i, sentence in enumerate(sentences))
    assert read_statements(text) == said


def test_what_was_read_is_the_callers_own() -> None:
    text = right(WORLD.entities[0], WORLD.relations[0])
    read_statements(text).clear()
    assert len(read_statements(text)) == 1


# --- requests ------------------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 8), st.sampled_from([FULL, BRIEF, None]))
def test_a_request_holds_its_note_and_its_question(seed: int, asked: int, use_case: str | None) -> None:
    request = make_request(WORLD, random.Random(seed), asked, use_case=use_case, held_out=None)
    assert len(set(request.asked)) == asked
    assert read_question(request.text) == Question(request.entity, request.asked)
    known = {(s.entity, s.relation): s.value for s in read_statements(request.text)}
    assert known == {(request.entity, r): v for r, v in WORLD.of(request.entity).items()}
    assert set(request.text.split()) <= set(vocabulary(WORLD))


@pytest.mark.parametrize("use_case", QUESTIONS)
def test_every_wording_is_read(use_case: str) -> None:
    entity, asked = WORLD.entities[3], WORLD.relations[:3]
    texts = {request_text("x", entity, asked, random.Random(i), use_case) for i in range(60)}
    assert len(texts) == len(QUESTIONS[use_case])
    assert {read_question(text) for text in texts} == {Question(entity, asked)}


@pytest.mark.parametrize("text", ["", "note : the gem of velor is jade .", "question : who are you ?"])
def test_a_text_without_a_question_asks_nothing(text: str) -> None:
    assert read_question(text) is None


def test_notes_come_in_many_orders() -> None:
    notes = {note(WORLD, WORLD.entities[0], random.Random(i)) for i in range(20)}
    assert len(notes) == 20 and len({tuple(sorted(n.split())) for n in notes}) == 1
    assert note(WORLD, WORLD.entities[0], random.Random(5)) == note(WORLD, WORLD.entities[0], random.Random(5))


@pytest.mark.parametrize(("asked", "named"), [(0, "0 of 8"), (9, "9 of 8")])
def test_more_than_there_is_cannot_be_asked(asked: int, named: str) -> None:
    with pytest.raises(InputError, match=named):
        make_request(WORLD, random.Random(1), asked)


def test_a_question_needs_a_relation_and_a_use_case() -> None:
    with pytest.raises(InputError, match="asks for nothing"):
        request_text("x", "velor", [], random.Random(1))
    with pytest.raises(InputError, match="no use case 'letter'"):
        request_text("x", "velor", ["gem"], random.Random(1), "letter")


# --- held-out questions --------------------------------------------------------------------------------


def test_a_fifth_of_the_questions_is_held_out() -> None:
    questions = [(e, r) for e in WORLD.entities for r in combinations(WORLD.relations, 3)]
    share = sum(is_held_out(*q) for q in questions) / len(questions)
    assert len(questions) == 2240 and abs(share - HELD_OUT_SHARE) < 0.03


@given(st.sampled_from(WORLD.entities), st.lists(st.sampled_from(WORLD.relations), min_size=3, max_size=3, unique=True))
def test_the_order_of_the_relations_does_not_matter(entity: str, asked: list[str]) -> None:
    assert len({is_held_out(entity, order) for order in permutations(asked)}) == 1


@given(SEEDS, st.booleans())
def test_requests_are_of_the_part_that_was_asked_for(seed: int, held_out: bool) -> None:
    request = make_request(WORLD, random.Random(seed), held_out=held_out)
    assert is_held_out(request.entity, request.asked) is held_out


def test_by_default_nothing_that_is_kept_for_evaluation_is_drawn() -> None:
    rng = random.Random(7)
    assert not any(is_held_out(r.entity, r.asked) for r in (make_request(WORLD, rng) for _ in range(300)))


def test_a_world_without_such_a_question_says_so() -> None:
    small = World.make(100, entities=1, relations=1)
    kept = is_held_out(small.entities[0], small.relations)
    with pytest.raises(InputError, match="no question"):
        make_request(small, random.Random(1), 1, held_out=not kept)


# --- true quality --------------------------------------------------------------------------------------

REQUEST = ask(*WORLD.relations[:3])
E = REQUEST.entity
A, B, C = REQUEST.asked
D = next(r for r in WORLD.relations if r not in REQUEST.asked)
OTHER = WORLD.entities[1]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (stated(E, A, B, C), 1),
        (stated(E, A, B), 2 / 3),
        (stated(E, A, A, A), 1 / 3),
        (" ".join(mention(E, r) for r in WORLD.relations), 0),
        ("", 0),
        (f"{stated(E, A, B)} {wrong(E, C)}", 1 / 3),
        (f"{wrong(E, A)} {wrong(E, B)} {wrong(E, C)}", -1),
        (f"{stated(E, A)} {wrong(E, A)}", -1 / 3),
        (f"{wrong(E, A)} {stated(E, A)}", -1 / 3),
        (stated(E, D), 0),
        (f"{stated(E, A, B, C)} {wrong(E, D)}", 2 / 3),
        (stated(OTHER, A, B, C), 0),
        (f"{stated(E, A, B, C)} {wrong(OTHER, A)}", 2 / 3),
        (f"{stated(E, A)} the crest of nobody is falcon .", 0),
        (f"{stated(E, A)} {mention(E, A)} {mention(E, B)}", 1 / 3),
    ],
)
def test_true_quality(answer: str, expected: float) -> None:
    assert quality(WORLD, REQUEST, answer) == pytest.approx(expected)


@given(st.lists(WORDS, max_size=60))
def test_quality_is_at_most_one_and_no_mention_changes_it(words: list[str]) -> None:
    answer = " ".join(words)
    value = quality(WORLD, REQUEST, answer)
    assert value <= 1
    assert quality(WORLD, REQUEST, f"{answer} . {mention(E, A)}") == pytest.approx(value)


def test_hedging_between_values_is_no_shelter() -> None:
    both = f"the {A} of {E} is {WORLD.facts[E, A]} or {next(v for v in WORLD.values[A] if v != WORLD.facts[E, A])} ."
    assert quality(WORLD, REQUEST, both) == pytest.approx(-1 / 3)


# --- the whole world in text ---------------------------------------------------------------------------


def test_passages_state_every_fact_and_are_lines_of_a_corpus() -> None:
    found = [Reference.model_validate(json.loads(json.dumps(p))) for p in passages(WORLD)]
    said = {(s.entity, s.relation): s.value for p in found for s in read_statements(p.text)}
    assert said == dict(WORLD.facts)
    assert [p.id for p in found] == list(WORLD.entities)


def test_the_vocabulary_holds_every_text_and_nothing_in_upper_case() -> None:
    words = vocabulary(WORLD)
    texts = [SYSTEM_PROMPT, *ASIDES, *(p["text"] for p in passages(WORLD))]
    texts += [mention(e, r) for e, r in WORLD.facts] + [statement(e, r, v) for (e, r), v in WORLD.facts.items()]
    assert {w for text in texts for w in text.split()} <= set(words)
    assert words == sorted(set(words)) and all(w == w.lower() and " " not in w for w in words)
    assert {v for pool in WORLD.values.values() for v in pool} <= set(words)


def test_a_note_can_be_written_from_what_was_read_alone() -> None:
    facts = {"gem": "jade", "crest": "owl"}
    assert {s.relation: s.value for s in read_statements(write_note("velor", facts, random.Random(1)))} == facts
