"""The models of the known-truth world behind the OpenAI chat API, in a process of their own.

    python -m eval.world.server SEED [--entities N --relations N --values N] [--constants JSON] [--draws NAME]
        [--port N]

Prints the port that it listens on, on loopback, and serves until it is killed. POST /v1/chat/completions answers as the
role that the model names. GET /v1/models lists the roles. GET /v1/calls counts the calls of each.

An arm makes some 100,000 calls beside a trainer on two cores, so a request is parsed by hand and costs about as much as
its JSON. It speaks HTTP/1.1 with Content-Length, as the gateway's client does.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from eval.world.constants import WorldConstants, parse_constants
from eval.world.facts import World
from eval.world.models import MODELS, WorldModels
from eval.world.prompts import Prompt
from rri.errors import EndpointUnreachable, RriError
from rri.lifetime import leashed

__all__ = ["WorldServer", "main"]

_CHAT, _MODELS, _CALLS = "/v1/chat/completions", "/v1/models", "/v1/calls"
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found"}
_MOST_BYTES = 16 * 2**20


class WorldServer:
    """The server as a child process that ends with this one.

    Args:
        world: served is the world of the same seed and sizes.
        constants: how its models behave; the fair world by default.
        port: 0 takes a free one.
        draws: see `eval.world.models.WorldModels`.

    Example:
        >>> with WorldServer(World.make(100)) as server:
        ...     server.url
        'http://127.0.0.1:43210/v1'
    """

    def __init__(self, world: World, constants: WorldConstants | None = None, port: int = 0, draws: str = "") -> None:
        self.world = world
        self.constants = constants or WorldConstants()
        self.url = ""
        self._port = port
        self._draws = draws
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Raises:
        EndpointUnreachable: the child ended before it listened.
        """
        world = self.world
        sizes = {"entities": len(world.entities), "relations": len(world.relations)}
        sizes["values"] = len(next(iter(world.values.values())))
        command = [sys.executable, "-m", "eval.world.server", str(world.seed), "--port", str(self._port)]
        command += [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
        command += ["--constants", self.constants.model_dump_json(), "--draws", self._draws]
        self._process = subprocess.Popen(leashed(command), stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.strip().isdigit():
            code = self._process.wait()
            raise EndpointUnreachable(f"the world's model server ended with code {code}", "Read its message above")
        self.url = f"http://127.0.0.1:{int(line)}/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None and self._process.stdout is not None
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


class _Connection(asyncio.Protocol):
    """One client. Its requests are answered in their order; several may be under way in one packet."""

    def __init__(self, models: WorldModels) -> None:
        self.models = models
        self.buffer = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (request := self._next()) is not None:
            assert self.transport is not None
            self.transport.write(_response(*_answer(self.models, *request)))
        if len(self.buffer) > _MOST_BYTES:
            assert self.transport is not None
            self.transport.close()

    def _next(self) -> tuple[bytes, str, bytes] | None:
        """Method, path and body of the next whole request; None until there is one."""
        head, separator, rest = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return None
        first, *lines = head.split(b"\r\n")
        fields = (line.partition(b":") for line in lines)
        lengths = [int(value) for name, _, value in fields if name.lower() == b"content-length"]
        length = lengths[0] if lengths else 0
        if len(rest) < length:
            return None
        self.buffer = rest[length:]
        method, path, *_ = first.split(b" ")
        return method, path.decode("latin-1"), rest[:length]


def _answer(models: WorldModels, method: bytes, path: str, body: bytes) -> tuple[int, Mapping[str, Any]]:
    """Status and body of the answer to one request."""
    if method == b"GET" and path == _MODELS:
        return 200, {"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]}
    if method == b"GET" and path == _CALLS:
        return 200, dict(models.calls)
    if method != b"POST" or path != _CHAT:
        return 404, _error(f"there is nothing at {method.decode('latin-1')} {path}")
    try:
        asked = json.loads(body)
        schema = (asked.get("response_format") or {}).get("json_schema") or {}
        prompt = Prompt(str(asked.get("model", "")), asked["messages"], str(schema.get("name", "")))
        if prompt.model not in MODELS:
            return 404, _error(f"no model {prompt.model!r}; models are: {', '.join(MODELS)}")
        return 200, _completion(prompt, models.reply(prompt))
    except RriError as error:
        return 400, _error(str(error))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        # A prompt of another shape than the roles' own: the caller learns it, and no reply is made up.
        return 400, _error(f"the request cannot be read: {type(error).__name__}: {error}")


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


def _completion(prompt: Prompt, text: str) -> dict[str, Any]:
    tokens_in, tokens_out = sum(len(m["content"]) for m in prompt.messages) // 4, len(text) // 4
    usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-world",
        "object": "chat.completion",
        "created": 0,
        "model": prompt.model,
        "choices": [choice],
        "usage": usage,
    }


def _response(status: int, body: Mapping[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    return f"{head}\r\n\r\n".encode() + content


async def _serve(models: WorldModels, port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(models), "127.0.0.1", port, backlog=2048)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until killed; returns the exit code where it cannot start."""
    parser = argparse.ArgumentParser(prog="eval.world.server", description="The models of the known-truth world.")
    parser.add_argument("seed", type=int, help="of the world")
    parser.add_argument("--entities", type=int, default=40)
    parser.add_argument("--relations", type=int, default=8)
    parser.add_argument("--values", type=int, default=16)
    parser.add_argument("--constants", default="{}", metavar="JSON", help="what differs from the fair world")
    parser.add_argument("--draws", default="", metavar="NAME", help="a series of draws of its own")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options = parser.parse_args(argv)
    try:
        world = World.make(options.seed, options.entities, options.relations, options.values)
        asyncio.run(_serve(WorldModels(world, parse_constants(options.constants), options.draws), options.port))
    except RriError as error:
        sys.stderr.write(f"eval.world.server: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
