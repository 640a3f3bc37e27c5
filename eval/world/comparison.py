"""From finished cells to the comparison of the arms. Pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, stdev

from eval.repair_report import PAPER
from eval.world.cells import ABLATIONS, ARMS, Cell, parse_cell
from eval.world.checks import all_checks
from eval.world.constants import STRESSES
from eval.world.findings import (
    AblationRow,
    Ablations,
    Comparison,
    Difference,
    Repair,
    RepairRow,
    SeedDifference,
    SeedRow,
    Seeds,
)
from eval.world.heldout import HeldOutAnswer, paired_difference
from eval.world.results import Arm, CellResult, Probed
from rri.errors import InputError

__all__ = ["PAIRS", "comparison", "over_seeds", "pooled"]

PAIRS: tuple[tuple[Arm, Arm], ...] = (
    ("rri", "generation-only"),
    ("rri", "co-evolve-only"),
    ("co-evolve-only", "generation-only"),
)
"""Arms whose difference is taken, the first less the second."""

Answers = Mapping[str, Sequence[HeldOutAnswer]]
Found = Mapping[Cell, CellResult]


def comparison(results: Mapping[str, CellResult], answers: Answers) -> Comparison:
    """Compare what is there. Missing cells leave figures out and their checks undecided.

    Args:
        results: name of a cell -> its figures.
        answers: name of a cell -> its held-out answers; at least those of every cell that is compared with another.

    Raises:
        InputError: a result under another cell's name, cells of unlike constants, or answers that are missing or not
            to the same requests.
    """
    found = _by_cell(results)
    constants = _agreed(found)
    arms = _of_world(found, "")
    differences = {
        f"{better} minus {base}": difference
        for better, base in PAIRS
        if (difference := _difference(found, answers, better, base, ""))
    }
    stresses = {name: rows for name in STRESSES if (rows := _of_world(found, name))}
    stressed = {
        name: difference
        for name in stresses
        if (difference := _difference(found, answers, "rri", "generation-only", name))
    }
    repair = _repair(found)
    return Comparison(
        constants=constants,
        arms=arms,
        ablations=_ablations(found, answers),
        stresses=stresses,
        differences=differences,
        stress_differences=stressed,
        repair=repair,
        checks=all_checks(arms, differences, stresses, stressed, repair),
    )


# -- cells ---------------------------------------------------------------------------------------------


def _by_cell(results: Mapping[str, CellResult]) -> dict[Cell, CellResult]:
    """The results in the order of their seeds."""
    found: dict[Cell, CellResult] = {}
    for name, result in results.items():
        cell = parse_cell(name)
        if cell != (result.arm, result.seed, result.change):
            raise InputError(
                f"the result in {name} is of {Cell(result.arm, result.seed, result.change).name}",
                "Put it back into its own folder, or remove it so that the cell is measured again",
            )
        if cell.change in ABLATIONS and cell.arm != "rri":
            raise InputError(f"{name} switches off what its arm does not have", "Ablations are of the arm rri")
        found[cell] = result
    return dict(sorted(found.items(), key=lambda item: item[0].seed))


def _agreed(found: Found) -> str | None:
    """Digest of the fair world, after every cell has been held against the others of its world."""
    worlds: dict[str, dict[str, str]] = {}
    for cell, result in found.items():
        world = cell.change if cell.change in STRESSES else ""
        worlds.setdefault(world, {}).setdefault(result.constants, cell.name)
    for digests in worlds.values():
        if len(digests) > 1:
            (one, a), (other, b) = list(digests.items())[:2]
            raise InputError(
                f"{a} and {b} were made with unlike constants of the world ({one[:8]} and {other[:8]})",
                "Compare cells of one version of the constants; remove the older ones to measure them again",
            )
    return next(iter(worlds.get("", {})), None)


def _of_world(found: Found, change: str) -> dict[Arm, Seeds]:
    rows = {arm: [_row(r) for c, r in found.items() if (c.arm, c.change) == (arm, change)] for arm in ARMS}
    return {arm: Seeds(seeds=tuple(seeds)) for arm, seeds in rows.items() if seeds}


def _row(result: CellResult) -> SeedRow:
    measured = [point for point in result.exploitable if point.probes]
    return SeedRow(
        seed=result.seed,
        train_reward=result.train_reward,
        train_quality=result.train_quality,
        true_quality=result.true_quality,
        standard_error=result.standard_error,
        answers=result.answers,
        gap=result.gap,
        delta_before=result.before.delta if result.before else None,
        delta_after=result.after.delta if result.after else None,
        exploitable=max(measured, key=lambda point: point.last).exploitable if measured else None,
        kinds=result.kinds,
        wrong_keys=result.rubrics.wrong_keys,
        wrong_negatives=result.rubrics.wrong_negatives,
    )


def _ablations(found: Found, answers: Answers) -> dict[str, Ablations]:
    tables = {}
    for name in ABLATIONS:
        rows = [_ablation(found, answers, cell) for cell in found if cell.change == name]
        if rows:
            tables[name] = Ablations(seeds=tuple(rows))
    return tables


def _ablation(found: Found, answers: Answers, cell: Cell) -> AblationRow:
    intact = Cell("rri", cell.seed)
    whole = found.get(intact)
    return AblationRow(
        **dict(_row(found[cell])),
        cost=_paired(answers, intact, cell) if whole else None,
        whole_wrong_keys=whole.rubrics.wrong_keys if whole else None,
        whole_wrong_negatives=whole.rubrics.wrong_negatives if whole else None,
    )


# -- differences ---------------------------------------------------------------------------------------


def over_seeds(seeds: Sequence[SeedDifference]) -> Difference:
    """Put differences of several seeds together; at least one.

    The answers of a seed tell nothing of how runs differ, and two or three seeds tell little of it: the larger error
    of the two counts.
    """
    mean = fmean(seed.mean for seed in seeds)
    combined = sqrt(sum(seed.standard_error**2 for seed in seeds)) / len(seeds)
    spread = stdev(seed.mean for seed in seeds) / sqrt(len(seeds)) if len(seeds) > 1 else None
    return Difference(
        seeds=tuple(seeds),
        mean=mean,
        standard_error=combined if spread is None else max(combined, spread),
        combined_error=combined,
        spread_error=spread,
    )


def _difference(found: Found, answers: Answers, better: Arm, base: Arm, change: str) -> Difference | None:
    """None where no seed has both sides."""
    pairs = [(Cell(better, c.seed, change), c) for c in found if (c.arm, c.change) == (base, change)]
    seeds = [_paired(answers, a, b) for a, b in pairs if a in found]
    return over_seeds(seeds) if seeds else None


def _paired(answers: Answers, better: Cell, base: Cell) -> SeedDifference:
    for cell in (better, base):
        if cell.name not in answers:
            raise InputError(f"{cell.name} has no held-out answers", "Remove its result; the cell is measured again")
    try:
        mean, error = paired_difference(answers[better.name], answers[base.name])
    except InputError as clash:
        raise InputError(f"{better.name} and {base.name}: {clash.what}", clash.fix) from None
    return SeedDifference(seed=base.seed, mean=mean, standard_error=error)


# -- repair --------------------------------------------------------------------------------------------


def _repair(found: Found) -> Repair | None:
    rows = [
        RepairRow(
            seed=cell.seed,
            before=result.before,
            after=result.after,
            adopted_before=result.adopted_before,
            adopted_after=result.adopted_after,
        )
        for cell, result in found.items()
        if (cell.arm, cell.change) == ("rri", "")
    ]
    if not rows:
        return None
    both = [row for row in rows if row.before and row.after]
    return Repair(
        seeds=tuple(rows),
        before=pooled(row.before for row in both),
        after=pooled(row.after for row in both),
        paper_before=PAPER["delta_before"],
        paper_after=PAPER["delta_after"],
    )


def pooled(parts: Iterable[Probed | None]) -> Probed | None:
    """Probes of several cells as one set, each probe counting once; None where there are none.

    The error is that of the cells' errors. It is None as soon as one of them is, since a single probe has none.
    """
    found = [part for part in parts if part is not None and part.probes]
    if not found:
        return None
    total = sum(part.probes for part in found)
    weights = [part.probes / total for part in found]
    errors = [part.standard_error for part in found if part.standard_error is not None]

    def mean(values: Iterable[float]) -> float:
        return sum(weight * value for weight, value in zip(weights, values, strict=True))

    return Probed(
        probes=total,
        delta=mean(part.delta for part in found),
        standard_error=sqrt(mean(w * e**2 for w, e in zip(weights, errors, strict=True)))
        if len(errors) == len(found)
        else None,
        honest_leads=mean(part.honest_leads for part in found),
        exploitable=mean(part.exploitable for part in found),
        saturated=mean(part.saturated for part in found),
    )
