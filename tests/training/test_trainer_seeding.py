"""Seeds of a cycle: the same at every start, and different for every rank and cycle."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from training.seeding import CycleSeeds, seed_of
from training.settings import Schedule

places = st.tuples(st.integers(0, 2**31), st.integers(0, 10_000), st.integers(0, 1023))


@given(places, places)
def test_a_place_has_one_seed_that_others_do_not_share(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert seed_of(*one) == seed_of(*one) and 0 <= seed_of(*one) < 2**32
    assert (seed_of(*one) == seed_of(*other)) == (one == other)


def drawn(callback: CycleSeeds, step: int) -> tuple[float, float, float]:
    state: Any = SimpleNamespace(global_step=step)
    nothing: Any = None
    callback.on_step_begin(nothing, state, nothing)
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_seeds_are_set_when_a_cycle_begins_and_only_then() -> None:
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        callback = CycleSeeds(3, Schedule(updates_per_cycle=2, tasks_per_cycle=4), rank=0)
        first = drawn(callback, 0)
        within = drawn(callback, 1)
        assert drawn(callback, 2) != first != within
        assert drawn(callback, 0) == first and drawn(callback, 1) == within, "a later update goes on from there"
        assert drawn(CycleSeeds(3, callback.schedule, rank=1), 0) != first
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
