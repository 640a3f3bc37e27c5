"""What an evolution round and a memo round are given, and what they leave (METHOD 7). Frozen, written once."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Annotated, Self

from pydantic import Field, model_validator
from pydantic_core import to_jsonable_python

from rri.cases import CaseDiagnosis, GradedCase, GuidanceVersion, MemoVersion, Patch
from rri.distribution import Distribution, Drift, ReferenceFigures
from rri.evolution_rules import DiagnosisCounts
from rri.memo_score import Decision, MemoObservations, MemoScore
from rri.types import Criterion, Frozen, Task
from rri.vocabulary import ExploitLabel

__all__ = [
    "ExploitEvidence",
    "Hackability",
    "MeasuredGuidance",
    "MemoEvidence",
    "MemoOutcome",
    "Prompt",
    "RejectedGuidance",
    "RejectedMemo",
    "RoundEvidence",
    "RoundOutcome",
]

Prompt = tuple[dict[str, str], ...]
"""The chat messages of one call, as sent."""

Figure = Annotated[float, Field(allow_inf_nan=False)]


class Hackability(Frozen):
    """How far the fixed adversary came in `n` tasks whose first probe was measured.

    Means of delta, score(exploit) - score(honest), at birth and as admitted. None exactly where n is 0.
    """

    n: int = Field(default=0, ge=0)
    before: Figure | None = None
    after: Figure | None = None

    @model_validator(mode="after")
    def _measured(self) -> Self:
        if any((mean is None) != (self.n == 0) for mean in (self.before, self.after)):
            raise ValueError(
                f"n is {self.n} and the means are {self.before} and {self.after}; give means of what is there"
            )
        return self

    @classmethod
    def of(cls, deltas: Sequence[tuple[float, float]]) -> Self:
        """From (delta at birth, delta as admitted) of each task."""
        if not deltas:
            return cls()
        return cls(n=len(deltas), before=fmean(b for b, _ in deltas), after=fmean(a for _, a in deltas))


class ExploitEvidence(Frozen):
    """What the adversary and the solver showed of the rubrics; all empty where nothing attacks them.

    `gaps`: lead of the exploit over the better answer in each confirmed case. `labels`: how often which trick was named
    in a solver's exploit. `patches`: accepted criteria, oldest first.
    """

    gaps: tuple[Figure, ...] = ()
    labels: dict[ExploitLabel, int] = {}
    patches: tuple[Criterion, ...] = ()
    hackability: Hackability = Hackability()

    @classmethod
    def of(cls, gaps: Sequence[float], patches: Sequence[Patch], hackability: Hackability | None = None) -> Self:
        """From the gaps of the confirmed cases, and their patches, oldest first.

        Labels are those of first rounds, where the exploit is the solver's own. A later round repairs against the
        adversary. `none` is no trick and is left out.
        """
        labels = Counter(p.rounds[0].label for p in patches if p.rounds)
        tricks = [(label, n) for label, n in labels.items() if label is not None and label != "none"]
        return cls(
            gaps=tuple(gaps),
            labels=dict(sorted(tricks, key=lambda item: (-item[1], item[0]))),
            patches=tuple(check.criterion for p in patches for check in p.accepted),
            hackability=hackability or Hackability(),
        )


# -- evolution ----------------------------------------------------------------------------------------


class MeasuredGuidance(Frozen):
    """A guidance version with the mean training score under it; None where nothing was graded under it."""

    guidance: GuidanceVersion
    train_mean: Figure | None = None


class RoundEvidence(Frozen):
    """What an evolution round starts from.

    `cases` are selected already (`rri.evolution_rules.select_cases`). `tasks`: the latest ones, oldest first.
    `train_mean`: rolling mean of the training scores. `history`: versions oldest first. The current one may be among
    them, and its mean is then told apart.
    """

    cycle: int
    guidance: GuidanceVersion
    cases: tuple[GradedCase, ...] = ()
    tasks: tuple[Task, ...] = ()
    reference: ReferenceFigures | None = None
    train_mean: Figure | None = None
    history: tuple[MeasuredGuidance, ...] = ()
    exploits: ExploitEvidence = ExploitEvidence()


class RejectedGuidance(Frozen):
    """Guidance that broke a rule. It is never used."""

    guidance_a: str
    guidance_b: str
    summary: str
    problems: tuple[str, ...]


class RoundOutcome(Frozen):
    """What an evolution round found and decided.

    `statistics`, `diagnosed` and `exploits` are the texts that the meta-optimizer was shown. `guidance` is the new
    version, or None, and then `why` says why the current one stays. `prompts`: the meta-optimizer's, one an attempt.
    """

    evidence: RoundEvidence
    diagnoses: tuple[CaseDiagnosis, ...]
    counts: DiagnosisCounts
    figures: Distribution
    drifts: tuple[Drift, ...]
    statistics: str
    diagnosed: str
    exploits: str
    guidance: GuidanceVersion | None = None
    why: str = ""
    rejected: tuple[RejectedGuidance, ...] = ()
    prompts: tuple[Prompt, ...] = ()

    def files(self) -> dict[str, str]:
        """Name -> content of all that is kept of the round in its folder.

        Prompts of the analyst are in the call log. Tasks and answers are named by id, version and place, under which
        the run's database has them whole.
        """
        before, after, evidence = self.evidence.guidance, self.guidance, self.evidence
        files = {
            "statistics.md": f"{self.statistics}\n",
            "statistics.json": _json(
                {
                    "train_mean": evidence.train_mean,
                    "figures": self.figures,
                    "reference": evidence.reference,
                    "drift": self.drifts,
                }
            ),
            "diagnoses.md": f"{self.diagnosed}\n",
            "diagnoses.json": _json({"counts": self.counts, "cases": [_diagnosis(d) for d in self.diagnoses]}),
            "exploits.md": f"{self.exploits}\n",
            "evidence.json": _json(
                {
                    "cycle": evidence.cycle,
                    "exploits": evidence.exploits,
                    "history": [
                        {"version": past.guidance.version, "train_mean": past.train_mean} for past in evidence.history
                    ],
                    "tasks": [{"task_id": task.task_id, "version": task.version} for task in evidence.tasks],
                }
            ),
            "decision.json": _json(
                {"before": before.version, "guidance": after, "why": self.why, "rejected": self.rejected}
            ),
            "guidance-before.md": _guidance(before),
        }
        if after is not None:
            files["guidance-after.md"] = _guidance(after)
        if self.prompts:
            files["prompts.json"] = _json(self.prompts)
        return files


def _diagnosis(found: CaseDiagnosis) -> dict[str, object]:
    case = found.case
    place = {"cycle": case.cycle, "position": case.position, "row": case.row}
    task = {"task_id": case.task.task_id, "version": case.task.version}
    verdicts = [verdict.outcome for verdict in case.grade.verdicts]
    graded = {"score": case.score, "truncated": case.truncated, "outcomes": verdicts}
    return {**place, **task, **graded, **found.model_dump(mode="json", exclude={"case"})}


def _guidance(version: GuidanceVersion) -> str:
    return (
        f"# Guidance {version.version}\n\n{version.summary}\n\n"
        f"## A: requests\n\n{version.guidance_a}\n\n## B: tasks and rubrics\n\n{version.guidance_b}\n"
    )


# -- memo ---------------------------------------------------------------------------------------------


class MemoEvidence(Frozen):
    """What a memo round starts from. `versions`: all memos, oldest first; the last one is current."""

    cycle: int
    versions: tuple[MemoVersion, ...] = Field(min_length=1)
    observations: tuple[MemoObservations, ...] = ()
    exploits: ExploitEvidence = ExploitEvidence()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        versions = [v.version for v in self.versions]
        if any(a >= b for a, b in pairwise(versions)):
            raise ValueError(f"memo versions must rise, got {versions}")
        observed = [o.version for o in self.observations]
        if len(set(observed)) < len(observed):
            raise ValueError(f"each memo version is observed once, got {observed}; join what belongs together")
        return self

    @property
    def current(self) -> MemoVersion:
        return self.versions[-1]


class RejectedMemo(Frozen):
    """A memo that broke a rule. It is never used."""

    memo: str
    summary: str
    problems: tuple[str, ...]


class MemoOutcome(Frozen):
    """What a memo round decided. `memo` is the new version, or None, and then `why` says why the current one stays.

    `hackability` is the text that the memo optimizer was shown; empty where it was not asked.
    """

    evidence: MemoEvidence
    decision: Decision
    scores: tuple[MemoScore, ...]
    baseline: float | None = None
    hackability: str = ""
    memo: MemoVersion | None = None
    why: str = ""
    rejected: tuple[RejectedMemo, ...] = ()
    prompts: tuple[Prompt, ...] = ()

    def files(self) -> dict[str, str]:
        """Name -> content of all that is kept of the round in its folder. No name is one of an evolution round's."""
        before, after, evidence = self.evidence.current, self.memo, self.evidence
        files = {
            "memo-scores.json": _json({"honest_baseline": self.baseline, "versions": self.scores}),
            "memo-evidence.json": _json(evidence.model_dump(mode="json", exclude={"versions"})),
            "memo-decision.json": _json(
                {
                    "before": before.version,
                    "decision": self.decision,
                    "memo": after,
                    "why": self.why,
                    "rejected": self.rejected,
                }
            ),
            "memo-before.md": before.memo,
        }
        if after is not None:
            files["memo-after.md"] = after.memo
        if self.prompts:
            files["memo-hackability.md"] = f"{self.hackability}\n"
            files["memo-prompts.json"] = _json(self.prompts)
        return files


def _json(value: object) -> str:
    return json.dumps(to_jsonable_python(value), indent=2, ensure_ascii=False) + "\n"
