"""Diffs between versions: nothing is lost on either side, and what is alike stays one line."""

from hypothesis import given
from hypothesis import strategies as st

from rri.cli.show_diff import DiffLine, coloured, conversation_units, diff_units, rubric_units, text_units
from rri.types import Message
from tests.rigs import make_task

units = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=8)


@given(units, units)
def test_both_texts_can_be_read_back_from_the_diff(before: list[str], after: list[str]) -> None:
    lines = diff_units(before, after)
    assert [line.text for line in lines if line.sign != "+"] == before
    assert [line.text for line in lines if line.sign != "-"] == after


@given(units)
def test_a_text_beside_itself_shows_no_change(text: list[str]) -> None:
    assert diff_units(text, text) == [DiffLine(" ", unit) for unit in text]


def test_what_came_stands_after_what_went() -> None:
    lines = diff_units(["same", "old", "end"], ["same", "new", "end"])
    assert lines == [(" ", "same"), ("-", "old"), ("+", "new"), (" ", "end")]


def test_a_paragraph_is_compared_by_sentence() -> None:
    assert text_units("One rule. Is it two?  Yes!\n\n  And 3.5 mg a day.") == [
        "One rule.",
        "Is it two?",
        "Yes!",
        "And 3.5 mg a day.",
    ]
    assert text_units("  \n ") == []


def test_a_rubric_is_a_line_a_criterion_with_its_points_first() -> None:
    assert rubric_units(make_task(8, -6.5).rubric) == [
        "  +8  Mentions topic 0 of rule one",
        "-6.5  Claims that rule 1 was repealed",
    ]


def test_a_conversation_names_its_speakers() -> None:
    said = (Message(role="user", content="One. Two."), Message(role="assistant", content="Three."))
    task = make_task().model_copy(update={"conversation": said})
    assert conversation_units(task) == ["[user]", "One.", "Two.", "[assistant]", "Three."]


def test_lines_are_coloured_by_sign_and_brackets_are_no_markup() -> None:
    text = coloured([DiffLine("-", "[red]old[/red]"), DiffLine("+", "new"), DiffLine(" ", "same")])
    assert text.plain == "- [red]old[/red]\n+ new\n  same"
    assert [str(span.style) for span in text.spans] == ["red", "green"]
