"""How many model calls a run will make, by arithmetic on its config alone. Asks no model and no network.

What a call costs is measured where the prompts are (`programs/call_sizes.py`) and added up in `programs/estimate.py`.
Names in quotes are fields of `Assumptions`, dotted ones of the config. s(p, n) = 1 + p + ... + p^(n-1) is the expected
number of tries, at most n, where one fails with probability p. Every count is multiplied by 1 + `unusable_replies`,
the gateway's one fresh sample.

Generation (METHOD 4), T = generation.tasks, b = `rule_breaks`
    written    = T / (1 - b^generation.attempts)
    generator  = written * s(b, generation.attempts)
    proposer   = written / (generation.requests_per_call * `usable_requests`), rounded up
    born       = criteria of a new rubric: positives as drawn, and a negative on every red-team task; after
                 generation.shape.warmup tasks the others bring the share of negatives to generation.negative_share

Admission (METHOD 5), R = admission.rounds
    repaired   = T * (1 - `first_probe_passes` - `first_probe_discarded` - `probe_ungraded`)
    going on   = 1 - (1 - b^2) * (1 - `probe_ungraded`) * `rewrite_passes`, the chance of one more round
    rounds     = repaired * s(going on, R)
    rewriter   = rounds * s(b, 2)
    probes     = T + rounds * (1 - b^2) * (1 + `fresh_probe_discarded`), a farmer and an honest call each
    judge      = graded answers (two a probe) * criteria * votes; rewrites hold `added_criteria` more

Votes of n with early stop (METHOD 6, 11): they come in batches of as many as the verdict still needs, and each flips
with p = `vote_flips`. Counted exactly; for n = 3 it is 2 + 2p(1 - p).

Training (METHOD 6, 7), P = solver.cycles * solver.tasks_per_cycle groups of n answers
    judge      = P * n * (1 - `truncated_answers`) * served criteria * votes; truncated ones count with judge_truncated
    referee    = P * `ranked_groups` * (1 + `exploit_cases` / (1 - `flipped_pairs`)) * s(b, 2): only a case is shown in
                 a second order
    cases      = a cycle: the smaller of exploits.cases_per_round and ranked groups * `exploit_cases`
    summarizer = P * n * solver.tools.max_calls * `searches`, where the solver retrieves; in validation likewise
    minter     = patch rounds * s(1 - `patch_accepted`, patches.attempts) * s(b, 2)
    next round = after an accepted criterion and an attack that wins, `reattack_wins`, up to patches.rounds
    farmer     = patch rounds that accept something, the new attack; honest where the answer is missing
    judge      = each minted criterion on both answers, a negative on the honest one too, one of a later round on the
                 case's exploit; every attack and the honest answer on the patched rubric

Validation (METHOD 6), the k tasks of validation.file with c criteria each
    rounds     = solver.cycles / validation.every_cycles, rounded up: one follows the last cycle
    judge      = rounds * k * validation.rollouts_per_task * (1 - `truncated_answers`) * c * votes, as in training

Evolution (METHOD 7), E = solver.cycles / evolution.every_cycles rounds, rounded down
    analyst    = E * evolution.cases * (1 - `truncated_answers`)
    optimizers = E * s(b, attempts), the memo's * `memo_proposed`
"""

from collections.abc import Sequence
from math import ceil, comb
from statistics import fmean
from typing import Literal, NamedTuple, Self

from rri.assumptions import Assumptions
from rri.config import EMBEDDED, Role, RunConfig
from rri.types import Task

__all__ = [
    "Calls",
    "Criteria",
    "HeldOutSize",
    "Kind",
    "Stage",
    "admitted_by",
    "criteria_of",
    "expected_calls",
    "expected_votes",
    "validation_rollouts",
    "validation_rounds",
]

Stage = Literal["admission", "training", "validation", "evolution"]
Kind = Literal[
    "preflight",
    "proposer",
    "generator",
    "farmer",
    "honest",
    "judge_probe",
    "judge_rollout",
    "judge_patch",
    "rewriter",
    "minter",
    "referee",
    "analyst",
    "meta_optimizer",
    "memo_optimizer",
    "summarizer",
]
"""Calls of one size. The judge has three: its prompt depends on whose answer is judged, and how strictly."""

