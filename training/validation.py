"""Validation: at every interval the policy answers tasks that it is never trained on (METHOD 6)."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments, set_seed

from rri.client import ServiceClient
from rri.errors import ServiceError, ServiceUnavailable
from rri.wire import GradedRow, RunInfo, ValidationSet
from training.generation import log_figure, prompt_ids_of, sampling, write_turn
from training.peers import Peers
from training.reasoning import Reasoning
from training.reward import answer_row
from training.seeding import seed_of
from training.settings import Schedule

__all__ = ["TEMPERATURE", "ValidationRounds", "share_of"]

log = logging.getLogger(__name__)

TEMPERATURE = 1.0
"""At which validation answers are sampled, whatever training does (METHOD 6)."""

Place = tuple[int, int]
"""Position in the validation set, and row within its group."""


def share_of(places: Sequence[Place], rank: int, ranks: int) -> tuple[list[Place], int]:
    """The places that one rank answers, and how many of them count.

    All ranks get equally many, because they must write equally often. What is missing for that is answered twice, and
    the second answer thrown away.
    """
    own = list(places[rank::ranks])
    size = -(-len(places) // ranks)
    return [*own, *places[:1] * (size - len(own))], len(own)


class ValidationRounds(TrainerCallback):
    """A round at the end of every k-th cycle and of the last one. `bind` it to its trainer before training.

    Where the service goes away in a round, training stops as it does when a report is not taken, and the next start
    begins with the round.

    Args:
        client: the service.
        info: the run.
        schedule: which updates make a cycle.
        peers: the other ranks.
        eos_token_ids: tokens that end an answer.
        reasoning: what the model thinks aloud, which is never judged.
    """

    def __init__(
        self,
        client: ServiceClient,
        info: RunInfo,
        schedule: Schedule,
        peers: Peers,
        eos_token_ids: Collection[int],
        reasoning: Reasoning,
    ) -> None:
        self.client = client
        self.info = info
        self.schedule = schedule
        self.peers = peers
        self.eos_token_ids = eos_token_ids
        self.reasoning = reasoning
        self.away: ServiceUnavailable | None = None
        """Why the latest round was not finished; the same on every rank."""
        self.figures: dict[str, float] = {}
        """Of the round that the latest cycle ended with; empty where it ended without one. The same on every rank."""
        self._trainer: Any = None

    def bind(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Make up for a round that an earlier start left unfinished.

        Raises:
            ServiceUnavailable: the service stayed away again.
        """
        if not self._due(args, state):
            return
        if self.schedule.cycle_of(state.global_step) - 1 in self._asked().validated:
            return
        self._round(args, state)
        if self.away is not None:
            raise self.away

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Raises:
        ServiceRefused: the service refuses the answers.
        """
        self.figures = {}
        if self._due(args, state):
            self._round(args, state)

    def _due(self, args: TrainingArguments, state: TrainerState) -> bool:
        """Whether a round belongs to the end of the updates done so far."""
        step, every = state.global_step, self.info.validate_every_cycles
        if not every or not step or step % self.schedule.updates_per_cycle:
            return False
        return self.schedule.cycle_of(step) % every == 0 or step == args.max_steps

    def _asked(self) -> ValidationSet:
        """What to answer. Where one rank is refused, all stop.

        Raises:
            ServiceError: the service does not say.
        """
        failure: ServiceError | None = None
        found = ValidationSet(rollouts_per_task=1, tasks=())
        try:
            found = self.client.validation()
        except ServiceError as error:
            failure = error
        self.peers.fail_together(failure)
        return found

    def _round(self, args: TrainingArguments, state: TrainerState) -> None:
        cycle = self.schedule.cycle_of(state.global_step) - 1
        try:
            graded, cut = self._graded(cycle, args)
        except ServiceUnavailable as error:
            self.away = error
            return
        self.away = None
        scores = [row.score for row in graded if row.score is not None]
        self.figures = {
            "validation/unscored_share": 1 - len(scores) / len(graded),
            "validation/truncated_share": cut / len(graded),
        }
        if scores:
            self.figures["validation/score"] = sum(scores) / len(scores)
        for name, value in self.figures.items():
            log_figure(self._trainer, name, value)
        if state.is_world_process_zero:
            log.info("validation after cycle %d: %s", cycle, self.figures)

    def _graded(self, cycle: int, args: TrainingArguments) -> tuple[list[GradedRow], int]:
        """The grades of all ranks' answers, and how many of these were cut short.

        Raises:
            ServiceError: on every rank alike.
        """
        asked = self._asked()
        places = [(p, row) for p in range(len(asked.tasks)) for row in range(asked.rollouts_per_task)]
        own, counted = share_of(places, args.process_index, args.world_size)
        answers = self._answers([[m.model_dump() for m in asked.tasks[p].prompt] for p, _ in own], cycle, args)
        rows = [
            answer_row(completion, ids, position, row, eos_token_ids=self.eos_token_ids, reasoning=self.reasoning)
            for (position, row), (completion, ids) in zip(own[:counted], answers, strict=False)
        ]
        graded: list[GradedRow] = []
        failure: ServiceError | None = None
        if rows:
            request = self.client.grade(cycle, rows, split="validation", timeout_s=self.info.grade_timeout_s)
            try:
                graded = list(asyncio.run(request).rows)
            except ServiceError as error:
                failure = error
        self.peers.fail_together(failure)
        shares = self.peers.all((graded, sum(not row.finished for row in rows)))
        return [row for share, _ in shares for row in share], sum(cut for _, cut in shares)

    def _answers(self, prompts: list[Any], cycle: int, args: TrainingArguments) -> list[tuple[Any, list[int]]]:
        """(completion, token ids) for each prompt, written in batches as large as those of training."""
        trainer = self._trainer
        size = args.per_device_train_batch_size * trainer.args.steps_per_generation
        # Below 0, so that no cycle of training has these seeds. The next cycle sets its own.
        set_seed(seed_of(args.seed, -1 - cycle, args.process_index))
        found: list[tuple[Any, list[int]]] = []
        trainer.model_wrapped.eval()
        try:
            with sampling(trainer, temperature=TEMPERATURE):
                for start in range(0, len(prompts), size):
                    found += self._written(prompts[start : start + size])
        finally:
            trainer.model_wrapped.train()
        return found

    def _written(self, prompts: list[Any]) -> list[tuple[Any, list[int]]]:
        trainer = self._trainer
        if trainer.rollout_func is not None:
            output = trainer.rollout_func(prompts, trainer)
            return list(zip(output["turns"], output["completion_ids"], strict=True))
        written = write_turn(trainer, prompt_ids_of(trainer, prompts))
        texts = trainer.processing_class.batch_decode(written, skip_special_tokens=True)
        return list(zip(texts, written, strict=True))
