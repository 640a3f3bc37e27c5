"""Tasks by origin and content, and tasks that came from another run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from rri.errors import StoreError
from rri.store import Origin, ServedRow, Store
from tests.rri.store.evidence import admitted, numbered


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def draft(store: Store, number: int, origin: Origin | None = None) -> None:
    asyncio.run(store.add_draft(numbered(number), origin))


def test_ids_come_in_order_of_birth_each_once_whatever_became_of_the_task(store: Store) -> None:
    for number in (3, 1, 2):
        draft(store, number)
    asyncio.run(store.add_admission(admitted(numbered(1), numbered(1, 2), "repaired")))
    asyncio.run(store.add_admission(admitted(numbered(2), outcome="refused")))
    assert store.task_ids() == ["000003-abc", "000001-abc", "000002-abc"]


def test_an_origin_comes_back_as_it_was_kept_and_is_none_for_a_task_without_one(store: Store) -> None:
    origins = [Origin(guidance=2, memo=0, asked_positives=3, asked_negative=False), Origin(source="imported")]
    for number, origin in enumerate(origins):
        draft(store, number, origin)
    asyncio.run(store.add_admission(admitted(numbered(7))))
    assert [store.origin(f"00000{n}-abc") for n in (0, 1, 7)] == [*origins, None]
    assert store.origin_counts() == {"written": 1, "imported": 1}


def test_every_version_is_known_by_its_content_and_equal_content_by_its_first_task(store: Store) -> None:
    draft(store, 1)
    asyncio.run(store.add_admission(admitted(numbered(1), numbered(1, 2), "repaired")))
    twin = numbered(1).model_copy(update={"task_id": "twin"})
    asyncio.run(store.add_draft(twin))
    assert store.digests() == {numbered(1).digest: "000001-abc", numbered(1, 2).digest: "000001-abc"}


def test_where_one_task_was_served_is_told_apart(store: Store) -> None:
    rows = [ServedRow(n, f"t{n % 2}", 1, "draw") for n in range(5)]
    for row in rows:
        asyncio.run(store.add_served(row))
    assert store.served(task_id="t1") == [rows[1], rows[3]]
    assert store.served(2, task_id="t1") == [rows[3]]
    assert store.served(task_id="t") == []


def test_proposals_come_back_with_their_draw_in_order_of_number(store: Store) -> None:
    asyncio.run(store.add_proposals(2, ["b", "a"]))
    asyncio.run(store.add_proposals(5, ["c"]))
    assert store.proposals() == [(2, "b"), (2, "a"), (5, "c")]


# --- tasks of another run ------------------------------------------------------------------------------


def test_a_forked_task_is_servable_in_its_last_version_with_evidence_and_history(store: Store) -> None:
    versions = [numbered(1, v) for v in (1, 2, 3)]
    evidence = admitted(versions[0], versions[1], "repaired", delta_before=0.5, delta_after=-0.25)
    asyncio.run(store.add_forked([(evidence, versions)]))
    assert store.servable() == [("000001-abc", 3)]
    assert [(task_id, version) for _, task_id, version in store.pool_entries()] == [("000001-abc", 3)]
    assert store.versions("000001-abc") == versions
    assert store.admission("000001-abc") == evidence
    assert store.origin("000001-abc") == Origin(source="forked")
    assert store.drafts() == []


def test_forked_tasks_are_kept_all_or_none(store: Store) -> None:
    draft(store, 2)
    other = numbered(2, 1, 9.0)
    pairs = [(admitted(task), [task]) for task in (numbered(1), other)]
    with pytest.raises(StoreError, match="000002-abc version 1 is kept with other content"):
        asyncio.run(store.add_forked(pairs))
    assert store.servable() == []
    assert store.task_ids() == ["000002-abc"]


def test_forked_tasks_count_in_no_window_of_what_was_written_here(store: Store) -> None:
    """They were written and attacked elsewhere: shape controls and the memo's score look at this run's own tasks."""
    draft(store, 1, Origin(guidance=0, memo=0, asked_positives=2, asked_negative=True))
    own = admitted(numbered(1), numbered(1, 2), "repaired", delta_before=0.5, delta_after=0.0)
    asyncio.run(store.add_admission(own))
    asyncio.run(store.add_forked([(admitted(numbered(2), delta_before=0.25, delta_after=0.25), [numbered(2)])]))
    rows, earlier = store.origins(10)
    assert (len(rows), earlier) == (1, 0)
    assert store.probes_by_memo() == {}
    assert list(store.admissions(forked=False)) == [own]
    assert len(list(store.admissions())) == 2
