"""From seed passages to a finished, validated task (METHOD 4, steps 1 to 5)."""

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from programs.generator import Draft, Generator
from programs.proposer import Proposer
from rri.config import DomainConfig, GenerationConfig
from rri.errors import MalformedReply
from rri.lm.calls import tagged
from rri.rubric_rules import check_rubric
from rri.shape import Shape, ShapePlan, draw_shape
from rri.types import Labels, Message, Reference, Task, digest_of
from signatures.proposer import WantedRequest

__all__ = ["Request", "Search", "TaskWriter", "difficulty_feedback", "draw_wanted"]


class Search(Protocol):
    """The knowledge base as generation needs it."""

    async def asearch(self, query: str, k: int) -> list[Reference]: ...


@dataclass(frozen=True, slots=True)
class Request:
    """A proposed request with what it was to be about."""

    text: str
    wanted: WantedRequest


def draw_wanted(domain: DomainConfig, n: int, rng: random.Random) -> list[WantedRequest]:
    """Use cases by weight, their sub-topics evenly, red-team and languages by their shares; each by itself."""
    weights = [u.weight for u in domain.use_cases]
    return [
        WantedRequest(
            use_case=(use_case := rng.choices(domain.use_cases, weights)[0]).name,
            about=use_case.description,
            topic=rng.choice(topics) if (topics := domain.topics_of(use_case)) else "",
            red_team=rng.random() < domain.red_team_share,
            language=_draw_language(domain.languages, rng),
        )
        for _ in range(n)
    ]


def _draw_language(languages: Mapping[str, float], rng: random.Random) -> str:
    """A language by its share; "" is English, which takes the rest. An English domain draws nothing."""
    if not languages:
        return ""
    rest = max(0.0, 1 - sum(languages.values()))
    return rng.choices([*languages, ""], [*languages.values(), rest])[0]


def difficulty_feedback(mean: float | None, rollouts: int, config: GenerationConfig | None = None) -> str:
    """The solver's rolling mean against the band, in words; empty while nothing was graded."""
    if mean is None or not rollouts:
        return ""
    config = config or GenerationConfig()
    low, high = config.difficulty_low, config.difficulty_high
    aim = (
        "keep this difficulty" if low <= mean <= high else "write harder tasks" if mean > high else "write easier tasks"
    )
    return f"recent tasks earned {mean:.2f} of their points on average; {low} to {high} is right, so {aim}"


class TaskWriter:
    """Proposes requests and turns each into a task.

    Args:
        proposer, generator: the two roles.
        search: the knowledge base.
        passages: what seeds are drawn from.
        domain, config: what to write about, and METHOD 4's numbers.
        seed: the run's seed.
        feedback: the current difficulty feedback.
    """

    def __init__(
        self,
        proposer: Proposer,
        generator: Generator,
        search: Search,
        passages: Sequence[Reference],
        domain: DomainConfig,
        config: GenerationConfig,
        seed: int,
        feedback: Callable[[], str] = lambda: "",
    ) -> None:
        self.proposer = proposer
        self.generator = generator
        self.search = search
        self.passages = passages
        self.domain = domain
        self.config = config
        self.seed = seed
        self.feedback = feedback

    async def propose(self, n: int, draw: int, avoid: Sequence[str]) -> list[Request]:
        """At most `n` requests; `draw` numbers the call, so that each draws other seeds.

        Raises:
            ModelError: the proposer gave no usable reply.
        """
        rng = random.Random(f"{self.seed}:propose:{draw}")
        wanted = draw_wanted(self.domain, n, rng)
        seeds = rng.sample(list(self.passages), min(self.config.seed_passages, len(self.passages)))
        with tagged(sample=f"propose-{draw}"):
            texts = await self.proposer.acall(
                domain=self.domain.description, passages=seeds, wanted=wanted, avoid=list(avoid)
            )
        known = {_key(text) for text in avoid}
        fresh: deque[Request] = deque()
        for text, want in zip(texts, wanted, strict=False):
            if len(text) >= self.config.min_task_chars and _key(text) not in known:
                known.add(_key(text))
                fresh.append(Request(text, want))
        if not fresh:
            what = f"none of {len(texts)} requests is new and has {self.config.min_task_chars} characters"
            raise MalformedReply(f"role proposer: {what}", "Use a stronger proposer")
        return list(fresh)

    def shape(self, request: Request, number: int, plan: ShapePlan | None = None) -> Shape:
        """The shape that task `number` is asked for under `plan`; without one nothing is corrected."""
        config = self.config
        plan = plan or ShapePlan(negative_rate=config.negative_share, max_positives=config.shape.max_positives)
        rng = random.Random(f"{self.seed}:write:{number}")
        return draw_shape(config.positives, plan, request.wanted.red_team, rng, config.red_team_positives)

    async def write(self, request: Request, number: int, shape: Shape | None = None) -> Task:
        """The task of one request; `number` is the task's own, fixed at birth.

        A rubric that the validator refuses is written again with the reasons, within `config.attempts`.

        Args:
            request: what to write about.
            number: the task's number.
            shape: what the generator is told to deliver; drawn without corrections by default.

        Raises:
            ModelError: no usable reply, or no valid rubric in the last attempt.
        """
        red_team = request.wanted.red_team
        shape = shape or self.shape(request, number)
        passages = await self.search.asearch(request.text, self.config.passages_per_task)
        problems: list[str] = []
        with tagged(sample=f"write-{number}"):
            for _ in range(self.config.attempts):
                draft = await self.generator.acall(
                    request=request.text,
                    passages=passages,
                    positives=shape.positives,
                    negative=shape.negative,
                    red_team=red_team,
                    difficulty=self.feedback(),
                    problems=problems,
                )
                problems = check_rubric(draft.rubric, limits=self.config.rubric)
                if len(draft.task) < (least := self.config.min_task_chars):
                    problems.append(f"the task has {len(draft.task)} characters; write at least {least}")
                if not problems:
                    return _task(draft, request, passages, number)
        raise MalformedReply(
            f"role generator: no valid rubric in {self.config.attempts} attempts: {'; '.join(problems)}",
            "Use a stronger generator",
        )


def _key(text: str) -> str:
    return " ".join(text.lower().split())


def _task(draft: Draft, request: Request, passages: Sequence[Reference], number: int) -> Task:
    body = digest_of([draft.task, draft.rubric.model_dump()])
    return Task(
        task_id=f"{number:06d}-{body[:8]}",
        conversation=(Message(role="user", content=draft.task),),
        rubric=draft.rubric,
        references=tuple(passages),
        labels=Labels(
            use_case=request.wanted.use_case,
            specialty=draft.specialty,
            difficulty=draft.level,
            red_team=request.wanted.red_team,
        ),
    )
