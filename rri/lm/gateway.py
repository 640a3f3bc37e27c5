"""Every model call of the system passes here (DESIGN, seam 1).

The gateway routes by role, bounds concurrency per endpoint, retries what another try can mend, checks each
reply against its schema, counts and keeps every try, and stops at the budget. It has one event loop; `complete`
may be awaited from any loop, and `complete_sync` called from any thread.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rri.aio import LoopThread
from rri.config import EMBEDDED, EndpointConfig, Role
from rri.errors import (
    ConfigError,
    EmbeddedModelError,
    EndpointError,
    MalformedReply,
    ModelError,
    ReplyError,
)
from rri.lm.adapter import ChatMessage, OutputSpec
from rri.lm.breaker import Breaker, Stopwatch
from rri.lm.calls import CallRecord, CallSink, Ledger, RecentCalls, Tag, Usage, current_tag
from rri.lm.replies import Reply, usable
from rri.lm.reply_cache import ReplyCache, reply_key
from rri.lm.routes import Route
from rri.lm.transport import Completion, Transport

__all__ = ["Gateway", "ModelRequest"]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call as a role asks for it. Sampling left at None is the role's own.

    `sample` names this very sample, for a reply that may be kept on disk and used again under the same name. Empty,
    which all roles but the judge leave it, the reply is never reused.
    """

    role: Role
    messages: Sequence[ChatMessage]
    output: OutputSpec
    temperature: float | None = None
    max_tokens: int | None = None
    sample: str = ""


@dataclass
class _Spent:
    """What one sample has used up: seconds left, tries, and requests on the wire.

    Waiting for a slot is no time of the sample's, and a failed trial of an endpoint that is away no try: it is not at
    fault for either.
    """

    left_s: float
    tries: int = 0
    requests: int = 0


