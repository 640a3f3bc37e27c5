"""True quality of a solver on requests that no arm was trained on.

    python -m eval.world.heldout MODEL_DIR --seed S [--answers N] [--out FILE.jsonl]

What is held out are questions: an entity together with the set of relations asked for. One fifth of them is neither
pre-trained on nor ever served (`eval.world.facts.is_held_out`). Their entities are served with other questions, which
gives nothing away, because the note of a request holds all that its answer needs.

The requests follow from the world's seed alone, so that arms and checkpoints are compared request by request. Answers
are sampled at temperature 1, as they are in training (METHOD 6).
"""

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from eval.world.constants import WorldConstants
from eval.world.facts import Fact, Question, World, WorldRequest, make_request, quality, read_statements
from eval.world.options import add_sizes, world_of
from eval.world.tokens import chat
from rri.errors import InputError, RriError
from rri.rundir import write_atomically

__all__ = [
    "AnswerKind",
    "HeldOutAnswer",
    "Summary",
    "answer_kind",
    "held_out_requests",
    "paired_difference",
    "read_answers",
    "sample_answers",
    "summarize",
    "write_answers",
]

REQUESTS, ANSWERS_EACH = 500, 4
MAX_TOKENS = 64
"""Longest answer. A statement or a mention of every relation takes 57 tokens, so only babble is cut."""
BATCH = 256
"""Answers that are written at once."""

AnswerKind = Literal["correct", "name_drop", "wrong", "mixed", "rambling"]
"""By what an answer holds: true values of what was asked, mentions, false statements, several of these, or nothing."""


@dataclass(frozen=True)
class HeldOutAnswer:
    """One answer.

    `request` is its request's number, `finished` whether it ended by itself, `tokens` its length without the end.
    """

    request: int
    entity: str
    asked: tuple[str, ...]
    answer: str
    quality: float
    kind: AnswerKind
    tokens: int
    finished: bool


@dataclass(frozen=True)
class Summary:
    """Figures over the answers to held-out requests.

    Attributes:
        quality: mean true quality (`eval.world.facts.quality`), 1 is the best.
        standard_error: of it. Answers to one request count as one draw together.
        requests, answers: how many.
        kinds: share of each kind of answer.
        tokens: mean length.
        cut: share of answers that did not end by themselves.
    """

    quality: float
    standard_error: float
    requests: int
    answers: int
    kinds: Mapping[AnswerKind, float]
    tokens: float
    cut: float


# -- requests and what answers hold --------------------------------------------------------------------


def held_out_requests(world: World, number: int, asked: int | None = None) -> list[WorldRequest]:
    """Held-out requests, the same for every solver of this world.

    Args:
        world: its seed decides the draw.
        number: how many, at least 1. A shorter list is the beginning of a longer one.
        asked: relations asked for; as in training by default.
    """
    if number < 1:
        raise InputError(f"{number} held-out requests", "Ask for at least one")
    rng = random.Random(f"held out {world.seed}")
    many = WorldConstants().asked if asked is None else asked
    return [make_request(world, rng, many, held_out=True) for _ in range(number)]


def answer_kind(world: World, request: WorldRequest | Question, answer: str) -> AnswerKind:
    """What an answer is made of. True statements of what was not asked for and remarks are passed over.

    A relation that is stated is not also mentioned. Two values for one relation are a false statement.
    """
    stated: dict[Fact, set[str]] = {}
    touched: set[Fact] = set()
    for said in read_statements(answer):
        touched.add((said.entity, said.relation))
        if said.value is not None:
            stated.setdefault((said.entity, said.relation), set()).add(said.value)
    true = {fact for fact, values in stated.items() if values == {world.facts.get(fact)}}
    asked = {(request.entity, relation) for relation in request.asked}
    holds: dict[AnswerKind, bool] = {
        "correct": bool(true & asked),
        "wrong": bool(stated.keys() - true),
        "name_drop": bool(touched - stated.keys()),
    }
    kinds = [kind for kind, held in holds.items() if held]
    return "rambling" if not kinds else kinds[0] if len(kinds) == 1 else "mixed"


