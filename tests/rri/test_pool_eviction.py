"""The difficulty band at its edges, eviction, and replay: a patch that brings a task back (METHOD 7)."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from programs.patching import patched
from rri.cases import Check, Patch, PatchRound
from rri.config import PoolConfig
from rri.evidence import Admission
from rri.pool import Pool, out_of_band
from rri.store import GradeRow, Place, ServedRow, Store
from rri.types import Criterion, Grade
from tests.rigs import make_task

GUARD = 20.0
"""Seconds after which a hung test fails; no test waits for it."""
NOW = PoolConfig(min_tasks=1, fresh_wait_s=0)
EASY = [1.0, 1.0, 0.9, 1.0]
FAIR = [0.2, 0.8, 0.4, 0.6]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def name(number: int) -> str:
    return f"{number:06}-abc"


class Opened:
    """A pool on a store, with what admission, grading and repair do to it."""

    def __init__(self, store: Store, config: PoolConfig = NOW, *, expecting: bool = False) -> None:
        self.store = store
        self.config = config
        self.expecting = expecting
        self.pool = Pool(store, 7, config, lambda: self.expecting)

    async def admit(self, *numbers: int) -> None:
        for number in numbers:
            task = make_task(task_id=name(number))
            await self.store.add_admission(Admission(original=task, task=task, outcome="passed"))
        self.pool.refresh()

    async def grade(self, number: int, scores: Sequence[float], version: int = 1, cycle: int = 0) -> None:
        """As the grader does it: the grade is kept, then the pool is told."""
        for row, score in enumerate(scores):
            place, grade = Place("train", cycle, number, row), Grade(verdicts=(), score=score, raw=score)
            await self.store.add_grades([GradeRow(place, name(number), version, f"answer {row}", True, grade)])
            await self.pool.scored(name(number), version, score)

    async def patch(self, number: int, case: int, version: int = 1) -> None:
        before = self.store.task(name(number), version)
        assert before is not None
        criterion = Criterion(text=f"States value {case} of the rule", points=8)
        check = Check(criterion=criterion, why="", outcome="accepted")
        rounds = (PatchRound(number=1, exploit="", label="other", checks=(check,)),)
        after = patched(before, [criterion])
        await self.store.add_patch(Patch(case=case, before=before, task=after, outcome="patched", rounds=rounds))
        self.pool.refresh()

    async def row(self, position: int) -> ServedRow:
        row = await self.pool.served(position, GUARD)
        assert isinstance(row, ServedRow), row
        return row

    async def rows(self, *positions: int) -> list[tuple[str, str, int]]:
        return [(r.source, r.task_id, r.version) for r in [await self.row(p) for p in positions]]


# --- the band ----------------------------------------------------------------------------------------


def test_the_numbers_of_the_method() -> None:
    config = PoolConfig()
    assert (config.band_rollouts, config.band_window, config.band_variance) == (4, 64, 1e-4)
    assert (config.band_low, config.band_high) == (0.05, 0.88)


@pytest.mark.parametrize(("rollouts", "leaves"), [(0, False), (1, False), (3, False), (4, True), (5, True)])
def test_nothing_leaves_before_four_rollouts(rollouts: int, leaves: bool) -> None:
    assert (out_of_band([1.0] * rollouts, NOW) is not None) is leaves


@pytest.mark.parametrize(
    ("mean", "leaves"),
    [(0.0499, True), (0.05, False), (0.0501, False), (0.5, False), (0.8799, False), (0.88, False), (0.8801, True)],
)
def test_the_mean_may_lie_on_the_edges_of_the_band(mean: float, leaves: bool) -> None:
    spread = [mean - 0.04, mean + 0.04] * 2
    figures = out_of_band(spread, NOW)
    assert (figures is not None) is leaves
    if figures is not None:
        assert figures == (pytest.approx(mean), pytest.approx(0.0016))


@pytest.mark.parametrize(("spread", "leaves"), [(0.00999, True), (0.01, False), (0.01001, False)])
@pytest.mark.parametrize("mean", [0.1, 0.3, 0.5, 0.7])
def test_the_variance_must_reach_one_in_ten_thousand(mean: float, spread: float, leaves: bool) -> None:
    """Two scores on each side of the mean: their population variance is the square of the spread."""
    assert (out_of_band([mean - spread, mean + spread] * 2, NOW) is not None) is leaves


def test_a_mean_and_a_variance_that_are_both_out_are_told_both() -> None:
    assert out_of_band([1.0] * 4, NOW) == (1.0, 0.0)


@given(st.lists(st.floats(-2, 1), min_size=4, max_size=64))
def test_it_depends_on_the_scores_and_not_on_their_order(scores: list[float]) -> None:
    found = [out_of_band(order, NOW) is None for order in (scores, scores[::-1], sorted(scores))]
    assert len(set(found)) == 1
    if found[0]:
        assert 0.05 - 1e-9 <= sum(scores) / len(scores) <= 0.88 + 1e-9


# --- eviction ----------------------------------------------------------------------------------------


def test_an_evicted_task_is_never_drawn_while_another_is_left(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1, 2)
        await opened.rows(0, 1)
        await opened.grade(1, EASY)
        assert (opened.pool.size, opened.pool.evicted) == (2, 1)
        assert set(await opened.rows(*range(2, 20))) == {("draw", name(2), 1)}
        (row,) = store.evictions()
        assert (row.task_id, row.version, row.rollouts) == (name(1), 1, 4)
        assert row.mean == pytest.approx(0.975)

    asyncio.run(scene())


def test_scores_in_the_band_evict_nothing(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1)
        await opened.grade(1, FAIR * 20)
        assert opened.pool.evicted == 0
        assert store.evicted() == []

    asyncio.run(scene())


def test_only_the_latest_64_scores_decide(store: Store) -> None:
    """The 64th easy score in a row pushes the one out that kept the mean in the band."""

    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1)
        await opened.grade(1, [*FAIR * 8, -3.0])
        easy = [0.92, 0.94] * 32
        await opened.grade(1, easy[:63])
        assert opened.pool.evicted == 0
        await opened.grade(1, easy[63:])
        assert opened.pool.evicted == 1
        assert [row.rollouts for row in store.evictions()] == [64]

    asyncio.run(scene())


def test_eviction_can_be_switched_off(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store, NOW.model_copy(update={"evict": False}))
        await opened.admit(1)
        await opened.grade(1, EASY * 4)
        assert (opened.pool.evicted, store.evicted()) == (0, [])

    asyncio.run(scene())


def test_with_all_evicted_and_nothing_to_come_one_is_served_all_the_same(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1, 2)
        await opened.rows(0, 1)
        for number in (1, 2):
            await opened.grade(number, EASY)
        rows = await opened.rows(*range(2, 12))
        assert {row[0] for row in rows} == {"evicted"}
        assert {row[1] for row in rows} == {name(1), name(2)}

    asyncio.run(scene())


def test_with_all_evicted_and_more_to_come_a_trainer_waits_and_is_told(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store, expecting=True)
        await opened.admit(1)
        await opened.row(0)
        await opened.grade(1, EASY)
        answer = await opened.pool.served(1, 0.01)
        assert answer == "all 1 tasks have left the difficulty band; waiting for a new or a patched one"
        waiting = asyncio.create_task(opened.row(1))
        await opened.admit(2)
        assert (await asyncio.wait_for(waiting, GUARD)).task_id == name(2)

    asyncio.run(scene())


def test_evictions_and_windows_survive_a_restart(store: Store) -> None:
    async def scene() -> None:
        first = Opened(store)
        await first.admit(1, 2)
        await first.rows(0, 1)
        await first.grade(1, EASY)
        await first.grade(2, EASY[:3])
        again = Opened(store)
        assert again.pool.evicted == 1
        await again.grade(2, EASY[3:], cycle=1)
        assert again.pool.evicted == 2

    asyncio.run(scene())


def test_superseded_scores_leave_the_windows_at_once(store: Store) -> None:
    """A trainer that goes back grades anew: three scores that no longer count and one that does are not four."""

    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1)
        await opened.row(0)
        await opened.grade(1, EASY[:3])
        await store.supersede(0)
        opened.pool.recount()
        await opened.grade(1, EASY[:3])
        assert opened.pool.evicted == 0
        await opened.grade(1, EASY[3:], cycle=1)
        assert opened.pool.evicted == 1

    asyncio.run(scene())


# --- replay ------------------------------------------------------------------------------------------


def test_a_patched_task_is_back_in_the_draw_with_a_new_window(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1)
        await opened.row(0)
        await opened.grade(1, EASY)
        assert opened.pool.evicted == 1
        await opened.patch(1, case=1)
        assert opened.pool.evicted == 0
        assert await opened.rows(1, 2) == [("replay", name(1), 2), ("draw", name(1), 2)]
        await opened.grade(1, EASY[:3], version=2)
        assert opened.pool.evicted == 0, "its earlier scores say nothing about the new rubric"
        await opened.grade(1, EASY[3:], version=2, cycle=1)
        assert opened.pool.evicted == 1
        assert store.evicted() == [(name(1), 1), (name(1), 2)]

    asyncio.run(scene())


def test_late_scores_of_the_old_version_do_not_evict_the_new_one(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1)
        await opened.row(0)
        await opened.grade(1, EASY[:3])
        await opened.patch(1, case=1)
        await opened.grade(1, EASY[3:], cycle=1)
        assert (opened.pool.evicted, store.evicted()) == (0, [(name(1), 1)])

    asyncio.run(scene())


def test_replays_go_first_in_order_of_repair_then_fresh_tasks(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1, 2)
        await opened.rows(0, 1)
        await opened.admit(3, 4)
        await opened.patch(2, case=1)
        await opened.patch(1, case=2)
        assert opened.pool.replaying == 2
        assert await opened.rows(2, 3, 4, 5) == [
            ("replay", name(2), 2),
            ("replay", name(1), 2),
            ("fresh", name(3), 1),
            ("fresh", name(4), 1),
        ]
        assert opened.pool.replaying == 0

    asyncio.run(scene())


def test_of_two_patches_between_turns_the_last_is_served_once(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(1, 2)
        await opened.rows(0, 1)
        await opened.patch(1, case=1)
        await opened.patch(2, case=2)
        await opened.patch(1, case=3, version=2)
        assert await opened.rows(2, 3) == [("replay", name(2), 2), ("replay", name(1), 3)]
        assert (await opened.row(4)).source == "draw"

    asyncio.run(scene())


def test_who_waits_for_a_task_is_woken_by_a_patch(store: Store) -> None:
    async def scene() -> None:
        opened = Opened(store, PoolConfig(min_tasks=1, fresh_wait_s=3600), expecting=True)
        await opened.admit(1)
        await opened.row(0)
        waiting = asyncio.create_task(opened.row(1))
        await asyncio.sleep(0)
        await opened.patch(1, case=1)
        assert (await asyncio.wait_for(waiting, GUARD)).source == "replay"

    asyncio.run(scene())


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(st.tuples(st.just("patch"), st.integers(0, 3)), st.tuples(st.just("serve"), st.integers(1, 3))),
        max_size=14,
    ),
    reopen=st.sets(st.integers(0, 13), max_size=4),
)
def test_every_patch_is_replayed_once_or_replaced_by_a_later_one_whatever_happens_between(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], reopen: set[int]
) -> None:
    store = Store(tmp_path_factory.mktemp("run"))

    async def scene() -> None:
        opened = Opened(store)
        await opened.admit(0, 1, 2, 3)
        await opened.rows(0, 1, 2, 3)
        expected: deque[tuple[int, int]] = deque()
        versions = dict.fromkeys(range(4), 1)
        for case, (step, number) in enumerate(steps):
            if case in reopen:
                opened = Opened(store)
            if step == "patch":
                await opened.patch(number, case, versions[number])
                versions[number] += 1
                expected = deque(entry for entry in expected if entry[0] != number)
                expected.append((number, versions[number]))
            for _ in range(number if step == "serve" else 0):
                row = await opened.row(opened.pool.positions)
                if expected:
                    number, version = expected.popleft()
                    assert (row.source, row.task_id, row.version) == ("replay", name(number), version)
                else:
                    assert row.source == "draw"
                    assert row.version == versions[int(row.task_id[:6])], "the latest version is drawn"
            assert opened.pool.replaying == len(expected)

    asyncio.run(scene())
    store.close()