CHECKED_TRIES = 2
"""Calls of a role whose reply is asked for once more when it breaks a rule (rewriter, referee, optimizers)."""


class Calls(NamedTuple):
    """Expected calls of one size."""

    stage: Stage
    role: Role
    kind: Kind
    calls: float


class Criteria(NamedTuple):
    """Mean criteria of a rubric: new, in a fresh probe, when it is served, and when a patch was accepted."""

    born: float
    rewritten: float
    served: float
    patched: float


class HeldOutSize(NamedTuple):
    """A validation file: its tasks, their mean number of criteria, and the mean characters of conversation and
    criterion together over all criteria.
    """

    tasks: int
    criteria: float
    chars: float

    @classmethod
    def of(cls, tasks: Sequence[Task]) -> Self | None:
        """The size of these tasks; None where there are none."""
        if not tasks:
            return None
        chars = [
            sum(len(m.content) for m in task.conversation) + len(criterion.text)
            for task in tasks
            for criterion in task.rubric.criteria
        ]
        return cls(len(tasks), len(chars) / len(tasks), fmean(chars))


def tries(failing: float, most: int) -> float:
    """Expected tries, at most `most`, where each fails with probability `failing`."""
    return sum(failing**i for i in range(most))


def expected_votes(votes: int, flips: float) -> float:
    """Expected votes on one criterion until a majority of `votes` stands (METHOD 6, early stop).

    Args:
        votes: odd, votes at most.
        flips: probability that one vote is on the other side.
    """
    need = votes // 2 + 1
    expected, open_states = 0.0, {(0, 0): 1.0}
    while open_states:
        following: dict[tuple[int, int], float] = {}
        for (right, wrong), chance in open_states.items():
            batch = min(votes - right - wrong, need - max(right, wrong))
            expected += chance * batch
            for flipped in range(batch + 1):
                state = (right + batch - flipped, wrong + flipped)
                if max(state) < need:
                    weight = comb(batch, flipped) * flips**flipped * (1 - flips) ** (batch - flipped)
                    following[state] = following.get(state, 0.0) + chance * weight
        open_states = following
    return expected


def _repair_rounds(config: RunConfig, a: Assumptions) -> list[float]:
    """Share of the tasks that go through each repair round."""
    if not config.admission.enabled:
        return []
    repaired = max(0.0, 1 - a.first_probe_passes - a.first_probe_discarded - a.probe_ungraded)
    ending = (1 - a.rule_breaks**CHECKED_TRIES) * (1 - a.probe_ungraded) * a.rewrite_passes
    return [repaired * (1 - ending) ** i for i in range(config.admission.rounds)]


def _patch_rounds(config: RunConfig, a: Assumptions) -> tuple[float, list[float]]:
    """Exploit cases that go to repair over the run, and the share of them that goes through each patch round."""
    solver, exploits, patches = config.solver, config.exploits, config.patches
    if not (exploits.enabled and patches.enabled) or solver.rollouts_per_task < exploits.min_answers:
        return 0.0, []
    found = solver.tasks_per_cycle * a.ranked_groups * a.exploit_cases
    again = _accepting(config, a) * a.reattack_wins if patches.reattack else 0.0
    return solver.cycles * min(exploits.cases_per_round, found), [again**i for i in range(patches.rounds)]


def _accepting(config: RunConfig, a: Assumptions) -> float:
    """Share of patch rounds that accept a criterion."""
    return 1 - (1 - a.patch_accepted) ** config.patches.attempts


def _accepted(config: RunConfig, a: Assumptions) -> float:
    """Criteria accepted in a patch round."""
    kept = a.minted_criteria * a.minted_checked * a.minted_separates
    return min(kept, config.patches.accepted_per_round) * _accepting(config, a)


def _born(config: RunConfig) -> float:
    generation, red = config.generation, config.domain.red_team_share
    ordinary = sum(count * share for count, share in generation.positives.items())
    positives = red * fmean(generation.red_team_positives) + (1 - red) * ordinary
    uncorrected = min(1.0, generation.shape.warmup / generation.tasks)
    drawn = red + (1 - red) * generation.negative_share
    held = max(red, generation.negative_share)
    return positives + uncorrected * drawn + (1 - uncorrected) * held


