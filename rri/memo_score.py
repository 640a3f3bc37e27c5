"""What a memo version is worth, and what becomes of it (METHOD 7, memo). Pure functions.

g = mean(delta) + honest_weight * max(0, mean(honest) - baseline - honest_slack), and lower is better. A memo that only
makes rubrics easier lifts the honest score, so it pays for the lower delta.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rri.cases import MemoVersion
from rri.config.loop import MemoConfig
from rri.types import Frozen

__all__ = [
    "TARGET",
    "TOLERANCE",
    "Decision",
    "MemoObservations",
    "MemoScore",
    "decide",
    "honest_baseline",
    "memo_score",
    "score_versions",
]

TOLERANCE = 1e-9
"""Scores are means of fractions: 0.12 - 0.10 must count as worse by 0.02 and no more."""

TARGET = 0.0
"""g at which a memo has done its work (METHOD 7, "target 0")."""

Figure = Annotated[float, Field(allow_inf_nan=False)]


class MemoObservations(Frozen):
    """The measured first probes of tasks generated under one memo version, and of no others.

    One observation is a delta and the honest score of the same probe, at the same place in both lists.
    """

    version: int = Field(ge=0)
    deltas: tuple[Figure, ...] = ()
    honests: tuple[Figure, ...] = ()

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if len(self.deltas) != len(self.honests):
            raise ValueError(
                f"memo {self.version} has {len(self.deltas)} deltas and {len(self.honests)} honest scores; give both "
                "of each probe"
            )
        return self


class MemoScore(Frozen):
    """A version's figures over `n` first probes. Means are None without any, `score` below `min_observations`."""

    version: int
    n: int
    delta_mean: float | None = None
    honest_mean: float | None = None
    score: float | None = None


def memo_score(own: MemoObservations, baseline: float, config: MemoConfig) -> float | None:
    """g of one version; None where it has fewer than `min_observations`.

    Args:
        own: the version's observations.
        baseline: mean honest score of the first measured version. Not used where `honest_penalty` is off.
        config: weight, slack, and whether the charge is on.
    """
    if len(own.deltas) < config.min_observations:
        return None
    delta = fmean(own.deltas)
    if not config.honest_penalty:
        return delta
    return delta + config.honest_weight * max(0.0, fmean(own.honests) - baseline - config.honest_slack)


def honest_baseline(observations: Sequence[MemoObservations], config: MemoConfig) -> float | None:
    """Mean honest score of the first measured version; None while no version is measured.

    Measured means `min_observations` or more, the same bar as for a score. One probe alone would bind the whole run to
    its luck. The version is found from the observations each time, so it survives a restart with them.
    """
    measured = [o for o in observations if len(o.honests) >= config.min_observations]
    return fmean(min(measured, key=lambda o: o.version).honests) if measured else None


def score_versions(observations: Sequence[MemoObservations], config: MemoConfig) -> tuple[MemoScore, ...]:
    """Figures of every version that was observed, lowest version first."""
    baseline = honest_baseline(observations, config)
    return tuple(
        MemoScore(
            version=own.version,
            n=len(own.deltas),
            delta_mean=fmean(own.deltas) if own.deltas else None,
            honest_mean=fmean(own.honests) if own.honests else None,
            score=None if baseline is None else memo_score(own, baseline, config),
        )
        for own in sorted(observations, key=lambda o: o.version)
    )


class Decision(Frozen):
    """What becomes of the current memo, and why.

    wait: too few observations. roll_back: a worse text than `of`, whose text comes back. restricting: honest answers
    score too low under it, so it is not tightened further. at_target: g has reached the target, so it stays as it is.
    propose: the memo optimizer is asked. `restricting` as a flag stays visible beside a roll-back.
    """

    action: Literal["wait", "roll_back", "restricting", "at_target", "propose"]
    why: str
    of: int | None = None
    restricting: bool = False


def decide(
    versions: Sequence[MemoVersion], observations: Sequence[MemoObservations], config: MemoConfig | None = None
) -> Decision:
    """What becomes of the current memo (METHOD 7). The first rule that applies, in this order.

    1. Fewer than `min_observations`: wait.
    2. Worse than the best earlier version by more than `rollback_margin`: roll back to it. Of equals the oldest is
       best. Where the best has the very text of the current one, its two scores differ by chance, and nothing is rolled
       back: it would bring the same text again, for ever.
    3. Honest mean below `restricting_below`: not tightened further, which the one lever of a memo does.
    4. g at the target or below: left alone. METHOD names the target, and that it ends the work is the authors' code.
    5. Otherwise a new memo is asked for.

    Args:
        versions: all versions, oldest first. The last one is current.
        observations: of any of them. A version that is not named has none.
        config: the method's numbers by default.
    """
    config = config or MemoConfig()
    scores = {s.version: s for s in score_versions(observations, config)}
    *earlier, current = versions
    name, own = f"memo {current.version}", scores.get(current.version, MemoScore(version=current.version, n=0))
    if own.score is None or own.honest_mean is None:
        return Decision(action="wait", why=f"{name} has {own.n} of the {config.min_observations} first probes it needs")
    restricting = own.honest_mean < config.restricting_below - TOLERANCE
    best = _best(earlier, scores)
    if best is not None:
        version, score = best
        worse = own.score - score
        if worse > config.rollback_margin + TOLERANCE and version.memo != current.memo:
            why = f"g of {name} is {own.score:.3f}, worse by {worse:.3f} than that of memo {version.version}"
            return Decision(action="roll_back", why=why, of=version.version, restricting=restricting)
    if restricting:
        low = f"honest answers score {own.honest_mean:.3f} under {name}, below {config.restricting_below:g}"
        return Decision(action="restricting", why=f"{low}: it restricts too much already", restricting=True)
    if own.score <= TARGET + TOLERANCE:
        return Decision(action="at_target", why=f"g of {name} is {own.score:.3f}, and the target is {TARGET:g}")
    return Decision(action="propose", why=f"g of {name} is {own.score:.3f}, above the target of {TARGET:g}")


def _best(versions: Sequence[MemoVersion], scores: dict[int, MemoScore]) -> tuple[MemoVersion, float] | None:
    """The measured version with the lowest g, the oldest of equals, with that g."""
    measured = [(v, s.score) for v in versions if (s := scores.get(v.version)) is not None and s.score is not None]
    return min(measured, key=lambda pair: (pair[1], pair[0].version)) if measured else None
