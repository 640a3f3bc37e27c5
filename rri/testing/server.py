"""The server: real HTTP on loopback, replies and faults by script, every request kept."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from rri.aio import LoopThread
from rri.testing.faults import Fault

__all__ = ["ChatRequest", "Reply", "ScriptedServer"]

_BLOCK = r"<{name}>\n(.*?)\n</{name}>"


@dataclass(frozen=True)
class ChatRequest:
    """One request as it came in. `number` counts the requests to its model from 0."""

    model: str
    messages: list[dict[str, str]]
    schema_name: str
    body: dict[str, Any]
    number: int
    key: str

    def block(self, name: str) -> str:
        """The text of an input block of the rendered prompt, as the model would read it; empty when absent."""
        found = re.search(_BLOCK.format(name=re.escape(name)), self.messages[-1]["content"], re.DOTALL)
        return found.group(1) if found else ""


@dataclass(frozen=True)
class Reply:
    """A whole reply. Token counts are of words unless given."""

    text: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    cached: int = 0


Model = Callable[[ChatRequest], Reply | Fault | str]


class ScriptedServer:
    """An OpenAI-compatible chat server whose models are functions.

    Args:
        models: model name -> function of the request; it returns a reply, its text, or a fault.
        fault: asked before the model; a fault it returns is acted out instead.
        latency_s: time that every reply takes.
        keep: how many requests to keep; the count goes on beyond it.

    Example:
        >>> with ScriptedServer({"judge": lambda r: '{"reason": "x", "met": true}'}) as server:
        ...     server.url
        'http://127.0.0.1:43210/v1'
    """

    def __init__(
        self,
        models: Mapping[str, Model],
        *,
        fault: Callable[[ChatRequest], Fault | None] = lambda request: None,
        latency_s: float = 0.0,
        keep: int = 100_000,
    ) -> None:
        self.models = dict(models)
        self.fault = fault
        self.latency_s = latency_s
        self.requests: list[ChatRequest] = []
        self.total = 0
        self.concurrent = 0
        self.most_concurrent = 0
        self._keep = keep
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()
        self._loop: LoopThread | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._loop = LoopThread("rri-scripted-server")
        self._loop.run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        if self._runner is not None:
            self._loop.run(self._runner.cleanup())
        self._loop.close()

    def count(self, model: str) -> int:
        """Requests to one model so far."""
        return self._numbers.get(model, 0)

    def of(self, model: str) -> list[ChatRequest]:
        """Kept requests to one model."""
        with self._lock:
            return [r for r in self.requests if r.model == model]

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._list)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/v1"

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": m, "object": "model"} for m in self.models]})

    def _note(self, body: dict[str, Any], key: str) -> ChatRequest:
        model = str(body.get("model", ""))
        schema = (body.get("response_format") or {}).get("json_schema") or {}
        with self._lock:
            number = self._numbers.get(model, 0)
            self._numbers[model] = number + 1
            request = ChatRequest(model, body["messages"], str(schema.get("name", "")), body, number, key)
            self.total += 1
            if len(self.requests) < self._keep:
                self.requests.append(request)
        return request

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        self.concurrent += 1
        self.most_concurrent = max(self.most_concurrent, self.concurrent)
        try:
            request = self._note(await http.json(), http.headers.get("Authorization", "").removeprefix("Bearer "))
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            outcome = self.fault(request) or self._ask(request)
            return await _act(outcome, http) if isinstance(outcome, Fault) else _completion(request, outcome)
        finally:
            self.concurrent -= 1

    def _ask(self, request: ChatRequest) -> Reply | Fault:
        model = self.models.get(request.model)
        if model is None:
            return Fault("status", code=404, body=json.dumps({"error": {"message": f"no model {request.model!r}"}}))
        answer = model(request)
        return Reply(answer) if isinstance(answer, str) else answer


async def _act(fault: Fault, http: web.Request) -> web.StreamResponse:
    if fault.kind == "hang":
        # Ends when the client hangs up or the server stops: aiohttp cancels the handler then.
        await asyncio.Event().wait()
    if fault.kind == "reset":
        assert http.transport is not None
        http.transport.abort()
        return web.Response()
    if fault.kind == "content":
        return web.json_response(_body("scripted", Reply(fault.body), fault.finish_reason))
    headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
    return web.Response(status=fault.code, text=fault.body, headers=headers, content_type="application/json")


def _completion(request: ChatRequest, reply: Reply | Fault) -> web.Response:
    assert isinstance(reply, Reply)
    words_in = sum(len(m["content"].split()) for m in request.messages)
    counted = Reply(
        reply.text, words_in if reply.tokens_in is None else reply.tokens_in, reply.tokens_out, reply.cached
    )
    return web.json_response(_body(request.model, counted, "stop"))


def _body(model: str, reply: Reply, finish_reason: str) -> dict[str, Any]:
    tokens_out = len(reply.text.split()) if reply.tokens_out is None else reply.tokens_out
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": reply.text}, "finish_reason": finish_reason}
        ],
        "usage": {
            "prompt_tokens": reply.tokens_in or 0,
            "completion_tokens": tokens_out,
            "total_tokens": (reply.tokens_in or 0) + tokens_out,
            "prompt_tokens_details": {"cached_tokens": reply.cached},
        },
    }
