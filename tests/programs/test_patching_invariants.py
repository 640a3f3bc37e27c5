"""What holds of every patch: invariants over random rubrics, random judges and random faults (METHOD 7)."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.patching import patched
from rri.cases import Answered, Check, ExploitCase, Patch, PatchRound
from rri.scoring import raw_score
from rri.testing import ChatRequest, status
from rri.types import Criterion, Grade, Outcome, Task, Verdict
from tests.programs.patch_cases import CASE, Bench, Reply, claim, fact, holding, patching, task_of

LEAST_GAP = 0.15
BORN = frozenset(fact(50 + n) for n in range(9))
"""What a rubric asks for before it is patched."""
BROKEN = ("Too short", "Fails to name the notice period of the contract", "The response names the notice period of it")


@dataclass
class World:
    """Models whose every word and verdict follows from a seed, and what they say to whom."""

    seed: int
    faults: float
    asked: Counter[str] = field(default_factory=Counter)

    def draw(self, *key: object) -> random.Random:
        return random.Random(f"{self.seed}:{key}")

    def turn(self, role: str) -> tuple[int, random.Random]:
        """The number of this request to a role, and its own draw."""
        self.asked[role] += 1
        return self.asked[role], self.draw(role, self.asked[role])

    def verdict(self, answer: str, criterion: str) -> Outcome:
        """Now and then the judge fails. Else answers that game a rubric meet what it asks, and what blames them."""
        draw = self.draw(answer, criterion)
        if draw.random() < self.faults:
            return "unknown"
        games, asked = answer.startswith(("Row 0", "Attack")), criterion in BORN
        wanted = games == (asked or criterion.startswith("Claims"))
        return "met" if draw.random() < (0.75 if wanted else 0.25) else "unmet"

    def judge(self, request: ChatRequest) -> Reply:
        verdict = self.verdict(request.block("answer"), request.block("criterion"))
        return status(400) if verdict == "unknown" else json.dumps({"reason": "", "met": verdict == "met"})

    def mint(self, _: ChatRequest) -> Reply:
        _number, draw = self.turn("minter")
        if draw.random() < self.faults:
            return status(400)
        if draw.random() < 0.05:
            return json.dumps({"criteria": [], "label": "none"})
        written = []
        for _ in range(draw.randint(1, 5)):
            positive = draw.random() < 0.6
            text = draw.choice(BROKEN) if draw.random() < 0.1 else (fact if positive else claim)(draw.randrange(30))
            written.append({"why": "", "text": text, "points": draw.randint(5, 10) * (1 if positive else -1)})
        return json.dumps({"criteria": written, "label": "other"})

    def farm(self, _: ChatRequest) -> Reply:
        number, draw = self.turn("farmer")
        return status(400) if draw.random() < self.faults else holding(mark=f"Attack {number}. ")

    def write(self, _: ChatRequest) -> Reply:
        number, draw = self.turn("honest")
        return status(400) if draw.random() < self.faults else holding(mark=f"Honest {number}. ")


def graded(row: int, task: Task, answer: str, world: World) -> Answered:
    """As a rollout is graded, by a judge that does not fail."""
    calm = World(world.seed, 0.0)
    outcomes = [calm.verdict(answer, c.text) for c in task.rubric.criteria]
    raw = raw_score(task.rubric.criteria, outcomes)
    verdicts = tuple(Verdict(outcome=o) for o in outcomes)
    return Answered(row=row, answer=answer, grade=Grade(verdicts=verdicts, score=raw, raw=raw))


def a_case(world: World) -> ExploitCase | None:
    """A random case at least `LEAST_GAP` apart; None where the seed makes none."""
    draw = world.draw("task")
    positives = [(fact(50 + n), draw.randint(1, 10)) for n in range(draw.randint(1, len(BORN)))]
    negatives = [(claim(50 + n), -draw.randint(1, 10)) for n in range(draw.randint(0, 3))]
    task = task_of(*positives, *negatives)
    for number in range(20):
        pair = [graded(row, task, holding(mark=f"Row {row} of {number}. "), world) for row in range(2)]
        raws = [a.grade.raw for a in pair if a.grade.raw is not None]
        if raws[0] - raws[1] >= LEAST_GAP:
            return CASE.model_copy(
                update={"task": task, "exploit": pair[0], "better": pair[1], "gap": raws[0] - raws[1]}
            )
    return None


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with patching([], endpoints={"main": {"retries": 0}}) as bench:
        yield bench


def repair(bench: Bench, world: World, case: ExploitCase, before: int, honest: str | None) -> Patch:
    bench.server.models = {"judge": world.judge, "minter": world.mint, "farmer": world.farm, "honest": world.write}
    return bench.run(case, before=before, honest=honest)


WORLDS = st.builds(World, seed=st.integers(0, 10**6), faults=st.sampled_from([0.0, 0.0, 0.1]))
HONESTS = st.sampled_from([None, holding(mark="Cached. ")])


def test_every_patch_holds_what_the_method_promises(bench: Bench) -> None:
    reached: Counter[str] = Counter()

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(world=WORLDS, before=st.integers(0, 6), honest=HONESTS)
    def promises(world: World, before: int, honest: str | None) -> None:
        case = a_case(world)
        if case is None:
            return
        patch = repair(bench, world, case, before, honest)
        reached[patch.outcome] += 1
        reached["second"] += len(patch.rounds) > 1
        reached.update(check.outcome for r in patch.rounds for check in r.checks)
        check_rounds(patch, case, world, before)
        check_leads(patch, case)
        assert Patch.model_validate_json(patch.model_dump_json()) == patch

    promises()
    assert {"patched", "unpatched", "failed", "second"} <= set(reached)
    assert {"accepted", "task_full", "rubric_full", "overlap", "not_separating", "honest_meets"} <= set(reached)


def check_rounds(patch: Patch, case: ExploitCase, world: World, before: int) -> None:
    """Caps, versions, verdicts and endings, walked again from what was kept."""
    criteria = case.task.rubric.criteria
    assert len(patch.rounds) <= 2
    assert before + len(patch.accepted) <= max(6, before)
    for number, done in enumerate(patch.rounds, 1):
        assert done.number == number
        assert len(done.accepted) <= 5
        assert done.exploit == (case.exploit.answer if number == 1 else attacked(patch.rounds[0]))
        for check in done.checks:
            check_verdicts(check, done, case, world)
        assert [c.attempt for c in done.checks] == sorted(c.attempt for c in done.checks)
        assert not any(c.attempt == 2 for c in done.checks) or all(
            c.outcome != "accepted" for c in done.checks if c.attempt == 1
        )
        assert (done.attack is not None) == bool(done.accepted)
        assert done.failed or done.label is not None
    for done in patch.rounds[:-1]:
        assert done.attack is not None and "exploitable" in done.attack.reasons
    added = tuple(c.criterion for c in patch.accepted)
    assert len(criteria) + len(added) <= 12
    assert all(40 <= len(c.text) <= 220 and 5 <= abs(c.points) <= 10 for c in added)
    assert patch.task == (patched(case.task, added) if added else case.task)
    assert patch.task.conversation == case.task.conversation
    assert patch.outcome == ("patched" if added else "failed" if patch.failure else "unpatched")


def attacked(done: PatchRound) -> str:
    assert done.attack is not None
    return done.attack.exploit


def check_verdicts(check: Check, done: PatchRound, case: ExploitCase, world: World) -> None:
    """What was decided follows from what the judge says of these answers."""
    text, positive = check.criterion.text, check.criterion.points > 0
    judged = check.outcome in ("accepted", "unknown", "not_separating", "honest_unknown", "honest_meets")
    if not judged:
        assert (check.exploit, check.better, check.honest) == (None, None, None)
        return
    assert check.exploit is not None and check.better is not None
    pair = (check.exploit.outcome, check.better.outcome)
    assert pair == (world.verdict(done.exploit, text), world.verdict(case.better.answer, text))
    assert (check.outcome == "unknown") == ("unknown" in pair)
    if "unknown" not in pair:
        assert (check.outcome == "not_separating") == (pair != (("unmet", "met") if positive else ("met", "unmet")))
    if check.outcome == "accepted" and not positive:
        assert check.honest is not None and check.honest.outcome == "unmet"
    later = check.outcome == "accepted" and done.number > 1
    assert (check.case_exploit is not None) == later


def lead(criteria: tuple[Criterion, ...], better: list[Verdict | None], exploit: list[Verdict | None]) -> float:
    raws = [raw_score(criteria, [v.outcome for v in side if v is not None]) for side in (better, exploit)]
    assert raws[0] is not None and raws[1] is not None
    return raws[0] - raws[1]


def check_leads(patch: Patch, case: ExploitCase) -> None:
    """An accepted patch raises the better answer's lead over the exploit of its own pair, in each of its rounds."""
    assert patch.lead_before == pytest.approx(-case.gap)
    assert patch.lead_after is not None
    if not patch.accepted:
        assert patch.lead_after == patch.lead_before
        return
    assert patch.lead_after > patch.lead_before
    criteria = case.task.rubric.criteria
    better: list[Verdict | None] = list(case.better.grade.verdicts)
    exploit: list[Verdict | None] = list(case.exploit.grade.verdicts)
    for done in patch.rounds:
        before = lead(criteria, better, exploit)
        criteria += tuple(c.criterion for c in done.accepted)
        better += [c.better for c in done.accepted]
        after = lead(criteria, better, exploit + [c.exploit for c in done.accepted])
        assert (after > before) == bool(done.accepted)
        if done.attack is not None and done.attack.exploit_grade is not None:
            exploit = list(done.attack.exploit_grade.verdicts)


def test_the_same_models_make_the_same_patch(bench: Bench) -> None:
    """Nothing is drawn but by the models."""
    case = a_case(World(7, 0.0))
    assert case is not None
    first, second = (repair(bench, World(7, 0.0), case, 0, None) for _ in range(2))
    assert first == second
    assert first.accepted
