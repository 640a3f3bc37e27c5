"""What a run's calls add up to under one set of assumptions: tokens, money, seconds, bytes, by stage and role.

    tokens in   = calls * characters of the rendered prompt / `chars_per_token`
    tokens out  = calls * the smaller of characters of a typical reply / `chars_per_token` and the role's max_tokens
    money       = tokens at the endpoint's prices, the judge's cached ones at price_cached
    seconds     = tokens in / prompt rate + tokens out / reply rate, calls one after the other
    disk        = kept calls as compressed + graded rollouts + tasks with their probes and verdicts

The counts are those of `rri.estimate`, the characters those of `programs.call_sizes`.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

from programs.call_sizes import CallSize, Typical, measure_calls
from rri.assumptions import Assumptions
from rri.config import EMBEDDED, EndpointConfig, Role, RunConfig
from rri.estimate import (
    Calls,
    HeldOutSize,
    Stage,
    criteria_of,
    expected_calls,
    expected_votes,
    validation_rollouts,
)
from rri.lm.calls import Usage
from rri.types import Reference

__all__ = ["Ledger", "Spent", "Unit", "disk_bytes", "priced", "rates", "spend", "stored_bytes", "summed", "unpriced"]

PAGE_BYTES, INDEX_BYTES = 4096, 55
"""A page of the database, and what a call's row takes in the indexes."""
GRADE_ROW_BYTES, VERDICT_BYTES, VOTE_BYTES = 350, 35, 45
"""A row of the grades table, a verdict and a vote, without answers and reasons."""

Unit = Literal["calls", "tokens", "money"]


@dataclass(slots=True)
class Spent:
    """Sums over calls. `most_out`: tokens out if every reply ran to its role's limit. `kept`: bytes in the database."""

    calls: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    most_out: float = 0.0
    money: float = 0.0
    seconds: float = 0.0
    kept: float = 0.0

    def add(self, other: "Spent") -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))

    def of(self, unit: Unit) -> float:
        return self.tokens_in + self.tokens_out if unit == "tokens" else float(getattr(self, unit))


Ledger = dict[tuple[Stage, Role], Spent]
"""Stage and role -> what their calls cost."""


def spend(
    config: RunConfig,
    a: Assumptions,
    passages: Sequence[Reference] | None = None,
    held_out: HeldOutSize | None = None,
) -> Ledger:
    """What a run is expected to spend.

    Args:
        config: the run's config.
        a: one set of assumptions.
        passages: the run's corpus; None where it is not at hand.
        held_out: its validation file; None where there is none, or it is not at hand.
    """
    sizes = measure_calls(config, a, passages)
    ledger: Ledger = defaultdict(Spent)
    for calls in expected_calls(config, a, held_out):
        size = sizes[calls.kind]
        if held_out is not None and calls.stage == "validation" and calls.role == "judge":
            size = _about_held_out(config, a, size, held_out)
        ledger[calls.stage, calls.role].add(_spent(config, a, calls, size))
    return dict(ledger)


def _about_held_out(config: RunConfig, a: Assumptions, size: CallSize, held_out: HeldOutSize) -> CallSize:
    """A judge's call on a rollout, its typical conversation and criterion exchanged for those of the file."""
    typical = min(a.task_chars, config.solver.max_prompt_tokens * a.chars_per_token) + a.criterion_chars
    prompt = max(held_out.chars, size.prompt_chars - typical + held_out.chars)
    return CallSize(prompt, size.reply_chars, size.kept_bytes * prompt / size.prompt_chars)


def _spent(config: RunConfig, a: Assumptions, calls: Calls, size: CallSize) -> Spent:
    route = config.roles[calls.role]
    endpoint = config.endpoints[route.endpoint]
    tokens_in = calls.calls * size.prompt_chars / a.chars_per_token
    tokens_out = calls.calls * min(size.reply_chars / a.chars_per_token, route.max_tokens)
    cached = tokens_in * _cached_share(endpoint, calls.role, a)
    usage = Usage(round(tokens_in), round(tokens_out), round(cached))
    speed = rates(config, calls.role, a)
    return Spent(
        calls=calls.calls,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        most_out=calls.calls * route.max_tokens,
        money=usage.money(endpoint),
        seconds=(tokens_in - cached) / speed[0] + tokens_out / speed[1] if speed else 0.0,
        kept=calls.calls * (stored_bytes(size.kept_bytes) + INDEX_BYTES),
    )


