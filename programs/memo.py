"""Memo round: score the versions, then wait, roll back, leave alone, or ask for a new memo (METHOD 7)."""

from typing import Any

from programs.memo_optimizer import MemoOptimizer, NewMemo
from programs.round_report import hackability_text, prompt_of, signed_criterion
from rri.cases import MemoVersion
from rri.config import MemoConfig
from rri.guidance_rules import check_memo
from rri.lm.calls import tagged
from rri.memo_score import Decision, MemoScore, decide, honest_baseline, score_versions
from rri.rounds import MemoEvidence, MemoOutcome, Prompt, RejectedMemo
from signatures.memo_optimizer import PastMemo

__all__ = ["MemoRound"]


class MemoRound:
    """Decides on the current memo by its score. Keeps no state: all versions and observations are in the evidence.

    Args:
        memo_optimizer: writes a new memo, where one is wanted.
        config: METHOD 7's numbers.
    """

    def __init__(self, memo_optimizer: MemoOptimizer, config: MemoConfig | None = None) -> None:
        self.memo_optimizer = memo_optimizer
        self.config = config or MemoConfig()

    async def run(self, evidence: MemoEvidence) -> MemoOutcome:
        """One round. The optimizer is called only where the decision is to propose.

        A memo that breaks a rule is thrown away unread and asked for once more. The current memo stays when that one
        breaks a rule too, and when the optimizer proposes nothing or the memo that is there.

        Raises:
            ModelError: the memo optimizer gave no usable reply. Nothing has changed then.
            BudgetExhausted: a hard limit is reached.
        """
        decision = decide(evidence.versions, evidence.observations, self.config)
        outcome = MemoOutcome(
            evidence=evidence,
            decision=decision,
            scores=score_versions(evidence.observations, self.config),
            baseline=honest_baseline(evidence.observations, self.config),
            why=decision.why,
        )
        if decision.action == "roll_back":
            return outcome.model_copy(update={"memo": _rolled_back(evidence, decision), "why": ""})
        return await self._write(outcome) if decision.action == "propose" else outcome

    async def _write(self, outcome: MemoOutcome) -> MemoOutcome:
        """The outcome with a new memo, or with the reason why there is none."""
        evidence, current = outcome.evidence, outcome.evidence.current
        shown = self._shown(outcome)
        prompts, rejected = list[Prompt](), list[RejectedMemo]()
        problems: list[str] = []

        def ended(**update: Any) -> MemoOutcome:
            kept = {"hackability": shown["hackability"], "prompts": tuple(prompts), "rejected": tuple(rejected)}
            return outcome.model_copy(update={**kept, **update})

        for attempt in range(1, self.config.attempts + 1):
            arguments = {**shown, "problems": problems}
            prompts.append(prompt_of(self.memo_optimizer, **arguments))
            with tagged("", f"memo-{evidence.cycle}-attempt-{attempt}"):
                new = await self.memo_optimizer.acall(**arguments)
            if not new.memo or new.memo == current.memo.strip():
                return ended(why=f"the memo optimizer proposes no change: {new.summary}")
            found = check_memo(new.memo, self.config.max_chars)
            if not found:
                return ended(memo=_next(evidence, new), why="")
            rejected.append(RejectedMemo(memo=new.memo, summary=new.summary, problems=tuple(found)))
            problems = list(dict.fromkeys([*problems, *found]))
        return ended(why=f"the new memo breaks the rules in all {len(rejected)} attempts: {'; '.join(problems)}")

    def _shown(self, outcome: MemoOutcome) -> dict[str, Any]:
        evidence, config = outcome.evidence, self.config
        scores = {s.version: s for s in outcome.scores}
        earlier = evidence.versions[:-1]
        patches = evidence.exploits.patches
        return {
            "memo": evidence.current.memo,
            "hackability": hackability_text(
                scores[evidence.current.version], outcome.baseline, evidence.exploits, config
            ),
            "modes": evidence.exploits.labels,
            "minted": [signed_criterion(c) for c in patches[max(0, len(patches) - config.minted) :]],
            "history": [
                _past(version, scores.get(version.version), evidence.versions)
                for version in earlier[max(0, len(earlier) - config.history) :]
            ],
        }


def _past(version: MemoVersion, score: MemoScore | None, versions: tuple[MemoVersion, ...]) -> PastMemo:
    """An earlier version with its figures, where it came from and what became of it."""
    after = next(v for v in versions if v.version > version.version)
    came = {"initial": "the first one", "new": "written anew", "rolled_back": f"the text of version {version.of} again"}
    went = f"given up for version {after.of}" if after.decision == "rolled_back" else "rewritten"
    return PastMemo(
        version=version.version,
        memo=version.memo,
        score=None if score is None or score.score is None else round(score.score, 3),
        honest_mean=None if score is None or score.honest_mean is None else round(score.honest_mean, 3),
        decision=f"{came[version.decision]}, then {went}",
    )


def _rolled_back(evidence: MemoEvidence, decision: Decision) -> MemoVersion:
    """A new version with the exact text of the one that the decision names."""
    best = next(v for v in evidence.versions if v.version == decision.of)
    return MemoVersion(
        version=evidence.current.version + 1,
        cycle=evidence.cycle,
        memo=best.memo,
        summary=decision.why,
        decision="rolled_back",
        of=best.version,
    )


def _next(evidence: MemoEvidence, new: NewMemo) -> MemoVersion:
    return MemoVersion(
        version=evidence.current.version + 1,
        cycle=evidence.cycle,
        memo=new.memo,
        summary=new.summary,
        decision="new",
    )
