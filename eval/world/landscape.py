"""The reward landscape of the known-truth world, without any solver: what rubrics pay for, before and after repair.

    python -m eval.world.landscape SEED [--tasks N] [--constants JSON] [--rehearse]

Tasks are written, attacked and repaired by the real programs over real HTTP. The report sets the figures of admission
and patching beside the paper's, to which the constants were fitted, and tells what each way of answering would earn.
An arm ends well by itself only where truth earns more than names do; how much more is what is read here. `--rehearse`
adds where a solver of a few dozen numbers ends on these tasks.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from eval.world.config import world_config, write_corpus
from eval.world.confirming import BEATEN
from eval.world.constants import WorldConstants, parse_constants
from eval.world.facts import World, quality, question_of, read_question
from eval.world.measuring import rubrics_of
from eval.world.rehearsal import Phase, Rehearsed, rehearse
from eval.world.roles.evolving import GUIDANCE_B, MEMOS
from eval.world.server import WorldServer
from eval.world.strategies import STRATEGIES, Strategy, expected_score, mixed
from programs.roles import Roles
from programs.writing import TaskWriter
from rri.aio import collect
from rri.cases import Answered, ExploitCase, GuidanceVersion, MemoVersion, Patch
from rri.config import RunConfig, parse_config
from rri.errors import RriError
from rri.evidence import Admission
from rri.knowledge import Corpus, load_corpus
from rri.lm import Gateway, resolve_routes
from rri.types import Reference, Task

__all__ = ["VARIANTS", "Admitted", "Landscape", "Patched", "main", "survey"]


class Texts(NamedTuple):
    """Guidance block B and memo under which tasks are written."""

    guidance: str = ""
    memo: str = ""


VARIANTS: Mapping[str, Texts] = {
    "untuned": Texts(),
    "guidance": Texts(guidance=GUIDANCE_B[1.0]),
    "memo": Texts(memo=MEMOS[1]),
    "both": Texts(GUIDANCE_B[1.0], MEMOS[1]),
}


# -- admission ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Admitted:
    """What became of the tasks of one variant.

    Attributes:
        admissions: one a task.
        value_share: of the positive criteria at birth, those that demand a value.
        value_share_after: the same as admitted.
        rewards: strategy -> expected training score at birth and as admitted.
    """

    admissions: tuple[Admission, ...]
    value_share: float
    value_share_after: float
    rewards: Mapping[str, tuple[float, float]]

    @property
    def beaten(self) -> list[tuple[float, float]]:
        """Delta at birth and as admitted of the tasks that went to repair."""
        found = [(a.delta_before, a.delta_after) for a in self.admissions if a.outcome in BEATEN]
        return [(before, after) for before, after in found if before is not None and after is not None]


_CYCLES, _TUNED, _SOLVERS = 200, 20, 4
"""Cycles of a rehearsal, from which one on guidance and memo are at full strength, and how many solvers rehearse."""


class _Shelf:
    """Finds the passage of the entity that a request is about, which the index finds by meaning."""

    def __init__(self, corpus: Corpus) -> None:
        self._by_id = {p.id: p for p in corpus.passages}

    async def asearch(self, query: str, k: int) -> list[Reference]:
        question = read_question(query)
        return [self._by_id[question.entity]] if question else []


class _Survey:
    """One world, its models and the programs over them."""

    def __init__(self, world: World, constants: WorldConstants, config: RunConfig, gateway: Gateway) -> None:
        self.world, self.constants, self.config = world, constants, config
        self.roles = Roles.bind(config, gateway)
        self.corpus = load_corpus(config.corpus)

    async def written(self, texts: Texts, n: int) -> list[Task]:
        """`n` tasks, written under these texts."""
        proposer, generator = self.roles.guided(
            GuidanceVersion(version=0, guidance_b=texts.guidance), MemoVersion(version=0, memo=texts.memo)
        )
        config = self.config
        shelf = _Shelf(self.corpus)
        writer = TaskWriter(
            proposer, generator, shelf, self.corpus.passages, config.domain, config.generation, config.seed
        )
        tasks: list[Task] = []
        for draw in range(1, n + 1):
            requests = await writer.propose(config.generation.requests_per_call, draw, [])
            writes = [partial(writer.write, r, len(tasks) + i) for i, r in enumerate(requests)]
            tasks += await collect(writes, 8)
            if len(tasks) >= n:
                break
        return tasks[:n]

    async def admitted(self, texts: Texts, n: int) -> Admitted:
        tasks = await self.written(texts, n)
        admitter = self.roles.admitter()
        admissions = await collect([partial(admitter.admit, task) for task in tasks], 16)
        after = [a.task for a in admissions]
        rng = random.Random(f"strategies {self.world.seed}")
        rewards = {
            name: (self._reward(tasks, strategy, rng), self._reward(after, strategy, rng))
            for name, strategy in STRATEGIES.items()
        }
        born, entered = (rubrics_of(self.world, part).values for part in (tasks, after))
        return Admitted(tuple(admissions), born, entered, rewards)

    def _reward(self, tasks: Sequence[Task], strategy: Strategy, rng: random.Random) -> float:
        return fmean(
            expected_score(task.rubric, strategy(self.world, question_of(task), rng), self.constants) for task in tasks
        )

    async def patched(self, tasks: Sequence[Task]) -> "Patched":
        """Exploit cases among groups of eight answers, each with a mix of its own, and their patches."""
        rng = random.Random(f"groups {self.world.seed}")
        finder, patcher = self.roles.finder(), self.roles.patcher()
        cases: list[ExploitCase] = []
        for position, task in enumerate(tasks):
            question = question_of(task)
            texts = [mixed(self.world, question, rng, rng.random(), rng.random()) for _ in range(8)]
            grades = await collect([partial(self.roles.grader.grade, task, text, training=True) for text in texts], 8)
            group = [Answered(row=i, answer=t, grade=g) for i, (t, g) in enumerate(zip(texts, grades, strict=True))]
            _, case = await finder.find(0, position, task, group)
            cases += [case] if case is not None else []
        repairs = [partial(patcher.patch, number, case, case.task) for number, case in enumerate(cases)]
        patches: list[Patch] = await collect(repairs, 8)
        return Patched(tuple(cases), tuple(patches), sum(self._incorrect(case) for case in cases))

    def _incorrect(self, case: ExploitCase) -> bool:
        """Whether the better answer of a case is no better by the facts."""
        question = question_of(case.task)
        worth = [quality(self.world, question, a.answer) for a in (case.better, case.exploit)]
        return worth[0] <= worth[1]


# -- patches ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patched:
    """Exploit cases, their patches, and in how many of the cases the pair was wrong by the facts."""

    cases: tuple[ExploitCase, ...]
    patches: tuple[Patch, ...]
    incorrect: int

    @property
    def positive_share(self) -> float:
        """Of the accepted criteria, those with positive points."""
        points = [c.criterion.points for p in self.patches for c in p.accepted]
        return sum(p > 0 for p in points) / max(1, len(points))

    @property
    def attacks_won(self) -> tuple[int, int]:
        """First attacks on patched rubrics, measured, and those that found a new exploit."""
        attacks = [p.rounds[0].attack for p in self.patches if p.rounds and p.rounds[0].attack is not None]
        measured = [a for a in attacks if a.status == "measured"]
        return len(measured), sum("exploitable" in a.reasons for a in measured)


# -- report -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Landscape:
    """The survey of one world."""

    world: World
    constants: WorldConstants
    variants: Mapping[str, Admitted]
    patched: Patched
    qualities: Mapping[str, float] = field(default_factory=dict)

    def report(self) -> str:
        """All figures as text, the paper's beside them where it has any."""
        lines = [f"World of seed {self.world.seed}, {len(self.variants['untuned'].admissions)} tasks a variant.", ""]
        for name, found in self.variants.items():
            lines += [*_admission_lines(name, found), ""]
        lines += ["Expected training score at birth -> as admitted, and true quality:"]
        for strategy, true in self.qualities.items():
            pays = "  ".join(
                f"{n} {v.rewards[strategy][0]:.2f} -> {v.rewards[strategy][1]:.2f}" for n, v in self.variants.items()
            )
            lines.append(f"  {strategy:<24} {pays}  quality {true:.2f}")
        return "\n".join([*lines, "", *_patch_lines(self.patched)])

    def phases(self) -> dict[str, list[Phase]]:
        """Arm -> the tasks that it serves: untuned ones first, then those of its guidance and memo."""
        at_birth = {name: [a.original for a in v.admissions] for name, v in self.variants.items()}
        admitted = {name: [a.task for a in v.admissions] for name, v in self.variants.items()}
        return {
            "generation-only": [Phase(_CYCLES, at_birth["untuned"])],
            "evolution-only": [Phase(_TUNED, at_birth["untuned"]), Phase(_CYCLES, at_birth["guidance"])],
            "rri": [Phase(_TUNED, admitted["untuned"]), Phase(_CYCLES, admitted["both"])],
        }

    def rehearsal(self) -> str:
        """Where the tabular solver ends in each arm, as text."""
        told = f"mean of {_SOLVERS} solvers, {_CYCLES} cycles, guidance and memo from cycle {_TUNED} on, no patches"
        lines = [f"Rehearsal ({told}):"]
        for arm, phases in self.phases().items():
            seeds = range(self.world.seed, self.world.seed + _SOLVERS)
            end = Rehearsed.mean([rehearse(self.world, phases, self.constants, seed) for seed in seeds])
            lines.append(
                f"  {arm:<16} reward {end.reward:.2f}  true quality {end.quality:+.2f}  states {end.states:.1f}, names "
                f"{end.names:.1f}, {end.error:.0%} of its statements wrong"
            )
        return "\n".join(lines)


