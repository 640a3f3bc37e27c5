"""The circuit breaker alone, under a clock that the test turns."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rri.config import EndpointConfig
from rri.errors import (
    BudgetExhausted,
    EndpointBusy,
    EndpointError,
    EndpointFailed,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnreachable,
)
from rri.lm.breaker import Breaker, Stopwatch

DOWN = EndpointUnreachable("http://x/v1: connection refused")
LONG = 3600.0
"""Patience that no test reaches."""


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("rri.lm.breaker.time", clock)
    return clock


def make(say: Callable[[str], None] = lambda message: None, **numbers: Any) -> Breaker:
    numbers = {"breaker_failures": 3, "breaker_wait_s": 10, "breaker_wait_max_s": 35, **numbers}
    return Breaker("main", EndpointConfig(url="http://x/v1", **numbers), say)


def opened(**numbers: Any) -> Breaker:
    breaker = make(breaker_failures=1, **numbers)
    breaker.failed(DOWN)
    assert breaker.open
    return breaker


def ask(breaker: Breaker) -> int | None:
    """What the gate lets a call do that does not wait: 0 to go, a trial's number, None where it is turned away."""
    try:
        return asyncio.run(breaker.gate(0.0))
    except EndpointUnreachable:
        return None


async def settle() -> None:
    """Let every task that can go on go on."""
    for _ in range(20):
        await asyncio.sleep(0)


