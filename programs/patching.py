"""Patch: new criteria for a rubric that the solver beat, each tested before it is kept (METHOD 7)."""

from collections import Counter
from collections.abc import Sequence

from programs.minted_checks import CaseHonest, MintedChecks, Standing
from programs.minter import Minter, Minting
from programs.probe import Prober
from programs.shown import outcomes
from rri.cases import Check, ExploitCase, Patch, PatchOutcome, PatchRound
from rri.config import PatchConfig
from rri.errors import InputError, ModelError
from rri.evidence import Probe
from rri.lm.calls import tagged
from rri.rubric_rules import RubricLimits
from rri.scoring import raw_score
from rri.types import Criterion, Grade, Rubric, Task, Verdict

__all__ = ["Patcher", "patched"]


def patched(task: Task, criteria: Sequence[Criterion]) -> Task:
    """The next version of `task`: `criteria` at the end of its rubric, everything else kept."""
    rubric = Rubric(criteria=(*task.rubric.criteria, *criteria))
    return task.model_copy(update={"version": task.version + 1, "rubric": rubric})


class Patcher:
    """Mends rubrics on exploit cases. Keeps no state: everything it saw is in the result.

    Args:
        minter: writes the criteria.
        prober: its farmer attacks what was patched, its honest role writes an answer that is missing, its grader
            tests every criterion.
        config: METHOD 7's numbers.
        limits: how many criteria a rubric may hold.
    """

    def __init__(
        self,
        minter: Minter,
        prober: Prober,
        config: PatchConfig | None = None,
        limits: RubricLimits | None = None,
    ) -> None:
        self.minter = minter
        self.prober = prober
        self.config = config or PatchConfig()
        self.limits = limits or RubricLimits()
        self.checks = MintedChecks(prober.grader, self.config, self.limits)

    async def patch(
        self, number: int, case: ExploitCase, task: Task, accepted_before: int = 0, honest: str | None = None
    ) -> Patch:
        """What becomes of one case, with all evidence.

        The first round sets the exploit against the better answer. Where the farmer beats what was patched, its answer
        is the next round's exploit. The task gets one new version for the whole case. It keeps what was accepted
        before a model failed.

        Args:
            number: the case's own; every call is tagged with it.
            case: the exploit, with the task as it was graded.
            task: as it is now.
            accepted_before: criteria that earlier cases added to this task over the run.
            honest: the cached rubric-blind answer; written when it is needed and missing.

        Raises:
            InputError: the case is about another task, or a grade does not fit its rubric.
            BudgetExhausted: a hard limit is reached. Failing models are recorded, not raised.
        """
        if task.task_id != case.task.task_id:
            raise InputError(
                f"case {number} is about task {case.task.task_id}, but task {task.task_id} was given to be patched",
                "Give the task of the case",
            )
        if task.version != case.task.version:
            why = f"the task is at version {task.version}, the case is about version {case.task.version}"
            return Patch(case=number, before=task, task=task, outcome="stale", honest=honest or "", why=why)
        for answered in (case.exploit, case.better):
            # A grade of another rubric is refused even where no model will be asked.
            outcomes(task, answered.grade)
        with tagged(task.task_id, f"case-{number}"):
            written = CaseHonest(self.prober.honest, task, f"case-{number}-honest", honest)
            return await _Repair(self, number, case, task, accepted_before, written).run()


