"""Scripted models for every role with replies of realistic length: `python -m tests.perf.loop_models`.

A server in a process of its own, so that its CPU is nobody else's. What the models decide is what those of
`rri.testing` decide. Lengths are those of a clinical run. Prints its port, and stops when its input ends.
"""

import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from rri.knowledge import load_corpus
from rri.testing import ChatRequest, ScriptedServer, role_models

__all__ = ["lengthened", "long_models"]

REQUEST_CHARS, TASK_CHARS, CRITERION_CHARS = 220, 700, 130
EXPLOIT_CHARS, ANSWER_CHARS, REASON_CHARS = 1250, 1600, 180

Model = Callable[[ChatRequest], Any]
Change = Callable[[str], str]


@cache
def vocabulary() -> list[str]:
    """Plain words, long enough that no rule of wording is about one of them."""
    texts = " ".join(passage.text for passage in load_corpus("starter").passages)
    return sorted({word for word in re.findall(r"[a-z]{5,}", texts)})


def prose(seed: str, chars: int) -> str:
    """Words in an order of the seed's own, `chars` characters in all."""
    draw = random.Random(seed)
    return " ".join(draw.choices(vocabulary(), k=chars // 5))[:chars]


def lengthened(text: str, chars: int) -> str:
    """`text` with prose of its own behind it; as it is where it is long enough."""
    missing = chars - len(text) - 1
    return f"{text} {prose(text, missing)}" if missing > 0 else text


def in_json(**chars: int) -> Change:
    """Lengthens the strings under these keys, wherever in the reply they stand. Negative criteria stay as they are:
    a rewrite has to repeat them.
    """

    def walk(node: Any) -> Any:
        if isinstance(node, list):
            return [walk(item) for item in node]
        if not isinstance(node, dict) or node.get("points", 0) < 0:
            return node
        return {
            key: lengthened(value, chars[key]) if key in chars and isinstance(value, str) else walk(value)
            for key, value in node.items()
        }

    return lambda reply: json.dumps(walk(json.loads(reply)))


def propose(reply: str) -> str:
    return json.dumps({"requests": [lengthened(text, REQUEST_CHARS) for text in json.loads(reply)["requests"]]})


def plain(chars: int) -> Change:
    return lambda reply: lengthened(reply, chars)


CHANGES: dict[str, Change] = {
    "proposer": propose,
    "generator": in_json(task=TASK_CHARS, text=CRITERION_CHARS),
    "farmer": plain(EXPLOIT_CHARS),
    "honest": plain(ANSWER_CHARS),
    "judge": in_json(reason=REASON_CHARS),
    "rewriter": in_json(text=CRITERION_CHARS, exploit_fails=REASON_CHARS, honest_passes=REASON_CHARS),
}


def long_models() -> Iterator[tuple[str, Model]]:
    """`role_models`, those that write at length lengthened."""
    for role, model in role_models().items():
        yield role, _changed(model, CHANGES.get(role))


def _changed(model: Model, change: Change | None) -> Model:
    if change is None:
        return model
    return lambda request: model(request) if request.schema_name == "Ready" else change(model(request))


def main() -> None:
    with ScriptedServer(dict(long_models()), keep=0) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
