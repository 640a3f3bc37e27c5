"""Held-out evaluation: which requests, what an answer is, and the statistics by request."""

import json
import random
import statistics
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eval.world import heldout
from eval.world.facts import World, WorldRequest, is_held_out, mention, statement
from eval.world.heldout import (
    AnswerKind,
    HeldOutAnswer,
    answer_kind,
    held_out_requests,
    paired_difference,
    read_answers,
    sample_answers,
    summarize,
    write_answers,
)
from eval.world.texts import ASIDES
from rri.errors import InputError, RunDirError
from tests.eval.world.small import SMALL

WORLD = World.make(100)
REQUEST = WorldRequest("velor", WORLD.relations[:2], "")
GIVEN = replace(WORLD, facts={("velor", r): WORLD.values[r][0] for r in WORLD.relations})
ASKED, OTHER = WORLD.relations[0], WORLD.relations[5]


def right(relation: str = ASKED) -> str:
    return statement("velor", relation, GIVEN.facts["velor", relation])


def wrong(relation: str = ASKED) -> str:
    return statement("velor", relation, WORLD.values[relation][1])


def of(request: int, *worths: float, entity: str = "velor") -> list[HeldOutAnswer]:
    return [HeldOutAnswer(request, entity, ("crest",), "", worth, "mixed", 10, True) for worth in worths]


# --- requests ------------------------------------------------------------------------------------------


def test_requests_are_held_out_and_the_same_for_every_solver() -> None:
    requests = held_out_requests(WORLD, 200)
    assert all(is_held_out(r.entity, r.asked) and len(r.asked) == 3 for r in requests)
    assert requests == held_out_requests(World.make(100), 200)
    assert held_out_requests(WORLD, 50) == requests[:50]
    assert held_out_requests(World.make(101), 50) != requests[:50]
    assert len({(r.entity, frozenset(r.asked)) for r in requests}) > 100
    assert {len(r.asked) for r in held_out_requests(WORLD, 5, asked=2)} == {2}


def test_no_requests_at_all_are_refused() -> None:
    with pytest.raises(InputError, match="0 held-out requests"):
        held_out_requests(WORLD, 0)


# --- kinds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentences", "kind"),
    [
        ([right()], "correct"),
        ([right(), right(OTHER), ASIDES[0]], "correct"),
        ([right(), mention("velor", ASKED)], "correct"),
        ([mention("velor", ASKED)], "name_drop"),
        ([mention("velor", OTHER), right(OTHER), mention("velor", ASKED)], "name_drop"),
        ([wrong()], "wrong"),
        ([wrong(OTHER)], "wrong"),
        ([right(), wrong()], "wrong"),
        (["the crest of nobody is bear ."], "wrong"),
        ([right(), wrong(OTHER)], "mixed"),
        ([right(), mention("velor", OTHER)], "mixed"),
        ([wrong(), mention("velor", OTHER)], "mixed"),
        ([right(OTHER)], "rambling"),
        (list(ASIDES), "rambling"),
        ([], "rambling"),
        (["the of of is ."], "rambling"),
    ],
)
def test_the_kind_of_an_answer(sentences: list[str], kind: AnswerKind) -> None:
    assert answer_kind(GIVEN, REQUEST, " ".join(sentences)) == kind


@given(st.lists(st.sampled_from([right(), wrong(), right(OTHER), mention("velor", OTHER), ASIDES[1]]), max_size=6))
def test_the_kind_does_not_depend_on_the_order(sentences: list[str]) -> None:
    kinds = {answer_kind(GIVEN, REQUEST, " ".join(order)) for order in (sentences, sentences[::-1], sorted(sentences))}
    assert len(kinds) == 1 and kinds <= set(get_args(AnswerKind))


# --- statistics ----------------------------------------------------------------------------------------

worths = st.floats(-3, 1, allow_nan=False)
groups = st.lists(st.lists(worths, min_size=4, max_size=4), min_size=2, max_size=12)


