"""Labelled verdicts: good files come back whole, every slip is one line with path, line number and field."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval.labelled import EXAMPLE, LabelledFile, LabelledItem, draw, read_labelled
from rri.errors import InputError
from rri.types import Message

QUIET = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
HEALTHBENCH = Path(__file__).parents[3] / "shared" / "data" / "healthbench_sample500" / "healthbench_eval.jsonl"


def row(**changes: Any) -> dict[str, Any]:
    """One line of ours; `...` takes a field away."""
    data: dict[str, Any] = {"request": "How much?", "answer": "Ten.", "criterion": "States the dose", "met": True}
    return {key: value for key, value in (data | changes).items() if value is not ...}


def published(**changes: Any) -> dict[str, Any]:
    """One line of a HealthBench meta-evaluation, with made-up content."""
    data: dict[str, Any] = {
        "prompt": [{"role": "user", "content": "How much?"}],
        "completion": "Ten.",
        "rubric": "States the dose",
        "category": "made up",
        "binary_labels": [True, False, True],
        "prompt_id": "p",
        "completion_id": "c",
        "anonymized_physician_ids": ["1", "2", "3"],
    }
    return {key: value for key, value in (data | changes).items() if value is not ...}


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def slip(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_labelled(path)
    error = caught.value
    assert "\n" not in str(error)
    assert str(path) in error.what
    assert error.fix
    assert error.exit_code == 2
    return error


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.jsonl"


# -- good files ----------------------------------------------------------------------------------------------


def test_the_example_is_a_line_that_can_be_read(file: Path) -> None:
    (item,) = read_labelled(write(file, EXAMPLE)).items
    assert (item.criterion, item.met, item.labels) == ("States the dose", True, 1)


def test_a_request_is_one_user_message(file: Path) -> None:
    (item,) = read_labelled(write(file, row())).items
    assert item == LabelledItem((Message(role="user", content="How much?"),), "Ten.", "States the dose", True)


def test_a_conversation_keeps_its_turns(file: Path) -> None:
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How much?"}]
    (item,) = read_labelled(write(file, row(request=..., conversation=turns, met=False))).items
    assert [m.model_dump() for m in item.conversation] == turns
    assert item.met is False
    assert item.task.conversation == item.conversation
    assert [c.text for c in item.task.rubric.criteria] == ["States the dose"]


def test_items_stay_in_order_and_blank_lines_do_not_count(file: Path) -> None:
    read = read_labelled(write(file, row(answer="b"), "", "  ", row(answer="a"), row(answer="")))
    assert [i.answer for i in read.items] == ["b", "a", ""], "an empty answer is still an answer to judge"
    assert (read.lines, read.ties) == (3, 0)


@pytest.mark.parametrize(
    ("labels", "met"),
    [([True], True), ([False], False), ([True, False, True], True), ([False, False, True], False), ([True] * 4, True)],
)
def test_the_majority_of_the_labels_decides(file: Path, labels: list[bool], met: bool) -> None:
    (item,) = read_labelled(write(file, row(met=..., labels=labels))).items
    assert (item.met, item.labels) == (met, len(labels))


def test_ties_are_left_out_and_counted(file: Path) -> None:
    read = read_labelled(write(file, row(met=..., labels=[True, False]), row(answer="Five.")))
    assert ([i.answer for i in read.items], read.lines, read.ties) == (["Five."], 2, 1)


def test_lines_on_one_item_are_labels_of_one_item(file: Path) -> None:
    """One expert a line is a common way to write labels, and no item is to be judged twice."""
    other = {"conversation": [{"role": "user", "content": "How much?"}], "request": ...}
    read = read_labelled(write(file, row(), row(met=False), row(**other), row(criterion="Else", met=False)))
    assert [(i.criterion, i.met, i.labels) for i in read.items] == [("States the dose", True, 3), ("Else", False, 1)]
    assert (read.lines, read.label_pairs, read.label_pairs_differ) == (4, 3, 2)
    assert read.expert_disagreement == pytest.approx(2 / 3)


def test_single_labels_say_nothing_of_the_experts(file: Path) -> None:
    assert read_labelled(write(file, row())).expert_disagreement is None


@QUIET
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=6))
def test_labels_are_counted_as_they_are(file: Path, labels: list[list[bool]]) -> None:
    rows = [row(answer=str(n), met=..., labels=given) for n, given in enumerate(labels)]
    decided = [given for given in labels if 2 * sum(given) != len(given)]
    if not decided:
        assert f"split evenly ({len(labels)})" in slip(write(file, *rows)).what
        return
    read = read_labelled(write(file, *rows))
    assert [i.met for i in read.items] == [2 * sum(given) > len(given) for given in decided]
    assert read.ties == len(labels) - len(decided)
    assert read.label_pairs == sum(len(g) * (len(g) - 1) // 2 for g in labels)
    assert read.label_pairs_differ == sum(g.count(True) * g.count(False) for g in labels)


def test_further_keys_are_passed_over(file: Path) -> None:
    assert len(read_labelled(write(file, row(annotator="Dr A", id=7))).items) == 1


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_only_a_newline_ends_a_line(file: Path, mark: str) -> None:
    file.write_text(json.dumps(row(answer=f"one{mark}two"), ensure_ascii=False), encoding="utf-8")
    assert read_labelled(file).items[0].answer == f"one{mark}two"


# -- HealthBench's meta-evaluation as published ------------------------------------------------------------------


def test_a_published_meta_evaluation_is_read_as_it_is(file: Path) -> None:
    read = read_labelled(write(file, published(), published(completion="Five.", binary_labels=[True, False])))
    assert read.items == (
        LabelledItem((Message(role="user", content="How much?"),), "Ten.", "States the dose", True, 3),
    )
    assert (read.ties, read.label_pairs, read.label_pairs_differ) == (1, 4, 3)


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (published(completion=...), "completion: Field required"),
        (published(rubric=...), "rubric: Field required"),
        (published(binary_labels=[]), "binary_labels: "),
        (published(binary_labels=[True, "no"]), "binary_labels.1: Input should be a valid boolean"),
        (published(prompt=[{"role": "nurse", "content": "x"}]), "prompt.0.role: "),
    ],
)
def test_a_slip_in_one_is_named_by_its_own_field(file: Path, bad: object, expected: str) -> None:
    assert f"{file}, line 2: {expected}" in slip(write(file, published(), bad)).what


def test_real_conversations_of_the_benchmark_are_taken(file: Path) -> None:
    """The published evaluation's conversations and criteria under the meta-evaluation's names."""
    if not HEALTHBENCH.is_file():
        pytest.skip(f"the sample of HealthBench is not at {HEALTHBENCH}")

    def lines() -> Iterator[dict[str, Any]]:
        for number, line in enumerate(HEALTHBENCH.read_text(encoding="utf-8").split("\n")):
            if line.strip():
                record = json.loads(line)
                rubric = record["rubrics"][0]["criterion"]
                yield published(prompt=record["prompt"], rubric=rubric, completion=f"a{number}")

    rows = list(lines())
    read = read_labelled(write(file, *rows))
    assert len(read.items) == read.lines == len(rows) > 100
    assert [i.criterion for i in read.items] == [r["rubric"] for r in rows]
    assert [[m.model_dump() for m in i.conversation] for i in read.items] == [r["prompt"] for r in rows]


# -- slips ---------------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(file: Path) -> None:
    assert "no file" in slip(file).what


def test_a_folder_or_a_binary_file_cannot_be_read(tmp_path: Path, file: Path) -> None:
    assert "cannot read" in slip(tmp_path).what
    file.write_bytes(b"\xff\xfe{}")
    assert "cannot read" in slip(file).what


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file_is_shown_what_a_line_looks_like(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    error = slip(file)
    assert "holds no labelled verdict" in error.what
    assert EXAMPLE in error.fix


BAD: dict[str, tuple[object, str]] = {
    "no JSON": ('{"request": ', "not JSON ("),
    "a list": ([row()], "Input should be a valid dictionary"),
    "null": ("null", "Input should be a valid dictionary"),
    "no answer": (row(answer=...), "answer: Field required"),
    "no criterion": (row(criterion=...), "criterion: Field required"),
    "an empty criterion": (row(criterion=""), "criterion: "),
    "a blank criterion": (row(criterion=" \n"), "criterion is blank"),
    "no request": (row(request=...), "one of conversation and request is needed, neither is there"),
    "an empty request": (row(request=""), "request: "),
    "two requests": (
        row(conversation=[{"role": "user", "content": "x"}]),
        "one of conversation and request is needed, both are there",
    ),
    "an empty conversation": (row(request=..., conversation=[]), "conversation: "),
    "an unknown speaker": (row(request=..., conversation=[{"role": "nurse", "content": "x"}]), "conversation.0.role: "),
    "no label": (row(met=...), "one of met and labels is needed, neither is there"),
    "a label that is null": (row(met=None), "one of met and labels is needed, neither is there"),
    "two kinds of label": (row(labels=[True]), "one of met and labels is needed, both are there"),
    "a label that is a word": (row(met="yes"), "met: Input should be a valid boolean"),
    "a label that is a number": (row(met=1), "met: Input should be a valid boolean"),
    "no labels": (row(met=..., labels=[]), "labels: "),
    "a word among labels": (row(met=..., labels=[True, "no"]), "labels.1: Input should be a valid boolean"),
    "half a character": (row(answer="\ud83d"), "answer: half a character"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_by_line_and_field(file: Path, name: str) -> None:
    bad, expected = BAD[name]
    assert f"{file}, line 3: {expected}" in slip(write(file, row(), "", bad)).what


def test_only_ties_are_nothing_to_measure_by(file: Path) -> None:
    error = slip(write(file, row(met=..., labels=[True, False])))
    assert "every item has its labels split evenly (1)" in error.what


# -- the draw ------------------------------------------------------------------------------------------------


def many(n: int) -> LabelledFile:
    said = (Message(role="user", content="x"),)
    return LabelledFile(tuple(LabelledItem(said, str(i), "c", True) for i in range(n)), n, 0, 0, 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 5))
def test_a_draw_is_as_large_as_asked_in_order_and_the_same_again(n: int, limit: int, seed: int) -> None:
    items = many(n).items
    drawn = draw(items, limit, seed)
    assert len(drawn) == min(n, limit) == len(set(drawn))
    places = [items.index(item) for item in drawn]
    assert places == sorted(places)
    assert drawn == draw(items, limit, seed)


def test_no_limit_is_everything_and_seeds_differ() -> None:
    items = many(100).items
    assert draw(items, None, 0) == items
    assert draw(items, 10, 0) != draw(items, 10, 1)
