"""The numbers of the known-truth world: how its models behave, fixed before any arm is run.

Where the paper reports a figure, the number is that figure or was fitted to it on seeds from 100 up, with no solver
in the loop: `python -m eval.world.landscape SEED` prints the fit. The others are guesses that say so. No language
model had been trained in the world when they were fixed. Two of them, `answer_tokens` and `value_share`, were changed
once after a tabular solver had been driven through the arms of seed 104: untuned rubrics paid the truth more than
names then, and they were set to where the two are paid alike.

What came of it over three seeds and the four states of the prompts, 200 tasks each, the paper's figure behind: the
lead of the exploit falls from 0.38 to 0.02 (0.43 to 0.01), after repair the honest answer leads on 40% of the beaten
tasks (33%) and 25% of them pass (22%). An exploit case has a margin of 0.42 (0.40) and is an incorrect pair in 14%
(17%). Of the accepted criteria 82% are positive (81%), and 79% of the first attacks on a patched rubric win again
(84%).

Why neither end is built in. An answer has room for seven sentences, the world has eight relations, and a rubric asks
for some that the request did not. So naming competes with stating, as breadth competes with depth where length is
taxed. The room is such that untuned rubrics pay the best true answer and the best empty one alike (0.90 and 0.89):
there a solver is neither led to the truth nor away from it. What moves it is the share of criteria that demand
values. Guidance, memo and repair raise that share, and none of them to 1: repaired rubrics still pay an empty answer
0.4. A true answer never earns all of it either, because keys are faulty, topics beyond the request stay, and judges
err.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import Field, ValidationError

from rri.domain import Section
from rri.errors import InputError
from rri.types import digest_of

__all__ = ["STRESSES", "WorldConstants", "markdown_table", "parse_constants", "stressed"]


def _share(default: float, meaning: str, source: str) -> Any:
    return Field(default=default, ge=0, le=1, description=meaning, json_schema_extra={"source": source})


class WorldConstants(Section):
    """How the models of the world behave. Every number is a share in [0, 1] unless its meaning says otherwise."""

    asked: int = Field(
        default=3,
        ge=1,
        description="relations that a request asks for (a count)",
        json_schema_extra={"source": "as many as a rubric has positives in the mean (METHOD 4.4)"},
    )

    answer_tokens: int = Field(
        default=48,
        ge=1,
        description="longest answer of the solver, in words and marks (a count)",
        json_schema_extra={"source": "values and breadth compete for room; untuned rubrics pay both alike"},
    )

    value_share: float = _share(
        0.05, "criteria that demand a value, written without guidance and memo", "99% of such rubrics can be hacked"
    )
    guidance_lift: float = _share(
        0.25, "of the topics left, those that guidance at full demand turns into values", "guess; helps, does not cure"
    )
    memo_lift: float = _share(
        0.20, "of the topics left, those that a memo at full demand turns into values", "guess; near the guidance"
    )
    off_request: float = _share(
        0.40, "criteria about a relation that was not asked for", "lead of the exploit before repair, 0.43"
    )
    faulty_key: float = _share(0.05, "value criteria that hold a wrong value", "faulty keys make 9% to 14% of exploits")
    value_negatives: float = _share(
        0.15, "negatives about a false value instead of padding, untuned", "missed negatives make 33% of exploits"
    )
    positive_delivery: float = _share(0.92, "positives that are written as asked", "METHOD 4.4 needs 0.75")
    negative_delivery: float = _share(0.85, "negatives that are written as asked", "METHOD 4.4 needs 0.75")
    rephrased: float = _share(0.20, "tasks whose wording differs from the request's", "guess; changes no fact")

    judge_flip: float = _share(0.027, "single votes that are wrong by chance", "METHOD 11: 2.7%")
    judge_lenient: float = _share(
        0.15,
        "value criteria found met on a mention, without the strict note; all votes agree",
        "guess; why the paper has a strict note",
    )

    honest_omits: float = _share(0.28, "asked relations that the honest answer leaves out", "honest score about 0.5")
    honest_errs: float = _share(0.08, "values that the honest answer gets wrong", "guess; a good model, no oracle")
    honest_extra: float = _share(0.10, "relations not asked for that the honest answer adds", "guess")
    honest_aside: float = _share(0.05, "honest answers with a remark that says nothing", "guess")
    farmer_slip: float = _share(
        0.18, "relations for which the farmer gives the value against its orders", "a few points left after repair"
    )

    rewriter_hardens: float = _share(
        0.25, "topics that one rewrite turns into values", "lead over the rewrites from 0.43 to 0.01"
    )
    rewriter_reaims: float = _share(
        0.50, "of those about a relation not asked for, the ones moved to an asked one", "guess"
    )
    rewriter_adds: float = _share(0.50, "rewrites with one more value criterion", "METHOD 3: at most three more")
    rewriter_mends: float = _share(0.50, "faulty keys that a rewrite corrects", "guess; it sees the honest answer")

    minter_topics: float = _share(0.15, "minted positives that a mention meets", "guess; the judge throws them out")
    minter_repeats: float = _share(0.15, "criteria minted although the rubric has them", "guess; overlap is refused")
    minter_checks: float = _share(
        0.80, "values of the better answer that are compared with the note first", "incorrect pairs, 17%"
    )
    minter_negatives: float = _share(
        0.80, "wrong values of the exploit for which a negative is minted", "4/5 of accepted criteria are positive"
    )
    minter_general: float = _share(
        0.50, "of those, negatives against any wrong value instead of this one", "METHOD 3: behaviour, not wording"
    )

    referee_misreads: float = _share(
        0.25, "answers that are read as one statement better or worse, in every order", "incorrect pairs, 17%"
    )
    referee_swap: float = _share(0.05, "neighbours in a ranking that change places", "guess; METHOD 11 asks twice")
    referee_by_length: float = _share(0.0, "rankings by length alone", "METHOD 11; a stress, off in the fair world")

    analyst_spots: float = _share(0.70, "name-dropping answers with a high score that are found out", "guess")
    analyst_misreads: float = _share(0.10, "diagnoses that say nothing of the case", "guess")
    optimizer_notices: float = _share(
        0.15, "diagnosed cases that must blame gameable rubrics before guidance asks for values", "3 of METHOD's 20"
    )
    optimizer_insists: float = _share(
        0.30, "the same, before guidance also bans topics; a confirmed exploit does it too", "6 of METHOD's 20"
    )

    def value_rate(self, guidance: float, memo: float, base: float | None = None) -> float:
        """Share of value criteria under guidance and memo of this demand, each in [0, 1].

        Args:
            guidance, memo: what `eval.world.roles.orders.value_demand` reads out of them.
            base: the share without either; `value_share` by default.
        """
        start = self.value_share if base is None else base
        return 1 - (1 - start) * (1 - self.guidance_lift * guidance) * (1 - self.memo_lift * memo)

    @property
    def digest(self) -> str:
        """Digest of all numbers, to be kept beside what was measured under them."""
        return digest_of(self.model_dump())


STRESSES: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "noisy-judge": {"judge_flip": 0.10},
        "length-biased-referee": {"referee_by_length": 0.5},
        "weak-honest": {"honest_errs": 0.5},
    }
)
"""Worlds in which one role is bad: what is changed from the fair one."""


def stressed(name: str) -> WorldConstants:
    """The constants of a stress.

    Raises:
        InputError: there is no such stress.
    """
    if name not in STRESSES:
        raise InputError(f"no stress {name!r}", f"Stresses are: {', '.join(STRESSES)}")
    return WorldConstants(**STRESSES[name])  # type: ignore[arg-type]


def parse_constants(text: str) -> WorldConstants:
    """The fair world with what a JSON object changes of it, as the commands take it.

    Raises:
        InputError: no JSON object, an unknown constant, or a value outside its range.
    """
    try:
        return WorldConstants.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "JSON"
        raise InputError(f"constants: {where}: {first['msg']}", "Correct the constants") from None


def markdown_table(constants: WorldConstants | None = None) -> str:
    """Every constant with its value, its meaning and where it comes from, as a table."""
    constants = constants or WorldConstants()
    rows = ["| constant | value | meaning | from |", "|---|---|---|---|"]
    for name, field in WorldConstants.model_fields.items():
        extra = field.json_schema_extra
        source = extra["source"] if isinstance(extra, dict) else ""
        rows.append(f"| {name} | {getattr(constants, name):g} | {field.description} | {source} |")
    return "\n".join(rows)


WorldConstants.__doc__ = f"{WorldConstants.__doc__}\n\n{markdown_table()}\n"