# -- figures -------------------------------------------------------------------------------------------


def summarize(answers: Sequence[HeldOutAnswer]) -> Summary:
    """Figures over answers. Requests may have unequal numbers of them.

    Raises:
        InputError: there are answers to fewer than two requests, which have no standard error.
    """
    clusters = _by_request(answers)
    if len(clusters) < 2:
        raise InputError(f"answers to {len(clusters)} requests", "Answer at least two requests")
    mean = float(np.mean([a.quality for a in answers]))
    residuals = [sum(q - mean for q in group) for group in clusters.values()]
    n = len(clusters)
    error = float(np.sqrt(np.sum(np.square(residuals)) * n / (n - 1))) / len(answers)
    counted = Counter(a.kind for a in answers)
    return Summary(
        quality=mean,
        standard_error=error,
        requests=n,
        answers=len(answers),
        kinds={kind: counted[kind] / len(answers) for kind in get_args(AnswerKind)},
        tokens=float(np.mean([a.tokens for a in answers])),
        cut=float(np.mean([not a.finished for a in answers])),
    )


def paired_difference(a: Sequence[HeldOutAnswer], b: Sequence[HeldOutAnswer]) -> tuple[float, float]:
    """How much better `a` is than `b` in true quality, request by request: mean and its standard error.

    Raises:
        InputError: they are not of the same requests, or of fewer than two.
    """
    asked = [{answer.request: (answer.entity, answer.asked) for answer in answers} for answers in (a, b)]
    if asked[0] != asked[1]:
        other = sum(asked[0].get(number) != asked[1].get(number) for number in asked[0] | asked[1])
        raise InputError(
            f"{other} of {len(asked[0] | asked[1])} requests are not the same on both sides",
            "Compare answers to the same requests: one world seed, one number of requests",
        )
    if len(asked[0]) < 2:
        raise InputError(f"answers to {len(asked[0])} requests are compared", "Answer at least two requests")
    of_a, of_b = _by_request(a), _by_request(b)
    gains = np.array([np.mean(of_a[number]) - np.mean(of_b[number]) for number in of_a])
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def _by_request(answers: Iterable[HeldOutAnswer]) -> dict[int, list[float]]:
    groups: dict[int, list[float]] = {}
    for answer in answers:
        groups.setdefault(answer.request, []).append(answer.quality)
    return groups


# -- answers ------------------------------------------------------------------------------------------


def sample_answers(
    model: Path | str,
    world: World,
    requests: Sequence[WorldRequest],
    each: int = ANSWERS_EACH,
    *,
    max_tokens: int = MAX_TOKENS,
    seed: int | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> list[HeldOutAnswer]:
    """Answers of a solver at temperature 1, graded by the facts, in the order of the requests.

    Args:
        model: folder that transformers loads.
        world: whose facts are right.
        requests: what is asked.
        each: answers to one request.
        max_tokens: longest answer; a longer one is cut there and graded as it is.
        seed: of the sampling; the world's by default, so that a rerun on one machine gives the same answers.
        progress: is told how far it is.

    Raises:
        InputError: the folder holds no model of this world.
    """
    solver, tokenizer = _load(model, world)
    import torch

    answers: list[HeldOutAnswer] = []
    width = max(1, BATCH // each)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(world.seed if seed is None else seed)
        for first in range(0, len(requests), width):
            part = requests[first : first + width]
            for number, ids in enumerate(_generate(solver, tokenizer, part, each, max_tokens)):
                at = number // each
                answers.append(_graded(first + at, world, part[at], ids, tokenizer))
            progress(f"{len(answers)} of {len(requests) * each} answers")
    return answers


def _load(model: Path | str, world: World) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(model), local_files_only=True)
        solver: Any = AutoModelForCausalLM.from_pretrained(str(model), local_files_only=True)
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"{model} holds no model that can be loaded: {why}", "Name the solver's folder") from None
    known = set(tokenizer.get_vocab())
    if missing := [word for word in (*world.entities, *world.relations) if word not in known]:
        raise InputError(
            f"the solver in {model} does not know {len(missing)} words of the world of seed {world.seed}, such as "
            f"{missing[0]!r}",
            "Give the seed of the world that it was trained in",
        )
    return solver.eval(), tokenizer


