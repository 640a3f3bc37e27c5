"""Fan-out in order under a bound, failures as they are, and one loop shared by threads and other loops."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError as FutureCancelled

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rri.aio import LoopThread, collect

GUARD = 10
"""Seconds after which a hung test fails; no test waits for it."""


class Boom(Exception):
    """A failure whose identity the tests follow."""


async def value_of(item: int) -> int:
    return item


async def raising(error: BaseException) -> int:
    raise error


async def later() -> None:
    """Let the loop turn once."""
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()


# --- collect: order, bound, laziness -----------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(), max_size=8), st.integers(1, 10))
def test_results_come_in_the_order_given(items: list[int], limit: int) -> None:
    def thunk(item: int) -> Callable[[], Awaitable[int]]:
        return lambda: value_of(item)

    assert asyncio.run(collect([thunk(item) for item in items], limit)) == items


def test_order_holds_when_the_first_finishes_last_and_does_not_hold_the_others_back() -> None:
    async def main() -> list[str]:
        last_ran = asyncio.Event()

        async def first() -> str:
            await last_ran.wait()
            return "first"

        async def middle() -> str:
            return "middle"

        async def last() -> str:
            last_ran.set()
            return "last"

        async with asyncio.timeout(GUARD):
            return await collect([first, middle, middle, last], limit=2)

    assert asyncio.run(main()) == ["first", "middle", "middle", "last"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 20])
def test_as_many_run_at_once_as_the_limit_allows_and_no_more(limit: int) -> None:
    count = 7
    expected = min(limit, count)

    async def main() -> int:
        running = peak = 0
        full = asyncio.Event()

        async def work() -> None:
            nonlocal running, peak
            running += 1
            peak = max(peak, running)
            if running >= expected:
                full.set()
            await full.wait()  # hangs unless the limit is used
            await later()
            running -= 1

        async with asyncio.timeout(GUARD):
            await collect([work] * count, limit)
        assert running == 0
        return peak

    assert asyncio.run(main()) == expected


def test_a_thunk_is_called_when_its_turn_comes() -> None:
    log: list[str] = []

    def thunk(index: int) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            await later()
            log.append(f"end {index}")

        def start() -> Awaitable[None]:
            log.append(f"call {index}")
            return work()

        return start

    asyncio.run(collect([thunk(i) for i in range(3)], limit=1))
    assert log == ["call 0", "end 0", "call 1", "end 1", "call 2", "end 2"]


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize("count", [0, 2])
def test_a_limit_below_one_is_refused_before_anything_starts(limit: int, count: int) -> None:
    def thunk() -> Awaitable[int]:
        raise AssertionError("started")

    with pytest.raises(ValueError, match="limit"):
        asyncio.run(collect([thunk] * count, limit))


# --- collect: failure and cancellation ---------------------------------------------------------------


def test_the_first_failure_stops_the_siblings_and_is_raised_as_itself() -> None:
    error = Boom("first")
    stopped: list[int] = []

    async def main() -> None:
        waiting = asyncio.Event()

        def sibling(index: int) -> Callable[[], Awaitable[int]]:
            async def work() -> int:
                if index == 2:
                    waiting.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    await later()  # collect must wait until the clean-up is over
                    stopped.append(index)
                return index

            return work

        async def fails() -> int:
            await waiting.wait()
            raise error

        def never() -> Awaitable[int]:
            raise AssertionError("started after a failure")

        async with asyncio.timeout(GUARD):
            await collect([fails, sibling(1), sibling(2), never], limit=3)

    with pytest.raises(Boom) as caught:
        asyncio.run(main())
    assert caught.value is error
    assert sorted(stopped) == [1, 2]


def test_a_sibling_that_fails_while_stopping_does_not_hide_the_first_failure() -> None:
    error = Boom("first")

    async def main() -> None:
        waiting = asyncio.Event()

        async def untidy() -> int:
            waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("while stopping")

        async def fails() -> int:
            await waiting.wait()
            raise error

        async with asyncio.timeout(GUARD):
            await collect([untidy, fails], limit=2)

    with pytest.raises(Boom) as caught:
        asyncio.run(main())
    assert caught.value is error


def test_a_failure_keeps_its_cause() -> None:
    async def fails() -> int:
        try:
            raise KeyError("root")
        except KeyError as root:
            raise Boom from root

    with pytest.raises(Boom) as caught:
        asyncio.run(collect([fails], limit=1))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_failure_that_is_itself_a_group_is_raised_whole() -> None:
    error = ExceptionGroup("two", [Boom("a"), Boom("b")])
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(collect([lambda: raising(error)], limit=1))
    assert caught.value is error


def test_work_cancelled_from_within_is_raised_as_a_cancellation() -> None:
    thunks = [lambda: value_of(1), lambda: raising(asyncio.CancelledError())]
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(collect(thunks, limit=1))


def test_cancelling_the_caller_cancels_everything() -> None:
    stopped: list[int] = []
    called: list[int] = []

    async def main() -> None:
        both = asyncio.Event()

        def thunk(index: int) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                called.append(index)
                if len(called) == 2:
                    both.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    await later()
                    stopped.append(index)

            return work

        caller = asyncio.create_task(collect([thunk(i) for i in range(4)], limit=2))
        async with asyncio.timeout(GUARD):
            await both.wait()
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
        assert caller.cancelled()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert sorted(called) == [0, 1]
    assert sorted(stopped) == [0, 1]


# --- LoopThread --------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[LoopThread]:
    thread = LoopThread(name="served-loop")
    yield thread
    thread.close()


class Pending:
    """Work that waits for ever and tells when it has begun and when it was stopped."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.stopped = threading.Event()

    async def work(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


async def thread_name() -> str:
    return threading.current_thread().name


def test_run_blocks_for_the_result_on_the_loops_daemon_thread(served: LoopThread) -> None:
    assert served.run(thread_name()) == "served-loop"
    assert next(t for t in threading.enumerate() if t.name == "served-loop").daemon


def test_run_and_call_raise_what_the_work_raised(served: LoopThread) -> None:
    error = Boom()

    async def call() -> int:
        return await served.call(raising(error))

    with pytest.raises(Boom) as ran:
        served.run(raising(error))
    with pytest.raises(Boom) as called:
        asyncio.run(call())
    assert ran.value is called.value is error


def test_run_works_inside_another_running_loop(served: LoopThread) -> None:
    async def notebook_cell() -> int:
        return served.run(value_of(4))

    assert asyncio.run(notebook_cell()) == 4


def test_run_interrupted_cancels_its_work(served: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = Pending()
    future = served.submit(pending.work())
    assert pending.begun.wait(GUARD)

    def interrupted(timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(future, "result", interrupted)
        patch.setattr(served, "submit", lambda work: future)
        spare = value_of(0)
        with pytest.raises(KeyboardInterrupt):
            served.run(spare)
        spare.close()
    assert pending.stopped.wait(GUARD)


def test_run_on_its_own_loop_is_refused_and_closes_the_work(served: LoopThread) -> None:
    work = value_of(1)

    async def inside() -> None:
        served.run(work)

    with pytest.raises(RuntimeError, match="own loop"):
        served.run(inside())
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    assert served.run(value_of(2)) == 2


def test_submit_returns_before_the_work_is_done(served: LoopThread) -> None:
    gate = asyncio.Event()

    async def gated() -> str:
        await gate.wait()
        return await thread_name()

    future = served.submit(gated())
    assert not future.done()
    served.loop.call_soon_threadsafe(gate.set)
    assert future.result(GUARD) == "served-loop"


def test_call_awaits_from_another_loop(served: LoopThread) -> None:
    async def main() -> list[str]:
        return await collect([lambda: served.call(thread_name()), thread_name], limit=2)

    there, here = asyncio.run(main())
    assert there == "served-loop"
    assert here == threading.current_thread().name


def test_call_from_its_own_loop_stays_in_the_task(served: LoopThread) -> None:
    async def current() -> asyncio.Task[object] | None:
        return asyncio.current_task()

    async def main() -> bool:
        return await served.call(current()) is asyncio.current_task()

    assert served.run(main())


def test_cancelling_a_call_cancels_the_work_on_the_loop(served: LoopThread) -> None:
    pending = Pending()

    async def main() -> None:
        caller = asyncio.create_task(served.call(pending.work()))
        await asyncio.to_thread(pending.begun.wait, GUARD)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller

    asyncio.run(main())
    assert pending.stopped.wait(GUARD)


def test_close_cancels_pending_work_and_ends_the_thread() -> None:
    thread = LoopThread(name="closing-loop")
    pending = Pending()
    future = thread.submit(pending.work())
    assert pending.begun.wait(GUARD)
    thread.close()
    assert pending.stopped.is_set()
    with pytest.raises(FutureCancelled):
        future.result(GUARD)
    assert thread.loop.is_closed()
    assert "closing-loop" not in {t.name for t in threading.enumerate()}


def test_a_closed_loop_closes_again_quietly_and_takes_no_work() -> None:
    thread = LoopThread()
    thread.close()
    thread.close()
    work = value_of(1)
    with pytest.raises(RuntimeError):
        thread.submit(work)
    work.close()
