import gc
import weakref
from collections.abc import Iterator

import pytest

from rri.heap import THRESHOLDS, settle_heap


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class Knot:
    def __init__(self) -> None:
        self.me = self


def test_what_is_loaded_is_left_alone_and_the_rest_is_still_collected() -> None:
    settle_heap()
    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold() == THRESHOLDS
    gone = weakref.ref(Knot())
    gc.collect()
    assert gone() is None
