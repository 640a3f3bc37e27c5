"""The one way to fan out, and the one loop on which model calls run."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["LoopThread", "collect"]

T = TypeVar("T")


async def collect(thunks: Sequence[Callable[[], Awaitable[T]]], limit: int) -> list[T]:
    """Run `thunks` with at most `limit` at a time; results in the order given.

    The first failure cancels every sibling, waits until they have stopped, and is raised as it is.
    Cancelling the caller cancels all of them.

    Args:
        thunks: functions that start the work; one is called only when its turn comes.
        limit: how many may be under way at once, at least 1.

    Raises:
        ValueError: `limit` below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    results: dict[int, T] = {}
    turns = iter(range(len(thunks)))

    async def worker() -> None:
        # Workers share one iterator, so a slow item never holds back the others' next turn.
        for index in turns:
            try:
                results[index] = await thunks[index]()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                # The work cancelled itself; a TaskGroup would take that for a quiet end.
                raise _SelfCancelledError from None

    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(limit, len(thunks))):
                group.create_task(worker())
    except BaseExceptionGroup as failures:
        failure = failures.exceptions[0]
    if failure is not None:
        # Raised outside the handler, so that it keeps its own cause and context.
        raise asyncio.CancelledError if isinstance(failure, _SelfCancelledError) else failure
    return [results[i] for i in range(len(thunks))]


class _SelfCancelledError(Exception):
    """A piece of work raised CancelledError although nobody cancelled it."""


class LoopThread:
    """An event loop on a daemon thread: notebooks, threads and the service share it.

    `run` blocks the caller; `submit` returns a concurrent future; `call` awaits from any loop.
    """

    def __init__(self, name: str = "rri-loop") -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop and wait.

        Raises:
            RuntimeError: called from the loop's own thread, where waiting would never end.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("LoopThread.run called on its own loop; await the coroutine instead")
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` from any loop; no thread hop when the caller is on this one already."""
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(self.submit(work))

    def close(self) -> None:
        """Stop the loop; pending work is cancelled. Closing twice is fine."""
        if self.loop.is_closed():
            return

        async def cancel_all() -> None:
            tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=5) if tasks else None

        self.run(cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
