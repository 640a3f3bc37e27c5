"""Tags, prices, the ledger and its limits."""

import asyncio
import threading
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rri.config import BudgetConfig, EndpointConfig
from rri.errors import BudgetExhausted
from rri.lm import CallRecord, Gateway, Ledger, ModelRequest, RecentCalls, ReplyCache, Totals, output_spec, tagged
from rri.lm.calls import Tag, Usage, current_tag
from rri.testing import Fault, Reply, ScriptedServer, status
from signatures import JudgeCriterion
from tests.rigs import open_test_gateway, scripted_config

VERDICT = '{"reason": "scripted", "met": true}'


def ask(gateway: Gateway, text: str = "?") -> None:
    messages = [{"role": "user", "content": text}]
    gateway.complete_sync(ModelRequest(role="judge", messages=messages, output=output_spec(JudgeCriterion)))


def record(role: str = "judge", money: float = 0.0, error: str = "", **usage: int) -> CallRecord:
    return CallRecord(role, Tag(), "main", "m", 0, [], "", Usage(**usage), 0.5, money, error)


def prices(price_in: float, price_out: float, price_cached: float | None = None) -> EndpointConfig:
    return EndpointConfig(url="x", price_in=price_in, price_out=price_out, price_cached=price_cached)


def test_what_a_tag_does_not_name_is_inherited() -> None:
    assert current_tag() == Tag("", "")
    with tagged("task-1", "probe"):
        with tagged(sample="rewrite"):
            assert current_tag() == Tag("task-1", "rewrite")
        with tagged("task-2"):
            assert current_tag() == Tag("task-2", "probe")
        with tagged("", ""):
            assert current_tag() == Tag("", "")
        assert current_tag() == Tag("task-1", "probe")
    assert current_tag() == Tag("", "")


def test_a_tag_ends_with_its_block_even_on_an_error() -> None:
    with pytest.raises(KeyError), tagged("task-1"):
        raise KeyError
    assert current_tag() == Tag()


def test_tags_follow_asyncio_tasks_and_stay_apart() -> None:
    """Children inherit the tag at their start; what they set is seen by nobody else."""

    async def child(sample: str) -> Tag:
        with tagged(sample=sample):
            await asyncio.sleep(0)
            return current_tag()

    async def parent(task_id: str) -> list[Tag]:
        with tagged(task_id):
            children = [asyncio.create_task(child(f"s{i}")) for i in range(3)]
            found = [await c for c in children]
            return [*found, current_tag()]

    async def main() -> list[list[Tag]]:
        parents = [asyncio.create_task(parent(name)) for name in ("a", "b")]
        return [await p for p in parents]

    assert asyncio.run(main()) == [
        [Tag("a", "s0"), Tag("a", "s1"), Tag("a", "s2"), Tag("a", "")],
        [Tag("b", "s0"), Tag("b", "s1"), Tag("b", "s2"), Tag("b", "")],
    ]


def test_a_fresh_thread_has_no_tag() -> None:
    seen: list[Tag] = []
    with tagged("task-1"):
        thread = threading.Thread(target=lambda: seen.append(current_tag()))
        thread.start()
        thread.join()
    assert seen == [Tag()]


def test_money_counts_cached_tokens_at_their_own_price() -> None:
    """Per million: 400 fresh at 2, 600 cached at 0.5, 100 written at 10."""
    usage = Usage(tokens_in=1000, tokens_out=100, cached=600)
    assert usage.money(prices(2, 10, 0.5)) == pytest.approx((400 * 2 + 600 * 0.5 + 100 * 10) / 1e6)
    assert usage.money(prices(2, 10)) == pytest.approx((1000 * 2 + 100 * 10) / 1e6), "price_in where unset"
    assert usage.money(prices(2, 10, 0.0)) == pytest.approx((400 * 2 + 100 * 10) / 1e6), "0 is a price"


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 100), st.floats(0, 100))
def test_a_cached_token_at_full_price_is_a_token(fresh: int, cached: int, out: int, p_in: float, p_out: float) -> None:
    usage = Usage(fresh + cached, out, cached)
    assert usage.money(prices(p_in, p_out, p_in)) == pytest.approx(usage.money(prices(p_in, p_out)))


