"""How the parts of an open run are put together from its config, store, models and knowledge base."""

from collections.abc import Callable
from pathlib import Path

import yaml
from pydantic import ValidationError

from programs.roles import Roles, guidance_limits
from programs.writing import TaskWriter
from rri.cases import GuidanceVersion, MemoVersion
from rri.config import RunConfig
from rri.errors import ConfigError
from rri.guidance_rules import check_guidance, check_memo
from rri.knowledge import Corpus, PassageIndex
from rri.lm import Gateway
from rri.pool import Pool
from rri.service.evolving import Evolver
from rri.service.grading import RolloutGrader
from rri.service.loop import Loop
from rri.service.producer import GuidedWriter, Producer
from rri.service.search import PassageSearch
from rri.service.validation import Validation
from rri.store import Store
from rri.types import Frozen, Message

__all__ = ["Parts", "first_texts"]

ROUNDS = "rounds"
"""Folder of the run directory with one folder for each evolution round."""


class StartTexts(Frozen):
    """Content of `evolution.start`: the guidance and memo that a run begins with."""

    guidance_a: str = ""
    guidance_b: str = ""
    memo: str = ""


def first_texts(config: RunConfig) -> tuple[GuidanceVersion, MemoVersion]:
    """Version 0 of guidance and memo: empty, or from the file that the config names.

    Raises:
        ConfigError: the file cannot be read, or a text breaks the rules that evolved ones obey.
    """
    path = config.evolution.start
    if not path:
        return GuidanceVersion(version=0), MemoVersion(version=0)
    try:
        texts = StartTexts.model_validate(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
        why = " ".join(str(error).split())
        fix = "Give a YAML file with guidance_a, guidance_b and memo"
        raise ConfigError(f"evolution.start: {path}: {why}", fix) from None
    limits = guidance_limits(config)
    words, chars = limits.guidance_words, limits.memo_chars
    problems = [f"guidance_a: {p}" for p in check_guidance(texts.guidance_a, words) if texts.guidance_a]
    problems += [f"guidance_b: {p}" for p in check_guidance(texts.guidance_b, words) if texts.guidance_b]
    problems += [f"memo: {p}" for p in check_memo(texts.memo, chars) if texts.memo]
    if problems:
        raise ConfigError(f"evolution.start: {path}: {'; '.join(problems)}", "Correct the text")
    summary = f"from {path}"
    guidance = GuidanceVersion(version=0, guidance_a=texts.guidance_a, guidance_b=texts.guidance_b, summary=summary)
    return guidance, MemoVersion(version=0, memo=texts.memo, summary=summary)


class Parts:
    """Pool, producer, grader, loop and search of a run, each with its collaborators. Made on the gateway's loop.

    Args:
        config, store, gateway, corpus, index: what they are made from.
        folder: the run directory.
        expecting: whether more tasks will still be admitted.
        feedback: the current difficulty feedback for the generator.
        prompt_tokens: length of a conversation in the solver's tokens, standing instructions included.
        validation: the tasks that are kept apart.
    """

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        gateway: Gateway,
        corpus: Corpus,
        index: PassageIndex,
        folder: Path,
        *,
        expecting: Callable[[], bool],
        feedback: Callable[[], str],
        prompt_tokens: Callable[[list[Message]], int],
        validation: Validation,
    ) -> None:
        self.config = config
        self.roles = Roles.bind(config, gateway)
        self._corpus, self._index, self._feedback = corpus, index, feedback
        self.pool = Pool(store, config.seed, config.pool, expecting, lambda: self.producer.nudge())
        evolver = Evolver(config, store, self.roles.evolution(), self.roles.memo(), folder / ROUNDS, self._put)
        self.producer = Producer(
            config,
            self._writer(evolver.guidance, evolver.memo),
            self.roles.admitter(),
            store,
            self.pool,
            prompt_tokens,
            validation.held_out.refuser(),
        )
        self.grading = RolloutGrader(
            self.roles.grader,
            store,
            self.pool,
            config.grading,
            judge_truncated=config.solver.judge_truncated,
            rollouts_per_task=config.solver.rollouts_per_task,
            floor_wait_s=config.solver.grade_timeout_s / 2,
            validation=validation,
        )
        summarizer = self.roles.summarizer if config.solver.retrieval else None
        self.search = PassageSearch(index, summarizer, store, config.solver.tools.timeout_s)
        self.loop = Loop(config, store, self.pool, self.roles.finder(), self.roles.patcher(), evolver)

    def _put(self, guidance: GuidanceVersion, memo: MemoVersion) -> None:
        """Tasks are written under these texts from now on."""
        self.producer.writer = self._writer(guidance, memo)

    def _writer(self, guidance: GuidanceVersion, memo: MemoVersion) -> GuidedWriter:
        config = self.config
        proposer, generator = self.roles.guided(guidance, memo)
        writer = TaskWriter(
            proposer,
            generator,
            self._index,
            self._corpus.passages,
            config.domain,
            config.generation,
            config.seed,
            self._feedback,
        )
        return GuidedWriter(writer, guidance.version, memo.version)
