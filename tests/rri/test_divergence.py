"""When training and validation part ways: the alarm at its edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rri.divergence import ValidationRound, divergence_alarm, rounds_parted

TOLERANCE = 0.01


def rounds(*means: tuple[float | None, float | None]) -> list[ValidationRound]:
    return [ValidationRound(cycle=5 * i + 4, train=t, validation=v) for i, (t, v) in enumerate(means)]


def alarm(*means: tuple[float | None, float | None], alarm_rounds: int = 3) -> str:
    return divergence_alarm(rounds(*means), alarm_rounds=alarm_rounds, tolerance=TOLERANCE)


PARTING = [(0.30, 0.50), (0.32, 0.48), (0.34, 0.46), (0.36, 0.44)]


def test_the_alarm_comes_with_the_third_round_in_a_row() -> None:
    assert alarm(*PARTING[:3]) == ""
    said = alarm(*PARTING)
    assert "over 3 rounds (after cycles 4 to 19)" in said
    assert "rose from 0.300 to 0.360" in said and "fell from 0.500 to 0.440" in said
    assert alarm(*PARTING[:2], alarm_rounds=1) and not alarm(*PARTING[:1], alarm_rounds=1)


@pytest.mark.parametrize(
    ("train", "validation", "parted"),
    [
        (0.311, 0.489, 1),
        (0.310, 0.489, 0),  # a rise of the tolerance itself is none
        (0.311, 0.490, 0),  # nor is a fall of it
        (0.289, 0.489, 0),
        (0.311, 0.511, 0),
    ],
)
def test_both_must_change_by_more_than_the_tolerance(train: float, validation: float, parted: int) -> None:
    assert rounds_parted(rounds((0.30, 0.50), (train, validation)), TOLERANCE) == parted


def test_a_round_in_which_they_agree_ends_the_alarm() -> None:
    assert alarm(*PARTING, (0.36, 0.44)) == ""
    assert rounds_parted(rounds(*PARTING, (0.36, 0.44), (0.38, 0.42)), TOLERANCE) == 1


@pytest.mark.parametrize("unknown", [(None, 0.9), (0.9, None), (None, None)])
def test_an_unknown_round_neither_raises_the_alarm_nor_ends_it(unknown: tuple[float | None, float | None]) -> None:
    assert alarm(*PARTING[:3], unknown) == ""
    assert alarm(*PARTING[:2], unknown, *PARTING[2:])


MEAN = st.none() | st.floats(-1, 1).map(lambda x: round(x, 2))


@given(st.lists(st.tuples(MEAN, MEAN), max_size=12), st.integers(1, 4))
def test_no_alarm_without_a_rise_and_a_fall_over_its_rounds(
    means: list[tuple[float | None, float | None]], needed: int
) -> None:
    parted = rounds_parted(rounds(*means), TOLERANCE)
    assert bool(alarm(*means, alarm_rounds=needed)) == (parted >= needed)
    known = [(t, v) for t, v in means if t is not None and v is not None]
    assert parted < max(1, len(known))
    if parted:
        (first_t, first_v), (last_t, last_v) = known[-1 - parted], known[-1]
        assert last_t - first_t > parted * TOLERANCE and first_v - last_v > parted * TOLERANCE
    # The same history seen from the other side, where training falls and validation rises, is no alarm.
    assert rounds_parted(rounds(*((v, t) for t, v in means)), TOLERANCE) == 0 or parted == 0
