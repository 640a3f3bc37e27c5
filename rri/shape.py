"""Shape controls: how many criteria the generator is asked for, steered by what it delivered (METHOD 4.4). Pure.

A generator that delivers less than it is asked for is asked for more. Two proportional controllers do it from the
last `window` tasks, and nothing else is remembered, so a restart rebuilds them from the store.

What each one holds:

- Negatives: the share of *all* tasks with a negative. Red-team tasks always carry one, so ordinary tasks are asked
  for what then is missing. Delivery is measured on ordinary tasks alone.
- Positives: the mean of the drawn counts, over ordinary tasks. Red-team tasks keep their one or two positives.

Both targets are reached by every generator that delivers three quarters of what is asked. Adding at most one positive
cannot do that: with 15% of the tasks at the cap of four it asks for 3.85 on average, of which 2.89 come instead of
3.00. So the mean shortfall is divided by the share of tasks that have room below the cap, and a task drawn at two
may be given two more. Asking every task for four then brings 3.00, and no task is ever asked for more than four.

Targets hold in the mean. Chance alone moves a single window of 400 tasks: the standard deviation is about 0.02 for the
share of negatives and 0.04 for the criteria of a task (0.05 where a third of the tasks are red-team). At a delivery
of exactly three quarters, where both controllers stand at their ends, noise can only lower what is asked. There the
means lie below the target by 0.01 (negatives) and up to 0.04 (criteria).
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, Self

from pydantic import Field, model_validator

from rri.types import Frozen

__all__ = ["Controller", "Shape", "ShapeConfig", "ShapePlan", "ShapeRow", "draw_shape", "plan_shape"]

Controller = Literal["negatives", "positives"]


class ShapeConfig(Frozen):
    """METHOD 4.4; where it is silent, the figures of the authors' development code."""

    window: int = Field(default=400, ge=1, description="latest tasks that a correction is computed from")
    warmup: int = Field(default=80, ge=1, description="tasks before the first correction")
    every: int = Field(default=25, ge=1, description="tasks between two corrections")
    least_delivery: float = Field(
        default=0.05, gt=0, le=1, allow_inf_nan=False, description="floor of negatives delivered over requested"
    )
    min_requests: int = Field(
        default=20, ge=1, description="requests in the window below which everything counts as delivered"
    )
    min_rate: float = Field(
        default=0.05, ge=0, le=1, allow_inf_nan=False, description="least rate at which a negative is asked for"
    )
    max_positives: int = Field(default=4, ge=1, le=5, description="a correction never asks for more positives")
    saturated_at: float = Field(
        default=0.999,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="part of its range at which a controller is at its end",
    )
    shortfall: float = Field(
        default=0.9, gt=0, le=1, allow_inf_nan=False, description="part of the target below which a saturated one warns"
    )

    @model_validator(mode="after")
    def _can_correct(self) -> Self:
        if self.min_requests > self.window:
            raise ValueError(
                f"min_requests {self.min_requests} is more than window {self.window}: nothing would ever be corrected"
            )
        return self

    @property
    def rows_needed(self) -> int:
        """How many of the latest rows `plan_shape` has to see: a plan stands until `every` more tasks are there."""
        return self.window + self.every - 1


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """What one task was asked to hold, and what the generator delivered (before any repair), in criteria."""

    asked_positives: int
    asked_negative: bool
    positives: int
    negatives: int
    red_team: bool


