"""How large a role's calls are: every prompt is rendered from its signature with typical fields, and measured.

Texts are cut from real passages, so that their compressed size on disk is real too. A reply is typical output of the
role in the form in which the adapter reads it.
"""

import json
import zlib
from collections.abc import Sequence
from functools import cache
from itertools import islice
from statistics import fmean
from typing import Any, NamedTuple, get_args

from programs.analyst import GAP_WORDS, Analyst
from programs.farmer import Farmer
from programs.generator import Generator
from programs.honest import Honest
from programs.judge import judge_fields, judge_signature
from programs.memo_optimizer import MemoOptimizer
from programs.meta_optimizer import MetaOptimizer
from programs.minter import WHY_WORDS, Minter
from programs.proposer import Proposer
from programs.referee import NOTES_WORDS, Referee
from programs.rewriter import Rewriter
from programs.role import RoleModule
from programs.summarizer import Summarizer
from programs.writing import difficulty_feedback
from rri.assumptions import Assumptions
from rri.config import RunConfig
from rri.estimate import Kind, admitted_by, criteria_of
from rri.guidance_rules import GuidanceLimits
from rri.knowledge import load_corpus
from rri.lm.adapter import render
from rri.types import Criterion, Grade, Labels, Message, Reference, Rubric, Task, Verdict
from rri.vocabulary import EXPLOIT_LABELS
from signatures.generator import DraftCriterion
from signatures.memo_optimizer import PastMemo
from signatures.meta_optimizer import PastGuidance
from signatures.minter import SeparatingCriterion
from signatures.proposer import WantedRequest
from signatures.referee import LETTERS

__all__ = ["Call", "CallSize", "Typical", "measure_calls"]

CHARS_PER_WORD = 6.0
ROW_BYTES = 160
"""A kept call's row without prompt and reply."""
SENTENCE_CHARS = 120


class CallSize(NamedTuple):
    """Characters of a call's prompt and reply, and bytes of the row that keeps it, compressed."""

    prompt_chars: float
    reply_chars: float
    kept_bytes: float

    @classmethod
    def of(cls, messages: Sequence[dict[str, str]], reply: str) -> "CallSize":
        sent = zlib.compress(json.dumps(list(messages)).encode(), 1)
        came = zlib.compress(reply.encode(), 1)
        return cls(sum(len(m["content"]) for m in messages), len(reply), len(sent) + len(came) + ROW_BYTES)


class Call(NamedTuple):
    """One typical call: what is rendered, and what comes back."""

    signature: Any
    fields: dict[str, Any]
    reply: dict[str, Any]

    def size(self) -> CallSize:
        # As a demonstration, a reply is rendered in the very form in which it must come back.
        shown = {**dict.fromkeys(self.signature.input_fields, ""), **self.reply}
        system, _, reply, asked = render(self.signature, [shown], self.fields)
        return CallSize.of([system, asked], reply["content"])


