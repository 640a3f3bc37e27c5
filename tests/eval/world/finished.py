"""Finished cells with the figures that a test is about, and a whole comparison that looks like a real one."""

import math
import random
from collections.abc import Sequence
from typing import Any

from eval.world.cells import ABLATIONS, ARMS, Cell
from eval.world.constants import STRESSES
from eval.world.heldout import HeldOutAnswer
from eval.world.results import Arm, CellResult, CyclePoint, Probed, RubricPoint, Rubrics

__all__ = ["Answers", "Results", "answers_of", "cell", "lively", "probed"]

Results = dict[str, CellResult]
Answers = dict[str, list[HeldOutAnswer]]


def probed(delta: float, leads: float = 0.0, probes: int = 100, error: float | None = 0.02) -> Probed:
    return Probed(
        probes=probes, delta=delta, standard_error=error, honest_leads=leads, exploitable=1 - leads, saturated=0.1
    )


def cell(arm: Arm, seed: int = 0, change: str = "", *, reward: float = 0.8, quality: float = 0.5, **other: Any) -> Any:
    """A name and a result, to be put into a dict."""
    given: dict[str, Any] = {
        "name": Cell(arm, seed, change).name,
        "arm": arm,
        "seed": seed,
        "change": change,
        "constants": change if change in STRESSES else "fair",
        "train_reward": reward,
        "train_quality": quality,
        "true_quality": quality,
        "standard_error": 0.01,
        "answers": 8,
        "kinds": {"correct": 0.6, "name_drop": 0.3, "wrong": 0.1},
        "before": None,
        "after": None,
        "adopted_before": None,
        "adopted_after": None,
        "curve": (),
        "exploitable": (),
        "modes": {},
        "outcomes": {},
        "rubrics": Rubrics(positives=3, negatives=2, values=0.5, wrong_keys=0.03, wrong_negatives=0.1),
        "calls": 1000,
        "seconds": {"train": 60.0},
    }
    return given["name"], CellResult(**{**given, **other})


def answers_of(*qualities: float | Sequence[float], first: int = 0) -> list[HeldOutAnswer]:
    """Answers to requests from `first` on: one of this quality, or several."""
    return [
        HeldOutAnswer(number, "velor", ("crest",), "", worth, "mixed", 10, True)
        for number, worths in enumerate(qualities, first)
        for worth in (worths if isinstance(worths, Sequence) else [worths])
    ]


# --- a whole comparison --------------------------------------------------------------------------------

REWARDS = {"generation-only": (0.55, 0.93), "co-evolve-only": (0.5, 0.85), "rri": (0.42, 0.74)}
QUALITIES = {"generation-only": (0.4, 0.36), "co-evolve-only": (0.4, 0.55), "rri": (0.4, 0.69)}
LEFT = {"generation-only": (0.95, 0.97), "co-evolve-only": (0.93, 0.62), "rri": (0.5, 0.14)}
MODES = {"hedge_namedrop": 131, "breadth_padding": 64, "keyword_stuffing": 30, "negative_absent": 22,
         "task_restatement": 9, "other": 4, "none": 17}  # fmt: skip


def lively(seeds: Sequence[int] = (0, 1, 2), arms: Sequence[Arm] = ARMS, cycles: int = 150) -> tuple[Results, Answers]:
    """Every cell, with curves that rise, noise, and answers around each cell's quality."""
    results: Results = {}
    answers: Answers = {}
    cells = [Cell(arm, seed) for seed in seeds for arm in arms]
    cells += [Cell("rri", 0, name) for name in ABLATIONS]
    cells += [Cell(arm, 0, name) for name in STRESSES for arm in ("generation-only", "rri") if arm in arms]
    for number, made in enumerate(cells):
        rng = random.Random(number)
        worths = [
            [min(1.0, rng.gauss(_at(QUALITIES[made.arm], 9) - 0.01 * made.seed, 0.4)) for _ in range(4)]
            for _ in range(120)
        ]
        answers[made.name] = answers_of(*worths)
        quality = sum(map(sum, worths)) / 480
        name, result = cell(
            made.arm, made.seed, made.change, reward=_at(REWARDS[made.arm], 9), quality=quality,
            **_course(made.arm, rng, cycles),
        )  # fmt: skip
        results[name] = result
    return results, answers


def _at(ends: tuple[float, float], time: float) -> float:
    return ends[1] + (ends[0] - ends[1]) * math.exp(-time)


def _course(arm: str, rng: random.Random, cycles: int) -> dict[str, Any]:
    curve = [
        CyclePoint(
            cycle=cycle,
            reward=_at(REWARDS[arm], 4 * cycle / cycles) + rng.gauss(0, 0.03),
            quality=_at(QUALITIES[arm], 4 * cycle / cycles) + rng.gauss(0, 0.04),
            words=20,
            finished=1,
            kinds={"correct": 1},
        )
        for cycle in range(1, cycles + 1)
    ]
    stretches = [
        RubricPoint(
            first=first, last=first + 29, probes=40, exploitable=_at(LEFT[arm], first / 40) + rng.gauss(0, 0.02)
        )
        for first in range(1, cycles, 30)
    ]
    more: dict[str, Any] = {"curve": tuple(curve), "exploitable": tuple(stretches)}
    if arm == "rri":
        more |= {
            "before": probed(0.41 + rng.gauss(0, 0.02), 0.01, 140),
            "after": probed(0.02 + rng.gauss(0, 0.02), 0.38, 140),
            "adopted_before": 0.44,
            "adopted_after": -0.03,
            "modes": {mode: max(0, round(rng.gauss(count, 4))) for mode, count in MODES.items()},
        }
    return more
