"""What calls add up to: tokens, money, seconds, bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.call_sizes import measure_calls
from programs.spending import disk_bytes, priced, rates, spend, stored_bytes, summed, unpriced
from rri.assumptions import Assumptions
from rri.config import RunConfig
from rri.estimate import expected_calls
from tests.rigs import scripted_config


def config_of(**sections: Any) -> RunConfig:
    return scripted_config("http://127.0.0.1:1/v1", **sections)


def test_tokens_are_calls_times_characters() -> None:
    config, a = config_of(), Assumptions()
    ledger, sizes = spend(config, a), measure_calls(config, a)
    calls = {(c.role, c.kind): c.calls for c in expected_calls(config, a)}
    rewriter = summed(ledger, role="rewriter")
    of_rewriter = calls["rewriter", "rewriter"] * sizes["rewriter"].prompt_chars
    of_preflight = calls["rewriter", "preflight"] * sizes["preflight"].prompt_chars
    assert rewriter.tokens_in == pytest.approx((of_rewriter + of_preflight) / a.chars_per_token)


def test_a_reply_has_no_more_tokens_than_the_role_may_write() -> None:
    ledger = spend(config_of(roles={"honest": {"max_tokens": 7}}), Assumptions())
    honest = summed(ledger, role="honest")
    assert honest.tokens_out == pytest.approx(7 * honest.calls, rel=0.35), "the first question has a shorter reply"
    assert honest.tokens_out <= honest.most_out == pytest.approx(7 * honest.calls)


def test_money_is_what_the_ledger_would_charge() -> None:
    config = config_of(endpoints={"main": {"price_in": 2.0, "price_out": 8.0, "price_cached": 0.5}})
    a = Assumptions.case("expected", {"judge_cached": 0.25})
    judge, farmer = (summed(spend(config, a), role=role) for role in ("judge", "farmer"))
    assert farmer.money == pytest.approx((farmer.tokens_in * 2 + farmer.tokens_out * 8) / 1e6, rel=1e-3)
    paid = judge.tokens_in * (0.75 * 2 + 0.25 * 0.5) + judge.tokens_out * 8
    assert judge.money == pytest.approx(paid / 1e6, rel=1e-3)


def test_cached_tokens_cost_as_much_as_others_unless_the_config_says_otherwise() -> None:
    config = config_of(endpoints={"main": {"price_in": 2.0, "price_out": 8.0}})
    cached, fresh = (summed(spend(config, Assumptions.case("expected", {"judge_cached": s}))).money for s in (0.9, 0))
    assert cached == pytest.approx(fresh)


def test_speed_is_known_for_the_embedded_model_and_where_it_is_given() -> None:
    embedded = config_of(endpoints={"main": {"url": "embedded"}})
    assert rates(embedded, "judge", Assumptions()) == (176, 60)
    config = config_of()
    assert rates(config, "judge", Assumptions()) is None
    assert rates(config, "judge", Assumptions(prompt_rate=500)) is None, "half of it does not help"
    known = Assumptions.case("expected", {"prompt_rate": 500, "reply_rate": 50})
    assert rates(config, "judge", known) == (500, 50)
    farmer = summed(spend(config, known), role="farmer")
    assert farmer.seconds == pytest.approx(farmer.tokens_in / 500 + farmer.tokens_out / 50)
    assert summed(spend(config, Assumptions())).seconds == 0


def test_who_has_prices() -> None:
    config = config_of(
        endpoints={"local": {"url": "http://127.0.0.1:2/v1"}, "paid": {"url": "http://127.0.0.1:3/v1", "price_out": 1}},
        roles={"judge": {"endpoint": "paid"}, "farmer": {"endpoint": "local"}},
    )
    assert (priced(config, "judge"), priced(config, "farmer")) == (True, False)
    assert unpriced(config) == ["local", "main"]
    assert unpriced(config_of(endpoints={"main": {"url": "embedded"}})) == []


def test_sums_add_up() -> None:
    ledger = spend(config_of(solver={"cycles": 6}), Assumptions())
    stages = [summed(ledger, stage).calls for stage in ("admission", "training", "evolution")]
    assert sum(stages) == pytest.approx(summed(ledger).calls)
    assert all(stages)


@given(st.floats(1, 100_000))
def test_a_row_takes_at_least_its_bytes_and_not_much_more(row: float) -> None:
    assert row <= stored_bytes(row) <= max(2.1 * row, 4096)


def test_disk_grows_with_the_run() -> None:
    def used(**sections: Any) -> float:
        config = config_of(**sections)
        return disk_bytes(config, Assumptions(), spend(config, Assumptions()), None)

    assert used() < used(solver={"cycles": 3}) < used(solver={"cycles": 3}, generation={"tasks": 8})