class Prose:
    """Running text of a wanted length, each piece from where the last one ended."""

    def __init__(self, passages: Sequence[Reference]) -> None:
        self._text = " ".join(p.text for p in passages)
        self._at = 0

    def take(self, chars: float) -> str:
        length = max(1, round(chars))
        start, self._at = self._at, (self._at + length) % len(self._text)
        repeated = self._text * (2 + length // len(self._text))
        return repeated[start : start + length]


@cache
def _starter() -> tuple[Reference, ...]:
    return load_corpus("starter").passages


class Typical:
    """Typical calls of a run, one for each size that `rri.estimate` counts.

    Args:
        config: the run's config.
        assumptions: lengths that no config says.
        passages: the run's corpus; None where it is not at hand.
    """

    def __init__(
        self, config: RunConfig, assumptions: Assumptions, passages: Sequence[Reference] | None = None
    ) -> None:
        self.config = config
        self.a = assumptions
        self.passages = list(passages or _starter())
        self.passage_chars = fmean(len(p.text) for p in self.passages) if passages else assumptions.passage_chars
        self.prose = Prose(self.passages)
        self.criteria = criteria_of(config, assumptions)
        self.rounds = config.solver.cycles // config.evolution.every_cycles

    # -- parts -------------------------------------------------------------------

    def answer_chars(self, kind: str) -> float:
        """Length of an exploit, an honest answer or a rollout, within its token limit."""
        config, a = self.config, self.a
        if kind == "rollout":
            return min(a.answer_chars, config.solver.max_completion_tokens * a.chars_per_token)
        wanted = a.exploit_share * config.admission.max_exploit_chars if kind == "farmer" else a.answer_chars
        limit = config.roles["farmer" if kind == "farmer" else "honest"].max_tokens
        return min(wanted, limit * a.chars_per_token)

    def _words(self, words: float) -> str:
        return self.prose.take(words * CHARS_PER_WORD)

    def _sentence(self) -> str:
        return self.prose.take(SENTENCE_CHARS)

    def _criterion(self) -> str:
        return self.prose.take(self.a.criterion_chars)

    def _references(self, wanted: int) -> list[Reference]:
        return [
            p.model_copy(update={"text": self.prose.take(self.passage_chars)}) for p in islice(self.passages, wanted)
        ]

    def _task_text(self) -> str:
        return self.prose.take(min(self.a.task_chars, self.config.solver.max_prompt_tokens * self.a.chars_per_token))

    def task(self, criteria: float) -> Task:
        """A task with the nearest whole number of criteria."""
        rubric = [Criterion(text=self._criterion(), points=8) for _ in range(max(1, round(criteria)))]
        return Task(
            task_id="000123-0a1b2c3d",
            conversation=(Message(role="user", content=self._task_text()),),
            rubric=Rubric(criteria=tuple(rubric)),
            references=tuple(self._references(self.config.generation.passages_per_task)),
            labels=Labels(use_case=self.config.domain.use_cases[0].name, specialty="specialty", difficulty="advanced"),
        )

    def grade(self, task: Task) -> Grade:
        """A grade of the task without the votes' reasons."""
        return Grade(verdicts=(Verdict(outcome="met"),) * len(task.rubric.criteria), score=0.567, raw=0.567)

    def _drafts(self, criteria: float) -> list[DraftCriterion]:
        return [DraftCriterion(text=self._criterion(), points=8) for _ in range(max(1, round(criteria)))]

    def guidance(self) -> str:
        """A guidance block as it is asked for; empty where none is written."""
        return self._words(self.a.guidance_share * self.config.evolution.guidance_words) if self.rounds else ""

    def memo(self) -> str:
        """The exploit memo as it is asked for; empty where none is written."""
        wanted = self.config.memo.enabled and self.rounds
        return self.prose.take(self.a.guidance_share * self.config.memo.asked_chars) if wanted else ""

    def _history(self, most: int) -> range:
        """Earlier versions that an evolution round sees, on average over the run."""
        return range(round(fmean(min(most, i) for i in range(self.rounds))) if self.rounds else 0)

    # -- generation and admission ------------------------------------------------

    def proposer(self, guidance: str = "") -> Call:
        settings, domain = self.config.generation, self.config.domain
        use_case = max(domain.use_cases, key=lambda u: u.weight)
        topics = domain.topics_of(use_case)
        wanted = WantedRequest(use_case=use_case.name, about=use_case.description, topic=topics[0] if topics else "")
        asked = range(0, settings.tasks, settings.requests_per_call)
        earlier = round(fmean(min(settings.recent_requests, i) for i in asked))
        role = Proposer(guidance)
        fields = role.fields(
            domain=domain.description,
            passages=self._references(settings.seed_passages),
            wanted=[wanted] * settings.requests_per_call,
            avoid=[self.prose.take(self.a.request_chars) for _ in range(earlier)],
        )
        requests = [self.prose.take(self.a.request_chars) for _ in range(settings.requests_per_call)]
        return _call(role, fields, requests=requests)

    def generator(self, guidance: str = "", memo: str = "") -> Call:
        role = Generator(guidance, memo)
        fields = role.fields(
            request=self.prose.take(self.a.request_chars),
            passages=self._references(self.config.generation.passages_per_task),
            positives=round(self.criteria.born),
            negative=True,
            difficulty=difficulty_feedback(0.5, 64) if self.config.solver.cycles else "",
        )
        drafts = self._drafts(self.criteria.born)
        return _call(
            role, fields, task=self._task_text(), criteria=drafts, specialty="emergency care", level="advanced"
        )

    def farmer(self) -> Call:
        role = Farmer()
        fields = role.fields(task=self.task(self.criteria.served), max_chars=self.config.admission.max_exploit_chars)
        return _call(role, fields, answer=self.prose.take(self.answer_chars("farmer")))

    def honest(self) -> Call:
        role = Honest(self.config.domain.system_prompt)
        fields = role.fields(task=self.task(self.criteria.served))
        return _call(role, fields, answer=self.prose.take(self.answer_chars("honest")))

    def rewriter(self) -> Call:
        exploit, honest = (self.prose.take(self.answer_chars(who)) for who in ("farmer", "honest"))
        role = Rewriter()
        return _call(
            role,
            role.fields(task=self.task(self.criteria.born), exploit=exploit, honest=honest),
            task=self._task_text(),
            criteria=self._drafts(self.criteria.rewritten),
            exploit_fails=self._sentence(),
            honest_passes=self._sentence(),
        )

    def _judge(self, answer_chars: float, *, strict: bool) -> Call:
        grading, words = self.config.grading, self.config.grading.reason_words
        task, answer = self.task(1), self.prose.take(answer_chars)
        fields = judge_fields(task, answer, task.rubric.criteria[0].text, words)
        signature = judge_signature(strict and grading.strict_note)
        return Call(signature, fields, {"reason": self._words(self.a.reason_share * words), "met": True})

    def judge_probe(self) -> Call:
        return self._judge(fmean(self.answer_chars(who) for who in ("farmer", "honest")), strict=True)

    # -- training ------------------------------------------------------------------

    def judge_rollout(self) -> Call:
        return self._judge(self.answer_chars("rollout"), strict=False)

    def judge_patch(self) -> Call:
        return self._judge(self.answer_chars("rollout"), strict=True)

    def referee(self) -> Call:
        exploits, shown = self.config.exploits, min(self.config.solver.rollouts_per_task, len(LETTERS))
        role = Referee(self.config.domain.expert, exploits.task_chars, exploits.answer_chars)
        answers = [self.prose.take(self.answer_chars("rollout")) for _ in range(shown)]
        fields = role.fields(task=self.task(1), answers=answers, order=range(shown))
        tiers = [list(LETTERS[i : min(shown, i + 3)]) for i in range(0, shown, 3)]
        return _call(role, fields, notes=self._words(NOTES_WORDS * self.a.reason_share), tiers=tiers)

    def summarizer(self) -> Call:
        tools = self.config.solver.tools
        role = Summarizer(tools.brief_words)
        fields = role.fields(query=self._sentence(), passages=self._references(tools.passages))
        return _call(role, fields, brief=self._words(self.a.guidance_share * tools.brief_words))

    def minter(self) -> Call:
        role = Minter(self.config.patches.task_chars, self.config.patches.answer_chars)
        task = self.task(self.criteria.served)
        exploit, better = (self.prose.take(self.answer_chars("rollout")) for _ in range(2))
        fields = role.fields(
            task=task, exploit=exploit, better=better, exploit_grade=self.grade(task), better_grade=self.grade(task)
        )
        minted = [
            SeparatingCriterion(why=self._words(WHY_WORDS * self.a.reason_share), text=self._criterion(), points=8)
            for _ in range(max(1, round(self.a.minted_criteria)))
        ]
        return _call(role, fields, criteria=minted, label="keyword_stuffing")

    # -- evolution -------------------------------------------------------------------

    def analyst(self) -> Call:
        evolution, task = self.config.evolution, self.task(self.criteria.served)
        role = Analyst(self.config.domain.description, evolution.task_chars, evolution.answer_chars)
        answer = self.prose.take(self.answer_chars("rollout"))
        return _call(
            role,
            role.fields(task=task, answer=answer, grade=self.grade(task)),
            gap=self._words(GAP_WORDS * self.a.reason_share),
            failure_mode="knowledge_specificity",
            rubric_defect="none",
            task_defect="none",
            verdict="model_failed_fair_task",
        )

    def meta_optimizer(self) -> Call:
        evolution = self.config.evolution
        limits = GuidanceLimits(guidance_words=evolution.guidance_words)
        role = MetaOptimizer(self.config.domain.description, limits, gaps=evolution.gaps, versions=evolution.history)
        past = [
            PastGuidance(
                version=i,
                summary=self._sentence(),
                guidance_a=self.guidance(),
                guidance_b=self.guidance(),
                train_mean=0.5,
            )
            for i in self._history(evolution.history)
        ]
        fields = role.fields(
            score_formula=self._sentence(),
            guidance_a=self.guidance(),
            guidance_b=self.guidance(),
            statistics=self.prose.take(self.a.evidence_chars),
            diagnoses=self.prose.take(self.a.evidence_chars),
            gaps=[self._words(GAP_WORDS * self.a.reason_share) for _ in range(evolution.gaps)],
            exploits=self.prose.take(self.a.evidence_chars),
            history=past,
        )
        return _call(
            role,
            fields,
            summary=self._sentence(),
            new_guidance_a=self.guidance(),
            new_guidance_b=self.guidance(),
        )

    def memo_optimizer(self) -> Call:
        settings = self.config.memo
        limits = GuidanceLimits(
            memo_chars=settings.max_chars, memo_asked_chars=settings.asked_chars, summary_chars=settings.summary_chars
        )
        role = MemoOptimizer(limits, minted=settings.minted, versions=settings.history)
        past = [
            PastMemo(version=i, memo=self.memo(), score=0.1, honest_mean=0.5) for i in self._history(settings.history)
        ]
        fields = role.fields(
            memo=self.memo(),
            hackability=self.prose.take(self.a.evidence_chars),
            modes=dict.fromkeys(EXPLOIT_LABELS, 3),
            minted=[self._criterion() for _ in range(settings.minted)],
            history=past,
        )
        return _call(role, fields, summary=self.prose.take(settings.summary_chars), new_memo=self.memo())


def _call(role: RoleModule[Any], fields: dict[str, Any], **reply: Any) -> Call:
    return Call(role.predict.signature, fields, reply)


PREFLIGHT = CallSize.of(
    [{"role": "user", "content": 'Reply with the JSON object {"ready": true} and nothing else.'}], '{"ready": true}'
)
"""The question that every endpoint gets before a run."""


def measure_calls(
    config: RunConfig, assumptions: Assumptions, passages: Sequence[Reference] | None = None
) -> dict[Kind, CallSize]:
    """Mean size of each kind of call over a run. Deterministic: equal arguments give equal sizes.

    Args:
        config: the run's config.
        assumptions: lengths that no config says.
        passages: the run's corpus; without it passages have `assumptions.passage_chars` characters.
    """
    typical = Typical(config, assumptions, passages)
    sizes: dict[Kind, CallSize] = {"preflight": PREFLIGHT}
    for kind in get_args(Kind):
        if kind != "preflight":
            call: Call = getattr(typical, kind)()
            sizes[kind] = call.size()
    # Evolved texts join the two generation prompts once the first round has written them.
    guided = 1 - admitted_by(config, config.evolution.every_cycles) / config.generation.tasks
    if config.evolution.enabled and guided > 0:
        sizes["proposer"] = _mixed(sizes["proposer"], typical.proposer(typical.guidance()).size(), guided)
        with_both = typical.generator(typical.guidance(), typical.memo()).size()
        sizes["generator"] = _mixed(sizes["generator"], with_both, guided)
    return sizes


def _mixed(plain: CallSize, other: CallSize, share: float) -> CallSize:
    return CallSize(*((1 - share) * a + share * b for a, b in zip(plain, other, strict=True)))