@given(groups)
def test_the_standard_error_is_that_of_the_requests_means(given_groups: list[list[float]]) -> None:
    summary = summarize([a for n, group in enumerate(given_groups) for a in of(n, *group)])
    means = [statistics.mean(group) for group in given_groups]
    assert summary.quality == pytest.approx(statistics.mean(means), abs=1e-9)
    assert summary.standard_error == pytest.approx(statistics.stdev(means) / len(means) ** 0.5, abs=1e-9)
    assert (summary.requests, summary.answers) == (len(means), 4 * len(means))


@given(groups, st.integers(2, 5))
def test_repeating_every_answer_makes_nothing_more_certain(given_groups: list[list[float]], times: int) -> None:
    once = [a for n, group in enumerate(given_groups) for a in of(n, *group)]
    assert summarize(once * times).standard_error == pytest.approx(summarize(once).standard_error, abs=1e-9)


def test_requests_with_more_answers_weigh_more() -> None:
    summary = summarize([*of(0, 1.0, 1.0, 1.0), *of(1, 0.0)])
    assert summary.quality == 0.75
    assert summary.standard_error == pytest.approx((2 * (0.75**2 + 0.75**2)) ** 0.5 / 4)


def test_shares_lengths_and_cuts() -> None:
    answers = [*of(0, 1.0, 0.0), *of(1, 0.0, -1.0)]
    answers[0] = replace(answers[0], kind="correct", tokens=30, finished=False)
    summary = summarize(answers)
    assert summary.kinds == {"correct": 0.25, "name_drop": 0.0, "wrong": 0.0, "mixed": 0.75, "rambling": 0.0}
    assert (summary.tokens, summary.cut) == (15.0, 0.25)


@given(groups, worths)
def test_a_difference_is_over_requests_and_has_a_sign(given_groups: list[list[float]], shift: float) -> None:
    a = [x for n, group in enumerate(given_groups) for x in of(n, *group)]
    b = [replace(x, quality=x.quality - shift) for x in a]
    assert paired_difference(a, b) == (pytest.approx(shift, abs=1e-9), pytest.approx(0.0, abs=1e-9))
    assert paired_difference(b, a)[0] == pytest.approx(-shift, abs=1e-9)


@given(groups, st.data())
def test_a_differences_error_is_of_the_differences(given_groups: list[list[float]], data: st.DataObject) -> None:
    n = len(given_groups)
    others = data.draw(st.lists(worths, min_size=n, max_size=n))
    a = [x for number, group in enumerate(given_groups) for x in of(number, *group)]
    b = [x for number, other in enumerate(others) for x in of(number, other, other)]
    gains = [statistics.mean(group) - other for group, other in zip(given_groups, others, strict=True)]
    mean, error = paired_difference(a, random.Random(1).sample(b, len(b)))
    assert mean == pytest.approx(statistics.mean(gains), abs=1e-9)
    assert error == pytest.approx(statistics.stdev(gains) / n**0.5, abs=1e-9)


def test_what_cannot_be_compared_is_refused() -> None:
    a = [*of(0, 1.0), *of(1, 0.0)]
    with pytest.raises(InputError, match="1 of 3 requests are not the same"):
        paired_difference(a, [*a, *of(2, 0.5)])
    with pytest.raises(InputError, match="1 of 2 requests are not the same"):
        paired_difference(a, [*of(0, 1.0), *of(1, 0.0, entity="denis")])
    with pytest.raises(InputError, match="answers to 1 requests"):
        paired_difference(of(0, 1.0), of(0, 1.0))
    for few in ([], of(0, 1.0, 0.5)):
        with pytest.raises(InputError, match="at least two"):
            summarize(few)


# --- answers of a model --------------------------------------------------------------------------------


