"""The estimate of exploit cases and patches against the real programs, on models whose outcomes are scripted."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from programs import Minter, Referee, Roles
from programs.estimate import estimate_run
from programs.exploits import CaseFinder, largest
from programs.patching import Patcher
from rri.cases import Answered, ExploitCase, Patch, Ranking
from rri.config import RunConfig
from rri.lm import role_lm
from rri.testing import ChatRequest, ScriptedServer
from rri.types import Criterion, Grade, Labels, Message, Rubric, Task
from tests.programs.scripted_run import LENGTHS, PASSAGES, World, about, held, prose, saying, task_number
from tests.rigs import open_test_gateway, scripted_config

GOOD = 20
"""An item that no criterion is about: the referee likes it."""
FATES = ("flat",) * 2 + ("fair",) * 3 + ("case",) * 2 + ("flipped",)
"""flat: all answers score the same. fair: the best answer scores highest. case: another one does. flipped: the second
order takes the first one back."""
MINTED = (((5, True), (6, True), (7, True), (8, False)), ((10, True), (11, True), (12, True), (13, False)))
"""Item and sign of what the minter writes in each round; the third one never separates."""
EXPLOIT, BETTER, LATER_EXPLOIT = (0, 1, 2, 3, 8), (0, 5, 6, 10, 11, GOOD), (0, 1, 2, 3, 5, 6, 13)


def answers_of(number: int) -> list[tuple[int, ...]]:
    """Items of the four rollouts of a task."""
    fate = FATES[number]
    first = {"flat": (0,), "fair": (0, 1, 2, 3, GOOD)}.get(fate, EXPLOIT)
    return [first, BETTER if fate in ("case", "flipped") else (0,), (0,), (0,)]


class LoopWorld(World):
    """The models of the loop. The farmer beats the patched rubric of the first case, and not that of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.ranked: Counter[int] = Counter()

    def farmer(self, request: ChatRequest) -> str:
        number = task_number(request.block("conversation"))
        return saying(LATER_EXPLOIT if number == FATES.index("case") else (0,), 1250, number)

    def referee(self, request: ChatRequest) -> str:
        number = task_number(request.block("conversation"))
        self.ranked[number] += 1
        shown = {a["letter"]: held(a["text"]) for a in json.loads(request.block("answers"))}
        again = FATES[number] == "flipped" and self.ranked[number] == 2
        best = [letter for letter, items in shown.items() if (3 in items if again else GOOD in items)]
        return json.dumps({"notes": prose("", 120), "tiers": [best, [x for x in shown if x not in best]]})

    def minter(self, request: ChatRequest) -> str:
        wanted = MINTED[0 if len(json.loads(request.block("rubric"))) == 5 else 1]
        criteria = [
            {"why": prose("", 90, item), "text": about(item, positive), "points": 8 if positive else -6}
            for item, positive in wanted
        ]
        return json.dumps({"criteria": criteria, "label": "keyword_stuffing"})


def task_of(number: int) -> Task:
    criteria = [Criterion(text=about(i, True), points=8) for i in range(4)]
    return Task(
        task_id=f"{number:06d}-abc",
        conversation=(Message(role="user", content=prose(f"Task {number}.", LENGTHS["task_chars"], number)),),
        rubric=Rubric(criteria=(*criteria, Criterion(text=about(9, False), points=-6))),
        labels=Labels(use_case="explain"),
    )