def test_the_ledger_sums_by_role_with_failures_in_every_sum() -> None:
    ledger = Ledger()
    ledger.add(record(tokens_in=10, tokens_out=5, cached=4, money=0.25))
    ledger.add(record(tokens_in=1, tokens_out=2, money=0.5, error="TruncatedReply: cut"))
    ledger.add(record("farmer", tokens_in=3))
    judge = Totals(calls=2, failed=1, tokens_in=11, tokens_out=7, cached=4, seconds=1.0, money=0.75)
    assert ledger.by_role == {"judge": judge, "farmer": Totals(calls=1, tokens_in=3, seconds=0.5)}
    assert ledger.total() == Totals(calls=3, failed=1, tokens_in=14, tokens_out=7, cached=4, seconds=1.5, money=0.75)


def test_a_total_is_a_copy() -> None:
    ledger = Ledger()
    ledger.add(record(tokens_in=1))
    ledger.total().add(Totals(calls=99))
    assert ledger.total().calls == 1


def test_recent_calls_are_bounded() -> None:
    """The notebook's sink holds the latest 200."""
    sink = RecentCalls()

    async def fill() -> None:
        for i in range(205):
            await sink.keep(record(tokens_in=i))

    asyncio.run(fill())
    assert [r.usage.tokens_in for r in sink.records] == list(range(5, 205))


def test_calls_end_up_in_ledger_and_sink_with_what_the_server_counted() -> None:
    """Tokens and money of one real call, cached ones included."""
    reply = Reply(VERDICT, tokens_in=1000, tokens_out=100, cached=600)
    endpoint = {"price_in": 2, "price_out": 10, "price_cached": 0.5}
    with ScriptedServer({"judge": lambda r: reply}) as server:
        config = scripted_config(server.url, endpoints={"main": endpoint})
        with open_test_gateway(config, sink := RecentCalls()) as gateway:
            ask(gateway)
            (kept,), total = sink.records, gateway.ledger.total()
    assert kept.usage == Usage(1000, 100, 600)
    assert kept.money == total.money == pytest.approx(2.1e-3)
    assert (total.calls, total.failed, total.tokens_in, total.tokens_out, total.cached) == (1, 0, 1000, 100, 600)
    assert total.seconds == kept.seconds > 0


@pytest.mark.parametrize(
    ("budget", "calls", "says"),
    [
        ({"calls": 2}, 2, "budget.calls is used up: 2 of 2"),
        ({"tokens": 121}, 3, "budget.tokens is used up: 180 of 121"),
        ({"tokens": 120}, 2, "budget.tokens is used up: 120 of 120"),
        ({"money": 0.0005}, 2, "budget.money is used up: 0.0006 of 0.0005"),
    ],
)
def test_a_limit_stops_before_the_next_call_and_is_named(budget: dict[str, float], calls: int, says: str) -> None:
    """Reached is used up: the call after it never leaves. Each call takes 50 + 10 tokens and 0.0003."""
    with ScriptedServer({"judge": lambda r: Reply(VERDICT, tokens_in=50, tokens_out=10)}) as server:
        config = scripted_config(server.url, budget=budget, endpoints={"main": {"price_in": 5, "price_out": 5}})
        with open_test_gateway(config) as gateway:
            for _ in range(calls):
                ask(gateway)
            for _ in range(2):
                with pytest.raises(BudgetExhausted) as caught:
                    ask(gateway)
            assert gateway.ledger.total().calls == server.total == calls
    assert says in str(caught.value)
    assert caught.value.fix and "\n" not in str(caught.value)


def test_tries_spend_the_budget_too() -> None:
    """Retries of a failing endpoint end at the limit on calls, before the retries are used up."""
    with ScriptedServer({"judge": lambda r: status(500)}) as server:
        config = scripted_config(server.url, budget={"calls": 3}, endpoints={"main": {"retries": 9}})
        with open_test_gateway(config) as gateway:
            with pytest.raises(BudgetExhausted, match=r"budget\.calls"):
                ask(gateway)
            assert server.total == gateway.ledger.total().calls == gateway.ledger.total().failed == 3


