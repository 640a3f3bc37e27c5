"""A passages file of two lines."""

import json
from pathlib import Path

__all__ = ["write_passages"]


def write_passages(path: Path, n: int = 3) -> Path:
    """`n` short passages as JSONL."""
    lines = [
        {"id": f"p{i}", "title": f"Rule {i}", "text": f"Rule {i} has the value {40 + i}.", "source": "made for tests"}
        for i in range(n)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
