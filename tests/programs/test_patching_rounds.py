"""Patch, rounds: the farmer attacks what was patched, and its answer is the next exploit (METHOD 7)."""

import json

import pytest

from programs.patching import patched
from rri.cases import PatchRound
from rri.testing import Fault, empty, status
from signatures.judge import JudgeCriterionStrictly
from tests.programs.patch_cases import (
    BETTER,
    EXPLOIT,
    HONEST,
    LOSING,
    TASK,
    WINNING,
    Reply,
    case_of,
    claim,
    fact,
    holding,
    minting,
    outcomes,
    patching,
    task_of,
    texts,
)

FAILED = status(400)


# -- the farmer's new attack ----------------------------------------------------------------------------


def attack_of(done: PatchRound) -> tuple[str, str]:
    assert done.attack is not None
    return done.attack.status, done.attack.exploit


def test_the_farmer_attacks_the_patched_rubric_beside_the_cached_honest_answer() -> None:
    with patching(minting((fact(0), 8))) as bench:
        patch = bench.run()
        (request,) = bench.server.of("farmer")
        judged = [r for r in bench.server.of("judge") if r.block("answer") in (LOSING, HONEST)]
        counts = bench.counts
    assert json.loads(request.block("rubric")) == [c.model_dump() for c in patch.task.rubric.criteria]
    assert counts == {"minter": 1, "farmer": 1, "judge": 2 + 2 * 4}
    strict = JudgeCriterionStrictly.instructions.strip()
    assert len(judged) == 8 and all(r.messages[0]["content"].startswith(strict) for r in judged)
    attack = patch.rounds[0].attack
    assert attack is not None and attack.delta == pytest.approx(8 / 24 - 1)
    assert (attack.honest, attack.honest_score) == (HONEST, 1.0)


def test_where_the_farmer_wins_its_answer_is_the_next_rounds_exploit() -> None:
    with patching([minting((fact(0), 8)), minting((fact(1), 8), (claim(7), -6))], farmer=[WINNING, LOSING]) as bench:
        patch = bench.run()
        first, second = bench.server.of("minter")
        counts = bench.counts
    assert [r.exploit for r in patch.rounds] == [EXPLOIT, WINNING]
    assert [r.number for r in patch.rounds] == [1, 2]
    assert outcomes(patch) == [["accepted"], ["accepted", "accepted"]]
    assert texts(patch) == [fact(0), fact(1), claim(7)]
    assert patch.task == patched(TASK, [c.criterion for c in patch.accepted])
    assert patch.task.version == 4, "one new version a case, not a round"
    assert first.block("answer_b") == second.block("answer_b") == BETTER
    assert second.block("answer_a") == WINNING
    rubric = json.loads(second.block("rubric"))
    assert [c["text"] for c in rubric] == [fact(90), fact(91), claim(92), fact(0)]
    assert [c["verdict_a"] for c in rubric] == ["met", "met", "unmet", "met"], "as the attack was graded"
    assert [c["verdict_b"] for c in rubric] == ["met", "unmet", "unmet", "met"], "the old ones and the new one"
    assert attack_of(patch.rounds[1]) == ("measured", LOSING)
    assert counts["farmer"] == 2


def test_the_lead_after_two_rounds_is_still_over_the_exploit_of_the_case() -> None:
    """Fact 0, then fact 1 and claim 7: 8 + 8 + 8 of 32 for the better answer, 16 of 32 for the case's exploit."""
    with patching([minting((fact(0), 8)), minting((fact(1), 8), (claim(7), -6))], farmer=[WINNING, LOSING]) as bench:
        patch = bench.run()
        tags = [r.tag.sample for r in bench.records if r.role == "judge"]
    assert patch.lead_after == pytest.approx((24 - 16) / 32)
    first, *second = patch.accepted
    assert first.case_exploit is None
    assert [c.case_exploit.outcome for c in second if c.case_exploit] == ["unmet", "unmet"]
    assert tags.count("case-5-round-2-case-exploit") == 2


@pytest.mark.parametrize(("rounds", "asked"), [(1, 1), (2, 2), (3, 3)])
def test_a_case_has_so_many_rounds_while_the_farmer_wins(rounds: int, asked: int) -> None:
    mints = [minting((fact(n), 8)) for n in range(3)]
    winning = [holding(fact(90), fact(91), *(fact(i) for i in range(n + 1)), mark="Attack. ") for n in range(3)]
    with patching(mints, farmer=winning, patches={"rounds": rounds}) as bench:
        patch = bench.run()
        counts = bench.counts
    assert (len(patch.rounds), counts["minter"], counts["farmer"]) == (asked, asked, asked)
    assert all(r.attack is not None for r in patch.rounds), "every patched rubric is attacked, the last one too"


NARROW = task_of((fact(90), 6), (fact(91), 9))
ON_NARROW = case_of(NARROW, holding(fact(90), fact(91)), holding(fact(90), fact(0), fact(1)))


@pytest.mark.parametrize(
    ("attack", "rounds"),
    [
        (holding(fact(0)), 1),  # 5/20 against 9/20: beaten by exactly the margin of 0.20
        (holding(fact(90)), 2),  # 6/20: the farmer wins
        (holding(fact(91)), 2),
    ],
)
def test_the_farmer_wins_above_minus_the_margin(attack: str, rounds: int) -> None:
    mints = [minting((fact(0), 5)), minting((fact(1), 5))]
    with patching(mints, farmer=attack, honest=FAILED) as bench:
        patch = bench.run(ON_NARROW, honest=holding(fact(91)))
    assert len(patch.rounds) == rounds


def test_a_saturated_attack_that_the_farmer_loses_ends_the_case() -> None:
    """The honest answer earns everything: a reason of a probe, but none for another round."""
    with patching([minting((fact(0), 8))]) as bench:
        (done,) = bench.run().rounds
    assert done.attack is not None and done.attack.reasons == ("saturated",)


@pytest.mark.parametrize(
    ("attack", "status_", "why"),
    [
        (FAILED, "unmeasured", "no farmer answer: role farmer: "),
        (empty(), "unmeasured", "no farmer answer: role farmer: "),
        ("Short.", "unmeasured", "the exploit has 6 characters"),
        (holding(""), "discarded", "the adversary scored nothing"),
    ],
    ids=["refused", "empty", "short", "nothing"],
)
def test_an_attack_without_a_figure_ends_the_case_and_keeps_the_patch(attack: Reply, status_: str, why: str) -> None:
    with patching([minting((fact(0), 8))], farmer=attack) as bench:
        patch = bench.run()
    (done,) = patch.rounds
    assert patch.outcome == "patched" and texts(patch) == [fact(0)]
    assert done.attack is not None
    assert (done.attack.status, done.attack.delta) == (status_, None)
    assert done.attack.why.startswith(why)
    assert bool(patch.failure) == isinstance(attack, Fault)


def test_without_the_new_attack_a_case_has_one_round_and_needs_no_honest_answer() -> None:
    with patching([minting((fact(0), 8))], patches={"reattack": False}) as bench:
        patch = bench.run(honest=None)
        counts = bench.counts
    assert (patch.outcome, len(patch.rounds), patch.rounds[0].attack) == ("patched", 1, None)
    assert (patch.honest, counts) == ("", {"minter": 1, "judge": 2})