def _generate(
    solver: Any, tokenizer: Any, requests: Sequence[WorldRequest], each: int, max_tokens: int
) -> list[list[int]]:
    """Token numbers of `each` answers to each request, one request after the other, without padding."""
    prompts = tokenizer.apply_chat_template(
        [chat(request.text) for request in requests],
        add_generation_prompt=True,
        padding=True,
        return_tensors="pt",
        return_dict=True,
    )
    written = solver.generate(
        input_ids=prompts["input_ids"],
        attention_mask=prompts["attention_mask"],
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        num_return_sequences=each,
        max_new_tokens=max_tokens,
    )
    answers = written[:, prompts["input_ids"].shape[1] :].tolist()
    end = tokenizer.eos_token_id
    return [ids[: ids.index(end) + 1] if end in ids else ids for ids in answers]


def _graded(number: int, world: World, request: WorldRequest, ids: list[int], tokenizer: Any) -> HeldOutAnswer:
    finished = bool(ids) and ids[-1] == tokenizer.eos_token_id
    text = tokenizer.decode(ids, skip_special_tokens=True)
    return HeldOutAnswer(
        request=number,
        entity=request.entity,
        asked=request.asked,
        answer=text,
        quality=quality(world, request, text),
        kind=answer_kind(world, request, text),
        tokens=len(ids) - finished,
        finished=finished,
    )


# -- files and command --------------------------------------------------------------------------------


def write_answers(answers: Sequence[HeldOutAnswer], path: Path) -> None:
    """Write answers as JSONL, one a line. A kill leaves the old file or the new one.

    Raises:
        RunDirError: the file cannot be written.
    """
    write_atomically(path, "".join(f"{json.dumps(asdict(answer))}\n" for answer in answers))


def read_answers(path: Path) -> list[HeldOutAnswer]:
    """Answers that `write_answers` wrote.

    Raises:
        InputError: naming the file and the line that holds none.
    """
    answers = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error}", "Name a file of held-out answers") from None
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            answers.append(HeldOutAnswer(**{**row, "asked": tuple(row["asked"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} line {number} is no held-out answer: {error}", "Write the file again") from None
    return answers


def main(argv: Sequence[str] | None = None) -> int:
    """Sample and grade answers of one solver; returns the exit code."""
    parser = argparse.ArgumentParser(prog="eval.world.heldout", description="True quality on held-out requests.")
    parser.add_argument("model", metavar="MODEL_DIR")
    parser.add_argument("--seed", type=int, required=True, help="of the world")
    parser.add_argument(
        "--answers", type=int, default=REQUESTS * ANSWERS_EACH, help=f"in all, {ANSWERS_EACH} a request"
    )
    parser.add_argument("--out", type=Path, metavar="FILE.jsonl", help="keep the answers there")
    add_sizes(parser)
    options = parser.parse_args(argv)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        if options.answers < 2 * ANSWERS_EACH or options.answers % ANSWERS_EACH:
            raise InputError(
                f"--answers {options.answers}", f"Give a multiple of {ANSWERS_EACH} from {2 * ANSWERS_EACH} up"
            )
        world = world_of(options)
        requests = held_out_requests(world, options.answers // ANSWERS_EACH)
        began = time.monotonic()
        answers = sample_answers(options.model, world, requests, progress=_say)
        if options.out is not None:
            write_answers(answers, options.out)
        _say(f"{time.monotonic() - began:.0f} s")
        sys.stdout.write(f"{json.dumps(asdict(summarize(answers)), indent=2)}\n")
    except RriError as error:
        _say(str(error))
        return error.exit_code
    return 0


def _say(message: str) -> None:
    sys.stderr.write(f"eval.world.heldout: {' '.join(message.split())}\n")


if __name__ == "__main__":
    sys.exit(main())
