"""Agreement with experts and with itself: known judges give known figures, and unknown is never read as unmet."""

import random
from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, f1_score

from eval.agreement import (
    Estimate,
    JudgedItem,
    cohens_kappa,
    flips_left,
    flips_left_if_even,
    macro_f1,
    measure_agreement,
    measure_flips,
)
from rri.types import Outcome
from tests.eval.judged_items import item, items_of, labels_and_votes

LIGHT = settings(max_examples=60, deadline=None)

Rows = list[tuple[bool, list[Outcome]]]


def said(met: bool) -> Outcome:
    return "met" if met else "unmet"


def judge(labels: Sequence[bool], met: Sequence[bool]) -> list[JudgedItem]:
    """A judge without doubt that says `met`."""
    return items_of([(label, [said(m)] * 3) for label, m in zip(labels, met, strict=True)])


def coin(n: int, seed: int) -> list[JudgedItem]:
    draw = random.Random(seed)
    return items_of([(draw.random() < 0.5, [said(draw.random() < 0.5) for _ in range(3)]) for _ in range(n)])


mixed_labels = st.lists(st.booleans(), min_size=2, max_size=60).filter(lambda labels: len(set(labels)) == 2)


# -- known judges ------------------------------------------------------------------------------------------


@LIGHT
@given(mixed_labels)
def test_a_perfect_judge_agrees_in_everything_and_never_flips(labels: list[bool]) -> None:
    items = judge(labels, labels)
    a, flips = measure_agreement(items), measure_flips(items)
    for figure in (a.kappa, a.macro_f1, a.accuracy):
        assert (figure.value, figure.low, figure.high) == (1, 1, 1)
    assert (a.wrong_met, a.wrong_unmet, a.lean.value, a.unknown.value) == (0, 0, 0, 0)
    assert (flips.rate, flips.pairs) == (Estimate(0, 0, 0), 3 * len(labels))
    assert flips.left(3) == flips.left_if_even(3) == 0


@LIGHT
@given(mixed_labels)
def test_a_judge_that_says_the_opposite_is_never_right(labels: list[bool]) -> None:
    a = measure_agreement(judge(labels, [not label for label in labels]))
    assert a.accuracy.value == a.macro_f1.value == 0
    assert a.kappa.value is not None and a.kappa.value < 0
    assert (a.both_met, a.both_unmet) == (0, 0)


@LIGHT
@given(mixed_labels, st.booleans())
def test_one_answer_to_everything_is_chance_and_equals_its_baseline(labels: list[bool], met: bool) -> None:
    a = measure_agreement(judge(labels, [met] * len(labels)))
    assert a.kappa.value == pytest.approx(0, abs=1e-12)
    assert a.accuracy.value == pytest.approx(a.always_met if met else a.always_unmet)
    assert a.always_met == pytest.approx(sum(labels) / len(labels))
    assert a.lean.value == pytest.approx(met - sum(labels) / len(labels))


@pytest.mark.parametrize("seed", range(5))
def test_a_coin_judge_is_near_chance_and_flips_half_of_its_pairs(seed: int) -> None:
    items = coin(600, seed)
    a, flips = measure_agreement(items), measure_flips(items)
    assert a.kappa.value == pytest.approx(0, abs=0.15)
    assert a.kappa.low is not None and a.kappa.high is not None and a.kappa.high - a.kappa.low < 0.2
    assert flips.rate.value == pytest.approx(0.5, abs=0.06)
    left = flips.left(3)
    assert left is not None and left > 0.4, "no number of votes mends a coin"


def test_the_four_outcomes_are_counted_where_they_belong() -> None:
    a = measure_agreement(judge([True] * 5 + [False] * 6, [True] * 3 + [False] * 2 + [True] * 1 + [False] * 5))
    assert (a.both_met, a.wrong_unmet, a.wrong_met, a.both_unmet) == (3, 2, 1, 5)
    assert (a.items, a.known, a.labelled_met) == (11, 11, 5)
    assert a.accuracy.value == pytest.approx(8 / 11)
    assert a.lean.value == pytest.approx(-1 / 11)


# -- the figures are the field's own -------------------------------------------------------------------------


@LIGHT
@given(labels_and_votes(("met", "unmet"), 1))
def test_the_bootstraps_formulas_are_those_of_scikit_learn(rows: Rows) -> None:
    labels, met = [label for label, _ in rows], [votes[0] == "met" for _, votes in rows]
    pairs = list(zip(labels, met, strict=True))
    both, wrong_met = pairs.count((True, True)), pairs.count((False, True))
    counts = np.array([both, wrong_met, pairs.count((True, False)), pairs.count((False, False)), 0, 0, 0], float)
    kappa, f1 = float(cohens_kappa(counts)), float(macro_f1(counts))
    if len({*labels, *met}) == 1:
        assert np.isnan(kappa) and np.isnan(f1)
    else:
        assert kappa == pytest.approx(cohen_kappa_score(labels, met))
        expected = f1_score(labels, met, labels=[False, True], average="macro", zero_division=0.0)
        assert f1 == pytest.approx(expected)


