"""Cells: their names, what each lays over the fair world, and which belong to a comparison."""

import pytest

from eval.world.cells import ABLATIONS, ARMS, PRESETS, Cell, ablation_cells, arm_cells, parse_cell, stress_cells
from eval.world.config import world_config
from eval.world.constants import STRESSES, WorldConstants
from rri.config import load_config, parse_config
from rri.config.merging import merge
from rri.errors import InputError
from tests.eval.world.rig import WORLD

EVERY = [*arm_cells(ARMS, [0, 12]), *ablation_cells(3), *stress_cells(4)]


@pytest.mark.parametrize("cell", EVERY, ids=lambda cell: cell.name)
def test_a_name_tells_its_cell(cell: Cell) -> None:
    assert parse_cell(cell.name) == cell


@pytest.mark.parametrize("name", ["", "rri", "rri-", "rri-x", "rri-0-", "rri-00", "rri-0-nothing", "evolution-only-0"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="no cell"):
        parse_cell(name)


def test_the_table_goes_seed_by_seed_from_the_baseline_on() -> None:
    names = [cell.name for cell in arm_cells(["rri", "generation-only"], [1, 0, 1])]
    assert names == ["generation-only-1", "rri-1", "generation-only-0", "rri-0"]


def test_an_unknown_arm_and_an_empty_table_are_refused() -> None:
    with pytest.raises(InputError, match="no arm 'rrri'"):
        arm_cells(["rri", "rrri"], [0])
    for arms, seeds in (([], [0]), (["rri"], [])):
        with pytest.raises(InputError, match="nothing to run"):
            arm_cells(arms, seeds)


def test_every_stress_has_its_own_baseline() -> None:
    assert {(c.arm, c.change) for c in stress_cells(0)} == {
        (arm, name) for name in STRESSES for arm in ("generation-only", "rri")
    }


@pytest.mark.parametrize("name", STRESSES)
def test_a_stress_changes_the_models_and_nothing_of_the_method(name: str) -> None:
    cell = Cell("rri", 0, name)
    fair, bad = WorldConstants().model_dump(), cell.constants.model_dump()
    assert {key: value for key, value in bad.items() if value != fair[key]} == dict(STRESSES[name])
    assert cell.sections == {}


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_changes_the_method_and_nothing_of_the_models(name: str) -> None:
    cell = Cell("rri", 0, name)
    assert cell.constants == WorldConstants()
    whole = world_config(WORLD, "http://x/v1", "c.jsonl", "m")  # type: ignore[arg-type]
    base = parse_config(whole, where="x").model_dump()
    data = parse_config(merge(whole, dict(cell.sections)), where="x").model_dump()
    changed = {
        f"{section}.{key}" for section, part in base.items() if isinstance(part, dict) for key in part
        if data[section][key] != part[key]
    }  # fmt: skip
    assert changed == {f"{section}.{key}" for section, part in cell.sections.items() for key in part}


def test_the_arms_are_the_methods_own() -> None:
    for arm in ARMS:
        config = load_config(["default", PRESETS[arm]], {})
        assert not config.solver.retrieval
        assert config.evolution.enabled == (arm != "generation-only")
        assert config.admission.enabled == config.exploits.enabled == config.memo.enabled == (arm == "rri")
