"""Validation: tasks that the policy answers and nothing is trained on, kept apart from the pool (METHOD 6)."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rri.config import ValidationConfig
from rri.divergence import ValidationRound, divergence_alarm
from rri.errors import ConfigError, ServiceRefused, TaskFileError
from rri.rubric_rules import RubricLimits
from rri.store import Store, ValidationRow
from rri.taskfile import BroughtTask, RefusedLine, read_brought
from rri.tokens import SolverTokenizer
from rri.types import Message, Task, digest_of
from rri.wire import ValidationSet, ValidationTask

__all__ = [
    "NOTHING_HELD_OUT",
    "HeldOut",
    "Validation",
    "load_held_out",
    "read_held_out",
    "validation_history",
    "validation_stats",
]

ANY_LENGTH = RubricLimits(max_criteria_repaired=1000)
"""These rubrics are never repaired, so that a benchmark's long ones need no bound."""


def _asked(task: Task) -> str:
    """What a task asks. One with the same messages and another rubric would be trained on all the same."""
    return digest_of([message.model_dump() for message in task.conversation])


@dataclass(frozen=True, slots=True)
class HeldOut:
    """The validation tasks in the order of their file."""

    tasks: tuple[Task, ...] = ()

    def facts(self) -> dict[str, Any]:
        """What a resumed run must share with its start."""
        if not self.tasks:
            return {}
        return {"validation": {"tasks": len(self.tasks), "digest": digest_of([t.digest for t in self.tasks])}}

    def refuser(self) -> Callable[[Task], str]:
        """Says why a task must not be trained on: it asks what a validation task asks. Empty where it may be."""
        asked = {_asked(task): task.task_id for task in self.tasks}

        def why(task: Task) -> str:
            held_out = asked.get(_asked(task)) if asked else None
            return "" if held_out is None else f"it asks the same as validation task {held_out!r}"

        return why

    def check_apart(self, trainable: Iterable[Task]) -> None:
        """Raises:
        ConfigError: the pool holds, or held in an earlier version, what a validation task asks.
        """
        if not self.tasks:
            return
        why = self.refuser()
        clashes = [f"task {task.task_id}: {reason}" for task in trainable if (reason := why(task))]
        if clashes:
            raise ConfigError(
                f"validation.file: {len(clashes)} of its requests are in the pool ({'; '.join(clashes[:3])})",
                "Take them out of the validation file, or start a run without those tasks",
            )


NOTHING_HELD_OUT = HeldOut()


def load_held_out(
    config: ValidationConfig,
    tokenizer: SolverTokenizer,
    prompt: Callable[[Sequence[Message]], list[Message]],
    max_prompt_tokens: int,
) -> HeldOut:
    """`read_held_out`, every prompt also checked against the solver's.

    Args:
        config: names the file.
        tokenizer: the solver's.
        prompt: what the solver sees of a conversation.
        max_prompt_tokens: of the solver.

    Raises:
        TaskFileError: it cannot be read, or a task of it cannot be used.
    """

    def too_long(task: Task) -> str:
        length = tokenizer.count_prompt(prompt(task.conversation))
        over = length > max_prompt_tokens
        return f"its prompt has {length} tokens, the solver takes {max_prompt_tokens}" if over else ""

    return read_held_out(config, too_long)


def read_held_out(config: ValidationConfig, refuse: Callable[[Task], str] = lambda task: "") -> HeldOut:
    """Read and check the validation file; nothing when the config names none.

    Args:
        config: names the file.
        refuse: why a task cannot be used; empty where it can.

    Raises:
        TaskFileError: it cannot be read, or a task of it cannot be used.
    """
    if not config.file:
        return NOTHING_HELD_OUT
    tasks: list[Task] = []
    problems: list[str] = []
    lines: dict[str, int] = {}
    try:
        rows = read_brought(Path(config.file), ANY_LENGTH)
    except TaskFileError as error:
        raise TaskFileError(f"validation.file: {error.what}", error.fix) from None
    for row in rows:
        if isinstance(row, RefusedLine):
            problems.append(f"line {row.line}: {row.why}")
            continue
        if why := refuse(row.task):
            problems.append(f"line {row.line}: {why}")
        problems += _repeated(row, lines)
        tasks.append(row.task)
    if problems:
        n, shown = len(problems), "; ".join(problems[:3])
        raise TaskFileError(
            f"validation.file {config.file}: {n} {'line' if n == 1 else 'lines'} cannot be used ({shown})",
            "Correct or remove them",
        )
    return HeldOut(tuple(tasks))


def _repeated(row: BroughtTask, lines: dict[str, int]) -> list[str]:
    """Ids must be told apart, and a task that stands there twice would count twice. Notes the line of each."""
    found = []
    for what, key in (("this task", row.task.digest), (f"id {row.task.task_id!r}", f"id {row.task.task_id}")):
        if lines.setdefault(key, row.line) != row.line:
            found.append(f"line {row.line}: line {lines[key]} has {what} too")
    return found[:1]


def complete_rounds(store: Store, config: ValidationConfig, tasks: int) -> list[ValidationRow]:
    """The rounds of which every rollout is graded, in order; `tasks` is the number of validation tasks."""
    size = tasks * config.rollouts_per_task
    return [row for row in store.validation_rows() if row.rollouts >= size] if size else []