def _cached_share(endpoint: EndpointConfig, role: Role, a: Assumptions) -> float:
    """Share of the prompt tokens that the server has cached; elsewhere only the judge's prompts share long openings."""
    if endpoint.url == EMBEDDED:
        return a.embedded_cached
    return a.judge_cached if role == "judge" else 0.0


def rates(config: RunConfig, role: Role, a: Assumptions) -> tuple[float, float] | None:
    """Prompt and reply tokens a second of one request; None while they are unknown. Cached tokens take no time."""
    if config.endpoints[config.roles[role].endpoint].url == EMBEDDED:
        return a.embedded_prompt_rate, a.embedded_reply_rate
    return (a.prompt_rate, a.reply_rate) if a.prompt_rate and a.reply_rate else None


def priced(config: RunConfig, role: Role) -> bool:
    """Whether money of the role is known: its endpoint has prices, or is the embedded model, which takes none."""
    endpoint = config.endpoints[config.roles[role].endpoint]
    return endpoint.url == EMBEDDED or endpoint.price_in > 0 or endpoint.price_out > 0


def unpriced(config: RunConfig) -> list[str]:
    """Endpoints in use without prices."""
    return sorted({config.roles[role].endpoint for role in config.roles_used if not priced(config, role)})


def summed(ledger: Ledger, stage: Stage | None = None, role: Role | None = None) -> Spent:
    """The sum of a stage, of a role, or of everything."""
    total = Spent()
    for (s, r), spent in ledger.items():
        if stage in (None, s) and role in (None, r):
            total.add(spent)
    return total


def stored_bytes(row: float) -> float:
    """Bytes on disk of one of many rows of about `row` bytes.

    A page holds whole rows, so half a row of it stays empty. A row longer than a page goes on in pages of its own.
    """
    if row > PAGE_BYTES:
        return 1.1 * row
    rows = PAGE_BYTES / row - 0.5
    return PAGE_BYTES / max(1.0, rows)


def disk_bytes(
    config: RunConfig,
    a: Assumptions,
    ledger: Ledger,
    passages: Sequence[Reference] | None,
    held_out: HeldOutSize | None = None,
) -> float:
    """Bytes of the run's database: kept calls, graded rollouts, also of validation, tasks with their probes."""
    typical, criteria, solver = Typical(config, a, passages), criteria_of(config, a), config.solver
    reason = len(typical.judge_probe().reply["reason"])

    def grade(rubric: float, votes: int) -> float:
        return rubric * (VERDICT_BYTES + expected_votes(votes, a.vote_flips) * (reason + VOTE_BYTES))

    def rows(rollouts: int, rubric: float) -> float:
        row = typical.answer_chars("rollout") + grade(rubric, config.grading.votes) + GRADE_ROW_BYTES
        return rollouts * stored_bytes(row)

    answered = rows(solver.cycles * solver.tasks_per_cycle * solver.rollouts_per_task, criteria.served)
    if held_out is not None:
        answered += rows(validation_rollouts(config, held_out), held_out.criteria)
    tasks, body = config.generation.tasks, len(typical.task(criteria.served).model_dump_json())
    probes = summed(ledger, "admission", "farmer").calls
    answers = typical.answer_chars("farmer") + typical.answer_chars("honest")
    probe = answers + 2 * grade(criteria.rewritten, config.admission.votes)
    rewrites = summed(ledger, "admission", "rewriter").calls
    # A task is kept as its versions, and again in the evidence of its admission: original, adopted, every rewrite.
    bodies = tasks * 3 + rewrites * (1 + a.rewrite_stands)
    return summed(ledger).kept + answered + bodies * body + probes * probe
