"""The memo's objective and what follows from it: every number at its edge, the order of the rules, rollback."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rri.cases import MemoVersion
from rri.config import MemoConfig
from rri.memo_score import (
    Decision,
    MemoObservations,
    decide,
    honest_baseline,
    memo_score,
    score_versions,
)

LIGHT = settings(max_examples=100, deadline=None)
CONFIG = MemoConfig()
figures = st.floats(-2, 2, allow_nan=False)


def seen(version: int, *pairs: tuple[float, float]) -> MemoObservations:
    """Observations of a version from (delta, honest score) of each probe."""
    return MemoObservations(version=version, deltas=tuple(d for d, _ in pairs), honests=tuple(h for _, h in pairs))


def twice(version: int, delta: float, honest: float = 0.5) -> MemoObservations:
    return seen(version, (delta, honest), (delta, honest))


def memos(*texts: str) -> list[MemoVersion]:
    return [MemoVersion(version=i, memo=text, decision="new" if i else "initial") for i, text in enumerate(texts)]


def decided(*observations: MemoObservations, texts: str = "", **config: Any) -> Decision:
    """The decision on the last version, whose texts are single letters."""
    texts = texts or "abcdefgh"[: max((o.version for o in observations), default=0) + 1]
    return decide(memos(*texts), observations, MemoConfig(**config))


# --- the objective -------------------------------------------------------------------------------------


def test_g_is_the_mean_delta_while_the_honest_score_stays_within_the_slack() -> None:
    assert memo_score(seen(1, (0.1, 0.52), (0.3, 0.52)), 0.5, CONFIG) == pytest.approx(0.2)
    assert memo_score(seen(1, (0.1, 0.10), (0.3, 0.20)), 0.5, CONFIG) == pytest.approx(0.2), "a fall earns nothing"


@pytest.mark.parametrize(("rise", "charge"), [(0.0, 0.0), (0.02, 0.0), (0.03, 0.02), (0.12, 0.20)])
def test_a_rise_of_the_honest_score_beyond_two_hundredths_costs_twice(rise: float, charge: float) -> None:
    assert memo_score(twice(1, 0.1, 0.5 + rise), 0.5, CONFIG) == pytest.approx(0.1 + charge)


def test_the_numbers_of_the_charge_come_from_the_config() -> None:
    config = MemoConfig(honest_weight=3.0, honest_slack=0.1)
    assert memo_score(twice(1, 0.1, 0.7), 0.5, config) == pytest.approx(0.1 + 3 * 0.1)


def test_without_the_penalty_g_is_the_mean_delta() -> None:
    assert memo_score(twice(1, 0.1, 0.9), 0.5, MemoConfig(honest_penalty=False)) == pytest.approx(0.1)


def test_one_observation_is_no_score_and_two_are() -> None:
    assert memo_score(seen(0, (0.1, 0.5)), 0.5, CONFIG) is None
    assert memo_score(seen(0, (0.1, 0.5), (0.3, 0.5)), 0.5, CONFIG) == pytest.approx(0.2)
    assert memo_score(twice(0, 0.1), 0.5, MemoConfig(min_observations=3)) is None


@LIGHT
@given(pairs=st.lists(st.tuples(figures, figures), min_size=2, max_size=6), base=figures, more=st.floats(0.01, 1))
def test_g_rises_with_every_delta_and_never_falls_with_the_honest_score(
    pairs: list[tuple[float, float]], base: float, more: float
) -> None:
    score = memo_score(seen(0, *pairs), base, CONFIG)
    (delta, honest), *rest = pairs
    worse = memo_score(seen(0, (delta + more, honest), *rest), base, CONFIG)
    easier = memo_score(seen(0, (delta, honest + more), *rest), base, CONFIG)
    assert score is not None and worse is not None and easier is not None
    assert worse == pytest.approx(score + more / len(pairs))
    assert easier >= score - 1e-12


@LIGHT
@given(delta=figures, lift=st.floats(0.05, 1), base=figures)
def test_an_easier_rubric_never_pays(delta: float, lift: float, base: float) -> None:
    """Lifting the honest score lowers delta by as much. The charge of twice the lift outweighs it beyond the slack."""
    before = memo_score(twice(0, delta, base), base, CONFIG)
    after = memo_score(twice(1, delta - lift, base + lift), base, CONFIG)
    assert before is not None and after is not None
    assert after > before


def test_each_probe_gives_a_delta_and_an_honest_score() -> None:
    with pytest.raises(ValidationError, match="memo 3 has 2 deltas and 1 honest scores"):
        MemoObservations(version=3, deltas=(0.1, 0.2), honests=(0.5,))
    with pytest.raises(ValidationError):
        seen(0, (float("nan"), 0.5))


# --- the baseline --------------------------------------------------------------------------------------


def test_the_baseline_is_the_first_measured_versions_whatever_came_later() -> None:
    later = [twice(3, 0.0, 0.9), twice(1, 0.0, 0.6), twice(2, 0.0, 0.7)]
    assert honest_baseline(later, CONFIG) == pytest.approx(0.6)
    assert honest_baseline([*later, seen(0, (0.0, 0.1))], CONFIG) == pytest.approx(0.6), "one probe is no measurement"
    assert honest_baseline([*later, seen(0, (0.0, 0.1), (0.0, 0.2))], CONFIG) == pytest.approx(0.15)
    assert honest_baseline([seen(0, (0.0, 0.1))], CONFIG) is None
    assert honest_baseline([], CONFIG) is None


def test_small_rises_cannot_add_up_unseen() -> None:
    """Each version rises by the slack over the one before it; measured from the first, the third is charged."""
    scores = score_versions([twice(i, 0.1, 0.5 + 0.02 * i) for i in range(4)], CONFIG)
    assert [s.score for s in scores] == pytest.approx([0.1, 0.1, 0.1 + 2 * 0.02, 0.1 + 2 * 0.04])


def test_figures_of_every_observed_version_lowest_first() -> None:
    scores = score_versions([twice(2, 0.3), seen(1, (0.1, 0.4)), seen(0)], CONFIG)
    assert [(s.version, s.n, s.delta_mean, s.honest_mean, s.score) for s in scores] == [
        (0, 0, None, None, None),
        (1, 1, 0.1, 0.4, None),
        (2, 2, 0.3, 0.5, 0.3),
    ]


# --- decisions -----------------------------------------------------------------------------------------


def test_nothing_is_decided_before_two_observations() -> None:
    assert decide(memos("a"), []).action == "wait"
    one = decided(seen(0, (0.9, 0.5)))
    assert one.action == "wait"
    assert one.why == "memo 0 has 1 of the 2 first probes it needs"
    assert decided(twice(0, 0.9)).action == "propose"


def test_a_new_version_waits_however_bad_its_first_probe_is() -> None:
    assert decided(twice(0, -0.5), seen(1, (2.0, 0.0))).action == "wait"


@pytest.mark.parametrize(
    ("worse", "action"), [(-0.3, "propose"), (0.0, "propose"), (0.02, "propose"), (0.0201, "roll_back")]
)
@pytest.mark.parametrize("best", [i / 100 for i in range(31, 60)])
def test_worse_than_the_best_by_more_than_two_hundredths_is_rolled_back(best: float, worse: float, action: str) -> None:
    """On the margin it stays, at every height: the rule is about 0.02, not about how a difference is rounded."""
    assert decided(twice(0, best), twice(1, best + worse)).action == action


def test_the_margin_comes_from_the_config() -> None:
    assert decided(twice(0, 0.1), twice(1, 0.2), rollback_margin=0.1).action == "propose"
    assert decided(twice(0, 0.1), twice(1, 0.2001), rollback_margin=0.1).action == "roll_back"


def test_a_roll_back_goes_to_the_best_of_all_earlier_versions() -> None:
    decision = decided(twice(0, 0.4), twice(1, 0.2), twice(2, 0.21), twice(3, 0.5))
    assert (decision.action, decision.of) == ("roll_back", 1)
    assert decision.why == "g of memo 3 is 0.500, worse by 0.300 than that of memo 1"


def test_of_equal_versions_the_oldest_is_the_best() -> None:
    assert decided(twice(0, 0.2), twice(1, 0.2), twice(2, 0.5)).of == 0


def test_a_version_that_was_never_measured_is_nothing_to_go_back_to() -> None:
    decision = decided(twice(0, 0.4), seen(1, (-0.9, 0.5)), twice(2, 0.5))
    assert decision.of == 0
    assert decided(seen(0, (-0.9, 0.5)), twice(1, 0.5)).action == "propose"


def test_a_version_that_got_better_by_being_easier_is_rolled_back() -> None:
    """delta falls by 0.10, the honest score rises by 0.10: the charge of 2 * 0.08 makes it worse."""
    decision = decided(twice(0, 0.3, 0.5), twice(1, 0.2, 0.6))
    assert (decision.action, decision.of) == ("roll_back", 0)
    assert decided(twice(0, 0.3, 0.5), twice(1, 0.2, 0.6), honest_penalty=False).action == "propose"


def test_the_same_text_is_not_rolled_back_to_itself() -> None:
    """After a roll-back the text stands twice in the history, with scores that differ by chance."""
    assert decided(twice(0, 0.1), twice(1, 0.6), twice(2, 0.3), texts="aba").action == "propose"
    assert decided(twice(0, 0.1), twice(1, 0.6), twice(2, 0.3), texts="abc").of == 0


@pytest.mark.parametrize(("honest", "action"), [(0.25, "propose"), (0.2499, "restricting"), (0.0, "restricting")])
def test_an_honest_mean_below_a_quarter_is_not_tightened_further(honest: float, action: str) -> None:
    decision = decided(seen(0, (0.3, honest - 0.1), (0.3, honest + 0.1)))
    assert decision.action == action
    assert decision.restricting is (action == "restricting")


def test_the_flag_stays_visible_beside_a_roll_back() -> None:
    decision = decided(twice(0, 0.1), twice(1, 0.5, 0.1))
    assert (decision.action, decision.of, decision.restricting) == ("roll_back", 0, True)


def test_what_restricts_too_much_is_named_before_the_target() -> None:
    assert decided(twice(0, -0.1, 0.2)).action == "restricting"


@pytest.mark.parametrize(("delta", "action"), [(-0.4, "at_target"), (0.0, "at_target"), (0.001, "propose")])
def test_at_the_target_a_memo_is_left_alone(delta: float, action: str) -> None:
    assert decided(twice(0, delta)).action == action


def test_a_target_that_is_met_by_rounding_counts_as_met() -> None:
    assert decided(seen(0, (0.1, 0.5), (0.2, 0.5), (-0.3, 0.5))).action == "at_target"
    assert 0.1 + 0.2 - 0.3 > 0


def test_a_version_at_the_target_that_is_worse_than_the_best_is_still_rolled_back() -> None:
    assert decided(twice(0, -0.3), twice(1, -0.1)).action == "roll_back"


@LIGHT
@given(
    texts=st.text(alphabet="abc", min_size=1, max_size=8),
    data=st.data(),
)
def test_decisions_follow_the_rules_over_any_history(texts: str, data: st.DataObject) -> None:
    grid = st.integers(-5, 10).map(lambda n: n / 10)
    observed = [
        seen(i, *data.draw(st.lists(st.tuples(grid, grid), max_size=3), label=f"version {i}"))
        for i in range(len(texts))
    ]
    versions = memos(*texts)
    decision = decide(versions, observed)
    scores = {s.version: s for s in score_versions(observed, CONFIG)}
    own = scores[len(texts) - 1]
    earlier = {v: s.score for v, s in scores.items() if v < len(texts) - 1 and s.score is not None}
    assert (decision.action == "wait") is (own.score is None)
    assert (decision.of is not None) is (decision.action == "roll_back")
    if decision.of is not None and own.score is not None:
        assert earlier[decision.of] == min(earlier.values())
        assert own.score - earlier[decision.of] > 0.02
        assert versions[decision.of].memo != versions[-1].memo
    if decision.action in ("propose", "at_target", "restricting") and own.score is not None:
        close = not earlier or own.score <= min(earlier.values()) + 0.02 + 1e-6
        assert close or texts[min(earlier, key=lambda v: (earlier[v], v))] == texts[-1]