class _Repair:
    """One case under repair: what was accepted so far, and the exploit of the round with its verdicts."""

    def __init__(
        self, patcher: Patcher, number: int, case: ExploitCase, task: Task, accepted_before: int, honest: CaseHonest
    ) -> None:
        self.patcher = patcher
        self.config = patcher.config
        self.number = number
        self.case = case
        self.before = task
        self.accepted_before = accepted_before
        self.honest = honest
        self.accepted: list[Check] = []
        self.exploit = case.exploit.answer
        self.exploit_grade = case.exploit.grade

    @property
    def task(self) -> Task:
        """The task as patched so far."""
        return patched(self.before, [c.criterion for c in self.accepted]) if self.accepted else self.before

    @property
    def better_grade(self) -> Grade:
        """The better answer's verdicts on the rubric as patched so far."""
        first = self.case.better.grade
        if not self.accepted:
            return first
        verdicts = (*first.verdicts, *(c.better for c in self.accepted if c.better is not None))
        return Grade(verdicts=verdicts, score=None, raw=None, unscored="verdicts of a rollout and of a patch together")

    @property
    def full(self) -> str:
        """Why not one more criterion would fit; empty while one does."""
        in_task, in_rubric = self.accepted_before + len(self.accepted), len(self.task.rubric.criteria)
        if in_task >= self.config.accepted_per_task:
            return f"{in_task} criteria were accepted for this task, the most it may get"
        if in_rubric >= self.patcher.limits.max_criteria_repaired:
            return f"the rubric holds {in_rubric} criteria, the most it may"
        return ""

    async def run(self) -> Patch:
        rounds: list[PatchRound] = []
        while len(rounds) < self.config.rounds and not self.full:
            done = await self._round(len(rounds) + 1)
            rounds.append(done)
            if done.attack is None or "exploitable" not in done.attack.reasons or done.attack.exploit_grade is None:
                break
            self.exploit, self.exploit_grade = done.attack.exploit, done.attack.exploit_grade
        return self._result(rounds)

    async def _round(self, number: int) -> PatchRound:
        """Mint until something is accepted, then attack the rubric that it made."""
        sample, exploit = f"case-{self.number}-round-{number}", self.exploit
        checks, label, why, failed = list[Check](), None, "", False
        problems: list[str] = []
        for attempt in range(1, self.config.attempts + 1):
            try:
                minting = await self._mint(f"{sample}-mint-{attempt}", problems)
            except ModelError as error:
                why, failed = f"no criteria: {error}", True
                break
            label = minting.label
            with tagged(sample=f"{sample}-check-{attempt}"):
                fresh = await self._check(minting, attempt)
            checks += fresh
            if label == "none" or any(c.outcome == "accepted" for c in fresh):
                break
            # What the judge could not decide is no fault of the criterion, so it is not held against it.
            problems = [f"{c.detail}: {c.criterion.text!r}" for c in fresh if c.outcome not in _JUDGE_FAILED]
        accepted = [c for c in checks if c.outcome == "accepted"]
        if accepted and number > 1:
            checks = await self._on_case_exploit(checks, f"{sample}-case-exploit")
        attack = await self._attack(f"{sample}-attack") if accepted and self.config.reattack else None
        return PatchRound(
            number=number,
            exploit=exploit,
            label=label,
            checks=tuple(checks),
            attack=attack,
            why=why or _tally(checks),
            failed=failed,
        )

    async def _mint(self, sample: str, problems: Sequence[str]) -> Minting:
        """Raises:
        ModelError: the minter gave no usable reply.
        """
        with tagged(sample=sample):
            minting: Minting = await self.patcher.minter.acall(
                task=self.task,
                exploit=self.exploit,
                better=self.case.better.answer,
                exploit_grade=self.exploit_grade,
                better_grade=self.better_grade,
                problems=problems,
            )
        return minting

    async def _check(self, minting: Minting, attempt: int) -> list[Check]:
        """Each criterion against the rubric that holds those accepted before it."""
        checks: list[Check] = []
        for minted in minting.criteria:
            standing = Standing(
                task=self.task,
                exploit=self.exploit,
                better=self.case.better.answer,
                honest=self.honest,
                in_task=self.accepted_before + len(self.accepted),
                in_round=sum(c.outcome == "accepted" for c in checks),
            )
            check = await self.patcher.checks.check(minted, standing, attempt)
            checks.append(check)
            if check.outcome == "accepted":
                self.accepted.append(check)
        return checks

    async def _on_case_exploit(self, checks: Sequence[Check], sample: str) -> list[Check]:
        """`checks`, the accepted ones also graded on the exploit of the case: they were measured on a later one."""
        accepted = [c for c in checks if c.outcome == "accepted"]
        with tagged(sample=sample):
            verdicts = await self.patcher.prober.grader.verdicts(
                self.before,
                self.case.exploit.answer,
                [c.criterion for c in accepted],
                strict=True,
                votes=self.config.votes,
            )
        found = iter(verdicts)
        graded = [c.model_copy(update={"case_exploit": next(found)}) if c.outcome == "accepted" else c for c in checks]
        self.accepted[-len(accepted) :] = [c for c in graded if c.outcome == "accepted"]
        return graded

    async def _attack(self, sample: str) -> Probe:
        """The farmer's fresh attack on the task as patched so far."""
        honest = await self.honest.ask()
        if not honest:
            return Probe(status="unmeasured", why=self.honest.error, failed=True)
        return await self.patcher.prober.attack(self.task, honest, sample)

    def _result(self, rounds: Sequence[PatchRound]) -> Patch:
        checks = [c for r in rounds for c in r.checks]
        failure = next((r.failure for r in rounds if r.failure), "")
        outcome: PatchOutcome = "patched" if self.accepted else "failed" if failure else "unpatched"
        return Patch(
            case=self.number,
            before=self.before,
            task=self.task,
            outcome=outcome,
            rounds=tuple(rounds),
            honest=self.honest.text,
            lead_before=self._lead([]),
            lead_after=self._lead(self.accepted),
            why=failure
            if outcome == "failed"
            else "; ".join(filter(None, (_tally(checks) if rounds else "", self.full))),
        )

    def _lead(self, accepted: Sequence[Check]) -> float | None:
        """Raw score of the better answer - raw score of the case's exploit under the rubric with `accepted`."""
        criteria = (*self.before.rubric.criteria, *(c.criterion for c in accepted))
        better = _raw(criteria, [*self.case.better.grade.verdicts, *(c.better for c in accepted)])
        on_exploit = [c.exploit if c.case_exploit is None else c.case_exploit for c in accepted]
        exploit = _raw(criteria, [*self.case.exploit.grade.verdicts, *on_exploit])
        return None if better is None or exploit is None else better - exploit


_JUDGE_FAILED = ("unknown", "honest_unknown")


def _raw(criteria: Sequence[Criterion], verdicts: Sequence[Verdict | None]) -> float | None:
    return raw_score(criteria, ["unknown" if v is None else v.outcome for v in verdicts])


def _tally(checks: Sequence[Check]) -> str:
    """What became of the criteria, counted."""
    counts = Counter(c.outcome for c in checks)
    return ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()) or "the minter named no exploit"
