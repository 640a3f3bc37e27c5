"""What a measured judge may be used for, and every threshold that it misses."""

from dataclasses import dataclass
from typing import Literal

from eval.agreement import Agreement, Estimate, Flips
from eval.length_bias import LengthBias

__all__ = ["WORDS", "Purpose", "Shortfall", "Thresholds", "Usability", "judge_usability", "missing_labels"]

Purpose = Literal["training", "reports"]

WORDS = {
    "training": "usable for training reward and probes",
    "reports": "usable for reports only",
    "nothing": "not usable",
    "unclear": "cannot tell",
}
"""Use -> what people read."""


TOLERANCE = 1e-9
"""Figures are quotients of counts: a lean of 0.55 - 0.45 must not exceed 0.10."""


@dataclass(frozen=True)
class Thresholds:
    """What a judge must reach for each purpose, and why. A limit itself passes."""

    least_items: int = 30
    """Known verdicts. With fewer, kappa's interval is some 0.3 wide to either side."""
    least_of_class: int = 5
    """Known verdicts on each label. Kappa and F1 of a class rest on these alone."""

    kappa_reports: float = 0.4
    """Where labels and errors are even, this is three wrong verdicts in ten. Means over many answers stand so much."""
    kappa_training: float = 0.5
    """Even noise shrinks a true difference of two answers to kappa times its size. Below a half, a probe's margin of
    0.20 asks for a true lead of more than 0.40."""
    kappa_low_reports: float = 0.0
    """The low end of the interval must be above chance."""
    kappa_low_training: float = 0.3
    """The low end of the interval: even an unlucky judge must be nearer to the limit for reports than to chance."""

    unknown_reports: float = 0.25
    """Share of unknown verdicts that a report may score around (METHOD 6)."""
    unknown_training: float = 0.02
    """One unknown criterion leaves an answer without reward (METHOD 6): at 2% and four criteria, 8% of the answers."""

    flips_left_training: float = 0.05
    """Share of majority verdicts that come out otherwise when asked again: at 5% and four criteria, 19% of the answers
    get another score, and groups an advantage of the wrong sign (METHOD 11, whose judge stays below it). Means over
    many answers stand it."""

    lean_reports: float = 0.20
    """Share judged met minus share labelled met, either way: by about so much every score is off. 0.20 is the whole
    margin by which probes decide (METHOD 5)."""
    lean_training: float = 0.10
    """Half of that margin."""

    length_reports: float = 0.30
    """Correlation of verdict and log length at one label, either way. At 0.30 length explains 9% of the verdicts'
    spread, and answers of unlike length cannot be compared."""
    length_training: float = 0.15
    """A solver finds and follows what an average over reports hides, so it must be half of that at most."""
    length_p: float = 0.01
    """A correlation counts where chance would give it less often than this."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A threshold that was missed, and for which purpose. `value` is None where the figure could not be measured."""

    figure: str
    value: float | None
    limit: float
    purpose: Purpose
    words: str


