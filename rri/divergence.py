"""Whether training and validation scores part ways, which is how a hacked reward shows (METHOD 11). Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["ValidationRound", "divergence_alarm", "rounds_parted"]

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ValidationRound:
    """One validation, after cycle `cycle`.

    Args:
        cycle: the cycle after which it ran.
        train: mean training score of the cycles since the round before, None where none was scored.
        validation: mean validation score, None where none was scored.
    """

    cycle: int
    train: float | None
    validation: float | None


def rounds_parted(rounds: Sequence[ValidationRound], tolerance: float) -> int:
    """How many of the latest rounds, one after another, each had training rise and validation fall.

    A round is compared with the one before it, and each side must change by more than `tolerance`. A round in which
    either side is unknown says nothing: it is left out.

    Args:
        rounds: in order of cycle.
        tolerance: a change of a mean score up to this is none.
    """
    known = [(r.train, r.validation) for r in rounds if r.train is not None and r.validation is not None]
    parted = 0
    for (train, validation), (later_train, later_validation) in pairwise(known):
        rises = later_train - train > tolerance + _ROUNDING
        falls = validation - later_validation > tolerance + _ROUNDING
        parted = parted + 1 if rises and falls else 0
    return parted


def divergence_alarm(rounds: Sequence[ValidationRound], *, alarm_rounds: int, tolerance: float) -> str:
    """The alarm after the latest round in words; empty while there is none.

    Args:
        rounds: in order of cycle.
        alarm_rounds: rounds in a row that raise it.
        tolerance: as for `rounds_parted`.
    """
    parted = rounds_parted(rounds, tolerance)
    if parted < alarm_rounds:
        return ""
    known = [r for r in rounds if r.train is not None and r.validation is not None]
    first, last = known[-1 - parted], known[-1]
    return (
        f"training and validation part ways: over {parted} {'rounds' if parted > 1 else 'round'} (after cycles "
        f"{first.cycle} to {last.cycle}) the training score rose from {first.train:.3f} to {last.train:.3f}, and the "
        f"validation score fell from {first.validation:.3f} to {last.validation:.3f}"
    )
