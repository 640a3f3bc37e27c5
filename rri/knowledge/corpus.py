"""The passages file: JSONL with id, title, text, source (METHOD 4.1)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from rri.errors import CorpusError
from rri.types import Reference, digest_of

__all__ = ["STARTER", "Corpus", "Refused", "load_corpus"]

STARTER = "starter"
"""Name of the corpus that ships with the package."""


@dataclass(frozen=True)
class Refused:
    """A passage that was left out, and why."""

    id: str
    line: int
    why: str


@dataclass(frozen=True)
class Corpus:
    """The passages of a run in the file's order. `digest` is of their content."""

    name: str
    passages: tuple[Reference, ...]
    refused: tuple[Refused, ...] = ()

    @property
    def digest(self) -> str:
        return digest_of([p.model_dump() for p in self.passages])


def load_corpus(
    source: str | Path, *, max_tokens: int | None = None, count_tokens: Callable[[str], int] | None = None
) -> Corpus:
    """Read a passages file.

    Args:
        source: a path, or "starter" for the corpus that ships with the package.
        max_tokens: prompt budget of the solver; a longer passage is refused, the others are kept.
        count_tokens: length of a text in the solver's tokens; needed with `max_tokens`.

    Raises:
        CorpusError: the file is missing or empty, a line is malformed, an id is repeated, or nothing fits.
    """
    name = str(source)
    kept: list[Reference] = []
    refused: list[Refused] = []
    first_line: dict[str, int] = {}
    for number, passage in _passages(name):
        if passage.id in first_line:
            raise CorpusError(
                f"{name}, line {number}: id {passage.id!r} stands on line {first_line[passage.id]} already",
                "Make the ids unique",
            )
        first_line[passage.id] = number
        length = count_tokens(passage.text) if max_tokens and count_tokens else 0
        if max_tokens and length > max_tokens:
            refused.append(Refused(passage.id, number, f"{length} tokens; the solver's prompt holds {max_tokens}"))
        else:
            kept.append(passage)
    if not first_line:
        raise CorpusError(f"{name} holds no passages", "Give at least one JSON line with id, title, text, source")
    if not kept:
        raise CorpusError(
            f"{name}: none of {len(refused)} passages fits the solver's prompt of {max_tokens} tokens",
            "Split the passages, or raise solver.max_prompt_tokens",
        )
    return Corpus(name, tuple(kept), tuple(refused))


def _passages(name: str) -> Iterator[tuple[int, Reference]]:
    for number, line in enumerate(_text(name).split("\n"), 1):
        if not line.strip():
            continue
        try:
            passage = Reference.model_validate(json.loads(line))
        except json.JSONDecodeError as error:
            raise CorpusError(f"{name}, line {number}: not JSON ({error.msg})", "Correct the line") from None
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"])) or "passage"
            raise CorpusError(f"{name}, line {number}: {key}: {first['msg']}", "Correct the line") from None
        if not passage.id.strip() or not passage.text.strip():
            raise CorpusError(f"{name}, line {number}: id and text must not be empty", "Correct the line")
        yield number, passage


def _text(name: str) -> str:
    if name == STARTER:
        return resources.files("rri.knowledge").joinpath("corpora/starter.jsonl").read_text(encoding="utf-8")
    try:
        return Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CorpusError(f"no passages file {name}", "Name a JSONL file, or 'starter'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"cannot read {name}: {error}", "Give a UTF-8 JSONL file") from None
