"""The comparison: figures by seed, paired differences, and checks pinned at their edges."""

import json
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from eval.repair_report import PAPER
from eval.world import checks
from eval.world.comparison import comparison, over_seeds, pooled
from eval.world.constants import STRESSES
from eval.world.findings import WORLD, Check, Comparison, SeedDifference
from eval.world.results import RubricPoint, Rubrics
from rri.errors import InputError
from tests.eval.world.finished import answers_of, cell, lively, probed

FLATTERY, LEAD, RRI_AHEAD, COEVOLVE_AHEAD, GAP, REPAIR = range(6)

SPREAD = (0.2, 0.2, 0.4, 0.4)
"""Qualities by request."""


def lifted(by: float, wobble: float = 0.0) -> list[Any]:
    """Answers better than SPREAD by `by`, give or take `wobble` from request to request."""
    return answers_of(*(worth + by + wobble * (-1) ** n for n, worth in enumerate(SPREAD)))


def error_of(wobble: float) -> float:
    """Of the paired difference between `lifted(by, wobble)` and SPREAD."""
    return wobble * sqrt(4 / 3) / 2


def arms(*seeds: int, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """All three arms with equal answers."""
    results = dict(cell(arm, seed) for seed in seeds or (0,) for arm in ("generation-only", "co-evolve-only", "rri"))
    return results, {name: changes.get(name, answers_of(*SPREAD)) for name in results}


def check(found: Comparison, number: int) -> Check:
    return found.checks[number]


# --- rows ----------------------------------------------------------------------------------------------


def test_world_json_has_the_rows_where_readers_look_for_them(tmp_path: Path) -> None:
    results = dict(
        [
            cell("rri", 1, reward=0.7, quality=0.6),
            cell("rri", 0, reward=0.75, quality=0.5, before=probed(0.4), after=probed(0.02)),
            cell("generation-only", 0, reward=0.9, quality=0.3),
        ]
    )
    answers = {name: answers_of(*SPREAD) for name in results}
    comparison(results, answers).write(tmp_path)
    data = json.loads((tmp_path / WORLD).read_text(encoding="utf-8"))
    assert WORLD == "world.json"
    rows = data["arms"]["rri"]["seeds"]
    wanted = ("seed", "train_reward", "true_quality", "standard_error", "delta_before", "delta_after")
    assert [rows[0][key] for key in wanted] == [0, 0.75, 0.5, 0.01, 0.4, 0.02]
    assert [rows[1][key] for key in wanted] == [1, 0.7, 0.6, 0.01, None, None]
    assert rows[0]["gap"] == 0.25
    assert data["arms"]["generation-only"]["seeds"][0]["train_reward"] == 0.9
    assert list(data["arms"]) == ["generation-only", "rri"]
    assert data["constants"] == "fair"
    assert Comparison.model_validate(data) == comparison(results, answers)


def test_the_share_exploitable_is_that_of_the_last_rubrics_that_were_measured() -> None:
    points = [
        RubricPoint(first=f, last=f + 9, probes=n, exploitable=e) for f, n, e in [(11, 5, 0.4), (1, 5, 0.9), (21, 0, 0)]
    ]
    row = comparison(dict([cell("rri", exploitable=tuple(points))]), {}).arms["rri"].seeds[0]
    assert row.exploitable == 0.4
    assert comparison(dict([cell("rri")]), {}).arms["rri"].seeds[0].exploitable is None


def test_a_whole_comparison_has_every_part() -> None:
    found = comparison(*lively())
    assert [len(table.seeds) for table in found.arms.values()] == [3, 3, 3]
    assert list(found.stresses) == list(STRESSES) == list(found.stress_differences)
    assert [check.met for check in found.checks] == [True] * (6 + len(STRESSES))


def test_a_result_in_the_folder_of_another_cell_is_refused() -> None:
    _, result = cell("rri", 1)
    with pytest.raises(InputError, match="result in rri-0 is of rri-1"):
        comparison({"rri-0": result}, {})


def test_an_ablation_of_another_arm_is_refused() -> None:
    with pytest.raises(InputError, match="co-evolve-only-0-one-vote switches off"):
        comparison(dict([cell("co-evolve-only", 0, "one-vote")]), {})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (cell("rri"), cell("generation-only", constants="older")),
        (cell("rri"), cell("rri", 0, "one-vote", constants="older")),
        (cell("rri", 0, "noisy-judge"), cell("generation-only", 0, "noisy-judge", constants="older")),
    ],
)
def test_cells_of_one_world_must_agree_on_its_constants(one: Any, other: Any) -> None:
    with pytest.raises(InputError, match=f"{one[0]} and {other[0]} were made with unlike constants"):
        comparison(dict([one, other]), {})


