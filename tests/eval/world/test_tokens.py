"""The solver's tokenizer: no word of the world is unknown, texts come back as they went in, and the run can use it."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from eval.world.facts import World, make_request, passages, vocabulary
from eval.world.mixture import Mixture, draw_example
from eval.world.texts import BRIEF, FULL
from eval.world.tokens import BEGIN, END, PAD, ROLES, UNKNOWN, chat, make_tokenizer
from rri.tokens import SolverTokenizer
from rri.types import Message
from training.preflight import model_facts
from training.reasoning import reasoning_of

WORLD = World.make(100)
TOKENIZER = make_tokenizer(WORLD)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    TOKENIZER.save_pretrained(tmp_path)
    return tmp_path


@given(st.integers(0, 2**32), st.sampled_from([FULL, BRIEF]), st.integers(1, 8))
def test_no_text_of_the_world_holds_an_unknown_word(seed: int, use_case: str, asked: int) -> None:
    rng = random.Random(seed)
    request = make_request(WORLD, rng, asked, use_case=use_case, held_out=None)
    answer = Mixture().answer(WORLD, request, rng)
    for text in (request.text, answer, chat(request.text)[0]["content"]):
        ids = TOKENIZER.encode(text)
        assert TOKENIZER.unk_token_id not in ids
        assert len(ids) == len(text.split())
        assert TOKENIZER.decode(ids, skip_special_tokens=True) == text


def test_every_word_and_passage_of_other_worlds_is_known_to_their_tokenizers() -> None:
    for world in (World.make(101), World.make(102, entities=3, relations=10, values=20)):
        tokenizer = make_tokenizer(world)
        words = vocabulary(world)
        assert len(tokenizer) == len(words) + 7
        for text in (" ".join(words), *(passage["text"] for passage in passages(world))):
            assert tokenizer.unk_token_id not in tokenizer.encode(text)


def test_a_word_of_no_world_is_unknown_and_upper_case_is_not() -> None:
    assert TOKENIZER.encode("the cromulent") == TOKENIZER.convert_tokens_to_ids(["the", UNKNOWN])
    assert TOKENIZER.encode("The MATTERS .") == TOKENIZER.encode("the matters .")


def test_the_chat_template_opens_each_turn_and_ends_the_assistants_alone() -> None:
    turns = [*chat("question : ?"), {"role": "assistant", "content": "the ."}]
    shown = TOKENIZER.apply_chat_template(turns, tokenize=False)
    system, user, assistant = ROLES.values()
    assert shown == f"{BEGIN}{system} {turns[0]['content']}{user} question : ?{assistant} the . {END}"
    asked = TOKENIZER.apply_chat_template(turns[:2], tokenize=False, add_generation_prompt=True)
    assert shown.startswith(asked) and asked.endswith(assistant)


def test_an_answer_after_the_prompt_is_read_as_in_the_whole_chat() -> None:
    """What is learned in pre-training is what generation goes on from."""
    example = draw_example(WORLD, Mixture(), random.Random(1))
    turns = [*chat(example.request.text), {"role": "assistant", "content": example.answer}]
    prompt = TOKENIZER.apply_chat_template(turns[:2], add_generation_prompt=True, return_dict=False)
    whole = TOKENIZER.apply_chat_template(turns, return_dict=False)
    assert whole == [*prompt, *TOKENIZER.encode(example.answer), TOKENIZER.eos_token_id]
    assert whole.count(TOKENIZER.bos_token_id) == whole.count(TOKENIZER.eos_token_id) == 1
    assert TOKENIZER.unk_token_id not in whole


def test_special_tokens_have_the_same_numbers_in_every_world() -> None:
    special = [PAD, BEGIN, END, UNKNOWN, *ROLES.values()]
    for tokenizer in (TOKENIZER, make_tokenizer(World.make(103, entities=2))):
        assert tokenizer.convert_tokens_to_ids(special) == list(range(7))
    assert TOKENIZER.decode(TOKENIZER.convert_tokens_to_ids(special), skip_special_tokens=True) == ""


def test_a_saved_tokenizer_is_the_same_and_counts_as_the_run_counts(folder: Path) -> None:
    loaded = AutoTokenizer.from_pretrained(folder)
    request = make_request(WORLD, random.Random(2))
    ids = loaded.apply_chat_template(chat(request.text), add_generation_prompt=True, return_dict=False)
    assert ids == TOKENIZER.apply_chat_template(chat(request.text), add_generation_prompt=True, return_dict=False)
    assert loaded.decode(loaded.encode("crest of , : ?")) == "crest of , : ?"
    counted = SolverTokenizer(folder)
    messages = [Message.model_validate(message) for message in chat(request.text)]
    assert counted.count_prompt(messages) == len(ids)
    assert counted.count(request.text) == len(request.text.split())


def test_the_trainer_finds_what_it_needs(folder: Path) -> None:
    class Config:
        max_position_embeddings = 512

        def get_text_config(self) -> "Config":
            return self

    loaded = AutoTokenizer.from_pretrained(folder)
    facts = model_facts(loaded, Config())
    assert facts.has_template and not facts.unrendered and facts.has_end
    assert loaded.padding_side == "left"
    assert reasoning_of(loaded, None, None).visible("the crest .").text == "the crest ."
