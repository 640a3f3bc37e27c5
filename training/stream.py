"""The task stream: positions of the run as an iterable dataset, read from the service by every rank alike."""

import logging
import time
from collections.abc import Iterator
from typing import Any

from datasets import IterableDataset  # type: ignore[import-untyped]

from rri.client import ServiceClient
from rri.errors import ServiceUnavailable
from rri.wire import ServedTask

__all__ = ["TaskRows", "WaitLog", "task_stream"]

log = logging.getLogger(__name__)


class WaitLog:
    """Logs why the client waits: at once when the reason is new, then every `every_s` seconds."""

    def __init__(self, every_s: float = 30.0) -> None:
        self._every_s = every_s
        self._last, self._when = "", float("-inf")

    def __call__(self, message: str) -> None:
        now = time.monotonic()
        if message != self._last or now - self._when >= self._every_s:
            log.info("waiting: %s", message)
            self._last, self._when = message, now


class TaskRows:
    """Calling it yields one row per position in [start, stop); it can be called again, for another pass.

    The loader reads a cycle ahead. When the service stays away then, the stream ends with the cycle that is there
    already, which can still be trained, and `missing` says why.

    Args:
        client: the service.
        start, stop: positions, whole cycles.
        per_cycle: positions of one cycle. They come together or not at all.
    """

    def __init__(self, client: ServiceClient, start: int, stop: int, per_cycle: int) -> None:
        self._client, self._start, self._stop, self._per_cycle = client, start, stop, per_cycle
        self.missing: ServiceUnavailable | None = None

    def __getstate__(self) -> tuple[str, int, int]:
        # `datasets` fingerprints a generator by pickling it, which an open connection does not survive.
        return self._client.url, self._start, self._stop

    def __call__(self) -> Iterator[dict[str, Any]]:
        for first in range(self._start, self._stop, self._per_cycle):
            try:
                tasks = [self._client.served(position) for position in range(first, first + self._per_cycle)]
            except ServiceUnavailable as error:
                if first == self._start:
                    raise
                self.missing = error
                return
            yield from map(_row, tasks)


def _row(task: ServedTask) -> dict[str, Any]:
    return {
        "prompt": [message.model_dump() for message in task.prompt],
        "position": task.position,
        "task_id": task.task_id,
        "version": task.version,
    }


def task_stream(rows: TaskRows) -> IterableDataset:
    """Rows `{prompt: list of messages, position, task_id, version}` of the positions of `rows`.

    The rubric stays with the service. The loader keeps one generation batch ahead and learns the end from
    the generator, so no position at or past the end is ever asked for.

    Raises (while it is read):
        ServiceUnavailable: the service stayed away from the start.
        ServiceRefused: it will never serve a position.
    """
    # One shard on purpose: a list among the arguments would be split over the ranks.
    return IterableDataset.from_generator(rows)