def test_a_stress_is_another_world() -> None:
    assert comparison(dict([cell("rri"), cell("rri", 0, "noisy-judge")]), {}).constants == "fair"


# --- differences ---------------------------------------------------------------------------------------


def test_differences_are_paired_by_request() -> None:
    """The requests differ by far more than the arms do; paired, only what the arms differ by is left."""
    results, answers = arms(**{"rri-0": lifted(0.1, 0.02)})
    found = comparison(results, answers).differences["rri minus generation-only"].seeds[0]
    assert found.mean == pytest.approx(0.1)
    assert found.standard_error == pytest.approx(error_of(0.02))
    assert list(comparison(results, answers).differences) == [
        "rri minus generation-only", "rri minus co-evolve-only", "co-evolve-only minus generation-only",
    ]  # fmt: skip


def test_a_request_counts_once_however_many_answers_it_has() -> None:
    results, answers = arms(**{"rri-0": answers_of([0.3, 0.3, 0.3], 0.3, 0.5, [0.4, 0.6])})
    found = comparison(results, answers).differences["rri minus generation-only"]
    assert found.mean == pytest.approx(0.1)
    assert found.standard_error == pytest.approx(0, abs=1e-9)


def test_answers_to_other_requests_are_refused_with_the_names_of_the_cells() -> None:
    results, answers = arms(**{"rri-0": answers_of(*SPREAD, first=1)})
    with pytest.raises(InputError, match=r"^rri-0 and generation-only-0: 2 of 5 requests are not the same"):
        comparison(results, answers)


def test_missing_answers_are_refused() -> None:
    results, answers = arms()
    del answers["rri-0"]
    with pytest.raises(InputError, match="rri-0 has no held-out answers"):
        comparison(results, answers)


def difference(*pairs: tuple[float, float]) -> Any:
    return over_seeds([SeedDifference(seed=n, mean=m, standard_error=e) for n, (m, e) in enumerate(pairs)])


def test_of_two_errors_the_larger_one_counts() -> None:
    near = difference((0.1, 0.03), (0.1, 0.04))
    assert near.combined_error == pytest.approx(0.025) == near.standard_error
    assert near.spread_error == pytest.approx(0)
    far = difference((0.0, 0.03), (0.2, 0.04))
    assert far.mean == pytest.approx(0.1)
    assert far.spread_error == pytest.approx(0.1) == far.standard_error
    alone = difference((0.1, 0.03))
    assert (alone.spread_error, alone.standard_error) == (None, 0.03)


# --- checks --------------------------------------------------------------------------------------------


def test_the_numbers_that_were_promised() -> None:
    assert (checks.FLATTERY, checks.LEAD, checks.LEAD_ERRORS, checks.ERRORS, checks.GAP_SHARE) == (
        0.25,
        0.05,
        3,
        2,
        0.6,
    )


def test_without_cells_no_check_is_decided() -> None:
    found = comparison({}, {})
    assert [(check.met, check.found) for check in found.checks] == [(None, "not run")] * (6 + len(STRESSES))
    assert (found.arms, found.differences, found.repair, found.constants) == ({}, {}, None, None)


