"""The estimate of a run: ranges, unknown figures, where a budget is reached, and what decides."""

from typing import Any

import pytest

from programs.estimate import BudgetEstimate, RunEstimate, estimate_run
from rri.config import RunConfig, load_config
from rri.errors import ConfigError
from rri.rubric_rules import RubricLimits
from tests.rigs import scripted_config

PRICES = {"price_in": 2.0, "price_out": 8.0}
FIXED = {"min_tasks": 10, "ahead": 1}


def config_of(**sections: Any) -> RunConfig:
    return scripted_config("http://127.0.0.1:1/v1", **sections)


def estimated(**sections: Any) -> RunEstimate:
    return estimate_run(config_of(**sections))


def limit(name: str, value: float, **sections: Any) -> BudgetEstimate:
    estimate = estimated(**{**sections, "budget": {name: value}})
    (found,) = estimate.budget
    assert found.name == name
    return found


# -- ranges and switches -------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["smoke", "default"])
def test_every_figure_lies_in_its_range(preset: str) -> None:
    estimate = estimate_run(load_config(preset, {"endpoints.main.price_in": 1.0}))
    for row in (*estimate.roles, *estimate.stages, estimate.total):
        for bounds in (row.calls, row.tokens_in, row.tokens_out, row.money, row.seconds):
            assert bounds is None or bounds.low <= bounds.expected <= bounds.high
    assert 0 < estimate.disk_bytes.low < estimate.disk_bytes.expected < estimate.disk_bytes.high


def test_roles_and_stages_add_up_to_the_whole() -> None:
    estimate = estimated(endpoints={"main": PRICES}, solver={"cycles": 10})
    for rows in (estimate.roles, estimate.stages):
        assert sum(r.calls.expected for r in rows) == pytest.approx(estimate.total.calls.expected)
        assert sum(r.tokens_in.expected for r in rows) == pytest.approx(estimate.total.tokens_in.expected)
        assert sum(r.money.expected for r in rows if r.money) == pytest.approx(estimate.total.money.expected)


def test_generation_only_calls_three_roles() -> None:
    off = {name: {"enabled": False} for name in ("admission", "exploits", "patches", "evolution", "memo")}
    estimate = estimated(**off)
    assert [r.role for r in estimate.roles] == ["proposer", "generator", "judge"]
    assert estimate.arm == "generation-only"


def test_the_summarizer_is_priced_only_where_the_solver_retrieves() -> None:
    away = {"far": {"url": "http://127.0.0.1:2/v1"}}
    sections: dict[str, Any] = {"endpoints": away, "roles": {"summarizer": {"endpoint": "far"}}}
    without, retrieving = (estimated(**sections, solver={"retrieval": on}) for on in (False, True))
    assert "summarizer" not in {r.role for r in without.roles}
    assert not any("far" in note for note in without.notes)
    found = next(r for r in retrieving.roles if r.role == "summarizer")
    # Sixteen rollouts, two searches allowed each; one preflight call, and one in a hundred replies is unusable.
    assert found.calls.expected == pytest.approx((16 * 2 * 0.5 + 1) * 1.01)
    assert any("no prices configured for far, main" in note for note in retrieving.notes)
    assert "searches" in {d.name for d in retrieving.drivers}
    assert "searches" not in {d.name for d in without.drivers}


def test_a_role_goes_to_its_own_endpoint_and_model() -> None:
    estimate = estimated(endpoints={"big": {"url": "http://127.0.0.1:2/v1"}}, roles={"judge": {"endpoint": "big"}})
    judge = next(r for r in estimate.roles if r.role == "judge")
    assert (judge.endpoint, judge.model) == ("big", "judge")


# -- what is unknown -----------------------------------------------------------------------


def test_without_prices_money_is_unknown_and_not_nothing() -> None:
    estimate = estimated()
    assert estimate.total.money is None
    assert all(r.money is None for r in estimate.roles)
    assert any("no prices configured for main: money unknown" in note for note in estimate.notes)


def test_money_of_the_roles_with_prices_is_counted() -> None:
    paid = {"url": "http://127.0.0.1:2/v1", **PRICES}
    estimate = estimated(endpoints={"paid": paid}, roles={"judge": {"endpoint": "paid"}})
    money = {r.role: r.money for r in estimate.roles}
    assert money["farmer"] is None
    assert estimate.total.money == money["judge"]
    assert any("no prices configured for main" in note for note in estimate.notes)


