"""How an author of the world understands guidance and memo: by simple words, so that what they say matters.

Read are clauses, parted by full stops, semicolons, colons and line ends. A clause that speaks of values and forbids
nothing is a demand for values. A clause that speaks of naming a topic and forbids it is a ban on topics.
"""

import re

__all__ = ["value_demand"]

_CLAUSES = re.compile(r"[.;:!?\n]+")
_FORBIDS = re.compile(r"\b(?:not|never|no|avoid|without|instead of|rather than)\b")
_VALUES = re.compile(r"\b(?:values?|states? that|exact)\b")
_TOPICS = re.compile(r"\b(?:mentions?|mentioning|naming|topics?|subjects?)\b")


def value_demand(text: str) -> float:
    """How strongly a text orders criteria that demand a value: 0, 0.5 for a demand, 1 where it also bans topics.

    A ban alone is 0: it does not say what to write instead.
    """
    clauses = _CLAUSES.split(text.lower())
    demands = any(_VALUES.search(c) and not _FORBIDS.search(c) for c in clauses)
    bans = any(_TOPICS.search(c) and _FORBIDS.search(c) for c in clauses)
    return (0.5 + 0.5 * bans) if demands else 0.0
