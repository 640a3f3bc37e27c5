"""Which graded cases an evolution round reads, and what their diagnoses add up to (METHOD 7). Pure functions."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor
from typing import TypeVar

from rri.cases import CaseDiagnosis
from rri.config.loop import EvolutionConfig
from rri.types import Frozen
from rri.vocabulary import CaseVerdict, FailureMode, RubricDefect, TaskDefect

__all__ = ["DiagnosisCounts", "count_diagnoses", "select_cases"]

R = TypeVar("R")
Name = TypeVar("Name", bound=str)

_ROUNDING = 1e-9
"""A share of a count that is whole in decimal must not be rounded past it: 100 * 0.07 is more than 7 in binary."""


def select_cases(
    rows: Sequence[R], score: Callable[[R], float], config: EvolutionConfig, rng: random.Random
) -> list[R]:
    """The cases of a round: half the worst, a quarter the best, the rest drawn evenly from what remains.

    Of k cases, `ceil(k * worst_share)` are the worst and `floor(k * best_share)` the best. k is `config.cases`, or all
    rows where there are fewer. No row comes twice. Which of several rows with equal scores comes in is drawn too,
    because their order says nothing about them.

    Args:
        rows: graded rollouts of the latest steps. An unscored one has no place here.
        score: training score of a row.
        config: how many, and the shares.
        rng: source of the draws. Equal states give equal cases.

    Returns:
        The worst, worst first, then the best, best first, then those drawn at random.
    """
    order = list(rows)
    rng.shuffle(order)
    order.sort(key=score)
    wanted = min(config.cases, len(order))
    worst = ceil(wanted * config.worst_share - _ROUNDING)
    best_at = len(order) - floor(wanted * config.best_share + _ROUNDING)
    chosen = [*order[:worst], *order[best_at:][::-1]]
    return chosen + rng.sample(order[worst:best_at], wanted - len(chosen))


class DiagnosisCounts(Frozen):
    """What the diagnoses of a round add up to. Every count is of cases, the commonest name first; `none` is left out.

    A name is counted where it decided the outcome, and nowhere else: failure modes and gaps in fair failures alone,
    because a broken task says nothing about the solver, and defects in cases whose generator was at fault. A defect
    that the analyst named although it decided nothing (a task that is too easy for an answer that is good anyway) is
    in `side_defects`.

    `failed` cases have no diagnosis, because the analyst's model failed. They are in no other count.
    """

    cases: int
    failed: int = 0
    verdicts: dict[CaseVerdict, int] = {}
    failure_modes: dict[FailureMode, int] = {}
    rubric_defects: dict[RubricDefect, int] = {}
    task_defects: dict[TaskDefect, int] = {}
    side_defects: dict[RubricDefect | TaskDefect, int] = {}
    gaps: tuple[str, ...] = ()


def count_diagnoses(diagnoses: Sequence[CaseDiagnosis], config: EvolutionConfig | None = None) -> DiagnosisCounts:
    """Counts over the diagnoses of a round, with the first `config.gaps` different gaps of `config.gap_chars` each."""
    config = config or EvolutionConfig()
    done = [d for d in diagnoses if d.verdict is not None]
    fair = [d for d in done if d.verdict == "model_failed_fair_task"]
    at_fault = [d for d in done if d.verdict == "generator_at_fault"]
    others = [d for d in done if d.verdict != "generator_at_fault"]
    gaps = dict.fromkeys(_cut(" ".join(d.gap.split()), config.gap_chars) for d in fair if d.gap.strip())
    return DiagnosisCounts(
        cases=len(diagnoses),
        failed=len(diagnoses) - len(done),
        verdicts=_counted(d.verdict for d in done),
        failure_modes=_counted(d.failure_mode for d in fair),
        rubric_defects=_counted(d.rubric_defect for d in at_fault),
        task_defects=_counted(d.task_defect for d in at_fault),
        side_defects=_counted(defect for d in others for defect in (d.rubric_defect, d.task_defect)),
        gaps=tuple(gaps)[: config.gaps],
    )


def _counted(names: Iterable[Name | None]) -> dict[Name, int]:
    counts = Counter(name for name in names if name is not None and name != "none")
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _cut(text: str, chars: int) -> str:
    """`text` in at most `chars` characters, an ellipsis where it was longer."""
    return text if len(text) <= chars else f"{text[: chars - 1].rstrip()}\u2026"
