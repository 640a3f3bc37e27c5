"""A chat server that costs as little as a server can: `python -m tests.perf.model_server LATENCY_S [FAULTS] [DIALECT]`.

Answers every POST with one fixed positive verdict after LATENCY_S seconds; prints its port. FAULTS is a JSON object of
shares: `busy` (429), `malformed` (JSON of another shape), `hang` (30 s). DIALECT names the shape of the verdict, since
every grading library asks for its own. GET /count tells how many requests came in.
"""

import argparse
import asyncio
import json
import random
import re

__all__ = ["DIALECTS", "HANG_S"]

REASON = "The answer states it in its second sentence."
NAME = "NAME"
DIALECTS = {
    "rri": json.dumps({"reason": REASON, "met": True}),
    "status": json.dumps({"criterion_status": "MET", "explanation": REASON}),
    "letter": f"{REASON}\n\nGRADE: C",
    "named": json.dumps({"verdicts": [{"name": NAME, "reason": REASON, "verdict": "yes"}]}),
}
"""Shape -> the positive verdict; NAME stands for the criterion's name, which the request tells (`- c0: ...`)."""
NAMED_IN_REQUEST = re.compile(rb"- (c\d+): ")
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


MALFORMED, BUSY = completion('{"verdict": "yes"}'), response(429, b"{}")


class Answers:
    """What is answered to the next request. Shared by all connections, so that shares hold over the whole run."""

    def __init__(self, latency_s: float, faults: dict[str, float], dialect: str) -> None:
        self.latency_s, self.faults = latency_s, faults
        self.text = DIALECTS[dialect]
        self.good = completion(self.text)
        self.good_for: dict[bytes, bytes] = {}
        self.requests = 0
        self.random = random.Random(0)

    def next(self, body: bytes) -> tuple[bytes, float]:
        """The answer's bytes, and the seconds to wait before them."""
        self.requests += 1
        at = self.random.random()
        for fault, share in self.faults.items():
            if at < share:
                return {
                    "busy": (BUSY, 0.0),
                    "malformed": (MALFORMED, self.latency_s),
                    "hang": (self.verdict(body), HANG_S),
                }[fault]
            at -= share
        return self.verdict(body), self.latency_s

    def verdict(self, body: bytes) -> bytes:
        if NAME not in self.text:
            return self.good
        found = NAMED_IN_REQUEST.search(body)
        if found is None:
            return MALFORMED
        name = found.group(1)
        if name not in self.good_for:
            self.good_for[name] = completion(self.text.replace(NAME, name.decode()))
        return self.good_for[name]


class ModelServer(asyncio.Protocol):
    """One connection. Requests on it come one after another, as HTTP clients without pipelining send them."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
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
        body, self.buffer = rest[:length], rest[length:]
        if head.startswith(b"GET"):
            self.send(response(200, json.dumps({"requests": self.answers.requests}).encode()))
            return
        answer, wait = self.answers.next(body)
        self.loop.call_later(wait, self.send, answer)

    def send(self, answer: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(answer)  # type: ignore[attr-defined]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("latency_s", type=float)
    parser.add_argument("faults", nargs="?", type=json.loads, default={})
    parser.add_argument("dialect", nargs="?", choices=DIALECTS, default="rri")
    options = parser.parse_args()
    answers = Answers(options.latency_s, options.faults, options.dialect)
    server = await asyncio.get_running_loop().create_server(lambda: ModelServer(answers), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
