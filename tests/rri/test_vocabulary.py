"""The closed vocabularies are the method's, whole and without doubles."""

from typing import get_args

import pytest

from rri import vocabulary
from rri.vocabulary import CASE_VERDICTS, EXPLOIT_LABELS, FAILURE_MODES, RUBRIC_DEFECTS, TASK_DEFECTS


@pytest.mark.parametrize(
    ("words", "count"),
    [(EXPLOIT_LABELS, 12), (FAILURE_MODES, 12), (RUBRIC_DEFECTS, 8), (TASK_DEFECTS, 7), (CASE_VERDICTS, 3)],
)
def test_each_has_as_many_words_as_the_method_lists(words: tuple[str, ...], count: int) -> None:
    assert len(words) == len(set(words)) == count
    assert all(word == word.lower().strip() and " " not in word for word in words)


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("ExploitLabel", EXPLOIT_LABELS),
        ("FailureMode", FAILURE_MODES),
        ("RubricDefect", RUBRIC_DEFECTS),
        ("TaskDefect", TASK_DEFECTS),
        ("CaseVerdict", CASE_VERDICTS),
    ],
)
def test_the_tuple_is_the_type(alias: str, words: tuple[str, ...]) -> None:
    assert get_args(getattr(vocabulary, alias)) == words


def test_what_may_be_absent_has_a_word_for_it() -> None:
    for words in (EXPLOIT_LABELS, FAILURE_MODES, RUBRIC_DEFECTS, TASK_DEFECTS):
        assert "none" in words
    assert "other" in EXPLOIT_LABELS and "non_answer" in FAILURE_MODES


def test_the_method_s_renaming_of_medicine_is_kept() -> None:
    assert "targets_format_not_substance" in RUBRIC_DEFECTS
    assert not any("medic" in word for word in RUBRIC_DEFECTS)
