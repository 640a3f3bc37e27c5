"""How often the embedded model keeps to the generator's schema: `make bench-schema`.

Asks the generator for tasks on passages of the starter corpus, with the smoke preset's sampling and the strict
schema on the wire, and counts the calls whose first sample is usable and those that are after one fresh sample.
"""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from scipy.stats import binomtest

from programs.generator import Generator
from rri.aio import collect
from rri.config import load_config
from rri.errors import ModelError
from rri.knowledge import load_corpus
from rri.lm import CallRecord, open_gateway, role_lm, tagged
from rri.rubric_rules import check_rubric
from rri.types import Reference


@dataclass
class Tries:
    """A sink that keeps the error of each try, by sample."""

    errors: dict[str, list[str]] = field(default_factory=dict)

    async def keep(self, record: CallRecord) -> None:
        self.errors.setdefault(record.tag.sample, []).append(record.error.split(":")[0])


async def ask(generator: Generator, number: int, passage: Reference) -> bool:
    """Whether a usable draft came back whose rubric also passes the validator."""
    with tagged(sample=f"call-{number}"):
        try:
            draft = await generator.acall(
                request=f"{passage.title}: explain it and apply it to a case.",
                passages=[passage],
                positives=2,
                negative=number % 2 == 0,
            )
        except ModelError:
            return False
    return not check_rubric(draft.rubric)


def share(part: int, whole: int) -> dict[str, float]:
    """A share with its 95% Wilson interval."""
    interval = binomtest(part, whole).proportion_ci(method="wilson")
    return {"n": part, "share": part / whole, "low": interval.low, "high": interval.high}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--concurrency", type=int, default=4)
    options = parser.parse_args()
    tries = Tries()
    gateway = open_gateway(load_config("smoke"), sink=tries, progress=lambda m: print(m, file=sys.stderr))
    generator = Generator()
    generator.set_lm(role_lm("generator", gateway))
    passages = load_corpus("starter").passages
    asks = [partial(ask, generator, n, passages[n % len(passages)]) for n in range(options.calls)]
    started = time.monotonic()
    valid = gateway.loop.run(collect(asks, options.concurrency))
    seconds = time.monotonic() - started
    first = sum(not errors[0] for errors in tries.errors.values())
    second = sum(not errors[-1] for errors in tries.errors.values())
    totals = gateway.ledger.total()
    gateway.close_sync()
    result = {
        "calls": options.calls,
        "parsed_first_try": share(first, options.calls),
        "parsed_within_one_retry": share(second, options.calls),
        "rubric_valid": share(sum(valid), options.calls),
        "errors": dict(Counter(e for errors in tries.errors.values() for e in errors if e)),
        "seconds": round(seconds, 1),
        "tokens_out": totals.tokens_out,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
