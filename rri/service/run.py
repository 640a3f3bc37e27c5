"""One open run: the process that owns the store, the knowledge base, the budget and the models (DESIGN, seam 2)."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, Self

import signatures
from programs.writing import difficulty_feedback
from rri.cases import GuidanceVersion, MemoVersion
from rri.config import RunConfig
from rri.errors import ServiceError, ServiceRefused
from rri.knowledge import PassageIndex
from rri.lm import Gateway, Ledger, check_endpoints, open_gateway
from rri.pool import Pool
from rri.rundir import RunDir
from rri.service.assembly import Parts, first_texts
from rri.service.grading import RolloutGrader
from rri.service.loop import Loop
from rri.service.material import Material, solver_prompt
from rri.service.producer import Producer
from rri.service.search import PassageSearch
from rri.service.validation import Validation
from rri.store import Store
from rri.types import Message
from rri.wire import GradeRequest, GradeResponse, Health, ReportRequest, ReportResponse, RunInfo, ServedTask, Waiting
from signatures import prompt_digests

__all__ = ["OpenRun"]

HEARTBEAT_S = 30.0
"""How often an open run notes that it is open; a kill loses at most as much of its hours."""

Progress = Callable[[str], None]


class OpenRun:
    """Everything of a run that is open. All of its coroutines run on the gateway's loop."""

    def __init__(self, folder: RunDir, config: RunConfig, store: Store, gateway: Gateway, material: Material) -> None:
        self.folder = folder
        self.config = config
        self.store = store
        self.gateway = gateway
        self.material = material
        self._health = Health(status="starting")
        self.error: BaseException | None = None
        self._failed = asyncio.Event()
        self._producing: asyncio.Task[None] | None = None
        self._clock: asyncio.Task[None] | None = None
        self._looping: asyncio.Task[None] | None = None
        self.pool: Pool
        self.producer: Producer
        self.grading: RolloutGrader
        self.loop: Loop
        self.search: PassageSearch
        self.validation = Validation(config.validation, material.held_out, store, self._prompt)

    @classmethod
    def open(
        cls, folder: RunDir, config: RunConfig, material: Material, progress: Progress = lambda message: None
    ) -> Self:
        """Open store, models and knowledge base of a locked run directory.

        Raises:
            RriError: one of them cannot be opened.
        """
        store = Store(folder.path)
        ledger = Ledger(config.budget)
        ledger.restore(store.call_totals(), store.hours_open())
        gateway = None
        try:
            # Read before any model is asked. A run that goes on has its texts in the store.
            texts = None if store.guidance_versions() else first_texts(config)
            material.held_out.check_apart(store.trainable())
            with _Stage(store, "models", progress):
                gateway = open_gateway(
                    config,
                    ledger=ledger,
                    sink=store,
                    log_dir=folder.logs,
                    progress=progress,
                    say=partial(_tell, store, progress),
                )
                folder.add_start(
                    routes={role: route.as_manifest() for role, route in gateway.routes.items()},
                    prompts=prompt_digests(signatures.ALL),
                )
                progress("asking every endpoint once")
                gateway.loop.run(check_endpoints(gateway, config.roles_used))
            run = cls(folder, config, store, gateway, material)
            gateway.loop.run(run._assemble(texts, progress))
        except BaseException:
            if gateway is not None:
                gateway.close_sync()
            store.close()
            raise
        return run

    async def _assemble(self, texts: tuple[GuidanceVersion, MemoVersion] | None, progress: Progress) -> None:
        config, corpus, tokenizer = self.config, self.material.corpus, self.material.tokenizer
        progress(f"indexing {len(corpus.passages)} passages")
        with _Stage(self.store, "index"):
            index = await asyncio.to_thread(PassageIndex, corpus, self.folder.index)
        if texts is not None:
            await self.store.begin_texts(*texts)
        parts = Parts(
            config,
            self.store,
            self.gateway,
            corpus,
            index,
            self.folder.path,
            expecting=self._expecting,
            feedback=self._feedback,
            prompt_tokens=lambda m: tokenizer.count_prompt(self._prompt(m)),
            validation=self.validation,
        )
        self.pool, self.producer, self.grading, self.loop = parts.pool, parts.producer, parts.grading, parts.loop
        self.search = parts.search

    def _prompt(self, conversation: Sequence[Message]) -> list[Message]:
        return solver_prompt(self.config, conversation)

    def _feedback(self) -> str:
        settings = self.config.generation
        summary = self.store.score_summary(settings.difficulty_window)
        return difficulty_feedback(summary["mean_score"], summary["rollouts"], settings)

    def _expecting(self) -> bool:
        return self._producing is not None and not self._producing.done()

    # -- life ------------------------------------------------------------------

    async def start(self, *, serving: bool = True) -> None:
        """Begin admitting in the background and serving.

        Args:
            serving: whether a trainer will take tasks; where none will, admission does not wait for one.
        """
        self.producer.unbounded = not (serving and self.config.solver.cycles)
        self._health = Health(status="ok")
        self._clock = asyncio.create_task(self._watch_time())
        self._looping = asyncio.create_task(self._loop())
        if not self.producer.finished:
            self._producing = asyncio.create_task(self._produce())
            # Only now does nobody expect more tasks, which decides what waiting positions get.
            self._producing.add_done_callback(lambda _: self.pool.nudge())

    @property
    def health(self) -> Health:
        """Whether the run goes on. `paused`: calls wait for an endpoint that is away; nothing is lost meanwhile."""
        if self._health.status == "ok" and (why := self.gateway.paused):
            return Health(status="paused", reason=why)
        return self._health

    async def _watch_time(self) -> None:
        """Keep how long the run has been open, and end it at its limit of hours."""
        started = f"{time.time():.3f}"
        try:
            while True:
                await self.store.log("open", started)
                self.gateway.ledger.check()
                limit = self.config.budget.hours
                left = HEARTBEAT_S if limit is None else 3600 * (limit - self.gateway.ledger.hours) + 0.05
                await asyncio.sleep(min(HEARTBEAT_S, left))
        except Exception as error:  # noqa: BLE001  (background work must fail loudly, whatever fails)
            self.fail(error)

    async def _loop(self) -> None:
        try:
            await self.loop.run()
        except Exception as error:  # noqa: BLE001  (background work must fail loudly, whatever fails)
            self.fail(error)

    async def _produce(self) -> None:
        started = time.monotonic()
        try:
            await self.producer.run()
        except Exception as error:  # noqa: BLE001  (background work must fail loudly, whatever fails)
            self.fail(error)
        finally:
            await self.store.log("stage", "admission", seconds=time.monotonic() - started)

    def fail(self, error: BaseException) -> None:
        """Stop serving for good in this process; the reason is what clients and the owner see."""
        if self.error is None:
            self.error = error
            self._health = Health(status="failed", reason=str(error) or type(error).__name__)
            self.store.log_soon("ended", self._health.reason)
            self._failed.set()
            self.grading.cancel()
            self.pool.nudge()

    async def finished_admitting(self) -> None:
        """Wait until no more tasks will be admitted in this process: the target is reached, or as many tasks wait to
        be served as may.

        Raises:
            BaseException: what ended admission early.
        """
        self.producer.close()
        if self._producing is not None:
            await asyncio.wait([self._producing])
        if self.error is not None:
            raise self.error

    async def finished_looping(self) -> None:
        """Wait until the loop has worked off every reported cycle.

        Raises:
            BaseException: what ended it early.
        """
        waits = [asyncio.create_task(wait) for wait in (self.loop.caught_up(0), self._failed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.error is not None:
            raise self.error

    async def stop(self) -> None:
        """End background work. What is under way is dropped; everything reported is kept."""
        if self._health.status in ("starting", "ok"):
            self._health = Health(status="stopping")
        for job in filter(None, (self._producing, self._looping, self._clock)):
            job.cancel()
            await asyncio.wait([job])
        await self.grading.stop()

    def close(self) -> None:
        """Stop everything and give the files back."""
        self.gateway.loop.run(self.stop())
        self.gateway.close_sync()
        self.store.close()

    # -- what clients ask for ----------------------------------------------------

    def info(self) -> RunInfo:
        solver = self.config.solver
        return RunInfo(
            run_id=str(self.folder.manifest()["run_id"]),
            seed=self.config.seed,
            base_model=str(self.material.base_model),
            cycles=solver.cycles,
            tasks_per_cycle=solver.tasks_per_cycle,
            tasks_per_update=solver.tasks_per_update,
            rollouts_per_task=solver.rollouts_per_task,
            save_every_cycles=solver.save_every_cycles,
            judge_truncated=solver.judge_truncated,
            grade_timeout_s=solver.grade_timeout_s,
            serve_timeout_s=solver.serve_timeout_s,
            solver={
                "learning_rate": solver.learning_rate,
                "max_completion_length": solver.max_completion_tokens,
                **({"per_device_train_batch_size": solver.per_device_batch} if solver.per_device_batch else {}),
                **solver.trl,
            },
            max_prompt_tokens=solver.max_prompt_tokens,
            generation=solver.generation,
            lora=solver.lora,
            reasoning=solver.reasoning,
            retrieval=solver.retrieval,
            tools=solver.tools,
            validate_every_cycles=self.validation.every_cycles,
        )

    async def served(self, position: int, patience_s: float) -> ServedTask | Waiting:
        """Raises:
        ServiceRefused: the position lies before the run's first or past its last one.
        """
        last = self.config.solver.cycles * self.config.solver.tasks_per_cycle - 1
        if position < 0:
            raise ServiceRefused(f"position {position} is below 0, the first one")
        if position > last:
            raise ServiceRefused(
                f"position {position} lies past the run's last one, {last}", "Start a run with more solver.cycles"
            )
        with self.failing():
            if self.pool.row(position) is None and not await self.loop.caught_up(
                self.config.loop.max_backlog, patience_s
            ):
                return Waiting(waiting=f"{self.loop.backlog} cycles wait for the loop ({self.loop.doing})")
            row = await self.pool.served(position, patience_s)
        if isinstance(row, str):
            return Waiting(waiting=row)
        task = self.store.task(row.task_id, row.version)
        assert task is not None, f"served task {row.task_id} version {row.version} is not in the store"
        prompt = tuple(self._prompt(list(task.conversation)))
        return ServedTask(position=position, task_id=row.task_id, version=row.version, prompt=prompt)

    async def grade(self, request: GradeRequest) -> GradeResponse:
        """Grade rollouts; a judge that fails too often fails the run."""
        with self.failing():
            response = await self.grading.grade(request)
            if request.split == "validation":
                await self.validation.alarm()
        return response

    async def report(self, request: ReportRequest) -> ReportResponse:
        """Take in that a cycle is finished; the loop's work on it follows in the background."""
        with self.failing():
            report = await self.loop.report(request.cycle, request.step, request.metrics)
            alarm = await self.validation.alarm()
        return ReportResponse(report=report.id, backlog=self.loop.backlog, alarm=alarm)

    async def resume(self, cycle: int) -> int:
        """Rows of `cycle` and later are superseded, those still being graded are dropped; their number."""
        with self.failing():
            await self.grading.stop(from_cycle=cycle)
            superseded = await self.store.supersede(cycle, validation_from=self.validation.redo_from(cycle))
            self.pool.recount()
        return superseded

    @contextmanager
    def failing(self) -> Iterator[None]:
        """What goes wrong inside, other than a wrong request, fails the run."""
        try:
            yield
        except ServiceError:
            raise
        except Exception as error:
            self.fail(error)
            raise

    def stats(self) -> dict[str, Any]:
        """Counters for `rri status`, progress lines and `/metrics`."""
        producer, pool = self.producer, self.pool
        plan = producer.plan
        return {
            "health": self.health.model_dump(),
            "cycles": self.config.solver.cycles,
            "hours": self.gateway.ledger.hours,
            "admission": {
                "admitted": producer.admitted,
                "target": producer.target,
                "under_way": dict(producer.stages),
                "failures": producer.failures,
                "last_error": producer.last_error,
                **producer.figures.as_stats(),
            },
            "shape": {"negative_rate": plan.negative_rate, "saturated": plan.saturated, "warnings": plan.warnings},
            "pool": {
                "size": pool.size,
                "unserved": pool.unserved,
                "replay": pool.replaying,
                "evicted": pool.evicted,
                "positions": pool.positions,
            },
            "grading": {
                **self.store.score_summary(),
                "truncated": self.grading.truncated,
                "last_error": self.grading.last_error,
            },
            "loop": self.loop.stats(),
            "validation": self.validation.stats(),
            "search": self.search.stats(),
            "calls": {role: asdict(totals) for role, totals in self.gateway.ledger.by_role.items()},
        }


def _tell(store: Store, progress: Progress, message: str) -> None:
    """An endpoint went away or came back."""
    progress(message)
    store.log_soon("endpoint", message)


class _Stage:
    """Keeps how long a stage took, for the closing summary."""

    def __init__(self, store: Store, name: str, progress: Progress = lambda message: None) -> None:
        self._store, self._name = store, name
        progress(f"opening {name}")

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._store.log_sync("stage", self._name, seconds=time.monotonic() - self._started)