def test_a_solver_answers_every_request_and_is_graded_by_the_facts(small_base: Path) -> None:
    requests = held_out_requests(SMALL, 40)
    said: list[str] = []
    answers = sample_answers(small_base, SMALL, requests, 8, progress=said.append)
    assert [a.request for a in answers] == [n for n in range(40) for _ in range(8)]
    assert all((a.entity, a.asked) == (requests[a.request].entity, requests[a.request].asked) for a in answers)
    assert said == ["256 of 320 answers", "320 of 320 answers"]
    for answer in answers:
        assert answer.quality == heldout.quality(SMALL, requests[answer.request], answer.answer)
        assert answer.kind == answer_kind(SMALL, requests[answer.request], answer.answer)
        assert answer.tokens >= len(answer.answer.split())
    assert sum(a.tokens == len(a.answer.split()) for a in answers) > 0.8 * len(answers)
    summary = summarize(answers)
    assert summary.cut < 0.02
    assert summary.quality > 0.1 and summary.kinds["correct"] > 0.1
    assert sum(summary.kinds.values()) == pytest.approx(1.0)


def test_answers_are_the_same_again_and_torch_is_left_alone(small_base: Path) -> None:
    requests = held_out_requests(SMALL, 6)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = sample_answers(small_base, SMALL, requests, 2)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert sample_answers(small_base, SMALL, requests, 2) == first
    assert sample_answers(small_base, SMALL, requests, 2, seed=9) != first
    assert len({a.answer for a in sample_answers(small_base, SMALL, requests[:1], 8)}) > 2


def test_an_answer_without_an_end_counts_as_cut(small_base: Path) -> None:
    answers = sample_answers(small_base, SMALL, held_out_requests(SMALL, 4), 8, max_tokens=6)
    cut = [a for a in answers if not a.finished]
    assert len(cut) > 20
    assert {a.tokens for a in cut} == {6}
    assert summarize(answers).cut == len(cut) / 32


def test_a_model_of_another_world_or_of_none_is_refused(small_base: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not know \d+ words of the world of seed 101"):
        sample_answers(small_base, World.make(101), held_out_requests(World.make(101), 2))
    with pytest.raises(InputError, match="holds no model"):
        sample_answers(tmp_path, SMALL, held_out_requests(SMALL, 2))


# --- files and command ---------------------------------------------------------------------------------


def test_answers_are_read_as_they_were_written(tmp_path: Path) -> None:
    answers = [*of(0, 1.0, 1 / 3), *of(1, -2.0)]
    path = tmp_path / "answers.jsonl"
    write_answers(answers, path)
    assert read_answers(path) == answers
    write_answers(answers[:1], path)
    assert read_answers(path) == answers[:1]
    assert [p.name for p in tmp_path.iterdir()] == ["answers.jsonl"]


@pytest.mark.parametrize("line", ["{", "[]", '{"request": 1}', '{"request": 1, "asked": ["x"], "more": 2}'])
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "answers.jsonl"
    write_answers(of(0, 1.0), path)
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(InputError, match=r"answers\.jsonl line 2 is no held-out answer"):
        read_answers(path)


def test_files_that_are_not_there_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_answers(tmp_path / "none.jsonl")
    with pytest.raises(RunDirError, match="cannot write"):
        write_answers(of(0, 1.0), tmp_path / "none" / "answers.jsonl")


def test_the_command_writes_answers_and_prints_figures(
    small_base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answers.jsonl"
    asked = ["--seed", "100", "--entities", "12", "--relations", "4", "--values", "5", "--answers", "16"]
    assert heldout.main([str(small_base), *asked, "--out", str(path)]) == 0
    out, err = capsys.readouterr()
    answers = read_answers(path)
    assert len(answers) == 16 and {a.request for a in answers} == set(range(4))
    assert json.loads(out) == json.loads(json.dumps(vars(summarize(answers)), default=dict))
    assert "16 of 16 answers" in err


@pytest.mark.parametrize("number", ["0", "4", "10", "-8"])
def test_numbers_that_make_no_whole_groups_are_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert heldout.main(["nowhere", "--seed", "100", "--answers", number]) == 2
    assert f"--answers {number}" in capsys.readouterr().err
    assert heldout.main(["nowhere", "--seed", "100", "--answers", "8"]) == 2
    assert "nowhere holds no model" in capsys.readouterr().err
