"""The words of the world: enough of them, and none with two meanings."""

from collections import Counter
from itertools import product

from eval.world.facts import read_statements
from eval.world.texts import ASIDES, BRIEF, FULL, QUESTIONS, SYLLABLES, SYSTEM_PROMPT, VALUES


def test_no_value_stands_under_two_relations_and_none_is_a_relation() -> None:
    counts = Counter(word for words in VALUES.values() for word in words.split())
    assert [word for word, n in counts.items() if n > 1] == []
    assert not set(counts) & set(VALUES)
    assert {len(words.split()) for words in VALUES.values()} == {20}


def test_values_are_no_words_of_the_fixed_sentences() -> None:
    wordings = [w.format(relations="", entity="") for known in QUESTIONS.values() for w in known]
    fixed = {word for text in (SYSTEM_PROMPT, *ASIDES, *wordings) for word in text.split()}
    assert not fixed & {word for words in VALUES.values() for word in words.split()}


def test_there_are_many_more_names_than_entities() -> None:
    assert len({"".join(letters) for letters in product(*SYLLABLES)}) > 20_000


def test_asides_state_nothing() -> None:
    assert [aside for aside in (*ASIDES, SYSTEM_PROMPT) if read_statements(aside)] == []


def test_every_use_case_has_wordings_with_both_places() -> None:
    assert set(QUESTIONS) == {FULL, BRIEF}
    assert all("the {relations} of {entity}" in w for known in QUESTIONS.values() for w in known)
