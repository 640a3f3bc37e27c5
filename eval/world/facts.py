"""The facts of the known-truth world, the one parser of its sentences, and true quality, which knows no rubric.

An entity has one value for each relation. A statement gives it ("the crest of velor is falcon ."), a mention only
names the relation ("the crest of velor matters ."). A request holds a note with all facts of its entity and asks for
some of them, so that whoever reads it can answer.
"""

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from eval.world.texts import ASIDES, BRIEF, FULL, QUESTIONS, SYLLABLES, SYSTEM_PROMPT, VALUES
from rri.errors import InputError
from rri.types import Task

__all__ = [
    "HELD_OUT_SHARE",
    "Fact",
    "Question",
    "Statement",
    "World",
    "WorldRequest",
    "is_held_out",
    "make_request",
    "mention",
    "note",
    "passages",
    "quality",
    "question_of",
    "read_question",
    "read_statements",
    "request_text",
    "statement",
    "vocabulary",
    "write_note",
]

HELD_OUT_SHARE = 0.2
"""Share of all questions (entity and set of asked relations) that are kept for evaluation."""

_NOTE, _QUESTION = "note :", "question :"
_SAID = re.compile(r"\bthe (\w+) of (\w+) (?:(matters)|is (\w+(?: or \w+)*))")
_ASKED = re.compile(rf"{_QUESTION} .*?\bthe (\w+(?: , \w+)*(?: and \w+)?) of (\w+)\b")

Fact = tuple[str, str]
"""(entity, relation)."""


@dataclass(frozen=True)
class World:
    """Entities, relations, the values that a relation may have, and the one that each entity has.

    Attributes:
        seed: everything follows from it.
        entities, relations: names in a fixed order.
        values: relation -> possible values.
        facts: (entity, relation) -> value.
    """

    seed: int
    entities: tuple[str, ...]
    relations: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    facts: Mapping[Fact, str]

    @classmethod
    def make(cls, seed: int, entities: int = 40, relations: int = 8, values: int = 16) -> "World":
        """The world of a seed.

        Args:
            seed: names, values and facts follow from it.
            entities: how many, from 1.
            relations: how many, 1 to 10.
            values: how many each relation may have, 2 to 20.

        Raises:
            InputError: there are not so many words.
        """
        most = min(len(words.split()) for words in VALUES.values())
        for name, number, low, high in (
            ("entities", entities, 1, 1000),
            ("relations", relations, 1, len(VALUES)),
            ("values", values, 2, most),
        ):
            if not low <= number <= high:
                raise InputError(f"a world of {number} {name}", f"Ask for {low} to {high}")
        rng = random.Random(f"world {seed}")
        chosen = tuple(rng.sample(sorted(VALUES), relations))
        pools = {r: tuple(sorted(rng.sample(VALUES[r].split(), values))) for r in chosen}
        names = _names(entities, rng)
        facts = {(e, r): rng.choice(pools[r]) for e in names for r in chosen}
        return cls(seed, names, chosen, pools, facts)

    def of(self, entity: str) -> dict[str, str]:
        """Relation -> value of one entity.

        Raises:
            InputError: there is no such entity.
        """
        if entity not in self.entities:
            raise InputError(f"no entity {entity!r} in the world of seed {self.seed}", "Take one of `entities`")
        return {relation: self.facts[entity, relation] for relation in self.relations}


def _names(number: int, rng: random.Random) -> tuple[str, ...]:
    taken = {w for words in VALUES.values() for w in words.split()} | set(VALUES) | set(_fixed_words())
    names: dict[str, None] = {}
    while len(names) < number:
        name = "".join(rng.choice(letters) for letters in SYLLABLES)
        if name not in taken:
            names[name] = None
    return tuple(names)


# -- sentences ----------------------------------------------------------------------------------------


class Statement(NamedTuple):
    """What one sentence says of an entity. `value` is None where the relation is only named."""

    entity: str
    relation: str
    value: str | None


def statement(entity: str, relation: str, value: str) -> str:
    """A sentence that gives the value: "the crest of velor is falcon ."."""
    return f"the {relation} of {entity} is {value} ."


def mention(entity: str, relation: str) -> str:
    """A sentence that names the relation and gives no value: "the crest of velor matters ."."""
    return f"the {relation} of {entity} matters ."


def read_statements(text: str) -> list[Statement]:
    """Everything that a text states or mentions, in its order; upper case counts as lower.

    The one parser of the world: note, passages, judge, referee and quality read by it. Values joined by "or" are
    stated one by one, so that a hedge is a contradiction and no shelter. What is no such sentence is skipped.
    """
    return list(_read(text))


@lru_cache(maxsize=50_000)
def _read(text: str) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for relation, entity, named, values in _SAID.findall(text.lower()):
        found += [Statement(entity, relation, None)] if named else []
        found += [Statement(entity, relation, value) for value in values.split(" or ") if value]
    return tuple(found)


# -- requests -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What a request asks for: relations of one entity, in the order of the text."""

    entity: str
    asked: tuple[str, ...]


@dataclass(frozen=True)
class WorldRequest:
    """A request: the note with all facts of `entity`, then the question for `asked`. The solver reads `text`."""

    entity: str
    asked: tuple[str, ...]
    text: str


def note(world: World, entity: str, rng: random.Random) -> str:
    """Sentences that state all relations of an entity, in an order drawn from `rng`.

    Raises:
        InputError: there is no such entity.
    """
    return write_note(entity, world.of(entity), rng)