def test_the_fresh_sample_after_a_bad_reply_needs_budget() -> None:
    with ScriptedServer({"judge": lambda r: "no JSON"}) as server:
        config = scripted_config(server.url, budget={"calls": 1})
        with open_test_gateway(config) as gateway, pytest.raises(BudgetExhausted):
            ask(gateway)
        assert server.total == 1


def test_calls_made_at_once_do_not_overshoot_the_limit_on_calls() -> None:
    with ScriptedServer({"judge": lambda r: VERDICT}, latency_s=0.05) as server:
        with open_test_gateway(scripted_config(server.url, budget={"calls": 3})) as gateway:
            request = ModelRequest(role="judge", messages=[], output=output_spec(JudgeCriterion))

            async def all_at_once() -> list[object]:
                tasks = [asyncio.create_task(gateway.complete(request)) for _ in range(10)]
                await asyncio.wait(tasks)
                return [t.exception() for t in tasks]

            errors = asyncio.run(all_at_once())
        assert server.total == 3
    assert [type(e) for e in errors if e is not None] == [BudgetExhausted] * 7


def test_what_earlier_starts_spent_counts() -> None:
    ledger = Ledger(BudgetConfig(tokens=100))
    ledger.restore({"judge": Totals(calls=4, tokens_in=60, tokens_out=40)})
    with ScriptedServer({"judge": lambda r: VERDICT}) as server:
        with open_test_gateway(scripted_config(server.url)) as gateway:
            gateway.ledger = ledger
            with pytest.raises(BudgetExhausted, match=r"budget\.tokens is used up: 100 of 100"):
                ask(gateway)
        assert server.total == 0
    assert asdict(ledger.total())["calls"] == 4


# --- hours -----------------------------------------------------------------------------------------------


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The ledger's clock in seconds, for the test to turn."""
    now = [5000.0]
    monkeypatch.setattr("rri.lm.calls.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.mark.parametrize("before", [0.0, 1.5])
@pytest.mark.parametrize("calls", [True, False], ids=["a call", "the run"])
def test_the_limit_on_hours_counts_all_starts_and_holds_from_the_second_on(
    now: list[float], before: float, calls: bool
) -> None:
    """Unlike the other limits it also stops a run that makes no calls."""
    ledger = Ledger(BudgetConfig(hours=2))
    ledger.restore({}, hours=before)
    now[0] += (2 - before) * 3600 - 0.5
    ledger.check(calls=calls)
    now[0] += 0.5
    assert ledger.hours == 2
    with pytest.raises(BudgetExhausted, match=r"budget\.hours is used up: 2 of 2"):
        ledger.check(calls=calls)


def test_a_call_does_not_start_after_the_last_hour(now: list[float]) -> None:
    with ScriptedServer({"judge": lambda r: VERDICT}) as server:
        with open_test_gateway(scripted_config(server.url, budget={"hours": 1})) as gateway:
            ask(gateway)
            now[0] += 3600
            with pytest.raises(BudgetExhausted, match=r"budget\.hours"):
                ask(gateway)
        assert server.total == 1


def test_without_a_limit_hours_are_only_counted(now: list[float]) -> None:
    ledger = Ledger()
    now[0] += 36_000_000
    ledger.check(calls=True)
    assert ledger.hours == 10_000


# --- calls under way -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "name"),
    [(BudgetConfig(tokens=400), "tokens"), (BudgetConfig(money=0.04), "money"), (BudgetConfig(calls=4), "calls")],
)
def test_calls_under_way_count_at_the_mean_of_those_before(limit: BudgetConfig, name: str) -> None:
    """Two calls took 100 tokens and 0.01 each; the limit has room for two more, done or not."""
    ledger = Ledger(limit)
    for _ in range(2):
        ledger.add(record(tokens_in=60, tokens_out=40, money=0.01))
    first, second = ledger.call(), ledger.call()
    with first, second:
        with pytest.raises(BudgetExhausted, match=rf"budget\.{name}"), ledger.call():
            pass
        ledger.check()
    with ledger.call():
        ledger.add(record(tokens_in=50, tokens_out=49, money=0.0099))
    with ledger.call():
        pass


