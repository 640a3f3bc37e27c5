"""What is kept of a model call, who keeps it, and what the calls of a run have cost."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

from rri.config import BudgetConfig, EndpointConfig
from rri.errors import BudgetExhausted

__all__ = ["CallRecord", "CallSink", "Ledger", "RecentCalls", "Tag", "Totals", "Usage", "current_tag", "tagged"]


@dataclass(frozen=True, slots=True)
class Tag:
    """What a call belongs to. A fresh probe or a second rewrite is a new `sample`."""

    task_id: str = ""
    sample: str = ""


_NO_TAG = Tag()
_TAG: ContextVar[Tag] = ContextVar("rri_call_tag", default=_NO_TAG)


def current_tag() -> Tag:
    return _TAG.get()


@contextmanager
def tagged(task_id: str | None = None, sample: str | None = None) -> Iterator[None]:
    """Mark every model call made inside with its task and sample; what is not given is inherited."""
    outer = _TAG.get()
    token = _TAG.set(Tag(outer.task_id if task_id is None else task_id, outer.sample if sample is None else sample))
    try:
        yield
    finally:
        _TAG.reset(token)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; `cached` are those of `tokens_in` that the server had in its prefix cache."""

    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0

    def money(self, endpoint: EndpointConfig) -> float:
        """Price by the endpoint's configured money per million tokens."""
        price_cached = endpoint.price_in if endpoint.price_cached is None else endpoint.price_cached
        fresh = self.tokens_in - self.cached
        return (fresh * endpoint.price_in + self.cached * price_cached + self.tokens_out * endpoint.price_out) / 1e6


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One try at one endpoint, kept whatever came of it. `error` is empty exactly when the reply was usable."""

    role: str
    tag: Tag
    endpoint: str
    model: str
    attempt: int
    messages: list[dict[str, str]]
    reply: str
    usage: Usage
    seconds: float
    money: float
    error: str = ""


class CallSink(Protocol):
    """Keeps calls. `keep` returns once the record would survive a kill."""

    async def keep(self, record: CallRecord) -> None: ...


@dataclass
class RecentCalls:
    """A sink for notebooks: the latest calls in memory, bounded."""

    records: deque[CallRecord] = field(default_factory=lambda: deque(maxlen=200))

    async def keep(self, record: CallRecord) -> None:
        self.records.append(record)


@dataclass
class Totals:
    """Sums over calls. `failed` tries cost money too and are counted in every other sum.

    `reused` counts replies that came from the cache instead of a call.
    """

    calls: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    seconds: float = 0.0
    money: float = 0.0
    reused: int = 0

    def add(self, other: "Totals") -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


class Ledger:
    """Calls, tokens, seconds and money by role, with the run's hard limits. Lives on the gateway's loop.

    The limit on calls is exact. Tokens and money are known only afterwards, so each call under way counts as the
    mean of those before it.
    """

    def __init__(self, budget: BudgetConfig | None = None) -> None:
        self.budget = budget or BudgetConfig()
        self.by_role: dict[str, Totals] = {}
        self._total = Totals()
        self._under_way = 0
        self._hours_before = 0.0
        self._started = time.monotonic()

    def restore(self, by_role: dict[str, Totals], hours: float = 0.0) -> None:
        """Take over what earlier starts of the run have spent."""
        self.by_role = by_role
        self._total = Totals()
        for role in by_role.values():
            self._total.add(role)
        self._hours_before = hours

    @property
    def hours(self) -> float:
        """Time that the run has been open, over all starts."""
        return self._hours_before + (time.monotonic() - self._started) / 3600

    def add(self, record: CallRecord) -> None:
        usage = record.usage
        for totals in (self._of(record.role), self._total):
            totals.calls += 1
            totals.failed += bool(record.error)
            totals.tokens_in += usage.tokens_in
            totals.tokens_out += usage.tokens_out
            totals.cached += usage.cached
            totals.seconds += record.seconds
            totals.money += record.money

    def reused(self, role: str) -> None:
        """A reply was found in the cache."""
        for totals in (self._of(role), self._total):
            totals.reused += 1

    def _of(self, role: str) -> Totals:
        return self.by_role.setdefault(role, Totals())

    def total(self) -> Totals:
        return replace(self._total)

    @contextmanager
    def call(self) -> Iterator[None]:
        """One call under way; it counts against the limits from its start.

        Raises:
            BudgetExhausted: a hard limit is reached, so the call may not start.
        """
        self.check(calls=True)
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def check(self, *, calls: bool = False) -> None:
        """Whether the run may go on, with `calls` whether one more call may start.

        Raises:
            BudgetExhausted: a hard limit is reached.
        """
        total, budget = self._total, self.budget
        under_way = self._under_way / total.calls if total.calls else 0.0
        tokens = total.tokens_in + total.tokens_out
        spent = (
            ("hours", self.hours, budget.hours),
            ("calls", total.calls + self._under_way, budget.calls if calls else None),
            ("tokens", tokens * (1 + under_way), budget.tokens if calls else None),
            ("money", total.money * (1 + under_way), budget.money if calls else None),
        )
        for name, value, limit in spent:
            if limit is not None and value >= limit:
                raise BudgetExhausted(
                    f"budget.{name} is used up: {value:g} of {limit:g}", "Raise it in the config and run again to go on"
                )
