"""What progress lines say of a run."""

from typing import Any

import pytest

from rri.cli.console import counted, cut, describe, plain_table, readable_time, share, signed
from tests.rri.cli.looped import Looped
from tests.rri.cli.made import page


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        ({}, ""),
        ({"backlog": 1, "doing": "patches of cycle 2"}, " | loop: patches of cycle 2 | "),
        ({"backlog": 2, "doing": "cases of cycle 2"}, " | loop: cases of cycle 2, 1 more cycle waits | "),
        ({"backlog": 3}, " | loop: 3 more cycles wait | "),
        ({"failures": 2}, " | loop: 2 failed | "),
    ],
)
def test_the_loop_is_told_where_there_is_something_to_tell(loop: dict[str, Any], said: str, looped: Looped) -> None:
    stats = looped.run.stats()
    line = describe({**stats, "loop": {**stats["loop"], **loop}})
    assert said in line
    assert ("loop:" in line) == bool(said)


def test_figures_that_are_missing_are_dashes() -> None:
    assert (signed(None), signed(-0.256), signed(0.0)) == ("-", "-0.26", "+0.00")
    assert (share(1, 0), share(2, 3)) == ("-", "67%")
    assert (counted({}), counted({"b": 1, "a": 2}), counted({}, "none")) == ("none yet", "2 a, 1 b", "none")


@pytest.mark.parametrize(("seconds", "said"), [(59.9, "59 s"), (60, "1:00"), (3599, "59:59"), (3600, "1:00:00")])
def test_times_are_readable_at_their_edges(seconds: float, said: str) -> None:
    assert readable_time(seconds) == said


def test_a_long_text_is_cut_to_one_line() -> None:
    assert cut("two\n  words", 9).plain == "two words"
    assert cut("two words", 5).plain == "two \u2026"


def test_a_table_keeps_its_figures_whole_where_its_notes_are_cut() -> None:
    table = plain_table("title", ("name",), ("figure",), ("note",))
    table.add_row("a name", "1.234", cut("n" * 200, 30))
    assert "1.234" in page(lambda console: console.print(table), width=60)