@LIGHT
@given(labels_and_votes(), st.randoms(use_true_random=False))
def test_the_order_of_the_items_changes_no_figure(rows: Rows, shuffle: random.Random) -> None:
    items = items_of(rows)
    other = shuffle.sample(items, len(items))
    a, b = asdict(measure_agreement(items)), asdict(measure_agreement(other))
    for name in a:
        value, same = (d[name]["value"] if isinstance(d[name], dict) else d[name] for d in (a, b))
        assert value == pytest.approx(same)
    assert measure_flips(items).rate.value == pytest.approx(measure_flips(other).rate.value)


@LIGHT
@given(labels_and_votes(("met", "unmet")))
def test_calling_met_unmet_on_both_sides_changes_no_agreement(rows: Rows) -> None:
    turned: Rows = [(not label, [said(v != "met") for v in votes]) for label, votes in rows]
    a, b = measure_agreement(items_of(rows)), measure_agreement(items_of(turned))
    for one, other in ((a.kappa, b.kappa), (a.macro_f1, b.macro_f1), (a.accuracy, b.accuracy)):
        assert one.value == pytest.approx(other.value)
    assert a.lean.value == pytest.approx(-(b.lean.value or 0))
    assert (a.wrong_met, a.wrong_unmet) == (b.wrong_unmet, b.wrong_met)


def test_shuffled_labels_leave_no_agreement() -> None:
    labels = [number % 2 == 0 for number in range(400)]
    shuffled = random.Random(3).sample(labels, len(labels))
    kappa = measure_agreement(judge(shuffled, labels)).kappa
    assert kappa.value == pytest.approx(0, abs=0.12)
    assert kappa.low is not None and kappa.high is not None and kappa.low < 0 < kappa.high


# -- unknown ---------------------------------------------------------------------------------------------------


@LIGHT
@given(labels_and_votes())
def test_unknown_verdicts_are_counted_and_are_in_no_other_figure(rows: Rows) -> None:
    items = items_of(rows)
    known = [i for i in items if i.known]
    a, b = measure_agreement(items), measure_agreement(known)
    assert a.known == len(known) == a.both_met + a.wrong_met + a.wrong_unmet + a.both_unmet
    assert a.unknown.value == pytest.approx(1 - len(known) / len(items))
    assert (a.kappa.value, a.macro_f1.value, a.accuracy.value) == (b.kappa.value, b.macro_f1.value, b.accuracy.value)
    assert (a.wrong_unmet, a.both_unmet, a.labelled_met) == (b.wrong_unmet, b.both_unmet, b.labelled_met)


def test_a_judge_that_always_fails_has_no_figure_but_that() -> None:
    items = items_of([(number % 2 == 0, ["unknown"] * 3) for number in range(40)])
    a, flips = measure_agreement(items), measure_flips(items)
    assert a.unknown == Estimate(1, 1, 1)
    assert a.kappa == a.macro_f1 == a.accuracy == a.lean == flips.rate == Estimate(None)
    assert a.always_met is None and a.always_unmet is None
    assert flips.left(3) is None and flips.left_if_even(3) is None


@pytest.mark.parametrize("met", [True, False])
def test_one_class_on_both_sides_has_no_kappa(met: bool) -> None:
    a = measure_agreement(judge([met] * 40, [met] * 40))
    assert a.kappa == a.macro_f1 == Estimate(None)
    assert a.accuracy == Estimate(1, 1, 1)


# -- intervals -------------------------------------------------------------------------------------------------


def test_intervals_hold_their_figure_and_are_the_same_under_one_seed() -> None:
    items = coin(100, 1)
    a = measure_agreement(items, seed=4)
    for figure in (a.kappa, a.macro_f1, a.accuracy, a.lean):
        assert figure.value is not None and figure.low is not None and figure.high is not None
        assert figure.low < figure.value < figure.high
    assert a == measure_agreement(items, seed=4)
    assert a.kappa != measure_agreement(items, seed=5).kappa


def test_an_intervals_width_is_that_of_theory() -> None:
    """Accuracy 0.8 of 400 has a standard error of 0.02."""
    labels = [number % 2 == 0 for number in range(400)]
    figure = measure_agreement(judge(labels, [m if n % 5 else not m for n, m in enumerate(labels)])).accuracy
    assert figure.value == 0.8
    assert figure.low == pytest.approx(0.8 - 1.96 * 0.02, abs=0.006)
    assert figure.high == pytest.approx(0.8 + 1.96 * 0.02, abs=0.006)