def test_the_embedded_model_costs_nothing_and_its_speed_is_known() -> None:
    estimate = estimated(endpoints={"main": {"url": "embedded"}})
    assert estimate.total.money is not None and estimate.total.money.high == 0
    assert estimate.total.seconds is not None
    # Its slots share the cores, so all calls take as long together as one after the other.
    assert estimate.hours is not None
    assert estimate.hours.expected == pytest.approx(estimate.total.seconds.expected / 3600)
    assert not any("unknown" in note for note in estimate.notes if "corpus" not in note)


def test_times_need_both_rates() -> None:
    assert estimated().total.seconds is None
    assert estimated().hours is None
    config = config_of(endpoints={"main": {"concurrency": 10}})
    known = estimate_run(config, {"prompt_rate": 1000, "reply_rate": 50})
    assert known.total.seconds is not None and known.hours is not None
    assert known.hours.expected == pytest.approx(known.total.seconds.expected / 36_000)


# -- budget --------------------------------------------------------------------------------


def test_a_limit_that_suffices_says_how_much_of_it_is_used() -> None:
    use = estimated().total.calls
    found = limit("calls", 10 * round(use.high))
    assert found.cycle == {"low": None, "expected": None, "high": None}
    assert found.says.startswith(
        f"budget.calls {10 * round(use.high):,} is not reached: {use.expected:,.0f} expected, "
    )


def test_a_limit_that_only_the_dear_end_reaches() -> None:
    use = estimated(solver={"cycles": 10}).total.calls
    found = limit("calls", round((use.expected + use.high) / 2), solver={"cycles": 10})
    assert found.cycle["expected"] is None and found.cycle["high"] is not None
    assert "is not reached" in found.says
    assert f"at the dear end it is reached in about cycle {found.cycle['high']} of 10" in found.says


@pytest.mark.parametrize("cycle", [1, 2, 5, 10])
def test_a_limit_is_reached_in_the_cycle_at_whose_end_it_is_spent(cycle: int) -> None:
    """All tasks are admitted before training, and without evolution every cycle costs the same."""
    sections: dict[str, Any] = {
        "generation": {"tasks": 4},
        "pool": {"min_tasks": 4},
        "solver": {"cycles": 10},
        "evolution": {"enabled": False},
        "memo": {"enabled": False},
    }
    estimate = estimated(**sections)
    admission, training = (s.calls.expected for s in estimate.stages[:2])
    just_enough = admission + training * cycle / 10
    for spare, reached in ((-1, cycle), (1, cycle + 1 if cycle < 10 else None)):
        found = limit("calls", round(just_enough + spare), **sections)
        assert found.cycle["expected"] == reached
    assert limit("calls", round(just_enough - 1), **sections).says.startswith(
        f"budget.calls {just_enough - 1:,.0f} is reached in about cycle {cycle} of 10; the run needs "
    )


def test_a_limit_may_be_reached_before_training() -> None:
    sections: dict[str, Any] = {"generation": {"tasks": 100}, "pool": {"min_tasks": 50}}
    admission = estimated(**sections).stages[0].calls.expected
    found = limit("calls", round(admission / 10), **sections)
    assert found.cycle["expected"] == 0
    assert "before training, after about 10 of 100 tasks" in found.says


def test_a_limit_may_be_reached_while_the_last_tasks_are_admitted() -> None:
    sections: dict[str, Any] = {
        "generation": {"tasks": 100},
        "pool": {"min_tasks": 10, "ahead": 10},
        "solver": {"cycles": 1},
    }
    total = estimated(**sections).total.calls.expected
    found = limit("calls", round(total - 10), **sections)
    assert found.cycle["expected"] == 2
    assert "after training, after about" in found.says


def test_without_training_a_limit_is_reached_among_the_tasks() -> None:
    sections: dict[str, Any] = {"generation": {"tasks": 100}, "solver": {"cycles": 0}}
    total = estimated(**sections).total.calls.expected
    found = limit("calls", round(total * 0.4), **sections)
    assert "is reached after about 40 of 100 tasks" in found.says