def beside_training(store: Store, rows: Sequence[ValidationRow]) -> list[ValidationRound]:
    """These rounds, each with the mean training score of the cycles since the one before it."""
    trained = store.scored_by_cycle()
    rounds: list[ValidationRound] = []
    since = -1
    for row in rows:
        window = [(scored, mean) for cycle, scored, mean in trained if since < cycle <= row.cycle]
        rollouts = sum(scored for scored, _ in window)
        train = sum(scored * mean for scored, mean in window) / rollouts if rollouts else None
        rounds.append(ValidationRound(cycle=row.cycle, train=train, validation=row.mean))
        since = row.cycle
    return rounds


def alarm_of(config: ValidationConfig, rounds: Sequence[ValidationRound]) -> str:
    """The alarm as of the latest of these rounds; empty while there is none."""
    return divergence_alarm(rounds, alarm_rounds=config.alarm_rounds, tolerance=config.alarm_tolerance)


def validation_stats(store: Store, config: ValidationConfig, tasks: int) -> dict[str, Any]:
    """The latest complete round, and the alarm, for `rri status` and `/metrics`; `tasks` is the number of tasks."""
    rows = complete_rounds(store, config, tasks)
    return _latest(tasks, rows, alarm_of(config, beside_training(store, rows)))


def validation_history(store: Store, config: ValidationConfig, tasks: int) -> dict[str, Any]:
    """`validation_stats`, and under `history` every complete round in order: `cycle`, `rollouts`, mean `score`, mean
    training score `train` of the cycles since the round before, and the `alarm` as it stood after the round.
    """
    rows = complete_rounds(store, config, tasks)
    rounds = beside_training(store, rows)
    history: list[dict[str, Any]] = [
        {
            "cycle": row.cycle,
            "rollouts": row.rollouts,
            "score": row.mean,
            "train": rounds[i].train,
            "alarm": alarm_of(config, rounds[: i + 1]),
        }
        for i, row in enumerate(rows)
    ]
    return {**_latest(tasks, rows, history[-1]["alarm"] if history else ""), "history": history}


def _latest(tasks: int, rows: Sequence[ValidationRow], alarm: str) -> dict[str, Any]:
    last = rows[-1] if rows else None
    return {
        "tasks": tasks,
        "rounds": len(rows),
        "cycle": last.cycle if last else None,
        "score": last.mean if last else None,
        "unscored_share": 1 - last.scored / last.rollouts if last else None,
        "truncated_share": last.truncated / last.rollouts if last else None,
        "alarm": alarm,
    }


class Validation:
    """The rounds of one run: what is served and graded, and whether the alarm is up. Lives on the service's loop.

    Args:
        config: rollouts of a task, and when the alarm is raised.
        held_out: the tasks.
        store: where graded rollouts and alarms are kept.
        prompt: what the solver sees of a conversation.
    """

    def __init__(
        self,
        config: ValidationConfig,
        held_out: HeldOut,
        store: Store,
        prompt: Callable[[Sequence[Message]], list[Message]],
    ) -> None:
        self.config = config
        self.held_out = held_out
        self.store = store
        self._prompt = prompt
        self._telling = asyncio.Lock()

    @property
    def every_cycles(self) -> int:
        """The interval of rounds; 0 where there is nothing to validate on."""
        return self.config.every_cycles if self.held_out.tasks else 0

    def served(self) -> ValidationSet:
        tasks = tuple(
            ValidationTask(task_id=task.task_id, prompt=tuple(self._prompt(task.conversation)))
            for task in self.held_out.tasks
        )
        validated = tuple(row.cycle for row in self._complete())
        return ValidationSet(rollouts_per_task=self.config.rollouts_per_task, tasks=tasks, validated=validated)

    def task(self, position: int, row: int) -> Task:
        """The task that a validation rollout answers.

        Raises:
            ServiceRefused: there is no such place.
        """
        tasks, rollouts = self.held_out.tasks, self.config.rollouts_per_task
        if position >= len(tasks) or row >= rollouts:
            raise ServiceRefused(
                f"validation has no position {position}, row {row}: it has {len(tasks)} tasks of {rollouts} rollouts",
                "Ask for /v1/validation first",
            )
        return tasks[position]

    def redo_from(self, cycle: int) -> int:
        """From which cycle on rounds no longer count when training resumes at `cycle`: the round that is due just then
        is begun anew where it was not completed.
        """
        begun = {row.cycle for row in self.store.validation_rows()} - {row.cycle for row in self._complete()}
        return cycle - 1 if cycle - 1 in begun else cycle

    async def alarm(self) -> str:
        """The alarm as of the latest complete round; empty while there is none. Each is kept once as an event."""
        async with self._telling:
            alarm = alarm_of(self.config, beside_training(self.store, self._complete()))
            if alarm and alarm not in [message for _, message, _ in self.store.events("validation_alarm")]:
                await self.store.log("validation_alarm", alarm)
        return alarm

    def _complete(self) -> list[ValidationRow]:
        return complete_rounds(self.store, self.config, len(self.held_out.tasks))

    def stats(self) -> dict[str, Any]:
        """`validation_stats` of the run."""
        return validation_stats(self.store, self.config, len(self.held_out.tasks))