def write_note(entity: str, facts: Mapping[str, str], rng: random.Random) -> str:
    """`note` from relation -> value, for who knows the facts from a passage only."""
    sentences = [statement(entity, relation, value) for relation, value in facts.items()]
    rng.shuffle(sentences)
    return " ".join(sentences)


def request_text(note: str, entity: str, asked: Sequence[str], rng: random.Random, use_case: str = FULL) -> str:
    """The text of a request in one of the use case's wordings.

    Raises:
        InputError: nothing is asked, or there is no such use case.
    """
    if not asked:
        raise InputError(f"a question about {entity!r} that asks for nothing", "Give at least one relation")
    if use_case not in QUESTIONS:
        raise InputError(f"no use case {use_case!r}", f"Use cases are: {', '.join(QUESTIONS)}")
    *before, last = asked
    relations = f"{' , '.join(before)} and {last}" if before else last
    question = rng.choice(QUESTIONS[use_case]).format(relations=relations, entity=entity)
    return f"{_NOTE} {note} {_QUESTION} {question}"


def read_question(text: str) -> Question | None:
    """What a request's text asks for; None where it holds no question of the world."""
    found = _ASKED.search(text.lower())
    if found is None:
        return None
    relations = re.findall(r"\w+", found.group(1))
    return Question(found.group(2), tuple(r for r in relations if r != "and"))


def is_held_out(entity: str, asked: Sequence[str]) -> bool:
    """Whether a question is kept for evaluation: no proposer asks it and no pre-training shows it.

    The order of the relations does not matter. About `HELD_OUT_SHARE` of all questions are held out, in every world the
    same way.
    """
    key = " ".join([entity, *sorted(asked)])
    draw = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big") / 2**32
    return draw < HELD_OUT_SHARE


def make_request(
    world: World,
    rng: random.Random,
    asked: int = 3,
    *,
    use_case: str | None = None,
    held_out: bool | None = False,
) -> WorldRequest:
    """A request about an entity and relations drawn from `rng`.

    Args:
        world: where the facts come from.
        rng: source of all draws.
        asked: how many relations.
        use_case: which wordings; drawn evenly by default.
        held_out: False draws a question that may be served, True one that is kept for evaluation, None either.

    Raises:
        InputError: the world has fewer relations, or so few questions that none is held out as asked.
    """
    if not 1 <= asked <= len(world.relations):
        raise InputError(f"{asked} of {len(world.relations)} relations are asked", "Ask for fewer")
    for _ in range(10_000):
        entity = rng.choice(world.entities)
        chosen = tuple(rng.sample(world.relations, asked))
        if held_out is None or is_held_out(entity, chosen) is held_out:
            use_case = use_case or rng.choice((FULL, BRIEF))
            text = request_text(note(world, entity, rng), entity, chosen, rng, use_case)
            return WorldRequest(entity, chosen, text)
    raise InputError(
        f"a world of {len(world.entities)} entities and {len(world.relations)} relations has no question of {asked} "
        f"with held_out={held_out}",
        "Make a larger world",
    )


def question_of(task: Task) -> Question:
    """What a task asks.

    Raises:
        InputError: the task is none of the world's.
    """
    question = read_question(task.request)
    if question is None:
        raise InputError(f"task {task.task_id} asks nothing of this world", "Take a task that was written in the world")
    return question


# -- truth --------------------------------------------------------------------------------------------


def quality(world: World, request: WorldRequest | Question, answer: str) -> float:
    """True quality of an answer: (asked relations stated correctly - wrong values stated) / asked.

    It knows the facts alone. A relation for which two values are stated is wrong once, even if one of them is right. A
    false statement counts whatever it is about; a true one that was not asked for counts for nothing. 1 is the best,
    below 0 is possible, and an answer that only mentions has 0.
    """
    stated: dict[Fact, set[str]] = {}
    for said in read_statements(answer):
        if said.value is not None:
            stated.setdefault((said.entity, said.relation), set()).add(said.value)
    right = {fact for fact, values in stated.items() if values == {world.facts.get(fact)}}
    asked = {(request.entity, relation) for relation in request.asked}
    return (len(right & asked) - len(stated.keys() - right)) / len(asked)


# -- the whole world in text --------------------------------------------------------------------------


def passages(world: World) -> list[dict[str, str]]:
    """The knowledge base: one passage an entity, as lines of the corpus file (id, title, text, source)."""
    rng = random.Random(f"passages {world.seed}")
    return [
        {"id": entity, "title": entity, "text": note(world, entity, rng), "source": "the record"}
        for entity in world.entities
    ]


def vocabulary(world: World) -> list[str]:
    """Every word and mark that the solver may read or write in this world, sorted: lower case, parted by spaces."""
    values = {value for pool in world.values.values() for value in pool}
    return sorted({*_fixed_words(), *world.entities, *world.relations, *values})


def _fixed_words() -> list[str]:
    """Words of every world: of the fixed sentences and the wordings of questions."""
    wordings = [w.format(relations="x , x and x", entity="x") for known in QUESTIONS.values() for w in known]
    sentences = [SYSTEM_PROMPT, *ASIDES, *wordings, statement("x", "x", "x"), mention("x", "x"), _NOTE, _QUESTION]
    words = {word for sentence in sentences for word in sentence.split()}
    return sorted(words - {"x"})
