"""The evolution round at every interval: evidence from the store in, guidance and memo into force (METHOD 7)."""

import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from programs.evolution import EvolutionRound
from programs.memo import MemoRound
from rri.cases import GuidanceVersion, MemoVersion
from rri.config import RunConfig
from rri.errors import ModelError
from rri.evolution_rules import select_cases
from rri.memo_score import MemoObservations
from rri.rounds import ExploitEvidence, Hackability, MeasuredGuidance, MemoEvidence, RoundEvidence
from rri.rundir import write_atomically
from rri.store import Report, RoundRow, Store, read_calls

__all__ = ["Evolver"]

ROLES = ("analyst", "meta_optimizer", "memo_optimizer")
"""Whose prompts are kept with a round."""


class Evolver:
    """Runs the rounds and holds what is in force. The texts themselves are rows of the store.

    Args:
        config: the run's config.
        store: where evidence comes from and texts are kept.
        evolution, memo: the two programs.
        folder: gets one folder a round.
        put: told the texts that are in force from now on.
    """

    def __init__(
        self,
        config: RunConfig,
        store: Store,
        evolution: EvolutionRound,
        memo: MemoRound,
        folder: Path,
        put: Callable[[GuidanceVersion, MemoVersion], None],
    ) -> None:
        self.config = config
        self.store = store
        self.evolution = evolution
        self.memo_round = memo
        self.folder = folder
        self.put = put
        self.guidance = store.guidance_versions()[-1]
        self.memo = store.memo_versions()[-1]

    def due(self, cycle: int) -> bool:
        """Whether the interval ends with this cycle, and no earlier pass over it has had its round."""
        settings = self.config.evolution
        if not settings.enabled or (cycle + 1) % settings.every_cycles:
            return False
        return all(row.cycle < cycle for row in self.store.rounds("evolution") if row.outcome == "done")

    async def evolve(self, report: Report) -> Mapping[str, Any]:
        """One round: guidance, then memo. What it puts into force is kept in one commit with the round itself.

        Raises:
            ModelError: the guidance could not be written, or the memo; the other one is kept.
        """
        started, at = time.monotonic(), time.time()
        since = self._last_cycle() + 1
        exploits = self._exploits(since)
        outcome = await self.evolution.run(self._evidence(report.cycle, since, exploits))
        files, decided, failure = outcome.files(), None, None
        if self.config.memo.enabled:
            try:
                decided = await self.memo_round.run(self._memo_evidence(report.cycle, exploits))
                files |= decided.files()
            except ModelError as error:
                failure = error
        self._write_folder(report.cycle, files, at)
        memo = decided.memo if decided else None
        data = {
            "guidance": outcome.guidance.version if outcome.guidance else None,
            "memo": memo.version if memo else None,
            "why": outcome.why,
            "diagnosed": len(outcome.diagnoses),
            "memo_decision": decided.decision.model_dump() if decided else None,
            "memo_error": str(failure) if failure else "",
        }
        row = RoundRow(report.id, report.cycle, "evolution", "done", time.monotonic() - started, data)
        await self.store.add_round(row, outcome.guidance, memo)
        self.guidance, self.memo = outcome.guidance or self.guidance, memo or self.memo
        self.put(self.guidance, self.memo)
        if failure is not None:
            raise failure
        return data

    def _last_cycle(self) -> int:
        return max((row.cycle for row in self.store.rounds("evolution") if row.outcome == "done"), default=-1)

    def _evidence(self, cycle: int, since: int, exploits: ExploitEvidence) -> RoundEvidence:
        settings = self.config.evolution
        scored = self.store.scored_since(since)
        rng = random.Random(f"{self.config.seed}:evolve:{cycle}")
        chosen = select_cases(scored, lambda row: row[1], settings, rng)
        means = self._train_means()
        return RoundEvidence(
            cycle=cycle,
            guidance=self.guidance,
            cases=tuple(self.store.graded_cases([number for number, _ in chosen])),
            tasks=tuple(self.store.latest_tasks(settings.corpus_tasks)),
            reference=self.config.domain.reference,
            train_mean=self.store.score_summary(self.config.generation.difficulty_window)["mean_score"],
            history=tuple(
                MeasuredGuidance(guidance=version, train_mean=means.get(version.version))
                for version in self.store.guidance_versions()
            ),
            exploits=exploits,
        )

    def _train_means(self) -> dict[int, float]:
        """Guidance version -> mean training score over the cycles in which it was in force."""
        versions = self.store.guidance_versions()
        sums: dict[int, list[float]] = {}
        for cycle, scored, mean in self.store.scored_by_cycle():
            version = max((v for v in versions if v.cycle < cycle), key=lambda v: v.version, default=versions[0])
            total = sums.setdefault(version.version, [0.0, 0.0])
            total[0] += mean * scored
            total[1] += scored
        return {version: total / n for version, (total, n) in sums.items()}

    def _exploits(self, since: int) -> ExploitEvidence:
        """Cases since the last round, their patches, and how hackable the latest tasks were at birth."""
        gaps, patches = self.store.exploits_since(since)
        deltas = self.store.latest_deltas(self.config.evolution.corpus_tasks)
        return ExploitEvidence.of(gaps, patches, Hackability.of(deltas))

    def _memo_evidence(self, cycle: int, exploits: ExploitEvidence) -> MemoEvidence:
        """The evidence of the round, with the latest accepted criteria, however old they are."""
        observed = self.store.probes_by_memo()
        minted = self.store.latest_patches(self.config.memo.minted)[::-1]
        latest = tuple(check.criterion for patch in minted for check in patch.accepted)[-self.config.memo.minted :]
        exploits = exploits.model_copy(update={"patches": latest})
        return MemoEvidence(
            cycle=cycle,
            versions=tuple(self.store.memo_versions()),
            observations=tuple(
                MemoObservations(version=version, deltas=tuple(deltas), honests=tuple(honests))
                for version, (deltas, honests) in sorted(observed.items())
            ),
            exploits=exploits,
        )

    def _write_folder(self, cycle: int, files: Mapping[str, str], since: float) -> None:
        """The round's folder, with its prompts as they were sent."""
        folder = self.folder / f"cycle-{cycle:05}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_atomically(folder / name, text)
        lines = []
        for role in ROLES:
            for call in read_calls(self.store.path.parent, role=role, since=since):
                record = call.record
                sent = {"role": role, "messages": record.messages, "reply": record.reply, "error": record.error}
                lines.append(json.dumps(sent, ensure_ascii=False))
        write_atomically(folder / "calls.jsonl", "".join(f"{line}\n" for line in lines))

    def stats(self) -> dict[str, Any]:
        rounds = [row for row in self.store.rounds("evolution") if row.outcome == "done"]
        return {
            "guidance": self.guidance.version,
            "memo": self.memo.version,
            "memo_decision": rounds[-1].data["memo_decision"] if rounds else None,
            "evolutions": len(rounds),
        }