def _admission_lines(name: str, found: Admitted) -> list[str]:
    outcomes = Counter(a.outcome for a in found.admissions)
    probes = [a.probe for a in found.admissions if a.probe is not None and a.probe.status == "measured"]
    honest = fmean(p.honest_score for p in probes if p.honest_score is not None)
    before, after = (fmean(column) for column in zip(*found.beaten, strict=True))
    led = sum(delta < 0 for _, delta in found.beaten) / len(found.beaten)
    passed = sum(delta <= -0.20 for _, delta in found.beaten) / len(found.beaten)
    return [
        f"{name}: values {found.value_share:.0%} of the positives at birth, {found.value_share_after:.0%} as admitted",
        f"  outcomes: {', '.join(f'{o} {n}' for o, n in outcomes.most_common())}",
        f"  honest score at birth {honest:.2f}; lead of the exploit {before:+.2f} -> {after:+.2f} (paper 0.43 -> 0.01)",
        f"  of the repaired, honest leads in {led:.0%} (33%), passes in {passed:.0%} (22%)",
    ]


def _patch_lines(found: Patched) -> list[str]:
    if not found.cases:
        return ["No exploit case among the groups."]
    accepted = [c for p in found.patches for c in p.accepted]
    measured, won = found.attacks_won
    reasons = Counter(c.outcome for p in found.patches for r in p.rounds for c in r.checks)
    return [
        f"Exploit cases: {len(found.cases)}, incorrect pairs {found.incorrect / len(found.cases):.0%} (17%), margin "
        f"{fmean(c.gap for c in found.cases):.2f} (0.40)",
        f"  accepted criteria {len(accepted)}, positive {found.positive_share:.0%} (81%); new exploit after the first "
        f"patch {won} of {measured} (247 of 293)",
        f"  checks: {', '.join(f'{o} {n}' for o, n in reasons.most_common())}",
    ]


