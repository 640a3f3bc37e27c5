"""The stream as TRL reads it: order, repetition, the end, and waiting."""

import logging
from collections.abc import Callable

import pytest
from trl.trainer.utils import repeat_iterable_dataset

from rri.client import ServiceClient
from rri.errors import ServiceRefused, ServiceUnavailable
from rri.wire import RunInfo
from tests.training.fake_service import FakeService
from training.stream import TaskRows, WaitLog, task_stream

MakeInfo = Callable[..., RunInfo]


def test_rows_from_the_start_position_to_the_end(make_info: MakeInfo) -> None:
    with FakeService(make_info(cycles=3)) as service:
        client = ServiceClient(service.url)
        stream = task_stream(TaskRows(client, 2, 6, 2))
        rows = list(repeat_iterable_dataset(stream, mini_repeat_count=2, batch_size=2, repeat_count=2))
        assert [row["position"] for row in rows] == [2, 2, 3, 3, 2, 2, 3, 3, 4, 4, 5, 5, 4, 4, 5, 5]
        assert list(*service.positions.values()) == [2, 3, 4, 5], "each once, and none past the end"
        assert rows[0] == {
            "prompt": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "task 2"}],
            "position": 2,
            "task_id": "t2",
            "version": 1,
        }
        client.close()


def test_waiting_is_told_and_ends_in_unavailable(make_info: MakeInfo, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with FakeService(make_info(), waits={0: 3}, refuse={"/v1/served/1": -1}) as service:
        client = ServiceClient(service.url, patience_s=0.5, on_wait=WaitLog())
        rows = iter(task_stream(TaskRows(client, 0, 2, 1)))
        assert next(rows)["position"] == 0
        assert [r.getMessage() for r in caplog.records].count("waiting: pool is thin at 0") == 1, (
            "told once, not thrice"
        )
        with pytest.raises(ServiceUnavailable, match=r"gave up after 0\.5 s"):
            next(iter(task_stream(TaskRows(client, 1, 2, 1))))
        client.close()


def test_a_cycle_that_does_not_come_whole_ends_the_stream(make_info: MakeInfo) -> None:
    """The cycle before it can still be trained, and the reason is kept where the trainer looks for it."""
    with FakeService(make_info(cycles=3), refuse={"/v1/served/3": -1}) as service:
        client = ServiceClient(service.url, patience_s=0.3)
        source = TaskRows(client, 0, 6, 2)
        repeated = repeat_iterable_dataset(task_stream(source), mini_repeat_count=1, batch_size=2, repeat_count=2)
        assert source.missing is None
        assert [row["position"] for row in repeated] == [0, 1, 0, 1], "position 2 came, and its cycle did not"
        assert isinstance(source.missing, ServiceUnavailable)
        client.close()


def test_a_position_that_cannot_be_served(make_info: MakeInfo) -> None:
    with FakeService(make_info()) as service:
        client = ServiceClient(service.url)
        with pytest.raises(ServiceRefused, match="past the end"):
            list(task_stream(TaskRows(client, 3, 5, 1)))
        client.close()
