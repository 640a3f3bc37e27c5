"""Serving: fresh tasks by admission, then a seeded draw; decided once, logged, and the same for everyone."""

import asyncio
import random
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rri.aio import collect
from rri.config import PoolConfig
from rri.errors import StoreError
from rri.evidence import Admission, AdmissionOutcome
from rri.pool import Pool
from rri.store import ServedRow, Store
from tests.rigs import make_task

SEED = 7
GUARD = 20.0
"""Seconds after which a hung test fails; no test waits for it."""
NOW = PoolConfig(min_tasks=1, fresh_wait_s=0)
NEVER = 3600.0
"""A wait for new tasks that no test lives to see the end of."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


async def admit(store: Store, *numbers: int, outcome: AdmissionOutcome = "passed") -> None:
    for number in numbers:
        task = make_task(task_id=name(number))
        await store.add_admission(Admission(original=task, task=task, outcome=outcome))


def name(number: int) -> str:
    return f"{number:06}-abc"


class Opened:
    """A pool with a switch for whether more tasks are expected."""

    def __init__(self, store: Store, config: PoolConfig = NOW, *, expecting: bool = False, seed: int = SEED) -> None:
        self.expecting = expecting
        self.pool = Pool(store, seed, config, lambda: self.expecting)

    async def row(self, position: int) -> ServedRow:
        row = await self.pool.served(position, GUARD)
        assert isinstance(row, ServedRow), row
        assert row.position == position
        return row


async def turns(count: int = 5) -> None:
    """Let the loop turn, so that whoever can go on does."""
    for _ in range(count):
        turned = asyncio.Event()
        asyncio.get_running_loop().call_soon(turned.set)
        await turned.wait()


# --- order -------------------------------------------------------------------------------------------


def test_fresh_tasks_come_in_order_of_admission_then_served_ones_are_drawn(store: Store) -> None:
    async def scene() -> list[tuple[str, str]]:
        await admit(store, 5, 2, 9)
        opened = Opened(store)
        rows = [await opened.row(position) for position in range(6)]
        return [(row.source, row.task_id) for row in rows]

    drawn = [("draw", random.Random(f"{SEED}:{p}").choice([name(5), name(2), name(9)])) for p in (3, 4, 5)]
    assert asyncio.run(scene()) == [("fresh", name(5)), ("fresh", name(2)), ("fresh", name(9)), *drawn]


def test_the_served_version_is_the_admitted_one(store: Store) -> None:
    async def scene() -> ServedRow:
        original = make_task(task_id=name(1))
        repaired = original.model_copy(update={"version": 3})
        await store.add_admission(Admission(original=original, task=repaired, outcome="repaired"))
        return await Opened(store).row(0)

    assert asyncio.run(scene()) == ServedRow(0, name(1), 3, "fresh")


def test_refused_tasks_are_never_served(store: Store) -> None:
    async def scene() -> set[str]:
        await admit(store, 1, 2, outcome="refused")
        await admit(store, 3, 4)
        opened = Opened(store)
        assert opened.pool.size == 2
        return {(await opened.row(position)).task_id for position in range(8)}

    assert asyncio.run(scene()) == {name(3), name(4)}


def test_the_draw_follows_the_seed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same seed draws the same in another store, another seed does not."""

    async def sequence(seed: int) -> list[str]:
        other = Store(tmp_path_factory.mktemp("run"))
        await admit(other, *range(1, 6))
        opened = Opened(other, seed=seed)
        drawn = [(await opened.row(position)).task_id for position in range(15)]
        other.close()
        return drawn

    async def scene() -> list[list[str]]:
        return [await sequence(seed) for seed in (SEED, SEED, SEED + 1)]

    first, again, other = asyncio.run(scene())
    assert first == again != other


