"""Background admission: how far ahead, how many repairs at once, what is counted, and going on after a restart."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rri.cases import GuidanceVersion, MemoVersion
from rri.config import RunConfig
from rri.errors import BudgetExhausted, ModelError
from rri.evidence import Admission
from rri.store import Origin
from rri.testing import ChatRequest, Fault, ScriptedServer, hang, status
from rri.types import Message
from tests.rigs import make_task
from tests.rri.service.producing import Shop, producing

GUARD_S = 20
UNPROBED: dict[str, Any] = {name: {"enabled": False} for name in ("admission", "memo", "evolution", "patches")}
ONE: dict[str, Any] = {"pool": {"min_tasks": 1}}
DOWN = status(400)


def until(shop: Shop, ready: Callable[[], bool]) -> None:
    """Let the producer work until `ready`, then stop it where it is, as a kill does."""

    async def scene() -> None:
        job = asyncio.create_task(shop.producer.run())
        async with asyncio.timeout(GUARD_S):
            while not ready():
                assert not job.done(), job
                await asyncio.sleep(0)
        job.cancel()
        await asyncio.wait([job])

    shop.gateway.loop.run(scene())


def settled(shop: Shop) -> bool:
    """Whether nothing is under way."""
    return shop.producer.under_way == 0


# --- how far -----------------------------------------------------------------------------------------


def test_it_admits_exactly_as_many_as_asked_for_and_ends(tmp_path: Path) -> None:
    with producing(tmp_path, generation={"tasks": 7, "concurrency": 5}) as shop:
        shop.run()
        assert shop.producer.admitted == shop.pool.size == 7
        assert shop.producer.finished
        assert (shop.producer.under_way, set(shop.producer.stages.values())) == (0, {0})
        assert len(shop.store.task_ids()) == 7, "none was written in vain"


def test_it_stops_at_the_limit_ahead_and_goes_on_by_one_for_each_task_that_is_served(tmp_path: Path) -> None:
    pool = {"ahead": 3, "min_tasks": 1}
    with producing(tmp_path, pool=pool, generation={"tasks": 8, "concurrency": 8}, **UNPROBED) as shop:
        seen: list[tuple[int, int]] = []

        async def scene() -> None:
            job = asyncio.create_task(shop.producer.run())
            async with asyncio.timeout(GUARD_S):
                for position in range(8):
                    await shop.pool.served(position, GUARD_S)
                    while not settled(shop):
                        await asyncio.sleep(0)
                    seen.append((shop.pool.unserved, shop.producer.admitted))
                await job

        shop.gateway.loop.run(scene())
        assert seen == [(min(3, 7 - position), min(8, 4 + position)) for position in range(8)]


def test_once_nobody_takes_tasks_any_more_it_ends_at_the_limit_ahead(tmp_path: Path) -> None:
    pool = {"ahead": 3, "min_tasks": 1}
    with producing(tmp_path, pool=pool, generation={"tasks": 8, "concurrency": 8}, **UNPROBED) as shop:

        async def scene() -> None:
            job = asyncio.create_task(shop.producer.run())
            async with asyncio.timeout(GUARD_S):
                await shop.pool.served(0, GUARD_S)
                shop.producer.close()
                await job

        shop.gateway.loop.run(scene())
        assert (shop.pool.unserved, shop.producer.admitted, shop.producer.finished) == (3, 4, False)


def test_where_nobody_will_ever_take_a_task_there_is_no_limit_ahead(tmp_path: Path) -> None:
    with producing(tmp_path, pool={"ahead": 2, "min_tasks": 1}, generation={"tasks": 8}, **UNPROBED) as shop:
        shop.producer.unbounded = True
        shop.run()
        assert (shop.pool.unserved, shop.producer.finished) == (8, True)


def test_at_most_48_repairs_run_at_once_and_none_is_skipped(tmp_path: Path) -> None:
    """The other tasks wait in a queue until the first ones are through."""
    most = RunConfig.model_fields["admission"].default.concurrency
    assert most == 48
    held = [True]

    def fault(request: ChatRequest) -> Fault | None:
        return hang() if held and request.model == "farmer" else None

    generation = {"tasks": most + 4, "concurrency": most + 4, "requests_per_call": 12}
    # Time enough to see them all, and a second one when the first attack was held.
    endpoints = {"main": {"timeout_s": 120, "concurrency": 200}}
    admission = {"votes": 1}
    with producing(tmp_path, fault=fault, generation=generation, endpoints=endpoints, admission=admission) as shop:

        def full() -> bool:
            return shop.producer.stages == {"writing": 0, "in repair": most, "queued": 4}

        until(shop, full)
        assert shop.server.count("farmer") == most
        assert len(shop.store.drafts()) == most + 4
        held.clear()
        shop.open()
        shop.run()
        assert shop.store.admission_counts() == {"repaired": most + 4}
        assert shop.store.drafts() == []


# --- restarts ----------------------------------------------------------------------------------------


def test_drafts_of_an_earlier_start_are_admitted_before_anything_is_written(tmp_path: Path) -> None:
    held = [True]
    fault: Callable[[ChatRequest], Fault | None] = (  # noqa: E731
        lambda r: hang() if held and r.model == "farmer" else None
    )
    with producing(tmp_path, fault=fault, generation={"tasks": 4, "concurrency": 4}) as shop:
        until(shop, lambda: shop.producer.stages["in repair"] == 4)
        drafts = [task.task_id for task in shop.store.drafts()]
        written = shop.server.count("generator")
        held.clear()
        shop.open()
        shop.run()
        assert shop.server.count("generator") == written
        assert sorted(task_id for _, task_id, _ in shop.store.pool_entries()) == sorted(drafts)


def test_more_drafts_than_are_wanted_are_left_alone(tmp_path: Path) -> None:
    with producing(tmp_path, generation={"tasks": 2}, **UNPROBED) as shop:
        for number in range(3):
            shop.gateway.loop.run(shop.store.add_draft(make_task(task_id=f"{number:06}-abc")))
        shop.run()
        assert [task_id for _, task_id, _ in shop.store.pool_entries()] == ["000000-abc", "000001-abc"]


def test_figures_and_shapes_survive_a_restart(tmp_path: Path) -> None:
    with producing(tmp_path, generation={"tasks": 5}) as shop:
        shop.run()
        figures, plan = shop.producer.figures.as_stats(), shop.producer.plan
        assert figures.pop("outcomes") == {"repaired": 5}
        assert figures["measured"] == 5 and figures["delta_after"] < figures["delta_before"]
        shop.open()
        again = shop.producer.figures.as_stats()
        assert again.pop("outcomes") == {"repaired": 5}
        assert again == pytest.approx(figures)
        assert shop.producer.plan == plan
        assert shop.producer.finished


def test_requests_are_numbered_on(tmp_path: Path) -> None:
    """A number names a task; no restart gives it to another one."""
    with producing(tmp_path, generation={"tasks": 3, "requests_per_call": 5}, **UNPROBED) as shop:
        shop.run()
        drawn = shop.store.last_draw()
        shop.open()
        shop.producer.config = shop.config.model_copy(
            update={"generation": shop.config.generation.model_copy(update={"tasks": 5})}
        )
        shop.run()
        numbers = [int(task_id.partition("-")[0]) for task_id in shop.store.task_ids()]
        assert numbers == sorted(set(numbers)) and len(numbers) == 5
        assert shop.store.last_draw() > drawn


# --- what it notes -----------------------------------------------------------------------------------


def test_a_task_notes_what_it_was_written_under_and_what_was_asked(tmp_path: Path) -> None:
    with producing(tmp_path, generation={"tasks": 1, "negative_share": 1.0}, **ONE, **UNPROBED) as shop:
        guidance = GuidanceVersion(version=3, guidance_a="Ask nurses.", guidance_b="State doses.")
        shop.producer.writer = shop.writer(guidance, MemoVersion(version=2, memo="Do not name topics."))
        shop.run()
        (task_id,) = shop.store.task_ids()
        origin = shop.store.origin(task_id)
        assert origin is not None
        assert (origin.source, origin.guidance, origin.memo) == ("written", 3, 2)
        asked = shop.server.of("generator")[0]
        assert origin == Origin("written", 3, 2, int(asked.block("positives")), True)
        assert "State doses." in asked.messages[0]["content"] and "Do not name topics." in asked.messages[0]["content"]
        proposed = shop.server.of("proposer")[0].messages[0]["content"]
        assert "Ask nurses." in proposed and "Do not name topics." not in proposed


def test_texts_put_into_force_hold_for_the_next_task_and_not_for_one_that_is_being_written(tmp_path: Path) -> None:
    shops: list[Shop] = []

    def fault(request: ChatRequest) -> Fault | None:
        if request.model == "generator" and request.number == 0:
            shops[0].producer.writer = shops[0].writer(GuidanceVersion(version=1, guidance_b="State doses."))
        return None

    with producing(tmp_path, fault=fault, generation={"tasks": 2, "concurrency": 1}, **UNPROBED) as shop:
        shops.append(shop)
        shop.run()
        origins = [shop.store.origin(task_id) for task_id in shop.store.task_ids()]
        assert [o.guidance for o in origins if o] == [0, 1]
        told = ["State doses." in r.messages[0]["content"] for r in shop.server.of("generator")]
        assert told == [False, True]


# --- refusals ----------------------------------------------------------------------------------------


def test_a_task_longer_than_the_solvers_prompt_is_refused_unattacked_and_replaced(tmp_path: Path) -> None:
    def tokens(messages: list[Message]) -> int:
        return 497 if "Request 0-0" in messages[-1].content else 496

    with producing(tmp_path, tokens=tokens, generation={"tasks": 2, "concurrency": 1}) as shop:
        shop.run()
        outcomes = shop.store.admission_counts()
        assert outcomes == {"refused": 1, "repaired": 2}
        (refused,) = [a for a in shop.store.admissions() if a.outcome == "refused"]
        assert refused.why == "its prompt has 497 tokens, the solver takes 496"
        assert refused.probe is None
        assert shop.pool.size == 2
        assert shop.producer.failures == 1
        assert "was refused" in shop.producer.last_error


def test_a_rewrite_that_outgrows_the_prompt_gives_way_to_the_task_as_it_was_written(tmp_path: Path) -> None:
    def tokens(messages: list[Message]) -> int:
        return 600 if "State each value." in messages[-1].content else 10

    with producing(tmp_path, tokens=tokens, generation={"tasks": 1}, **ONE) as shop:
        shop.run()
        (admission,) = shop.store.admissions()
        assert admission.outcome == "kept"
        assert admission.task == admission.original
        assert admission.delta_after == admission.delta_before
        assert "the adopted rewrite cannot be used: its prompt has 600 tokens, the solver takes 496" in admission.why
        assert [v.version for v in shop.store.versions(admission.task.task_id)] == [1]
        assert shop.pool.version(admission.task.task_id) == 1


# --- failures ----------------------------------------------------------------------------------------


def test_failures_in_a_row_end_it_with_the_reason_and_not_before(tmp_path: Path) -> None:
    """The default is six. One task that is admitted starts the count anew."""
    assert RunConfig.model_fields["generation"].default.failures_in_a_row == 6

    def fault(request: ChatRequest) -> Fault | None:
        return None if request.model != "generator" or request.number == 5 else DOWN

    with producing(tmp_path, fault=fault, generation={"tasks": 9, "concurrency": 1}, **UNPROBED) as shop:
        with pytest.raises(ModelError, match="6 tasks in a row failed; the last one: role generator"):
            shop.run()
        assert shop.producer.failures == 11
        assert shop.producer.admitted == 1
        assert len(shop.store.events("write_failed")) == 11


def test_a_proposer_that_fails_is_a_failure_like_any_other(tmp_path: Path) -> None:
    with producing(tmp_path, fault=lambda r: DOWN if r.model == "proposer" else None) as shop:
        with pytest.raises(ModelError, match="6 tasks in a row failed; the last one: role proposer"):
            shop.run()
        assert shop.store.task_ids() == []


def test_attacks_that_fail_admit_their_tasks_and_are_counted(tmp_path: Path) -> None:
    generation = {"tasks": 8, "concurrency": 1, "failures_in_a_row": 3}
    with producing(tmp_path, fault=lambda r: DOWN if r.model == "farmer" else None, generation=generation) as shop:
        with pytest.raises(ModelError, match="3 tasks in a row failed; the last one: attack on"):
            shop.run()
        admitted = shop.store.admission_counts()
        assert set(admitted) == {"unmeasured"} and admitted["unmeasured"] >= 3
        assert len(shop.store.events("attack_failed")) >= 3
        shop.open()  # the failure that ends the run may cancel an admission between the store and the pool
        assert shop.pool.size == admitted["unmeasured"], "beaten or not, every task enters the pool"


def test_an_exhausted_budget_ends_it_at_once_and_is_no_failure(tmp_path: Path) -> None:
    with producing(tmp_path, budget={"calls": 20}) as shop:
        with pytest.raises(BudgetExhausted):
            shop.run()
        assert shop.producer.failures == 0


def test_tasks_that_came_from_elsewhere_count_towards_the_target(tmp_path: Path) -> None:
    with producing(tmp_path, generation={"tasks": 3}, **UNPROBED) as shop:
        for number in range(2):
            task = make_task(task_id=f"x{number}")
            forked = [(Admission(original=task, task=task, outcome="passed"), [task])]
            shop.gateway.loop.run(shop.store.add_forked(forked))
        shop.open()
        shop.run()
        assert shop.server.count("generator") == 1
        assert shop.pool.size == 3


def test_the_scripted_server_saw_no_more_than_was_asked(tmp_path: Path) -> None:
    """Each task is proposed, written and attacked once: nothing is paid for twice."""
    with producing(tmp_path, generation={"tasks": 4, "requests_per_call": 4, "concurrency": 2}) as shop:
        shop.run()
        server: ScriptedServer = shop.server
        assert (server.count("proposer"), server.count("generator"), server.count("rewriter")) == (1, 4, 4)
        assert server.count("farmer") == server.count("honest") == 8
