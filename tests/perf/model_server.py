"""A chat server that costs as little as a server can: `python -m tests.perf.model_server LATENCY_S [FAULTS]`.

Answers every POST with one fixed verdict after LATENCY_S seconds; prints its port. FAULTS is a JSON object of shares:
`busy` (429), `malformed` (JSON of another shape), `hang` (30 s). GET /count tells how many requests came in.
"""

import asyncio
import json
import random
import sys

VERDICT = json.dumps({"reason": "The answer states it in its second sentence.", "met": True})
HANG_S = 30.0


def completion(content: str) -> bytes:
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 0,
        "model": "judge",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 700, "completion_tokens": 20, "total_tokens": 720},
    }
    return response(200, json.dumps(body).encode())


def response(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


GOOD, MALFORMED, BUSY = completion(VERDICT), completion('{"verdict": "yes"}'), response(429, b"{}")


class Counter:
    """Shared by all connections, so that shares hold over the whole run."""

    requests = 0
    random = random.Random(0)


class ModelServer(asyncio.Protocol):
    """One connection. Requests on it come one after another, as HTTP clients without pipelining send them."""

    def __init__(self, latency_s: float, faults: dict[str, float]) -> None:
        self.latency_s, self.faults = latency_s, faults
        self.buffer = b""
        self.loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, separator, rest = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        if head.startswith(b"GET"):
            self.send(response(200, json.dumps({"requests": Counter.requests}).encode()))
            return
        Counter.requests += 1
        answer, wait = self.choose()
        self.loop.call_later(wait, self.send, answer)

    def choose(self) -> tuple[bytes, float]:
        at = Counter.random.random()
        for fault, share in self.faults.items():
            if at < share:
                return {"busy": (BUSY, 0.0), "malformed": (MALFORMED, self.latency_s), "hang": (GOOD, HANG_S)}[fault]
            at -= share
        return GOOD, self.latency_s

    def send(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)  # type: ignore[attr-defined]


async def main() -> None:
    latency_s = float(sys.argv[1])
    faults = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    server = await asyncio.get_running_loop().create_server(
        lambda: ModelServer(latency_s, faults), "127.0.0.1", 0, backlog=2048
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