def test_tokens_count_both_ways() -> None:
    total = estimated().total
    both = total.tokens_in.expected + total.tokens_out.expected
    assert limit("tokens", round(both + 10)).cycle["expected"] is None
    assert limit("tokens", round(both - 10)).cycle["expected"] is not None


def test_a_limit_on_money_does_nothing_where_there_are_no_prices() -> None:
    found = limit("money", 0.01)
    assert found.use is None
    assert found.says == "budget.money 0.01 will not stop this run: main has no prices"
    embedded = limit("money", 0.01, endpoints={"main": {"url": "embedded"}})
    assert embedded.says.endswith("the embedded model costs none")


def test_a_limit_on_money_says_which_calls_it_does_not_see() -> None:
    paid = {"url": "http://127.0.0.1:2/v1", **PRICES}
    found = limit("money", 1e6, endpoints={"paid": paid}, roles={"judge": {"endpoint": "paid"}})
    assert found.says.endswith("(calls to main not counted: no prices)")


def test_hours_are_unknown_or_a_lower_bound() -> None:
    assert limit("hours", 1).says == "budget.hours 1: unknown, as the speed of the endpoints and of training is"
    embedded: dict[str, Any] = {"endpoints": {"main": {"url": "embedded"}}}
    assert "may be enough" in limit("hours", 1000, **embedded).says
    assert "is not enough" in limit("hours", 1e-6, **embedded).says


# -- drivers and assumptions ---------------------------------------------------------------


def test_drivers_are_sorted_and_worth_a_line() -> None:
    estimate = estimated(endpoints={"main": PRICES})
    spans = [d.up - d.down for d in estimate.drivers]
    assert spans == sorted(spans, reverse=True)
    assert all(max(abs(d.down), abs(d.up)) >= 0.02 for d in estimate.drivers)
    assert {d.unit for d in estimate.drivers} == {"money"}
    assert {d.unit for d in estimated().drivers} == {"tokens"}
    assert "added_criteria" in {d.name for d in estimate.drivers}


def test_a_driver_is_the_change_that_its_assumption_makes_alone() -> None:
    config = config_of()
    driver = next(d for d in estimate_run(config).drivers if d.name == "task_chars")

    def tokens(chars: float) -> float:
        total = estimate_run(config, {"task_chars": chars}).total
        return total.tokens_in.expected + total.tokens_out.expected

    assert driver.up == pytest.approx(tokens(driver.high) / tokens(driver.expected) - 1)
    assert driver.down == pytest.approx(tokens(driver.low) / tokens(driver.expected) - 1)


def test_a_given_figure_is_no_driver() -> None:
    estimate = estimate_run(config_of(), {"task_chars": 500, "first_probe_passes": 0.97})
    assert estimate.given == {"task_chars": 500, "first_probe_passes": 0.97}
    assert not {d.name for d in estimate.drivers} & {"task_chars", "first_probe_passes"}


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"answer_char": 3.0}, "no assumption 'answer_char'. Did you mean 'answer_chars'?"),
        ({"zzz": 3.0}, "no assumption 'zzz'. Known are rule_breaks, "),
        ({"vote_flips": 1.5}, "assumption vote_flips: Input should be less than or equal to 1"),
        ({"first_probe_passes": 0.9, "probe_ungraded": 0.2}, "sum to 1.2, more than 1"),
    ],
)
def test_an_assumption_that_cannot_be_is_refused(given: dict[str, float], what: str) -> None:
    with pytest.raises(ConfigError) as error:
        estimate_run(config_of(), given)
    assert what in str(error.value)


def test_notes_say_what_is_left_out() -> None:
    config = config_of(endpoints={"other": {"url": "http://127.0.0.1:2/v1"}}, roles={"judge": {"fallback": "other"}})
    notes = " | ".join(estimate_run(config).notes)
    assert "speed of main unknown" in notes
    assert "the corpus is not at hand: its passages are taken to have 1200 characters" in notes
    assert "16 rollouts" in notes
    assert "calls that fall back to other are counted at the first endpoint" in notes
    assert "max_tokens" in notes


def test_a_rubric_cap_of_the_config_is_kept() -> None:
    assert RubricLimits().max_criteria_repaired == 12
    narrow = estimated(generation={"rubric": {"max_criteria_repaired": 4}}).total.calls.high
    assert narrow < estimated().total.calls.high