@dataclass(frozen=True, slots=True)
class Usability:
    """What the judge may be used for. `missing` says what must be added before one can tell."""

    use: Literal["training", "reports", "nothing", "unclear"]
    shortfalls: tuple[Shortfall, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return WORDS[self.use]


def judge_usability(
    agreement: Agreement, flips: Flips, length: LengthBias, votes: int, thresholds: Thresholds | None = None
) -> Usability:
    """Hold the figures of a judge against the thresholds.

    A judge whose calls fail too often is not usable, however few its verdicts. Otherwise too few verdicts, or
    too few on one label, leave it open.

    Args:
        agreement, flips, length: what was measured.
        votes: votes of a majority in training.
        thresholds: the defaults when not given.
    """
    t = thresholds or Thresholds()
    failing = agreement.items >= t.least_items and (agreement.unknown.value or 0.0) > t.unknown_reports
    missing = missing_labels(agreement.labelled_met, agreement.known - agreement.labelled_met, t)
    if missing and not failing:
        return Usability("unclear", missing=missing)
    found = _unknown(agreement, t)
    if not missing:
        found += _kappa(agreement.kappa, t) + _lean(agreement, t) + _flips(flips, votes, t) + _length(length, t)
    if any(s.purpose == "reports" for s in found):
        return Usability("nothing", tuple(found))
    return Usability("reports" if found else "training", tuple(found))


def missing_labels(met: int, unmet: int, thresholds: Thresholds | None = None) -> tuple[str, ...]:
    """What must be added to verdicts on `met` and `unmet` labels before one can tell anything; empty when enough."""
    t = thresholds or Thresholds()
    missing = []
    if (more := t.least_items - met - unmet) > 0:
        missing.append(f"{more} more known verdict{'s' * (more > 1)} ({met + unmet} of {t.least_items})")
    for name, n in (("met", met), ("unmet", unmet)):
        if n < t.least_of_class:
            missing.append(f"{t.least_of_class - n} more labelled {name} ({n} of {t.least_of_class})")
    return tuple(missing)


def _unknown(agreement: Agreement, t: Thresholds) -> list[Shortfall]:
    share = agreement.unknown.value or 0.0
    return _above("unknown share", share, t.unknown_training, t.unknown_reports, f"{share:.1%} of the verdicts unknown")


def _kappa(kappa: Estimate, t: Thresholds) -> list[Shortfall]:
    value, low = kappa.value or 0.0, kappa.low if kappa.low is not None else 0.0
    if low <= t.kappa_low_reports:
        words = f"kappa {value:.2f}: no better than chance, as far as can be told (from {low:.2f})"
        return [Shortfall("kappa, low end", low, t.kappa_low_reports, "reports", words)]
    if value < t.kappa_reports - TOLERANCE:
        return [Shortfall("kappa", value, t.kappa_reports, "reports", f"kappa {value:.2f}, below {t.kappa_reports:g}")]
    if value < t.kappa_training - TOLERANCE:
        words = f"kappa {value:.2f}, below {t.kappa_training:g}"
        return [Shortfall("kappa", value, t.kappa_training, "training", words)]
    if low < t.kappa_low_training - TOLERANCE:
        words = f"kappa {value:.2f} may be as low as {low:.2f}, below {t.kappa_low_training:g}: label more items"
        return [Shortfall("kappa, low end", low, t.kappa_low_training, "training", words)]
    return []


def _lean(agreement: Agreement, t: Thresholds) -> list[Shortfall]:
    lean = agreement.lean.value or 0.0
    words = f"judged met {abs(lean):.1%} {'more' if lean > 0 else 'less'} often than labelled"
    return _above("lean", abs(lean), t.lean_training, t.lean_reports, words)


def _flips(flips: Flips, votes: int, t: Thresholds) -> list[Shortfall]:
    left, limit = flips.left(votes), t.flips_left_training
    if left is None:
        words = "flips not measured, which takes two known votes an item"
        return [Shortfall("flips left", None, limit, "training", words)]
    words = f"a majority of {votes} still flips in {left:.1%}"
    return _above("flips left", left, limit, None, words)


def _length(length: LengthBias, t: Thresholds) -> list[Shortfall]:
    if length.r is None or length.p is None:
        words = "length bias not measured: all answers are of one length"
        return [Shortfall("length", None, t.length_training, "training", words)]
    if length.p > t.length_p:
        return []
    words = f"{'longer' if length.r > 0 else 'shorter'} answers pass more readily (r {length.r:+.2f}, p {length.p:.2g})"
    return _above("length", abs(length.r), t.length_training, t.length_reports, words, shown="g")


def _above(
    figure: str, value: float, training: float, reports: float | None, words: str, shown: str = ".0%"
) -> list[Shortfall]:
    """The shortfall of a figure that must not exceed its limits, the graver one alone."""
    if reports is not None and value > reports + TOLERANCE:
        return [Shortfall(figure, value, reports, "reports", f"{words}, above {reports:{shown}}")]
    if value > training + TOLERANCE:
        return [Shortfall(figure, value, training, "training", f"{words}, above {training:{shown}}")]
    return []