def survey(world: World, constants: WorldConstants | None = None, tasks: int = 120) -> Landscape:
    """Write, attack, repair and patch `tasks` tasks under each variant.

    Raises:
        RriError: a model gave no usable reply.
    """
    constants = constants or WorldConstants()
    with TemporaryDirectory(prefix="rri-world-") as folder, WorldServer(world, constants) as server:
        corpus = write_corpus(world, Path(folder) / "passages.jsonl")
        config = parse_config(world_config(world, server.url, corpus, "none"), where="the world's config")
        gateway = Gateway(resolve_routes(config))
        try:
            work = _Survey(world, constants, config, gateway)

            async def whole() -> tuple[dict[str, Admitted], Patched]:
                found = {name: await work.admitted(texts, tasks) for name, texts in VARIANTS.items()}
                return found, await work.patched([a.task for a in found["untuned"].admissions])

            variants, patched = gateway.loop.run(whole())
        finally:
            gateway.close_sync()
            gateway.loop.close()
    questions = [question_of(a.task) for a in variants["untuned"].admissions]
    rng = random.Random(f"qualities {world.seed}")
    qualities = {
        name: fmean(quality(world, q, strategy(world, q, rng)) for q in questions)
        for name, strategy in STRATEGIES.items()
    }
    return Landscape(world, constants, variants, patched, qualities)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; returns the exit code."""
    parser = argparse.ArgumentParser(prog="eval.world.landscape", description="What rubrics of the world pay for.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--tasks", type=int, default=120, help="of each variant")
    parser.add_argument("--constants", default="{}", metavar="JSON", help="what differs from the fair world")
    parser.add_argument("--rehearse", action="store_true", help="train a tiny tabular solver on the tasks of each arm")
    options = parser.parse_args(argv)
    try:
        constants = parse_constants(options.constants)
        found = survey(World.make(options.seed), constants, options.tasks)
        sys.stdout.write(f"{found.report()}\n")
        if options.rehearse:
            sys.stdout.write(f"\n{found.rehearsal()}\n")
    except RriError as error:
        sys.stderr.write(f"eval.world.landscape: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