class Gateway:
    """The one way to a model.

    Args:
        routes: role -> route (`resolve_routes`).
        ledger: counts and limits; a fresh one without limits by default.
        sink: keeps every call; the latest 200 in memory by default.
        loop: the loop on which calls run; a new background one by default.
        embedded_url: called for the embedded endpoint's URL before each of its tries; restarts a dead child.
        cache: replies of named samples, from disk.
        say: told when an endpoint goes away or comes back.
    """

    def __init__(
        self,
        routes: Mapping[Role, Route],
        *,
        ledger: Ledger | None = None,
        sink: CallSink | None = None,
        loop: LoopThread | None = None,
        embedded_url: Callable[[], Awaitable[str]] | None = None,
        cache: ReplyCache | None = None,
        say: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.routes = dict(routes)
        self.ledger = ledger or Ledger()
        self.sink: CallSink = sink or RecentCalls()
        self.loop = loop or LoopThread("rri-gateway")
        self.cache = cache
        self.say = say
        self._embedded_url = embedded_url
        self._breakers: dict[str, Breaker] = {}
        self._pauses: dict[Role, Stopwatch] = {}
        self._transport = Transport()
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._random = random.Random()
        self._keeping: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        await self.loop.call(self._close())

    def close_sync(self) -> None:
        self.loop.run(self._close())

    async def _close(self) -> None:
        if self._keeping:
            await asyncio.wait(self._keeping)
        await self._transport.close()
        if self.cache is not None:
            self.cache.close()

    @property
    def paused(self) -> str:
        """Why calls of a role that is in use wait for an endpoint now; empty when none do."""
        away = {b.name: b.reason for role in list(self._pauses) for b in self._awaited(role)}
        return "; ".join(f"endpoint {name!r} is away: {reason}" for name, reason in away.items())

    def paused_s(self, role: Role) -> float:
        """Seconds since its first call in which the calls of `role` had no endpoint to go to."""
        pause = self._pauses.get(role)
        return pause.seconds if pause is not None else 0.0

    def _awaited(self, role: Role) -> list[Breaker]:
        """The endpoints for which the calls of `role` wait; none while one of them answers."""
        route = self.routes[role]
        names = [route.endpoint] if route.fallback is None else [route.endpoint, route.fallback.endpoint]
        away = [b for name in names if (b := self._breakers.get(name)) is not None and b.open]
        return away if len(away) == len(names) else []

    def _changed(self, message: str) -> None:
        """An endpoint went away or came back."""
        for role in self._pauses:
            self._watch(role)
        self.say(message)

    def _watch(self, role: Role) -> None:
        self._pauses.setdefault(role, Stopwatch()).hold(bool(self._awaited(role)))

    def complete_sync(self, request: ModelRequest) -> Reply:
        """`complete` for threads without a loop."""
        return self.loop.run(self._complete(request, current_tag()))

    async def complete(self, request: ModelRequest) -> Reply:
        """A usable reply.

        A reply that is empty, cut or of another shape gets one fresh sample, counted like any other call.

        Raises:
            ModelError: no usable reply; the subclass says why.
            BudgetExhausted: a hard limit is reached.
            ConfigError: the role has no route.
        """
        return await self.loop.call(self._complete(request, current_tag()))

    async def complete_at(self, request: ModelRequest, route: Route) -> Reply:
        """A usable reply of this very route, without its fallback: to find out whether it works.

        Raises:
            ModelError: no usable reply.
        """
        tag = current_tag()
        return await self.loop.call(_twice(lambda: self._tries(request, route, tag, 0.0), request.role))

    async def _complete(self, request: ModelRequest, tag: Tag) -> Reply:
        if request.role not in self.routes:
            raise ConfigError(f"role {request.role} has no route in this config", "Turn on what uses the role")
        if request.role not in self._pauses:
            self._watch(request.role)
        if (known := self._known(request, self.routes[request.role])) is not None:
            return known
        return await _twice(lambda: self._sample(request, tag), request.role)

    def _key(self, request: ModelRequest, route: Route) -> bytes | None:
        """Key of the reply in the cache; None where it must not be reused."""
        if self.cache is None or not request.sample:
            return None
        temperature, most = _sampling(request, route)
        prompt = (part for message in request.messages for part in (message["role"], message["content"]))
        return reply_key(
            route.identity, request.output.name, request.output.digest, f"{temperature} {most}", request.sample, *prompt
        )

    def _known(self, request: ModelRequest, route: Route) -> Reply | None:
        """The kept reply; None when there is none, or the schema does not take it any more."""
        key = self._key(request, route)
        text = self.cache.get(key) if self.cache is not None and key is not None else None
        if text is None:
            return None
        try:
            reply = Reply(text, request.output.validate(text), Usage())
        except MalformedReply:
            return None
        self.ledger.reused(request.role)
        return reply

    async def _sample(self, request: ModelRequest, tag: Tag) -> Reply:
        """One sample from the role's endpoint, from its fallback while that fails."""
        route = self.routes[request.role]
        if route.fallback is None:
            return await self._tries(request, route, tag, route.config.breaker_patience_s)
        try:
            return await self._tries(request, route, tag, 0.0)
        except EndpointError as error:
            if not error.retryable:
                raise
            first = error.what
        if (known := self._known(request, route.fallback)) is not None:
            return known
        try:
            return await self._tries(request, route.fallback, tag, route.fallback.config.breaker_patience_s)
        except EndpointError as error:
            error.what += f" (called because endpoint {route.endpoint!r} had failed: {first})"
            raise

    async def _tries(self, request: ModelRequest, route: Route, tag: Tag, patience_s: float) -> Reply:
        """One sample, tried again while the endpoint, not the reply, is at fault."""
        config, spent = route.config, _Spent(route.config.deadline_s)
        while True:
            outcome = await self._try(request, route, tag, spent, patience_s)
            if isinstance(outcome, Reply):
                if self.cache is not None and (key := self._key(request, route)) is not None:
                    self.cache.put(key, outcome.text)
                return outcome
            if not isinstance(outcome, EndpointError) or not outcome.retryable or spent.tries > config.retries:
                raise outcome
            # A try at an endpoint that is away waits for its return, without using up the deadline.
            away = self._breaker(route).open
            pause = 0.0 if away else self._pause(config, spent.tries - 1, outcome.retry_after)
            if pause >= spent.left_s:
                outcome.what += f" (given up at the deadline of {config.deadline_s:g} s, tries: {spent.requests})"
                raise outcome
            spent.left_s -= pause
            await asyncio.sleep(pause)

    def _breaker(self, route: Route) -> Breaker:
        if route.endpoint not in self._breakers:
            self._breakers[route.endpoint] = Breaker(route.endpoint, route.config, self._changed)
        return self._breakers[route.endpoint]

    def _pause(self, config: EndpointConfig, attempt: int, retry_after: float | None) -> float:
        backoff = min(config.retry_wait_max_s, config.retry_wait_s * 2.0 ** min(attempt, 30)) * self._random.uniform(
            0.5, 1.0
        )
        return min(config.retry_wait_max_s, max(backoff, retry_after or 0.0))

    async def _try(
        self, request: ModelRequest, route: Route, tag: Tag, spent: _Spent, patience_s: float
    ) -> Reply | ModelError:
        breaker = self._breaker(route)
        slots = self._slots.setdefault(route.endpoint, asyncio.Semaphore(route.config.concurrency))
        async with breaker.slot(slots, patience_s) as trial:
            with self.ledger.call():
                record, outcome = await self._attempt(request, route, tag, spent)
            self.ledger.add(record)
            if isinstance(outcome, EndpointError):
                breaker.failed(outcome, trial)
            else:
                breaker.answered()
            spent.requests += 1
            if not (trial and breaker.open):
                spent.left_s -= record.seconds
                spent.tries += 1
        await self.sink.keep(record)
        return outcome

    async def _attempt(
        self, request: ModelRequest, route: Route, tag: Tag, spent: _Spent
    ) -> tuple[CallRecord, Reply | ModelError]:
        """One request on the wire, with what there is to keep of it."""
        started = time.monotonic()
        completion = Completion("", Usage())
        outcome: Reply | ModelError
        try:
            completion = await self._post(request, route, min(route.config.timeout_s, spent.left_s))
            outcome = usable(completion, request.output, route.config.url)
        except ModelError as error:
            outcome = error
        except asyncio.CancelledError:
            # The endpoint may charge for it all the same.
            failure = ModelError("cancelled by the caller")
            self._keep_soon(self._record(request, route, tag, spent.requests, completion, started, failure))
            raise
        return self._record(request, route, tag, spent.requests, completion, started, outcome), outcome

    async def _post(self, request: ModelRequest, route: Route, timeout_s: float) -> Completion:
        url = route.config.url.rstrip("/")
        if url == EMBEDDED:
            if self._embedded_url is None:
                raise EmbeddedModelError("the embedded model is not running", "Open the gateway with `open_gateway`")
            url = await self._embedded_url()
        return await self._transport.post(url, route.key, self._body(request, route), timeout_s)

    @staticmethod
    def _body(request: ModelRequest, route: Route) -> dict[str, Any]:
        temperature, most = _sampling(request, route)
        body: dict[str, Any] = {
            **route.config.extra_body,
            **route.sampling.extra_body,
            "model": route.model,
            "messages": list(request.messages),
            route.config.max_tokens_field: most,
        }
        if temperature is not None:
            body["temperature"] = temperature
        if request.output.model is not None and route.config.strict_schema:
            body["response_format"] = request.output.response_format()
        return body

    def _keep_soon(self, record: CallRecord) -> None:
        """Keep a call whose caller no longer waits."""
        self.ledger.add(record)
        task = asyncio.create_task(self._keep(record))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def _keep(self, record: CallRecord) -> None:
        await self.sink.keep(record)

    @staticmethod
    def _record(
        request: ModelRequest,
        route: Route,
        tag: Tag,
        attempt: int,
        completion: Completion,
        started: float,
        outcome: Reply | ModelError,
    ) -> CallRecord:
        return CallRecord(
            role=request.role,
            tag=tag,
            endpoint=route.endpoint,
            model=route.model,
            attempt=attempt,
            messages=list(request.messages),
            reply=completion.text,
            usage=completion.usage,
            seconds=time.monotonic() - started,
            money=completion.usage.money(route.config),
            error=f"{type(outcome).__name__}: {outcome.what}" if isinstance(outcome, ModelError) else "",
        )


async def _twice(sample: Callable[[], Awaitable[Reply]], role: Role) -> Reply:
    """A sample, and a fresh one where the first is unusable; errors say which role asked."""
    try:
        try:
            return await sample()
        except ReplyError:
            return await sample()
    except ModelError as error:
        error.what = f"role {role}: {error.what}"
        raise


def _sampling(request: ModelRequest, route: Route) -> tuple[float | None, int]:
    """Temperature and token limit of a call."""
    temperature = route.sampling.temperature if request.temperature is None else request.temperature
    return temperature, request.max_tokens or route.sampling.max_tokens
