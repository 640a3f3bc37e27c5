"""The cells of the comparison: which arm in which world, and with which part of the method switched off."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

from eval.world.constants import STRESSES, WorldConstants, stressed
from eval.world.results import Arm
from rri.errors import InputError

__all__ = ["ABLATIONS", "ARMS", "PRESETS", "Cell", "ablation_cells", "arm_cells", "parse_cell", "stress_cells"]

ARMS: tuple[Arm, ...] = get_args(Arm)
"""From the baseline to the whole method."""

PRESETS: Mapping[Arm, str] = MappingProxyType(
    {"generation-only": "generation-only", "co-evolve-only": "evolution-only", "rri": "rri"}
)
"""Arm -> preset laid over the world's config. Every request holds its note, so no solver of the world retrieves."""

ABLATIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "one-vote": {"grading": {"votes": 1}, "admission": {"votes": 1}, "patches": {"votes": 1}},
        "no-strict-note": {"grading": {"strict_note": False}},
        "no-reattack": {"patches": {"reattack": False}},
        "no-honest-guard": {"patches": {"honest_guard": False}},
        "no-honest-penalty": {"memo": {"honest_penalty": False}},
    }
)
"""Parts of the method, each switched off by itself."""


class Cell(NamedTuple):
    """One run to be made. `change` is an ablation, a stress, or empty."""

    arm: Arm
    seed: int
    change: str = ""

    @property
    def name(self) -> str:
        """As its folder is called, e.g. `rri-0` or `rri-0-no-reattack`."""
        return f"{self.arm}-{self.seed}" + (f"-{self.change}" if self.change else "")

    @property
    def constants(self) -> WorldConstants:
        return stressed(self.change) if self.change in STRESSES else WorldConstants()

    @property
    def sections(self) -> Mapping[str, Any]:
        """What the change lays over the config."""
        return ABLATIONS.get(self.change, {})


def arm_cells(arms: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """The table of arms and seeds, seed by seed.

    Raises:
        InputError: no such arm, or nothing to run.
    """
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise InputError(f"no arm {unknown[0]!r}", f"Arms are: {', '.join(ARMS)}")
    if not arms or not seeds:
        raise InputError("nothing to run", "Name at least one arm and one seed")
    return [Cell(arm, seed) for seed in dict.fromkeys(seeds) for arm in ARMS if arm in arms]


def ablation_cells(seed: int) -> list[Cell]:
    """RRI with one part switched off at a time. They are compared with the arm `rri` of the same seed."""
    return [Cell("rri", seed, name) for name in ABLATIONS]


def stress_cells(seed: int) -> list[Cell]:
    """Worlds in which one role is bad, each with its own Generation Only."""
    return [Cell(arm, seed, name) for name in STRESSES for arm in ("generation-only", "rri")]


def parse_cell(name: str) -> Cell:
    """The cell that a folder is named after.

    Raises:
        InputError: there is no such cell.
    """
    for arm in ARMS:
        seed, _, change = name.removeprefix(f"{arm}-").partition("-")
        if name.startswith(f"{arm}-") and seed.isdigit() and change in {"", *ABLATIONS, *STRESSES}:
            cell = Cell(arm, int(seed), change)
            if cell.name == name:
                return cell
    raise InputError(f"no cell {name!r}", "Cells are ARM-SEED or ARM-SEED-CHANGE, such as rri-0-no-reattack")