def in_conversations(n: int, each: int) -> list[JudgedItem]:
    """`n` conversations of `each` items whose verdicts are all right, or in every fourth one all wrong."""
    return [
        item(label, *[said(label == (c % 4 != 0))] * 3, answer=f"{c}-{i}", conversation=str(c))
        for c in range(n)
        for i, label in enumerate([True, False] * (each // 2))
    ]


def test_intervals_draw_conversations_because_their_verdicts_lean_on_each_other() -> None:
    a = measure_agreement(in_conversations(10, 8))
    assert a.drawn == "conversations"
    alone = measure_agreement([item(i.label, *[v.outcome for v in i.verdict.votes], answer=i.answer)
                               for i in in_conversations(10, 8)])  # fmt: skip
    assert alone.drawn == "conversations" and alone.accuracy.value == a.accuracy.value
    assert a.accuracy.low is not None and alone.accuracy.low is not None
    assert a.accuracy.low < alone.accuracy.low - 0.1


def test_with_few_conversations_intervals_draw_answers_and_then_items() -> None:
    assert measure_agreement(in_conversations(9, 8)).drawn == "answers"
    one_answer = [item(n % 2 == 0, *[said(n % 3 == 0)] * 3, answer="a") for n in range(40)]
    a = measure_agreement(one_answer)
    assert a.drawn == "items"
    assert a.accuracy.low is not None and a.accuracy.high is not None and a.accuracy.low < a.accuracy.high


# -- flips -----------------------------------------------------------------------------------------------------


@LIGHT
@given(labels_and_votes(votes=5))
def test_the_flip_rate_is_the_share_of_pairs_of_known_votes_that_differ(rows: Rows) -> None:
    differ = pairs = 0
    for _, votes in rows:
        for a, b in combinations([v for v in votes if v != "unknown"], 2):
            pairs, differ = pairs + 1, differ + (a != b)
    flips = measure_flips(items_of(rows))
    assert flips.pairs == pairs
    assert flips.rate.value == (pytest.approx(differ / pairs) if pairs else None)


def test_a_single_vote_says_nothing_of_flips() -> None:
    flips = measure_flips(items_of([(True, ["met"]), (False, ["unmet"])]))
    assert (flips.rate, flips.pairs, flips.left(3)) == (Estimate(None), 0, None)


shares = st.floats(0.02, 0.98)


@LIGHT
@given(shares, st.floats(0, 1))
def test_a_majority_of_one_leaves_the_rate_itself(met_share: float, part: float) -> None:
    rate = part * 2 * met_share * (1 - met_share)
    assert flips_left(rate, met_share, 1) == pytest.approx(rate, abs=1e-7)
    assert flips_left_if_even(rate, 1) == pytest.approx(rate, abs=1e-9)


@LIGHT
@given(shares, st.floats(0.001, 1))
def test_more_votes_leave_less_and_even_doubts_leave_least(met_share: float, part: float) -> None:
    rate = part * 2 * met_share * (1 - met_share)
    left = [flips_left(rate, met_share, n) for n in (1, 3, 5, 7)]
    even = [flips_left_if_even(rate, n) for n in (1, 3, 5, 7)]
    for more, fewer in ((left[1:], left[:-1]), (even[1:], even[:-1]), (even, left)):
        assert all(a <= b + 1e-9 for a, b in zip(more, fewer, strict=True))


def test_even_doubts_give_the_methods_own_figures() -> None:
    """METHOD 11: 2.7% of single votes stray, a majority of three leaves 0.2%."""
    stray = 0.027
    of_three = 3 * stray**2 * (1 - stray) + stray**3
    assert round(of_three, 3) == 0.002
    assert flips_left_if_even(2 * stray * (1 - stray), 3) == pytest.approx(2 * of_three * (1 - of_three))


def test_uneven_doubts_are_those_of_a_simulated_judge() -> None:
    """Chances drawn from a beta distribution, two majorities of three on each item."""
    draws = np.random.default_rng(0)
    chance = draws.beta(0.3, 0.5, 400_000)
    once, again = (draws.binomial(3, chance) >= 2 for _ in range(2))
    single = draws.random(chance.size) < chance, draws.random(chance.size) < chance
    rate, met_share = float((single[0] != single[1]).mean()), float(chance.mean())
    assert flips_left(rate, met_share, 3) == pytest.approx(float((once != again).mean()), abs=0.004)


def test_a_coin_leaves_what_its_majorities_differ_by() -> None:
    met = sum(comb(3, k) * 0.3**k * 0.7 ** (3 - k) for k in (2, 3))
    assert flips_left(2 * 0.3 * 0.7, 0.3, 3) == pytest.approx(2 * met * (1 - met))
    assert flips_left(0.9, 0.3, 3) == pytest.approx(2 * met * (1 - met)), "more than chance gives is cut to chance"
    assert flips_left_if_even((1 - sqrt(0)) / 2, 3) == pytest.approx(0.5)


@pytest.mark.parametrize("n", [0, 2, 4, -1])
def test_only_an_odd_number_of_votes_has_a_majority(n: int) -> None:
    for ask in (lambda: flips_left(0.1, 0.5, n), lambda: flips_left_if_even(0.1, n)):
        with pytest.raises(ValueError, match="odd"):
            ask()
