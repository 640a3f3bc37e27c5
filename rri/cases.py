"""What is kept of an exploit case, of its patch, and of an evolution round (METHOD 7). Frozen, written once."""

from typing import Literal

from pydantic import Field

from rri.evidence import Probe
from rri.types import Criterion, Frozen, Grade, Task, Verdict
from rri.vocabulary import CaseVerdict, ExploitLabel, FailureMode, RubricDefect, TaskDefect

__all__ = [
    "Answered",
    "CaseDiagnosis",
    "Check",
    "CheckOutcome",
    "ExploitCase",
    "GradedCase",
    "GuidanceVersion",
    "MemoDecision",
    "MemoVersion",
    "Patch",
    "PatchOutcome",
    "PatchRound",
    "Preference",
    "Ranking",
    "RankingOutcome",
]

RankingOutcome = Literal["case", "no_case", "flipped", "failed"]
"""case: an exploit. no_case: the top scorer is among the best, or leads by too little. flipped: the second order
did not repeat what the first one said of the pair. failed: the referee gave no usable tiers."""


class Answered(Frozen):
    """One rollout of a group with its grade."""

    row: int
    answer: str
    grade: Grade


class Preference(Frozen):
    """Pairs of answers that stand in different tiers, and in how many of them the longer and the earlier one won.

    Counted over every order that was asked. Two answers of one length count as a pair in which the longer one lost.
    """

    pairs: int = 0
    longer: int = 0
    earlier: int = 0


class Ranking(Frozen):
    """How the referee ranked one group. `orders` are the rows of the answers that could be ranked, as they were shown.
    `tiers` hold rows, best first, one tiering for each order that was answered. A group in which no pair could
    reach the gap was not shown at all, so its preferences are not counted.
    """

    cycle: int
    position: int
    task_id: str
    version: int
    orders: tuple[tuple[int, ...], ...] = ()
    tiers: tuple[tuple[tuple[int, ...], ...], ...] = ()
    notes: tuple[str, ...] = ()
    preference: Preference = Preference()
    outcome: RankingOutcome
    why: str = ""


class ExploitCase(Frozen):
    """An answer that its rubric scores highest and that loses the blind comparison; `task` is as it was graded.

    `gap` = raw score of the exploit - raw score of the better answer, without length term.
    """

    cycle: int
    position: int
    task: Task
    exploit: Answered
    better: Answered
    gap: float
    ranking: Ranking


CheckOutcome = Literal[
    "accepted",
    "task_full",
    "round_full",
    "rubric_full",
    "length",
    "points",
    "absence",
    "addresses_judge",
    "overlap",
    "invalid",
    "gap",
    "unknown",
    "not_separating",
    "honest_unknown",
    "honest_meets",
]
"""What became of a minted criterion, in the order in which it is checked, from cheap to dear."""


class Check(Frozen):
    """One minted criterion with the verdicts that were asked for before it was decided.

    `attempt` is the minter's call in its round, from 1. `case_exploit` is the verdict on the exploit of the case, asked
    for when an accepted criterion was measured on a later one.
    """

    criterion: Criterion
    why: str
    attempt: int = 1
    outcome: CheckOutcome
    detail: str = ""
    exploit: Verdict | None = None
    better: Verdict | None = None
    honest: Verdict | None = None
    case_exploit: Verdict | None = None


class PatchRound(Frozen):
    """One round of a case: what was minted against `exploit`, and the farmer's attack on what was accepted.

    `label` is the minter's last one. `failed`: it gave no usable reply, and `why` says what it gave.
    """

    number: int
    exploit: str
    label: ExploitLabel | None = None
    checks: tuple[Check, ...] = ()
    attack: Probe | None = None
    why: str = ""
    failed: bool = False

    @property
    def accepted(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome == "accepted")

    @property
    def failure(self) -> str:
        """What the first failed model call of this round said; empty when all answered."""
        unknown = [check.detail for check in self.checks if check.outcome in ("unknown", "honest_unknown")]
        attack = [self.attack.why] if self.attack is not None and self.attack.failed else []
        return next(iter([*unknown, *([self.why] if self.failed else []), *attack]), "")


PatchOutcome = Literal["patched", "unpatched", "failed", "stale"]
"""patched: criteria were accepted. unpatched: none passed. failed: a model gave no usable reply before any was
accepted. stale: the task has moved on to another version since the case."""


class Patch(Frozen):
    """What became of one case. `task` is the new version when patched, else as it was.

    Leads are raw score of the better answer - raw score of the case's exploit, under the rubric before and after; None
    when stale. `honest` is the honest answer that was given or written on the way, empty where none was needed.
    """

    case: int
    before: Task
    task: Task
    outcome: PatchOutcome
    rounds: tuple[PatchRound, ...] = ()
    honest: str = ""
    lead_before: float | None = None
    lead_after: float | None = None
    why: str = ""

    @property
    def accepted(self) -> tuple[Check, ...]:
        return tuple(check for r in self.rounds for check in r.accepted)

    @property
    def failure(self) -> str:
        """What the first failed model call of this patch said; empty when all answered."""
        return next((r.failure for r in self.rounds if r.failure), "")


class GradedCase(Frozen):
    """One graded rollout as the analyst sees it. `score` is the training score."""

    cycle: int
    position: int
    row: int
    task: Task
    answer: str
    truncated: bool
    grade: Grade
    score: float


class CaseDiagnosis(Frozen):
    """The analyst's finding on one graded case; `failed` says why there is none."""

    case: GradedCase
    failure_mode: FailureMode | None = None
    gap: str = ""
    rubric_defect: RubricDefect | None = None
    task_defect: TaskDefect | None = None
    verdict: CaseVerdict | None = None
    failed: str = ""


class GuidanceVersion(Frozen):
    """Guidance blocks A (proposer) and B (generator), in force from the round after `cycle` on."""

    version: int = Field(ge=0)
    cycle: int = -1
    guidance_a: str = ""
    guidance_b: str = ""
    summary: str = ""


MemoDecision = Literal["initial", "new", "rolled_back"]


class MemoVersion(Frozen):
    """An exploit memo, in force from the round after `cycle` on. A rolled-back one has the text of `of`."""

    version: int = Field(ge=0)
    cycle: int = -1
    memo: str = ""
    summary: str = ""
    decision: MemoDecision = "initial"
    of: int | None = None