def start(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    return asyncio.get_running_loop().create_task(work)


async def soon(*tasks: "asyncio.Task[Any]") -> list[Any]:
    """Results of tasks that must end at once."""
    return [await asyncio.wait_for(task, 5) for task in tasks]


# --- opening ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 32])
@pytest.mark.parametrize("kind", [EndpointUnreachable, EndpointTimeout, EndpointFailed])
def test_it_opens_at_the_given_number_of_failures_in_a_row_and_not_before(
    limit: int, kind: type[EndpointError]
) -> None:
    breaker = make(breaker_failures=limit)
    for _ in range(limit - 1):
        breaker.failed(kind("down"))
    assert not breaker.open and ask(breaker) == 0
    breaker.failed(kind("down"))
    assert breaker.open and ask(breaker) is None


ANSWERS: dict[str, Callable[[Breaker], None]] = {
    "a reply": lambda breaker: breaker.answered(),
    "429": lambda breaker: breaker.failed(EndpointBusy("busy")),
    "4xx": lambda breaker: breaker.failed(EndpointRefused("refused")),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_of_any_kind_starts_the_count_again(answer: str) -> None:
    breaker = make(breaker_failures=3)
    for _ in range(2):
        breaker.failed(DOWN)
        breaker.failed(DOWN)
        ANSWERS[answer](breaker)
        assert not breaker.open
    breaker.failed(DOWN)
    breaker.failed(DOWN)
    assert not breaker.open
    breaker.failed(DOWN)
    assert breaker.open


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_of_any_kind_closes_it(clock: Clock, answer: str) -> None:
    breaker = opened()
    clock.now += 10
    assert ask(breaker)
    ANSWERS[answer](breaker)
    assert not breaker.open and ask(breaker) == 0


# --- trials ----------------------------------------------------------------------------------------------


def test_exactly_one_trial_goes_out_and_only_after_the_pause(clock: Clock) -> None:
    breaker = opened(breaker_wait_s=10)
    clock.now += 9.999
    assert ask(breaker) is None
    clock.now += 0.001
    assert ask(breaker)
    clock.now += 1000
    assert [ask(breaker) for _ in range(5)] == [None] * 5, "while it is under way nothing else goes out"


def test_each_failed_trial_doubles_the_pause_up_to_the_maximum(clock: Clock) -> None:
    breaker = opened(breaker_wait_s=10, breaker_wait_max_s=35)
    for pause in (10, 20, 35, 35):
        clock.now += pause - 0.001
        assert ask(breaker) is None, pause
        clock.now += 0.001
        trial = ask(breaker)
        assert trial, pause
        clock.now += 3  # the trial takes time; the pause is counted from its end
        breaker.failed(DOWN, trial)
    breaker.answered()
    breaker.failed(DOWN)
    clock.now += 10
    assert ask(breaker), "the next outage begins with the first pause"


def test_a_call_from_before_the_outage_neither_ends_a_trial_nor_lengthens_the_pause(clock: Clock) -> None:
    """It was sent before the breaker opened and fails while the trial is under way."""
    breaker = opened(breaker_wait_s=10)
    clock.now += 10
    trial = ask(breaker)
    assert trial
    breaker.failed(EndpointTimeout("late"))
    breaker.abandoned(0)
    clock.now += 1000
    assert ask(breaker) is None, "the trial is still under way"
    breaker.failed(DOWN, trial)
    clock.now += 20
    assert ask(breaker), "one failed trial, one doubling"


def test_a_trial_of_an_outage_that_is_over_does_not_end_the_trial_of_the_next_one(clock: Clock) -> None:
    breaker = opened()
    clock.now += 10
    old = ask(breaker)
    assert old
    breaker.answered()  # another call got through
    breaker.failed(DOWN)
    clock.now += 10
    new = ask(breaker)
    assert new and new != old
    breaker.failed(DOWN, old)
    breaker.abandoned(old)
    clock.now += 1000
    assert ask(breaker) is None


def test_an_abandoned_trial_is_followed_by_another_after_the_same_pause(clock: Clock) -> None:
    breaker = opened(breaker_wait_s=10)
    clock.now += 10
    breaker.abandoned(ask(breaker) or 0)
    clock.now += 9.999
    assert ask(breaker) is None
    clock.now += 0.001
    assert ask(breaker)


@given(st.lists(st.tuples(st.sampled_from(["fail", "answer", "abandon", "ask", "straggler"]), st.floats(0, 50))))
def test_never_two_trials_and_never_one_too_soon(events: list[tuple[str, float]]) -> None:
    """Whatever happens in whatever order, checked against a model that knows only the rule."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rri.lm.breaker.time", clock)
        breaker = opened(breaker_wait_s=10, breaker_wait_max_s=35)
        trial, due, wait = 0, clock.now + 10, 10.0
        for event, seconds in events:
            clock.now += seconds
            if event == "ask":
                got = ask(breaker)
                if not breaker.open:
                    assert got == 0
                else:
                    assert bool(got) == (not trial and clock.now >= due)
                    trial = got or trial
            elif event == "answer":
                breaker.answered()
                trial, wait = 0, 10.0
                assert not breaker.open
            elif event == "straggler":
                was_open = breaker.open
                breaker.failed(DOWN)
                if not was_open:
                    due = clock.now + wait
            elif trial:
                (breaker.abandoned if event == "abandon" else lambda number: breaker.failed(DOWN, number))(trial)
                wait = min(35.0, 2 * wait) if event == "fail" else wait
                trial, due = 0, clock.now + wait


# --- waiting ---------------------------------------------------------------------------------------------


def test_all_who_wait_go_on_after_the_recovery(clock: Clock) -> None:
    async def main() -> list[Any]:
        breaker = opened()
        waiting = [start(breaker.gate(LONG)) for _ in range(50)]
        await settle()
        assert not any(task.done() for task in waiting)
        breaker.answered()
        return await soon(*waiting)

    assert asyncio.run(main()) == [0] * 50


def test_those_who_wait_take_turns_at_the_trials() -> None:
    """Under a real clock: each failed trial lets exactly one more call out, and none is left behind."""

    async def main() -> list[int]:
        breaker = opened(breaker_wait_s=0.001, breaker_wait_max_s=0.001)
        waiting = {start(breaker.gate(LONG)) for _ in range(10)}
        numbers = []
        while waiting:
            done, waiting = await asyncio.wait(waiting, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            (only,) = done
            numbers.append(only.result())
            breaker.failed(DOWN, only.result())
        return numbers

    assert asyncio.run(main()) == list(range(1, 11))


def test_patience_ends_in_an_error_that_names_endpoint_time_and_reason(clock: Clock) -> None:
    async def main() -> None:
        breaker = opened(breaker_wait_s=100)
        breaker.failed(EndpointFailed("http://x/v1 answered HTTP 502"))
        clock.now += 4.999
        waiting = start(breaker.gate(5.0))
        await settle()
        assert not waiting.done()
        clock.now += 0.001
        with pytest.raises(EndpointUnreachable) as caught:
            await soon(waiting)
        assert caught.value.what == "endpoint 'main' has been away for 5 s: http://x/v1 answered HTTP 502", "the latest"
        assert "fallback" in caught.value.fix

    asyncio.run(main())


def test_a_call_that_comes_after_all_patience_waits_for_the_trial_under_way(clock: Clock) -> None:
    """The server may be back: nobody has asked it for hours."""

    async def main(fails: bool) -> Any:
        breaker = opened()
        clock.now += 10 * LONG
        trial = await breaker.gate(LONG)
        late = start(breaker.gate(LONG))
        await settle()
        assert trial and not late.done()
        breaker.failed(DOWN, trial) if fails else breaker.answered()
        return (await soon(late))[0]

    assert asyncio.run(main(fails=False)) == 0
    with pytest.raises(EndpointUnreachable, match="away for 36000 s"):
        asyncio.run(main(fails=True))


# --- slots -----------------------------------------------------------------------------------------------


def test_a_call_that_queued_for_a_slot_while_the_server_failed_waits_without_one(clock: Clock) -> None:
    async def main() -> None:
        breaker, slots, entered = make(breaker_failures=1), asyncio.Semaphore(1), []

        async def call() -> None:
            async with breaker.slot(slots, LONG) as trial:
                entered.append(trial)

        async with breaker.slot(slots, LONG):
            queued = [start(call()) for _ in range(3)]
            await settle()
            breaker.failed(DOWN)
        await settle()
        assert entered == [] and not slots.locked(), "a slot that waits would hold up calls that need not wait"
        breaker.answered()
        await soon(*queued)
        assert entered == [0, 0, 0]

    asyncio.run(main())


@pytest.mark.parametrize("end", ["cancelled", "cancelled in the queue for a slot", "stopped by the budget"])
def test_a_trial_that_ends_without_an_answer_leaves_room_for_the_next_one(clock: Clock, end: str) -> None:
    async def main() -> int:
        breaker, slots, no_answer = opened(), asyncio.Semaphore(1), asyncio.Event()
        clock.now += 10

        async def trial() -> None:
            async with breaker.slot(slots, LONG):
                await no_answer.wait()
                raise BudgetExhausted("budget.calls is used up")

        if end == "cancelled in the queue for a slot":
            await slots.acquire()
        under_way = start(trial())
        await settle()
        with pytest.raises(EndpointUnreachable):
            await breaker.gate(0.0)
        no_answer.set() if end == "stopped by the budget" else under_way.cancel()
        await asyncio.wait([under_way])
        assert under_way.cancelled() or isinstance(under_way.exception(), BudgetExhausted)
        clock.now += 10
        return await breaker.gate(0.0)

    assert asyncio.run(main()) == 2


# --- what it tells ---------------------------------------------------------------------------------------


def test_paused_s_counts_every_pause_and_the_present_one(clock: Clock) -> None:
    breaker = make(breaker_failures=1)
    clock.now += 50
    assert breaker.paused_s == 0
    breaker.failed(DOWN)
    clock.now += 7
    assert breaker.paused_s == 7
    breaker.failed(DOWN)
    clock.now += 5
    breaker.answered()
    clock.now += 100
    assert breaker.paused_s == 12
    breaker.failed(DOWN)
    clock.now += 1
    assert breaker.paused_s == 13


def test_opening_and_closing_are_told_once_each(clock: Clock) -> None:
    said: list[str] = []
    breaker = make(said.append, breaker_failures=2)
    breaker.failed(DOWN)
    assert said == []
    for _ in range(5):
        breaker.failed(DOWN)
    assert len(said) == 1
    assert all(part in said[0] for part in ("'main'", "2 times", "http://x/v1: connection refused"))
    clock.now += 65
    breaker.answered()
    breaker.answered()
    assert said[1:] == ["endpoint 'main' answers again after 65 s; calls go on"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 100))))
def test_a_stopwatch_sums_the_stretches_in_which_it_held(steps: list[tuple[bool, int]]) -> None:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rri.lm.breaker.time", clock)
        watch = Stopwatch()
        for holds, seconds in steps:
            watch.hold(holds)
            assert (watch.since is not None) == holds
            clock.now += seconds
        assert watch.seconds == sum(seconds for holds, seconds in steps if holds)