def test_a_new_task_goes_before_another_draw(store: Store) -> None:
    async def scene() -> list[str]:
        await admit(store, 1)
        opened = Opened(store, expecting=True)
        sources = [(await opened.row(position)).source for position in range(3)]
        await admit(store, 2)
        opened.pool.refresh()
        assert (opened.pool.size, opened.pool.unserved) == (2, 1)
        return [*sources, (await opened.row(3)).source, (await opened.row(4)).source]

    assert asyncio.run(scene()) == ["fresh", "draw", "draw", "fresh", "draw"]


# --- once for everyone -------------------------------------------------------------------------------


def test_a_position_decides_every_position_before_it(store: Store) -> None:
    async def scene() -> None:
        await admit(store, 1, 2, 3)
        opened = Opened(store)
        assert opened.pool.row(0) is None
        row = await opened.row(4)
        assert opened.pool.positions == 5
        assert [opened.pool.row(p) for p in range(5)] == store.served()
        assert opened.pool.row(4) == row
        assert opened.pool.row(5) is None

    asyncio.run(scene())


def test_concurrent_askers_get_the_same_rows_and_each_is_logged_once(store: Store) -> None:
    async def scene() -> None:
        await admit(store, 1, 2, 3)
        opened = Opened(store)
        asked = [position for position in range(12) for _ in range(5)]
        random.Random(1).shuffle(asked)
        rows = await collect([partial(opened.row, position) for position in asked], limit=len(asked))
        assert {row.position: row for row in rows} == {row.position: row for row in store.served()}
        assert len(set(rows)) == len(store.served()) == 12
        assert all(row == opened.pool.row(position) for row, position in zip(rows, asked, strict=True))

    asyncio.run(scene())


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tasks=st.integers(1, 6), stops=st.lists(st.integers(0, 9), min_size=1, max_size=4), late=st.integers(0, 3))
def test_reopening_anywhere_changes_nothing_that_was_decided_and_serves_no_fresh_task_twice(
    tmp_path_factory: pytest.TempPathFactory, tasks: int, stops: list[int], late: int
) -> None:
    """The run stops after some positions, again and again, and more tasks are admitted in between."""
    store = Store(tmp_path_factory.mktemp("run"))

    async def scene() -> None:
        await admit(store, *range(1, tasks + 1))
        known: list[ServedRow] = []
        for number, stop in enumerate(stops):
            opened = Opened(store)
            assert [opened.pool.row(p) for p in range(len(known))] == known
            assert await opened.row(stop) == (opened.pool.row(stop))
            assert store.served()[: len(known)] == known
            known = store.served()
            if number < late:
                await admit(store, 100 + number)
        fresh = [row.task_id for row in known if row.source == "fresh"]
        admitted = [task_id for _, task_id, _ in store.pool_entries()]
        assert fresh == admitted[: len(fresh)]
        assert [row.position for row in known] == list(range(len(known)))

    asyncio.run(scene())
    store.close()


# --- waiting -----------------------------------------------------------------------------------------


def test_nothing_is_served_below_min_tasks_while_more_are_expected(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store, PoolConfig(min_tasks=3, fresh_wait_s=0), expecting=True)
        for number in (1, 2):
            await admit(store, number)
            opened.pool.refresh()
            answer = await opened.pool.served(0, 0.01)
            assert isinstance(answer, str)
            assert f"{number} tasks" in answer
            assert "3" in answer
            assert store.served() == []
        await admit(store, 3)
        opened.pool.refresh()
        assert await opened.row(0) == ServedRow(0, name(1), 1, "fresh")

    asyncio.run(scene())


def test_an_empty_pool_gives_a_message_even_when_nothing_more_is_expected(store: Store) -> None:
    async def scene() -> str | ServedRow:
        return await Opened(store).pool.served(0, 0.01)

    assert "0 tasks" in str(asyncio.run(scene()))


def test_when_no_more_are_expected_a_small_pool_serves_what_it_has(store: Store) -> None:
    """Admission that ended early must not leave the trainer waiting for ever."""

    async def scene() -> list[str]:
        await admit(store, 1)
        opened = Opened(store, PoolConfig(min_tasks=3, fresh_wait_s=NEVER), expecting=True)
        waiting = asyncio.create_task(opened.row(2))
        await turns()
        assert not waiting.done()
        opened.expecting = False
        opened.pool.nudge()
        await asyncio.wait_for(waiting, GUARD)
        return [row.source for row in store.served()]

    assert asyncio.run(scene()) == ["fresh", "draw", "draw"]


