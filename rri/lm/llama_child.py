"""The child process of the embedded model: `python -m rri.lm.llama_child GGUF SLOTS CONTEXT THREADS`.

Serves the OpenAI API on a free loopback port, prints one JSON line with its URL, and ends with its parent.
"""

# ruff: noqa: I001  (the first import notes the parent process)
from rri.lifetime import die_with_parent

import json
import sys

import xllamacpp  # type: ignore[import-untyped]

REPEAT_PENALTY = 1.15
MIN_P = 0.1
# Without these two a model of this size rambles into the token limit in one reply of five.


def main() -> None:
    die_with_parent()
    gguf, slots, context, threads = sys.argv[1], *map(int, sys.argv[2:5])
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.n_parallel = slots
    params.n_ctx = context
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.sampling.penalty_repeat = REPEAT_PENALTY
    params.sampling.min_p = MIN_P
    server = xllamacpp.Server(params)
    sys.stdout.write(json.dumps({"url": f"{server.listening_address}/v1"}) + "\n")
    sys.stdout.flush()
    # The parent holds the other end of stdin: end of file means that it is gone.
    sys.stdin.read()


if __name__ == "__main__":
    main()