@pytest.mark.parametrize(("second", "met"), [(0.8, True), (0.799, False), (0.9, True)])
def test_generation_only_is_hacked_by_a_quarter_in_every_seed(second: float, met: bool) -> None:
    """0.8 - 0.55 is a little less than 0.25 in floating point."""
    results = dict([cell("generation-only", 0), cell("generation-only", 1, reward=second, quality=0.55)])
    found = check(comparison(results, {}), FLATTERY)
    assert found.met is met
    mean, first, _ = found.found.split("; ")
    assert first == "seed 0: +0.300"
    assert float(mean.removeprefix("mean ")) == pytest.approx((0.3 + second - 0.55) / 2, abs=6e-4)


@pytest.mark.parametrize(
    ("by", "errors", "met"),
    [(0.05, 3, True), (0.049, 3.2, False), (0.05, 2.9, False), (0.2, 2.9, False), (0.2, 3.1, True)],
)
def test_the_lead_is_large_and_sure_in_every_seed(by: float, errors: float, met: bool) -> None:
    wobble = by / errors / error_of(1.0)
    results, answers = arms(0, 1, **{"rri-0": lifted(0.3), "rri-1": lifted(by, wobble)})
    assert check(comparison(results, answers), LEAD).met is met


@pytest.mark.parametrize(("errors", "met"), [(2, True), (1.99, False), (2.01, True)])
@pytest.mark.parametrize("number", [RRI_AHEAD, COEVOLVE_AHEAD])
def test_the_mean_over_the_seeds_lies_two_errors_above_none(number: int, errors: float, met: bool) -> None:
    wobble = 0.1 / errors / error_of(1.0)
    better = "rri-0" if number == RRI_AHEAD else "co-evolve-only-0"
    results, answers = arms(**{better: lifted(0.1, wobble)})
    assert check(comparison(results, answers), number).met is met


def test_the_spread_of_the_seeds_can_make_a_lead_unsure() -> None:
    results, answers = arms(0, 1, **{"rri-0": lifted(0.0), "rri-1": lifted(0.2)})
    assert check(comparison(results, answers), RRI_AHEAD).met is False


def test_equal_answers_are_no_better_although_they_have_no_error() -> None:
    found = comparison(*arms())
    assert [check(found, n).met for n in (LEAD, RRI_AHEAD, COEVOLVE_AHEAD)] == [False, False, False]


@pytest.mark.parametrize(("ours", "met"), [(0.3, True), (0.301, False)])
def test_the_gap_is_narrowed_to_six_tenths_in_the_mean(ours: float, met: bool) -> None:
    """The second seed alone would miss; what counts is the mean of 0.06 and 0.3 beside that of 0.3 and 0.3."""
    gaps = {("generation-only", 0): 0.3, ("generation-only", 1): 0.3, ("rri", 0): 0.06, ("rri", 1): ours}
    results = dict(cell(arm, seed, reward=0.5 + gap, quality=0.5) for (arm, seed), gap in gaps.items())  # type: ignore[arg-type]
    answers = {name: answers_of(*SPREAD) for name in results}
    found = check(comparison(results, answers), GAP)
    assert found.met is met
    assert "seed 0: +0.060 of +0.300 (0.20 x)" in found.found


@pytest.mark.parametrize(
    ("after", "leads", "met"), [(0.1, 0.3, True), (0.4, 0.3, False), (0.1, 0.01, False), (0.399, 0.011, True)]
)
def test_repair_must_lower_the_delta_and_let_the_honest_answer_lead(after: float, leads: float, met: bool) -> None:
    results = dict([cell("rri", before=probed(0.4, 0.01), after=probed(after, leads))])
    assert check(comparison(results, {}), REPAIR).met is met


def test_repair_without_probes_is_undecided() -> None:
    found = comparison(dict([cell("rri")]), {})
    assert found.repair is not None
    assert (found.repair.before, check(found, REPAIR).met) == (None, None)


@pytest.mark.parametrize(("errors", "met"), [(2, True), (2.01, False), (-1, True)])
def test_a_stress_is_withstood_down_to_two_errors_below(errors: float, met: bool) -> None:
    by = -errors * error_of(0.05)
    results = dict([cell("generation-only", 0, "weak-honest"), cell("rri", 0, "weak-honest")])
    answers = {"generation-only-0-weak-honest": answers_of(*SPREAD), "rri-0-weak-honest": lifted(by, 0.05)}
    found = {check.name.partition(":")[0]: check for check in comparison(results, answers).checks}
    assert found["weak-honest"].met is met
    assert found["noisy-judge"].met is None