def test_while_more_are_expected_a_new_task_is_waited_for_instead_of_drawing(store: Store) -> None:
    async def scene() -> ServedRow:
        await admit(store, 1)
        opened = Opened(store, PoolConfig(min_tasks=1, fresh_wait_s=NEVER), expecting=True)
        assert (await opened.row(0)).source == "fresh"
        answer = await opened.pool.served(1, 0.01)
        assert isinstance(answer, str)
        assert "waiting for a new one" in answer
        waiting = asyncio.create_task(opened.row(1))
        await admit(store, 2)
        opened.pool.refresh()
        return await asyncio.wait_for(waiting, GUARD)

    assert asyncio.run(scene()) == ServedRow(1, name(2), 1, "fresh")


def test_after_the_wait_for_a_new_task_a_served_one_is_drawn(store: Store) -> None:
    async def scene() -> ServedRow:
        await admit(store, 1)
        opened = Opened(store, PoolConfig(min_tasks=1, fresh_wait_s=0.01), expecting=True)
        await opened.row(0)
        return await opened.row(1)

    assert asyncio.run(scene()) == ServedRow(1, name(1), 1, "draw")


def test_a_decided_position_is_given_at_once_although_a_later_one_waits_for_a_task(store: Store) -> None:
    """One rank is ahead of another: the one behind must not wait for tasks that only the first one needs."""

    async def scene() -> None:
        await admit(store, 1)
        opened = Opened(store, PoolConfig(min_tasks=1, fresh_wait_s=NEVER), expecting=True)
        ahead = asyncio.create_task(opened.pool.served(1, NEVER))
        behind = asyncio.create_task(opened.pool.served(0, NEVER))
        done, _ = await asyncio.wait([behind], timeout=2)
        ahead.cancel()
        assert done == {behind}
        assert behind.result() == ServedRow(0, name(1), 1, "fresh")

    asyncio.run(scene())


# --- nothing is lost ---------------------------------------------------------------------------------


def test_callers_that_give_up_lose_and_duplicate_no_decision(store: Store) -> None:
    async def scene() -> None:
        await admit(store, 1, 2, 3, 4)
        opened = Opened(store)
        for position in range(8):
            impatient = [asyncio.create_task(opened.pool.served(position, 0)) for _ in range(3)]
            cancelled = asyncio.create_task(opened.pool.served(position, GUARD))
            await turns(position)
            cancelled.cancel()
            await asyncio.wait([*impatient, cancelled])
        await opened.row(7)
        assert [row.position for row in store.served()] == list(range(8))
        assert [row.task_id for row in store.served() if row.source == "fresh"] == [name(n) for n in (1, 2, 3, 4)]
        assert [opened.pool.row(p) for p in range(8)] == store.served()

    asyncio.run(scene())


def test_a_decision_that_could_not_be_logged_is_an_error_and_its_task_is_still_served(
    store: Store, tmp_path: Path
) -> None:
    async def scene() -> None:
        await admit(store, 1, 2)
        opened = Opened(store)
        # The row of position 0 cannot be written, as on a disk that refuses it.
        with sqlite3.connect(tmp_path / "rri.db") as other:
            other.execute("INSERT INTO served VALUES (0, 'foreign', 1, 'fresh', 0)")
        with pytest.raises(StoreError):
            await opened.pool.served(0, GUARD)
        assert opened.pool.positions == 0
        with sqlite3.connect(tmp_path / "rri.db") as other:
            other.execute("DELETE FROM served")
        assert await opened.row(1) == ServedRow(1, name(2), 1, "fresh")
        assert [row.task_id for row in store.served()] == [name(1), name(2)]

    asyncio.run(scene())
