"""One try of one chat completion over HTTP, with every way it can go wrong told apart."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from rri.errors import (
    EmptyReply,
    EndpointBusy,
    EndpointFailed,
    EndpointRefused,
    EndpointTimeout,
    EndpointUnreachable,
    MalformedReply,
    ReplyError,
    TruncatedReply,
)
from rri.lm.calls import Usage

__all__ = ["Completion", "Transport"]


@dataclass(frozen=True, slots=True)
class Completion:
    """What the endpoint answered. `problem` is set when the text must not be used."""

    text: str
    usage: Usage
    problem: ReplyError | None = None


class Transport:
    """A connection pool without a cap of its own: concurrency is bounded per endpoint by the gateway."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(self, url: str, key: str, body: dict[str, Any], timeout_s: float) -> Completion:
        """Send one request.

        Raises:
            EndpointError: no usable HTTP answer; the subclass says whether another try makes sense.
        """
        where = f"{url}/chat/completions"
        headers = {"Authorization": f"Bearer {key.strip()}"} if key else {}
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._open().post(where, json=body, headers=headers, timeout=timeout) as response:
                raw = await response.read()
                if response.status != 200:
                    raise _refusal(where, response.status, raw, response.headers.get("Retry-After"))
        except TimeoutError:
            raise EndpointTimeout(f"{where} gave no answer within {timeout_s:g} s", "Check the server's load") from None
        except (aiohttp.ClientError, ConnectionError) as error:
            why = str(error) or type(error).__name__
            raise EndpointUnreachable(f"{where}: {why}", "Check that the server runs and the URL is right") from None
        return _completion(where, raw)


def _refusal(where: str, status: int, raw: bytes, retry_after: str | None) -> Exception:
    what = f"{where} answered HTTP {status}: {_detail(raw)}"
    if status == 429:
        return EndpointBusy(what, "Lower the endpoint's concurrency", retry_after=_seconds(retry_after))
    if status >= 500:
        return EndpointFailed(what, "Look at the server's log", retry_after=_seconds(retry_after))
    if status in (401, 403):
        return EndpointRefused(what, "Check the key: the endpoint's api_key_env must name a variable that holds it")
    return EndpointRefused(what, "Check the endpoint's url and model in the config")


def _seconds(header: str | None) -> float | None:
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None


def _detail(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    try:
        error = json.loads(text)
        error = error.get("error", error)
        text = error.get("message", text) if isinstance(error, dict) else str(error)
    except (ValueError, AttributeError):
        pass
    return " ".join(str(text).split())[:200] or "(empty body)"


def _completion(where: str, raw: bytes) -> Completion:
    """Read a chat completion.

    Raises:
        EndpointFailed: the body is not one.
    """
    try:
        body = json.loads(raw)
        choice = body["choices"][0]
        text = choice["message"].get("content") or ""
        finish = choice.get("finish_reason")
        usage = _usage(body.get("usage") or {})
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, RecursionError):
        shown = raw[:120].decode("utf-8", "replace")
        raise EndpointFailed(
            f"{where} answered 200 with a body that is no chat completion: {shown!r}",
            "Check that the url is an OpenAI-compatible endpoint",
        ) from None
    if not isinstance(text, str):
        raise EndpointFailed(f"{where} answered with content of type {type(text).__name__}", "Check the endpoint")
    # A reply may hold half a surrogate pair as an escape: it is kept with a mark in its place, and not used.
    whole = text.encode("utf-8", "replace").decode()
    problem = _problem(where, whole, finish, usage)
    if problem is None and whole != text:
        problem = MalformedReply(f"{where}: the reply holds half a character", "Look at the server's tokenizer")
    return Completion(whole, usage, problem)


def _problem(where: str, text: str, finish: object, usage: Usage) -> ReplyError | None:
    if finish == "length":
        return TruncatedReply(
            f"{where}: the reply was cut after {usage.tokens_out} tokens", "Raise the role's max_tokens"
        )
    if not text.strip():
        return EmptyReply(f"{where}: the reply is empty", "A reasoning model may have spent max_tokens on reasoning")
    if finish not in ("stop", None):
        return ReplyError(
            f"{where}: the reply ended with finish reason {finish!r}", "Look at the server's filters and the prompt"
        )
    return None


def _usage(usage: Any) -> Usage:
    details: Sequence[Any] | dict[str, Any] = usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    # A server that counts below zero must not lower the ledger.
    return Usage(*(max(0, int(n or 0)) for n in (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)))