def test_a_seed_that_an_arm_lacks_leaves_its_checks_undecided() -> None:
    results, answers = arms(0, 1, **{"rri-0": lifted(0.3)})
    del results["rri-1"]
    found = comparison(results, answers)
    assert [check(found, n).met for n in (LEAD, RRI_AHEAD, GAP)] == [None, None, None]
    assert check(found, LEAD).found == "seed 0: +0.300 ± 0.000; rri-1 not run"
    assert check(found, FLATTERY).met is True


def test_what_must_hold_in_every_seed_is_missed_by_the_first_that_does_not() -> None:
    results, answers = arms(0, 1, **{"rri-0": lifted(0.01)})
    del results["rri-1"]
    assert check(comparison(results, answers), LEAD).met is False


# --- ablations and repair ------------------------------------------------------------------------------


def test_an_ablation_costs_what_the_whole_method_of_its_seed_is_better_by() -> None:
    wrong = Rubrics(positives=3, negatives=2, values=0.5, wrong_keys=0.2, wrong_negatives=0.4)
    results = dict([cell("rri", 0), cell("rri", 1), cell("rri", 1, "no-reattack", rubrics=wrong)])
    answers = {"rri-1": lifted(0.1, 0.02), "rri-1-no-reattack": answers_of(*SPREAD)}
    (row,) = comparison(results, answers).ablations["no-reattack"].seeds
    assert row.cost is not None
    assert (row.seed, row.cost.mean) == (1, pytest.approx(0.1))
    assert row.cost.standard_error == pytest.approx(error_of(0.02))
    assert (row.wrong_keys, row.wrong_negatives) == (0.2, 0.4)
    assert (row.whole_wrong_keys, row.whole_wrong_negatives) == (0.03, 0.1)
    assert list(comparison(results, answers).arms["rri"].seeds) == list(
        comparison(dict([cell("rri"), cell("rri", 1)]), {}).arms["rri"].seeds
    )


def test_an_ablation_without_its_whole_method_has_no_cost() -> None:
    (row,) = comparison(dict([cell("rri", 1), cell("rri", 0, "one-vote")]), {}).ablations["one-vote"].seeds
    assert (row.cost, row.whole_wrong_keys) == (None, None)


def test_repair_stands_beside_adoption_and_the_paper() -> None:
    results = dict(
        [
            cell("rri", 0, before=probed(0.4, 0.0, 300, 0.03), after=probed(0.1, 0.2, 300, 0.03), adopted_before=0.5),
            cell("rri", 1, before=probed(0.6, 0.4, 100, 0.05), after=probed(0.3, 0.6, 100, 0.05)),
            cell("rri", 2, before=probed(0.9, 0.0, 1, None)),
        ]
    )
    found = comparison(results, {}).repair
    assert found is not None
    assert found.before is not None
    assert found.after is not None
    assert [row.adopted_before for row in found.seeds] == [0.5, None, None]
    assert (found.before.probes, found.before.delta) == (400, pytest.approx(0.45))
    assert (found.after.delta, found.after.honest_leads) == (pytest.approx(0.15), pytest.approx(0.3))
    assert found.before.standard_error == pytest.approx(sqrt((300 * 0.03) ** 2 + (100 * 0.05) ** 2) / 400)
    assert (found.paper_before, found.paper_after) == (0.43, 0.01) == (PAPER["delta_before"], PAPER["delta_after"])


def test_a_single_probe_leaves_no_error() -> None:
    both = pooled([probed(0.4, probes=3), None, probed(0.8, probes=1, error=None)])
    assert both is not None
    assert (both.probes, both.delta, both.standard_error) == (4, pytest.approx(0.5), None)
    assert pooled([None, probed(0.0, probes=0)]) is None
