"""Bias to length: found where it is, and not where labels alone move with length."""

import random
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.agreement import JudgedItem
from eval.length_bias import measure_length_bias
from tests.eval.judged_items import item, items_of, labels_and_votes

LIGHT = settings(max_examples=25, deadline=None)


def answers(
    n: int, seed: int, judge: Callable[[bool, int, random.Random], bool], criteria: int = 1, lean: float = 0.5
) -> list[JudgedItem]:
    """`n` answers of 100 to 10,000 characters. `lean` is the chance of the label met for a long answer, 1 - lean for a
    short one.
    """
    draw = random.Random(seed)
    items = []
    for number in range(n):
        chars = int(10 ** draw.uniform(2, 4))
        for _ in range(criteria):
            label = draw.random() < (lean if chars > 1000 else 1 - lean)
            vote = "met" if judge(label, chars, draw) else "unmet"
            items.append(item(label, vote, vote, vote, chars=chars, answer=str(number)))
    return items


def loves_length(label: bool, chars: int, draw: random.Random) -> bool:
    return label if draw.random() < 0.6 else chars > 1000


def hates_length(label: bool, chars: int, draw: random.Random) -> bool:
    return label if draw.random() < 0.6 else chars < 1000


def noisy(label: bool, chars: int, draw: random.Random) -> bool:
    return label != (draw.random() < 0.3)


@pytest.mark.parametrize("seed", range(3))
def test_a_judge_that_loves_length_is_found_and_one_that_hates_it_too(seed: int) -> None:
    for judge, sign in ((loves_length, 1), (hates_length, -1)):
        bias = measure_length_bias(answers(300, seed, judge))
        assert bias.r is not None and bias.p is not None
        assert 0.25 < sign * bias.r < 0.8
        assert bias.p < 0.01


def test_errors_at_both_ends_show_which_way_it_leans() -> None:
    short, _, long = measure_length_bias(answers(600, 0, loves_length)).thirds
    assert None not in (short.wrong_met, short.wrong_unmet, long.wrong_met, long.wrong_unmet)
    assert (short.wrong_met, long.wrong_unmet) == (0, 0)
    assert short.wrong_unmet == pytest.approx(0.4, abs=0.1)
    assert long.wrong_met == pytest.approx(0.4, abs=0.1)
    assert short.judged_met is not None and short.labelled_met is not None and short.judged_met < short.labelled_met


@pytest.mark.parametrize("lean", [0.5, 0.9])
def test_noise_alone_is_no_bias_even_where_longer_answers_are_better(lean: float) -> None:
    """Errors of a noisy judge point to unmet where most labels are met: that is no fault of length."""
    found = [measure_length_bias(answers(300, seed, noisy, lean=lean)) for seed in range(30)]
    assert np.mean([b.r for b in found]) == pytest.approx(0, abs=0.04)
    assert sum(b.p is not None and b.p < 0.05 for b in found) <= 6


def test_criteria_of_one_answer_are_no_independent_evidence() -> None:
    """A judge whose mood is drawn for each answer and has nothing to do with length: p must not be fooled."""

    def of_mood(seed: int) -> list[JudgedItem]:
        draw = random.Random(seed)
        items = []
        for number in range(30):
            chars, mood = draw.randrange(100, 10_000), draw.random() < 0.5
            vote = "met" if mood else "unmet"
            items += [item(i % 2 == 0, vote, chars=chars, answer=str(number)) for i in range(10)]
        return items

    ps = [measure_length_bias(of_mood(seed)).p for seed in range(40)]
    assert sum(p is not None and p < 0.05 for p in ps) <= 6


def test_the_figure_is_the_correlation_after_each_labels_mean_is_taken_out() -> None:
    items = answers(80, 5, loves_length, criteria=2)
    logs, met = np.log1p([i.chars for i in items]), np.array([i.met for i in items], float)
    for label in (True, False):
        mask = np.array([i.label is label for i in items])
        logs[mask] -= logs[mask].mean()
        met[mask] -= met[mask].mean()
    assert measure_length_bias(items).r == pytest.approx(float(np.corrcoef(logs, met)[0, 1]))


def test_a_judge_without_errors_has_no_bias_however_labels_lean() -> None:
    bias = measure_length_bias(answers(100, 0, lambda label, chars, draw: label, lean=0.95))
    assert (bias.r, bias.p) == (0.0, 1.0)
    always = measure_length_bias(answers(100, 0, lambda label, chars, draw: True))
    assert (always.r, always.p) == (0.0, 1.0)


def test_one_length_cannot_show_a_bias() -> None:
    bias = measure_length_bias([item(n % 2 == 0, "met", chars=300, answer=str(n)) for n in range(40)])
    assert (bias.r, bias.p) == (None, None)


def test_thirds_hold_every_known_verdict_once_and_in_order() -> None:
    items = [*answers(100, 1, noisy), *items_of([(True, ["unknown"] * 3)])]
    thirds = measure_length_bias(items).thirds
    assert [t.items for t in thirds] == [33, 34, 33]
    assert all(a.longest <= b.shortest for a, b in pairwise(thirds))
    assert thirds[0].shortest == min(i.chars for i in items if i.known)


@LIGHT
@given(labels_and_votes(), st.integers(0, 5))
def test_any_items_have_a_figure_or_none_and_unknown_ones_do_not_matter(
    rows: list[tuple[bool, list[str]]], seed: int
) -> None:
    draw = random.Random(seed)
    items = [
        item(label, *votes, chars=draw.randrange(0, 50), answer=str(n))  # type: ignore[arg-type]
        for n, (label, votes) in enumerate(rows)
    ]
    bias = measure_length_bias(items)
    assert (bias.r is None) == (bias.p is None)
    assert bias.r is None or -1 - 1e-9 <= bias.r <= 1 + 1e-9
    assert bias.p is None or 0 < bias.p <= 1
    assert bias == measure_length_bias([i for i in items if i.known])
