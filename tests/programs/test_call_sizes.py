"""Sizes of calls: typical fields fit the signatures, and what is measured is what is rendered."""

from functools import partial
from typing import Any, get_args

import pytest

from programs.call_sizes import CallSize, Typical, measure_calls
from rri.assumptions import CASES, Assumptions
from rri.config import load_config
from rri.estimate import Kind
from rri.lm.adapter import output_spec, render
from rri.types import Reference
from tests.rigs import scripted_config

KINDS = [kind for kind in get_args(Kind) if kind != "preflight"]
LONG = [Reference(id=f"p{i}", title="Title", text="A long passage. " * 200, source="book") for i in range(20)]

config_of = partial(scripted_config, "http://127.0.0.1:1/v1", roles={"farmer": {"max_tokens": 100_000}})


def sizes(given: dict[str, float] | None = None, **sections: Any) -> dict[Kind, CallSize]:
    base = {role: {"max_tokens": 100_000} for role in ("farmer", "honest")}
    solver = {"max_prompt_tokens": 6144, "max_completion_tokens": 8192, **sections.pop("solver", {})}
    config = scripted_config("http://127.0.0.1:1/v1", **{"roles": base, "solver": solver, **sections})
    return measure_calls(config, Assumptions.case("expected", given), LONG)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("preset", ["smoke", "default"])
def test_typical_fields_are_those_of_the_signature(kind: str, preset: str) -> None:
    call = getattr(Typical(load_config(preset), Assumptions()), kind)()
    assert set(call.fields) <= set(call.signature.input_fields)
    given = {name for name, value in call.fields.items() if value is not None}
    # A first attempt has no problems, and a first task no feedback.
    assert set(call.signature.input_fields) - given <= {"problems", "difficulty", "language", "languages", "avoid"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_a_typical_reply_is_one_that_the_role_may_give(kind: str, case: str) -> None:
    assert case in CASES
    call = getattr(Typical(load_config("default"), Assumptions.case(case)), kind)()
    shown = {**dict.fromkeys(call.signature.input_fields, ""), **call.reply}
    text = render(call.signature, [shown], call.fields)[2]["content"]
    output_spec(call.signature).validate(text)
    assert call.size().reply_chars == len(text)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_measured_is_what_is_rendered(kind: str) -> None:
    call = getattr(Typical(load_config("default"), Assumptions()), kind)()
    messages = render(call.signature, [], call.fields)
    assert call.size().prompt_chars == sum(len(m["content"]) for m in messages)


@pytest.mark.parametrize(
    ("name", "kind", "times"),
    [
        ("answer_chars", "judge_rollout", 1),
        ("answer_chars", "referee", 4),
        ("answer_chars", "minter", 2),
        ("answer_chars", "analyst", 1),
        ("answer_chars", "rewriter", 1),
        ("task_chars", "judge_probe", 1),
        ("task_chars", "honest", 1),
        ("criterion_chars", "judge_patch", 1),
        ("request_chars", "generator", 1),
    ],
)
def test_a_longer_text_makes_a_prompt_longer_by_as_much(name: str, kind: Kind, times: int) -> None:
    short, long = (sizes({name: chars})[kind].prompt_chars for chars in (300, 400))
    assert long - short == pytest.approx(100 * times, rel=0.03), "quotes and line breaks are escaped in lists"


def test_an_answer_is_no_longer_than_its_token_limit() -> None:
    wide = sizes({"answer_chars": 4000, "chars_per_token": 4})["judge_rollout"].prompt_chars
    tight = sizes({"answer_chars": 4000, "chars_per_token": 4}, solver={"max_completion_tokens": 100})["judge_rollout"]
    assert wide - tight.prompt_chars == 3600
    honest = sizes({"answer_chars": 4000, "chars_per_token": 4}, roles={"honest": {"max_tokens": 100}})["honest"]
    assert honest.reply_chars == 400


def test_an_exploit_keeps_under_the_length_that_is_asked_for() -> None:
    found = sizes({"exploit_share": 0.5}, admission={"max_exploit_chars": 1000})["farmer"].reply_chars
    assert found == 500


def test_long_answers_are_cut_before_the_referee_sees_them() -> None:
    whole = sizes({"answer_chars": 4000})["referee"].prompt_chars
    cut = sizes({"answer_chars": 4000}, exploits={"answer_chars": 1000})["referee"].prompt_chars
    assert whole - cut == pytest.approx(4 * 3000, rel=0.05), "a mark says what was left out"


def test_the_strict_note_makes_the_judge_dearer() -> None:
    found = sizes()
    assert found["judge_patch"].prompt_chars > found["judge_rollout"].prompt_chars


def test_passages_have_the_corpus_length_where_it_is_at_hand() -> None:
    config = config_of(generation={"passages_per_task": 2})
    assumed = Assumptions.case("expected", {"passage_chars": 1000})
    known, unknown = (measure_calls(config, assumed, p)["generator"].prompt_chars for p in (LONG, None))
    assert known - unknown == pytest.approx(2 * (len(LONG[0].text) - 1000), rel=0.1)


def test_a_brief_costs_its_passages_and_its_words() -> None:
    few, more = (sizes(solver={"tools": {"passages": n}})["summarizer"].prompt_chars for n in (2, 4))
    assert more - few == pytest.approx(2 * len(LONG[0].text), rel=0.05)
    brief = sizes({"guidance_share": 0.5}, solver={"tools": {"brief_words": 100}})["summarizer"].reply_chars
    assert brief == 50 * 6


def test_evolved_texts_join_the_prompts_of_tasks_that_come_after_them() -> None:
    pool = {"min_tasks": 2, "ahead": 10}

    def generator(cycles: int, tasks: int) -> float:
        sections = {"generation": {"tasks": tasks}, "pool": pool, "evolution": {"every_cycles": 5}}
        return sizes({"guidance_share": 1.0}, solver={"cycles": cycles}, **sections)["generator"].prompt_chars

    # Twenty tasks are admitted before the first round: ten in five cycles, ten ahead.
    assert generator(10, 20) == generator(4, 20) == generator(4, 200)
    guided = 300 * 6 + 1500
    assert generator(10, 200) - generator(4, 200) == pytest.approx(0.9 * guided, rel=0.1)


def test_measuring_is_deterministic() -> None:
    assert sizes() == sizes()