def criteria_of(config: RunConfig, a: Assumptions) -> Criteria:
    """Mean numbers of criteria over a run."""
    born, most = _born(config), config.generation.rubric.max_criteria_repaired
    rounds = _repair_rounds(config, a)
    # A rewrite of a later round builds on those before it that stand.
    earlier = sum(i * share for i, share in enumerate(rounds)) / sum(rounds) if sum(rounds) else 0.0
    rewritten = min(most, born + a.added_criteria * (1 + a.rewrite_stands * earlier))
    admitted = min(most, born + sum(rounds) * a.rewrite_stands * a.added_criteria)
    cases, patch_rounds = _patch_rounds(config, a)
    accepted = min(sum(patch_rounds) * _accepted(config, a), config.patches.accepted_per_task)
    patched = min(most, admitted + accepted)
    # A patched task is served again in a later cycle, in the place of another.
    cycles = config.solver.cycles
    share = min(1.0, cases * (cycles - 1) / (cycles * cycles * config.solver.tasks_per_cycle)) if cycles else 0.0
    return Criteria(born, rewritten, admitted + share * (patched - admitted), patched)


def admitted_by(config: RunConfig, cycle: int) -> int:
    """Tasks admitted when `cycle` cycles are done, as far ahead of the trainer as admission may run."""
    pool, ahead = config.pool, cycle * config.solver.tasks_per_cycle + config.pool.ahead
    return (
        min(config.generation.tasks, max(pool.min_tasks, ahead))
        if cycle
        else min(config.generation.tasks, pool.min_tasks)
    )


def validation_rounds(config: RunConfig, cycle: int) -> int:
    """Validation rounds when `cycle` cycles are done."""
    every, cycles = config.validation.every_cycles, config.solver.cycles
    return ceil(cycle / every) if cycle == cycles else cycle // every


def validation_rollouts(config: RunConfig, held_out: HeldOutSize) -> int:
    """Answers to validation tasks over the whole run."""
    rounds = validation_rounds(config, config.solver.cycles)
    return rounds * held_out.tasks * config.validation.rollouts_per_task


def expected_calls(config: RunConfig, a: Assumptions, held_out: HeldOutSize | None = None) -> list[Calls]:
    """Expected calls of a run by stage, role and size; roles that the config does not use are left out.

    Args:
        config: the run's config.
        a: one set of assumptions.
        held_out: its validation file; None where there is none, or it is not at hand.
    """
    counts = [*_preflight(config), *_generation(config, a), *_evolution(config, a)]
    criteria = criteria_of(config, a)
    if config.admission.enabled:
        counts += _admission(config, a, criteria)
    counts += _training(config, a, criteria)
    if held_out is not None:
        counts += _validation(config, a, held_out)
    again = 1 + a.unusable_replies
    return [c._replace(calls=c.calls * again) for c in counts if c.calls > 0 and c.role in config.roles_used]


def _preflight(config: RunConfig) -> list[Calls]:
    """Every endpoint and model is asked once before a run."""
    asked: dict[tuple[str, str], Role] = {}
    for role in config.roles_used:
        route = config.roles[role]
        asked.setdefault((route.endpoint, route.model or config.endpoints[route.endpoint].model or EMBEDDED), role)
    return [Calls("admission", role, "preflight", 1.0) for role in asked.values()]


def _generation(config: RunConfig, a: Assumptions) -> list[Calls]:
    generation = config.generation
    written = generation.tasks / (1 - a.rule_breaks**generation.attempts)
    # The small number keeps 4 / 2 at 2, whatever the rounding of floats.
    proposals = ceil(written / (generation.requests_per_call * a.usable_requests) - 1e-9)
    return [
        Calls("admission", "proposer", "proposer", proposals),
        Calls("admission", "generator", "generator", written * tries(a.rule_breaks, generation.attempts)),
    ]