def test_a_call_that_costs_less_than_the_mean_gives_its_share_back() -> None:
    """Just inside: 100 + 199 of 300 with one call under way at a mean of 99.67."""
    ledger = Ledger(BudgetConfig(tokens=300))
    ledger.add(record(tokens_in=100))
    with ledger.call(), ledger.call():
        with pytest.raises(BudgetExhausted), ledger.call():
            pass
        ledger.add(record(tokens_in=20))
    with ledger.call(), ledger.call():
        assert ledger.total().tokens_in == 120


def test_restored_calls_are_part_of_the_mean() -> None:
    """890 tokens over 9 calls: one under way makes 988.9."""
    for limit, free in ((989, True), (988, False)):
        ledger = Ledger(BudgetConfig(tokens=limit))
        ledger.restore({"judge": Totals(calls=8, tokens_in=800), "farmer": Totals(calls=1, tokens_out=90)})
        with ledger.call():
            if free:
                ledger.check(calls=True)
            else:
                with pytest.raises(BudgetExhausted, match=r"budget\.tokens is used up: 988\.889 of 988"):
                    ledger.check(calls=True)


def test_the_limit_on_calls_stays_exact_when_calls_fail_are_cancelled_or_repeat() -> None:
    """A burst under a limit of 7, whose calls end in every way: 7 requests and no more."""
    script: dict[int, Fault | str] = {0: status(500), 1: "no JSON", 2: status(400)}
    with ScriptedServer({"judge": lambda r: script.get(r.number, VERDICT)}, latency_s=0.01) as server:
        with open_test_gateway(scripted_config(server.url, budget={"calls": 7})) as gateway:
            request = ModelRequest(role="judge", messages=[], output=output_spec(JudgeCriterion))

            async def burst() -> None:
                tasks = [asyncio.create_task(gateway.complete(request)) for _ in range(20)]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                tasks[-1].cancel()
                tasks[0].cancel()
                await asyncio.wait(tasks)
                assert {type(t.exception()) for t in tasks if not t.cancelled()} >= {BudgetExhausted}

            asyncio.run(burst())
            with pytest.raises(BudgetExhausted, match="7 of 7"):
                ask(gateway)
            assert gateway.ledger.total().calls == 7
        assert server.total <= 7, "a call may be cancelled before it is sent"


# --- reused ----------------------------------------------------------------------------------------------


def test_a_reused_reply_is_counted_apart_and_costs_nothing() -> None:
    ledger = Ledger(BudgetConfig(calls=1))
    ledger.add(record(tokens_in=10, money=0.25))
    for _ in range(3):
        ledger.reused("judge")
    ledger.reused("farmer")
    assert ledger.total() == Totals(calls=1, tokens_in=10, seconds=0.5, money=0.25, reused=4)
    assert ledger.by_role["farmer"] == Totals(reused=1)


def test_reused_replies_of_earlier_starts_are_taken_over() -> None:
    ledger = Ledger()
    ledger.restore({"judge": Totals(calls=1, reused=5)})
    ledger.reused("judge")
    assert ledger.total().reused == ledger.by_role["judge"].reused == 6


def test_a_known_vote_needs_no_budget_and_no_server(tmp_path: Path) -> None:
    vote = ModelRequest(role="judge", messages=[], output=output_spec(JudgeCriterion), sample="#0")
    with ScriptedServer({"judge": lambda r: VERDICT}) as server:
        config = scripted_config(server.url, budget={"calls": 1})
        with open_test_gateway(config) as gateway:
            gateway.cache = ReplyCache(tmp_path)
            for _ in range(3):
                assert gateway.complete_sync(vote).text == VERDICT
        assert server.total == 1