class ShapePlan(Frozen):
    """What is asked for from now on.

    `negative_rate`: share of ordinary tasks that are asked for a negative. `extra_positive`: positives added to an
    ordinary task's draw, up to `max_positives`. Its whole part is always added, the rest is a probability. `saturated`:
    the controllers that cannot ask for more. `warnings`: one sentence for each target that is missed by more than
    `ShapeConfig.shortfall` allows while its controller can go no further.
    """

    negative_rate: float
    extra_positive: float = 0.0
    max_positives: int = 4
    saturated: tuple[Controller, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What the generator is told to deliver, as hard numbers."""

    positives: int
    negative: bool


@dataclass(frozen=True, slots=True)
class _Correction:
    """One controller's answer."""

    value: float
    saturated: bool
    warning: str = ""


def draw_shape(
    positives: Mapping[int, float],
    plan: ShapePlan,
    red_team: bool,
    rng: random.Random,
    red_team_positives: Sequence[int] = (1, 2),
) -> Shape:
    """The shape of one task. Red-team: one or two positives, evenly, and always a negative.

    Args:
        positives: count of positives -> probability.
        plan: the corrections that hold now.
        red_team: whether the task holds a trap.
        rng: the task's own source of chance.
        red_team_positives: counts of positives of a red-team task.
    """
    if red_team:
        return Shape(rng.choice(red_team_positives), True)
    counts, weights = zip(*sorted(positives.items()), strict=True)
    drawn = rng.choices(counts, weights)[0]
    negative = rng.random() < plan.negative_rate
    whole = int(plan.extra_positive)
    extra = whole + (rng.random() < plan.extra_positive - whole)
    # The cap bounds the correction: a distribution that draws more keeps what it draws.
    return Shape(max(drawn, min(drawn + extra, plan.max_positives)), negative)


def plan_shape(
    rows: Sequence[ShapeRow],
    positives: Mapping[int, float],
    negative_share: float,
    config: ShapeConfig | None = None,
    *,
    earlier: int = 0,
) -> ShapePlan:
    """The plan that holds once these tasks are there. The same rows always give the same plan.

    Before the warm-up is over nothing is corrected. After it a plan stands for `config.every` tasks.

    Args:
        rows: tasks, oldest first; the latest `config.rows_needed` are enough.
        positives: count of positives -> probability, the target of the count controller.
        negative_share: share of all tasks that is to carry a negative.
        config: the controllers' numbers; the method's own by default.
        earlier: how many tasks there were before the first of `rows`.

    Raises:
        ValueError: `rows` starts after the window does.
    """
    config = config or ShapeConfig()
    tasks = earlier + len(rows)
    if tasks < config.warmup:
        return ShapePlan(negative_rate=negative_share, max_positives=config.max_positives)
    end = tasks - (tasks - config.warmup) % config.every
    start = max(0, end - config.window)
    if start < earlier:
        raise ValueError(f"a plan after {tasks} tasks needs the latest {tasks - start} rows, got {len(rows)}")
    window = rows[start - earlier : end - earlier]
    corrections: dict[Controller, _Correction] = {
        "negatives": _correct_negatives(window, negative_share, config),
        "positives": _correct_positives(window, positives, config),
    }
    return ShapePlan(
        negative_rate=corrections["negatives"].value,
        extra_positive=corrections["positives"].value,
        max_positives=config.max_positives,
        saturated=tuple(name for name, c in corrections.items() if c.saturated),
        warnings=tuple(c.warning for c in corrections.values() if c.warning),
    )


def _correct_negatives(window: Sequence[ShapeRow], target: float, config: ShapeConfig) -> _Correction:
    ordinary = [row for row in window if not row.red_team]
    asked = sum(row.asked_negative for row in ordinary)
    # Negatives that nobody asked for count as well: what is held is what the tasks carry.
    delivered = sum(row.negatives > 0 for row in ordinary)
    carried = sum(row.negatives > 0 for row in window)
    delivery = delivered / asked if asked >= config.min_requests else 1.0
    missing = (target * len(window) - (carried - delivered)) / max(1, len(ordinary))
    # A few requests keep the delivery measurable, unless no negative is wanted at all.
    floor = min(config.min_rate, target)
    rate = min(1.0, max(floor, missing / max(delivery, config.least_delivery)))
    saturated = rate >= config.saturated_at
    share = carried / len(window)
    found = f"negatives: {share:.2f} of the tasks carry one, the target is {target:.2f}"
    if saturated and share < config.shortfall * target:
        return _Correction(rate, True, f"{found}, and {rate:.2f} of the ordinary tasks are already asked for one")
    # The same rule for the tasks that are to carry none.
    if rate <= floor and 1 - share < config.shortfall * (1 - target):
        return _Correction(rate, saturated, f"{found}, and only {rate:.2f} of the ordinary tasks are asked for one")
    return _Correction(rate, saturated)


def _correct_positives(window: Sequence[ShapeRow], positives: Mapping[int, float], config: ShapeConfig) -> _Correction:
    ordinary = [row for row in window if not row.red_team]
    if len(ordinary) < config.min_requests:
        return _Correction(0.0, False)
    total = sum(positives.values())
    target = sum(count * weight for count, weight in positives.items()) / total
    room = [(max(0, config.max_positives - count), weight / total) for count, weight in positives.items() if weight > 0]
    most = sum(places * share for places, share in room)
    asked = fmean(row.asked_positives for row in ordinary)
    delivered = fmean(row.positives for row in ordinary)
    # `asked` holds earlier extras, so this settles where `delivered` meets the target, whatever the generator does.
    short = asked - delivered
    saturated = short > 0 and short >= config.saturated_at * most
    extra = _extra_that_adds(max(0.0, min(short, most)), room)
    found = f"positives: {delivered:.2f} a task are delivered, the target is {target:.2f}"
    if saturated and delivered < config.shortfall * target:
        cap = f"{found}, and {asked:.2f} are already asked for, in no task more than {config.max_positives}"
        return _Correction(extra, True, cap)
    if short <= 0 and delivered > (2 - config.shortfall) * target:
        return _Correction(extra, False, f"{found}, and only {asked:.2f} are asked for")
    return _Correction(extra, saturated)


def _extra_that_adds(wanted: float, room: Sequence[tuple[int, float]]) -> float:
    """The extra that raises the mean asked by `wanted`; `room` pairs places below the cap with shares of tasks."""
    deepest = max(places for places, _ in room)
    for step in range(deepest):
        share = sum(s for places, s in room if places > step)
        if wanted <= share:
            return step + wanted / share
        wanted -= share
    return float(deepest)