class LoopRun:
    """One cycle's cases and patches, and the calls that they took."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.rankings: list[Ranking] = []
        self.patches: list[Patch] = []
        self.calls: dict[str, int] = {}

    async def work(self, roles: Roles, finder: CaseFinder, patcher: Patcher) -> None:
        cases: list[ExploitCase] = []
        for number in range(len(FATES)):
            task = task_of(number)
            answered = [await self._answered(roles, task, row, items) for row, items in enumerate(answers_of(number))]
            ranking, case = await finder.find(0, number, task, answered)
            self.rankings.append(ranking)
            cases += [case] if case else []
        for number, case in enumerate(largest(cases, self.config.exploits.cases_per_round)):
            known = None if number else saying((0, 1, 2), LENGTHS["answer_chars"], number)
            self.patches.append(await patcher.patch(number, case, case.task, honest=known))

    @staticmethod
    async def _answered(roles: Roles, task: Task, row: int, items: Sequence[int]) -> Answered:
        answer = saying(items, LENGTHS["answer_chars"], row)
        grade: Grade = await roles.grader.grade(task, answer, training=True)
        return Answered(row=row, answer=answer, grade=grade)


@pytest.fixture(scope="module")
def run() -> Iterator[LoopRun]:
    world = LoopWorld()
    models = {**world.models(), "referee": world.referee, "minter": world.minter}
    with ScriptedServer(models) as server:
        sections: dict[str, Any] = {
            "generation": {"tasks": 8, "positives": {4: 1.0}, "negative_share": 1.0},
            "admission": {"enabled": True},
            "evolution": {"enabled": False},
            "memo": {"enabled": False},
            "solver": {
                "cycles": 1,
                "tasks_per_cycle": 8,
                "tasks_per_update": 8,
                "max_prompt_tokens": 6144,
                "max_completion_tokens": 8192,
            },
            "roles": {role: {"max_tokens": 100_000} for role in models},
        }
        config = scripted_config(server.url, **sections)
        with open_test_gateway(config) as gateway:
            roles = Roles.bind(config, gateway)
            referee, minter = Referee(config.domain.expert), Minter()
            referee.set_lm(role_lm("referee", gateway))
            minter.set_lm(role_lm("minter", gateway))
            run = LoopRun(config)
            patcher = Patcher(minter, roles.prober(), config.patches, config.generation.rubric)
            gateway.loop.run(run.work(roles, CaseFinder(referee, config.exploits), patcher))
            run.calls = {role: totals.calls for role, totals in gateway.ledger.by_role.items()}
            yield run


SHARES = {
    "rule_breaks": 0.0,
    "unusable_replies": 0.0,
    "vote_flips": 0.0,
    "first_probe_passes": 1.0,
    "truncated_answers": 0.0,
    "ranked_groups": 6 / 8,
    "exploit_cases": 2 / 6,
    "flipped_pairs": 1 / 3,
    "patch_accepted": 1.0,
    "reattack_wins": 1 / 2,
    "minted_criteria": 4.0,
    "minted_checked": 1.0,
    "minted_separates": 3 / 4,
    "minted_negative": 1 / 4,
    "honest_missing": 1 / 2,
    "added_criteria": 0.0,
    "chars_per_token": 1.0,
    **LENGTHS,
}
"""What the scripts do. Every task holds at admission, so that all calls but the first ones are the loop's."""


@pytest.fixture(scope="module")
def expected(run: LoopRun) -> dict[str, float]:
    """Calls of training by role: those of admission are known, a probe of each task."""
    estimate = estimate_run(run.config, SHARES, PASSAGES)
    calls = {role.role: role.calls.expected for role in estimate.roles}
    probes = {"farmer": 8 + 1, "honest": 8 + 1, "judge": 8 * 2 * 5 * 2 + 1, "referee": 1, "minter": 1}
    return {role: calls[role] - before for role, before in probes.items()}


def test_the_loop_did_what_its_scripts_say(run: LoopRun) -> None:
    assert Counter(r.outcome for r in run.rankings) == {"no_case": 5, "case": 2, "flipped": 1}
    assert [len(p.rounds) for p in run.patches] == [2, 1]
    assert [sum(c.outcome == "accepted" for r in p.rounds for c in r.checks) for p in run.patches] == [6, 3]


@pytest.mark.parametrize("role", ["referee", "minter", "farmer", "honest"])
def test_calls_of_the_loop_are_exact(role: str, run: LoopRun, expected: dict[str, float]) -> None:
    assert run.calls[role] == pytest.approx(expected[role])


def test_the_judges_calls_of_the_loop_are_close(run: LoopRun, expected: dict[str, float]) -> None:
    # A rubric that was patched once is judged at its mean length over both rounds.
    assert run.calls["judge"] == pytest.approx(expected["judge"], rel=0.10)