def _admission(config: RunConfig, a: Assumptions, criteria: Criteria) -> list[Calls]:
    tasks, graded = config.generation.tasks, 2 * (1 - a.probe_ungraded)
    rounds = tasks * sum(_repair_rounds(config, a))
    fresh = rounds * (1 - a.rule_breaks**CHECKED_TRIES) * (1 + a.fresh_probe_discarded)
    judged = graded * (tasks * criteria.born + fresh * criteria.rewritten)
    return [
        Calls("admission", "rewriter", "rewriter", rounds * tries(a.rule_breaks, CHECKED_TRIES)),
        Calls("admission", "farmer", "farmer", tasks + fresh),
        Calls("admission", "honest", "honest", tasks + fresh),
        Calls("admission", "judge", "judge_probe", judged * expected_votes(config.admission.votes, a.vote_flips)),
    ]


def _training(config: RunConfig, a: Assumptions, criteria: Criteria) -> list[Calls]:
    solver = config.solver
    groups = solver.cycles * solver.tasks_per_cycle
    answers = groups * solver.rollouts_per_task
    judged = answers * _judged(config, a)
    votes = expected_votes(config.grading.votes, a.vote_flips)
    ranked = groups * a.ranked_groups if solver.rollouts_per_task >= config.exploits.min_answers else 0.0
    # Every pair is asked about again where nearly all flip: then there are as many pairs as groups.
    twice = min(1.0, a.exploit_cases / max(1 - a.flipped_pairs, 1e-9))
    return [
        Calls("training", "judge", "judge_rollout", judged * criteria.served * votes),
        Calls("training", "referee", "referee", ranked * (1 + twice) * tries(a.rule_breaks, CHECKED_TRIES)),
        _briefs(config, a, "training", answers),
        *_patches(config, a, criteria),
    ]


def _judged(config: RunConfig, a: Assumptions) -> float:
    """Share of the solver's answers that the judge sees."""
    return 1 if config.solver.judge_truncated else 1 - a.truncated_answers


def _briefs(config: RunConfig, a: Assumptions, stage: Stage, answers: int) -> Calls:
    """Briefs of what the solver's searches find; without retrieval their role is not in use."""
    return Calls(stage, "summarizer", "summarizer", answers * config.solver.tools.max_calls * a.searches)


def _validation(config: RunConfig, a: Assumptions, held_out: HeldOutSize) -> list[Calls]:
    answers = validation_rollouts(config, held_out)
    votes = answers * _judged(config, a) * held_out.criteria * expected_votes(config.grading.votes, a.vote_flips)
    return [Calls("validation", "judge", "judge_rollout", votes), _briefs(config, a, "validation", answers)]


def _patches(config: RunConfig, a: Assumptions, criteria: Criteria) -> list[Calls]:
    patches = config.patches
    cases, shares = _patch_rounds(config, a)
    rounds, later = cases * sum(shares), cases * sum(shares[1:])
    attempts = rounds * tries(1 - a.patch_accepted, patches.attempts)
    attacks = rounds * _accepting(config, a) if patches.reattack else 0.0
    guarded = a.minted_negative * a.minted_separates if patches.honest_guard else 0.0
    tested = attempts * a.minted_criteria * a.minted_checked * (2 + guarded) + later * _accepted(config, a)
    missing = a.honest_missing if config.admission.enabled else 1.0
    asked = patches.reattack or patches.honest_guard
    attacked = attacks * 2 * criteria.patched
    votes, probe_votes = (expected_votes(part.votes, a.vote_flips) for part in (patches, config.admission))
    return [
        Calls("training", "minter", "minter", attempts * tries(a.rule_breaks, CHECKED_TRIES)),
        Calls("training", "farmer", "farmer", attacks),
        Calls("training", "honest", "honest", cases * missing if asked else 0.0),
        Calls("training", "judge", "judge_patch", tested * votes + attacked * probe_votes),
    ]


def _evolution(config: RunConfig, a: Assumptions) -> list[Calls]:
    evolution = config.evolution
    rounds = config.solver.cycles // evolution.every_cycles
    cases = rounds * evolution.cases * (1 - a.truncated_answers)
    memos = rounds * a.memo_proposed
    return [
        Calls("evolution", "analyst", "analyst", cases),
        Calls("evolution", "meta_optimizer", "meta_optimizer", rounds * tries(a.rule_breaks, evolution.attempts)),
        Calls("evolution", "memo_optimizer", "memo_optimizer", memos * tries(a.rule_breaks, CHECKED_TRIES)),
    ]
