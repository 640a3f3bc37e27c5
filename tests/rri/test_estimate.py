"""Expected calls by arithmetic: votes, generation, admission, training, evolution, by hand and by property."""

from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from programs.admission import REWRITE_ATTEMPTS
from programs.grader import majority
from rri.assumptions import CASES, Assumptions
from rri.config import RunConfig
from rri.estimate import CHECKED_TRIES, Kind, admitted_by, criteria_of, expected_calls, expected_votes
from rri.types import Vote
from tests.rigs import scripted_config

EXACT = {
    "rule_breaks": 0.0,
    "unusable_replies": 0.0,
    "vote_flips": 0.0,
    "usable_requests": 1.0,
    "first_probe_passes": 0.0,
    "first_probe_discarded": 0.0,
    "probe_ungraded": 0.0,
    "rewrite_passes": 0.0,
    "fresh_probe_discarded": 0.0,
    "added_criteria": 0.0,
    "truncated_answers": 0.0,
    "ranked_groups": 1.0,
    "exploit_cases": 0.0,
    "flipped_pairs": 0.0,
    "memo_proposed": 1.0,
}
"""Nothing goes wrong, every task is beaten in every round, no rubric grows, and no group has an exploit case."""

config_of = partial(scripted_config, "http://127.0.0.1:1/v1")


def exactly(**given: float) -> Assumptions:
    return Assumptions.case("expected", {**EXACT, **given})


def counted(config: RunConfig, a: Assumptions) -> dict[Kind, float]:
    """Calls by kind over all stages."""
    counts: dict[Kind, float] = {}
    for calls in expected_calls(config, a):
        counts[calls.kind] = counts.get(calls.kind, 0.0) + calls.calls
    return counts


# -- votes ---------------------------------------------------------------------------------


def votes_by_hand(n: int, flips: float) -> float:
    """Every sequence of votes played through the grader's own rule, in the grader's batches."""
    expected = 0.0
    for sides in product((False, True), repeat=n):
        votes: list[Vote] = []
        while majority(votes, n) is None:
            most = max(sum(v.outcome == side for v in votes) for side in ("met", "unmet"))
            batch = min(n - len(votes), n // 2 + 1 - most)
            votes += [Vote(outcome="unmet" if side else "met") for side in sides[len(votes) : len(votes) + batch]]
        chance = flips ** sum(sides) * (1 - flips) ** (n - sum(sides))
        expected += chance * len(votes)
    return expected


@pytest.mark.parametrize("n", [1, 3, 5, 7])
@pytest.mark.parametrize("flips", [0.0, 0.027, 0.3, 0.5, 1.0])
def test_expected_votes_are_those_of_the_graders_early_stop(n: int, flips: float) -> None:
    assert expected_votes(n, flips) == pytest.approx(votes_by_hand(n, flips))


@given(st.floats(0, 1))
def test_three_votes_take_two_and_a_third_where_they_differ(flips: float) -> None:
    assert expected_votes(3, flips) == pytest.approx(2 + 2 * flips * (1 - flips))


def test_the_rate_of_the_method_costs_one_call_in_forty() -> None:
    assert expected_votes(3, 0.027) == pytest.approx(2.0525, abs=1e-4)


@given(st.integers(0, 6), st.floats(0, 1))
def test_votes_lie_between_a_bare_majority_and_all(half: int, flips: float) -> None:
    n = 2 * half + 1
    assert half + 1 <= expected_votes(n, flips) + 1e-9
    assert expected_votes(n, flips) <= n + 1e-9


# -- generation ----------------------------------------------------------------------------


@pytest.mark.parametrize(("tasks", "proposals"), [(4, 2), (5, 3), (6, 3), (1, 1)])
def test_one_proposer_call_writes_several_requests(tasks: int, proposals: int) -> None:
    config = config_of(generation={"tasks": tasks, "requests_per_call": 2}, pool={"min_tasks": 1})
    counts = counted(config, exactly())
    assert (counts["proposer"], counts["generator"]) == (proposals, tasks)


def test_requests_that_cannot_be_used_cost_more_proposals() -> None:
    config = config_of(generation={"tasks": 8, "requests_per_call": 2})
    assert counted(config, exactly(usable_requests=0.5))["proposer"] == 8


def test_a_broken_rubric_is_written_again_and_a_hopeless_one_costs_its_request() -> None:
    config = config_of(generation={"tasks": 7, "requests_per_call": 1, "attempts": 3})
    counts = counted(config, exactly(rule_breaks=0.5))
    # 7 of 8 requests become a task in three tries, which take 1 + 1/2 + 1/4 calls each.
    assert counts["proposer"] == 8
    assert counts["generator"] == pytest.approx(8 * 1.75)


def test_every_call_may_have_to_be_sampled_once_more() -> None:
    plain, again = (counted(config_of(), exactly(unusable_replies=share)) for share in (0.0, 0.05))
    assert again == pytest.approx({kind: 1.05 * calls for kind, calls in plain.items()})


@pytest.mark.parametrize(
    ("red_team", "negatives", "born"),
    [(0.0, 0.0, 3.0), (0.0, 1.0, 4.0), (0.0, 0.75, 3.75), (1.0, 0.75, 2.5), (0.5, 0.75, 3.125)],
)
def test_criteria_of_a_new_rubric(red_team: float, negatives: float, born: float) -> None:
    config = config_of(domain={"red_team_share": red_team}, generation={"negative_share": negatives})
    assert criteria_of(config, exactly()).born == pytest.approx(born)


@pytest.mark.parametrize(("tasks", "negatives"), [(79, 0.875), (80, 0.875), (160, 0.8125), (800, 0.7625)])
def test_after_its_warmup_the_shape_control_holds_the_share_of_negatives(tasks: int, negatives: float) -> None:
    """Half of the tasks are red-team and carry one anyway, so the others are asked for fewer than 0.75."""
    generation = {"tasks": tasks, "negative_share": 0.75, "positives": {2: 1.0}, "red_team_positives": [2]}
    config = config_of(domain={"red_team_share": 0.5}, generation=generation)
    assert criteria_of(config, exactly()).born == pytest.approx(2 + negatives)


def test_red_team_tasks_alone_may_carry_more_negatives_than_wanted() -> None:
    config = config_of(
        domain={"red_team_share": 0.5}, generation={"tasks": 8000, "negative_share": 0.0, "positives": {2: 1.0}}
    )
    assert criteria_of(config, exactly()).born == pytest.approx(0.5 * 1.5 + 0.5 * 2 + 0.5)


# -- admission -----------------------------------------------------------------------------

FOUR: dict[str, Any] = {"tasks": 4, "positives": {3: 1.0}, "negative_share": 1.0}
"""Four tasks with four criteria each."""


def test_a_run_in_which_every_task_is_beaten_twice() -> None:
    counts = counted(config_of(generation=FOUR, solver={"cycles": 0}), exactly())
    # Twelve probes: two answers, four criteria, two votes.
    assert counts == {
        "preflight": 11,
        "proposer": 2,
        "generator": 4,
        "rewriter": 8,
        "farmer": 12,
        "honest": 12,
        "judge_probe": 12 * 2 * 4 * 2,
    }


@pytest.mark.parametrize(
    ("given_", "rewriter", "probes", "graded"),
    [
        ({"first_probe_passes": 1.0}, 0, 4, 4),
        ({"first_probe_discarded": 1.0}, 0, 4, 4),
        ({"probe_ungraded": 1.0}, 0, 4, 0),
        ({"first_probe_passes": 0.25, "first_probe_discarded": 0.25}, 4, 8, 8),
        ({"rewrite_passes": 1.0}, 4, 8, 8),
        ({"rewrite_passes": 0.25}, 7, 11, 11),
        ({"fresh_probe_discarded": 0.5}, 8, 16, 16),
        ({"rule_breaks": 0.5}, 8 * 1.5, 4 + 8 * 0.75, 4 + 8 * 0.75),
    ],
)
def test_shares_of_admission_by_hand(given_: dict[str, float], rewriter: float, probes: float, graded: float) -> None:
    counts = counted(config_of(generation=FOUR, solver={"cycles": 0}), exactly(**given_))
    assert counts.get("rewriter", 0) == pytest.approx(rewriter)
    assert counts["farmer"] == counts["honest"] == pytest.approx(probes)
    assert counts.get("judge_probe", 0) == pytest.approx(graded * 2 * 4 * 2)


@pytest.mark.parametrize(("rounds", "rewriter"), [(0, 0), (1, 4), (2, 8), (3, 12)])
def test_repair_rounds_are_at_most_the_configs(rounds: int, rewriter: int) -> None:
    config = config_of(generation=FOUR, admission={"rounds": rounds}, solver={"cycles": 0})
    assert counted(config, exactly()).get("rewriter", 0) == rewriter


def test_a_rewriter_is_asked_as_often_as_admission_asks_it() -> None:
    assert CHECKED_TRIES == REWRITE_ATTEMPTS


def test_rewrites_that_stand_make_every_later_verdict_dearer() -> None:
    config = config_of(generation=FOUR, solver={"cycles": 0})
    criteria = criteria_of(config, exactly(added_criteria=2.0, rewrite_stands=1.0))
    # Round one probes 6 criteria, round two 8.
    assert (criteria.born, criteria.rewritten, criteria.served) == (4, 7, 8)


def test_no_rubric_grows_over_its_cap() -> None:
    config = config_of(generation={**FOUR, "rubric": {"max_criteria_repaired": 7}})
    criteria = criteria_of(config, exactly(added_criteria=50.0, rewrite_stands=1.0))
    assert (criteria.rewritten, criteria.served, criteria.patched) == (7, 7, 7)


# -- training ------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "most", "briefs"), [(1.0, 2, 48), (0.25, 2, 12), (1.0, 1, 24), (0.0, 2, 0)])
def test_every_search_of_a_rollout_costs_a_brief(share: float, most: int, briefs: float) -> None:
    solver = {"cycles": 3, "tasks_per_cycle": 2, "tasks_per_update": 2, "rollouts_per_task": 4}
    tools = {"retrieval": True, "tools": {"max_calls": most}}
    assert counted(config_of(solver={**solver, **tools}), exactly(searches=share)).get("summarizer", 0) == briefs
    assert "summarizer" not in counted(config_of(solver=solver), exactly(searches=share))


NO_LOOP: dict[str, Any] = {name: {"enabled": False} for name in ("exploits", "patches", "evolution", "memo")}


def test_rollouts_are_judged_on_every_criterion() -> None:
    solver = {"cycles": 3, "tasks_per_cycle": 2, "rollouts_per_task": 4, "judge_truncated": False}
    config = config_of(generation=FOUR, solver=solver, grading={"votes": 1}, **NO_LOOP)
    assert counted(config, exactly())["judge_rollout"] == 3 * 2 * 4 * 4
    assert counted(config, exactly(truncated_answers=0.25))["judge_rollout"] == 3 * 2 * 3 * 4


def test_truncated_rollouts_count_where_they_are_judged() -> None:
    config = config_of(generation=FOUR, solver={"judge_truncated": True}, **NO_LOOP)
    cut, whole = (counted(config, exactly(truncated_answers=share))["judge_rollout"] for share in (0.9, 0.0))
    assert cut == whole


LOOP: dict[str, Any] = {"solver": {"cycles": 10, "tasks_per_cycle": 16, "tasks_per_update": 16}}
PATCHING = {
    "exploit_cases": 1.0,
    "patch_accepted": 1.0,
    "reattack_wins": 0.5,
    "minted_criteria": 4.0,
    "minted_checked": 0.5,
    "minted_separates": 1.0,
    "minted_negative": 0.25,
    "honest_missing": 0.0,
}


def test_the_largest_cases_go_to_repair_and_are_attacked_again() -> None:
    config = config_of(generation=FOUR, **LOOP)
    counts = counted(config, exactly(**PATCHING))
    rounds = 10 * 8 * 1.5
    assert counts["minter"] == rounds
    assert counts["farmer"] == 12 + rounds
    assert counts["honest"] == 12
    # Two of four minted criteria are tested and kept: on both answers, a quarter on the honest one too, and those of
    # the second round on the case's exploit. Then attack and honest answer on four criteria and the three that one and
    # a half rounds add.
    verdicts = rounds * 2 * 2.25 + 10 * 8 * 0.5 * 2 + rounds * 2 * 7
    assert counts["judge_patch"] == pytest.approx(verdicts * 2)


def test_the_attack_on_a_patch_is_judged_with_the_votes_of_a_probe() -> None:
    three = counted(config_of(generation=FOUR, **LOOP), exactly(**PATCHING))["judge_patch"]
    one = counted(config_of(generation=FOUR, **LOOP, admission={"votes": 1}), exactly(**PATCHING))["judge_patch"]
    assert three - one == pytest.approx(120 * 2 * 7)


@pytest.mark.parametrize(("accepted", "minter", "attacks"), [(1.0, 80, 80), (0.5, 80 * 1.5, 80 * 0.75), (0.0, 160, 0)])
def test_a_minter_that_brings_nothing_is_asked_again(accepted: float, minter: float, attacks: float) -> None:
    config = config_of(generation=FOUR, **LOOP, patches={"rounds": 1, "attempts": 2})
    counts = counted(config, exactly(**{**PATCHING, "patch_accepted": accepted}))
    assert (counts["minter"], counts["farmer"] - 12) == (pytest.approx(minter), pytest.approx(attacks))


@pytest.mark.parametrize(
    ("cases", "flipped", "referee"), [(0.0, 0.0, 160), (0.25, 0.0, 200), (0.25, 0.5, 240), (1.0, 0.5, 320)]
)
def test_only_a_case_is_shown_in_a_second_order(cases: float, flipped: float, referee: int) -> None:
    counts = counted(config_of(**LOOP), exactly(exploit_cases=cases, flipped_pairs=flipped))
    assert counts["referee"] == pytest.approx(referee)


def test_patched_tasks_are_dearer_to_grade_from_the_next_cycle_on() -> None:
    def served(cycles: int) -> float:
        solver = {**LOOP["solver"], "cycles": cycles}
        return criteria_of(config_of(generation=FOUR, solver=solver), exactly(**PATCHING)).served

    # Eight of sixteen tasks get three more criteria.
    assert [served(1), served(2), served(10)] == pytest.approx([4, 4 + 0.5 * 0.5 * 3, 4 + 0.5 * 0.9 * 3])


@pytest.mark.parametrize(("share", "cases"), [(0.25, 4), (0.5, 8), (0.75, 8)])
def test_no_more_cases_are_repaired_than_a_round_takes(share: float, cases: int) -> None:
    config = config_of(**LOOP, patches={"reattack": False})
    assert counted(config, exactly(**{**PATCHING, "exploit_cases": share}))["minter"] == 10 * cases


def test_without_a_new_attack_a_case_has_one_round() -> None:
    counts = counted(config_of(generation=FOUR, **LOOP, patches={"reattack": False}), exactly(**PATCHING))
    assert (counts["minter"], counts["farmer"]) == (80, 12)


def test_an_honest_answer_is_written_where_admission_left_none() -> None:
    config = config_of(**LOOP, admission={"enabled": False}, memo={"enabled": False})
    assert counted(config, exactly(**PATCHING))["honest"] == 80
    for patches in ({"honest_guard": False}, {"reattack": False}):
        config = config_of(**LOOP, admission={"enabled": False}, memo={"enabled": False}, patches=patches)
        assert counted(config, exactly(**PATCHING))["honest"] == 80, "it is needed for the other thing"
    neither = {"honest_guard": False, "reattack": False}
    config = config_of(**LOOP, admission={"enabled": False}, memo={"enabled": False}, patches=neither)
    assert "honest" not in counted(config, exactly(**PATCHING))


@pytest.mark.parametrize(("rollouts", "ranked"), [(2, False), (3, True)])
def test_a_group_with_too_few_answers_is_not_ranked(rollouts: int, ranked: bool) -> None:
    config = config_of(solver={**LOOP["solver"], "rollouts_per_task": rollouts}, exploits={"min_answers": 3})
    counts = counted(config, exactly(**PATCHING))
    assert ("referee" in counts, "minter" in counts) == (ranked, ranked)


@pytest.mark.parametrize(("cycles", "rounds"), [(0, 0), (4, 0), (5, 1), (9, 1), (10, 2)])
def test_an_evolution_round_comes_with_every_interval(cycles: int, rounds: int) -> None:
    config = config_of(solver={"cycles": cycles}, evolution={"every_cycles": 5, "cases": 20})
    counts = counted(config, exactly())
    found = [counts.get(kind, 0) for kind in ("analyst", "meta_optimizer", "memo_optimizer")]
    assert found == [20 * rounds, rounds, rounds]


@pytest.mark.parametrize(
    ("cycle", "admitted"), [(0, 10), (1, 40), (2, 50), (16, 190), (17, 200), (18, 200), (1000, 200)]
)
def test_admission_is_ahead_of_the_trainer_as_far_as_it_may(cycle: int, admitted: int) -> None:
    config = config_of(
        generation={"tasks": 200},
        pool={"min_tasks": 10, "ahead": 30},
        solver={"cycles": 20, "tasks_per_cycle": 10, "tasks_per_update": 10},
    )
    assert admitted_by(config, cycle) == admitted


# -- switches and bounds -------------------------------------------------------------------


@st.composite
def configs(draw: st.DrawFn) -> RunConfig:
    adversary, evolves = draw(st.booleans()), draw(st.booleans())
    exploits = draw(st.booleans())
    return config_of(
        generation={"tasks": draw(st.integers(2, 40)), "negative_share": draw(st.floats(0, 1))},
        admission={"enabled": adversary, "rounds": draw(st.integers(0, 3)), "votes": draw(st.sampled_from((1, 3, 5)))},
        exploits={"enabled": exploits},
        patches={"enabled": exploits and draw(st.booleans())},
        evolution={"enabled": evolves, "every_cycles": draw(st.integers(1, 3))},
        memo={"enabled": adversary and evolves},
        solver={"cycles": draw(st.integers(0, 6)), "rollouts_per_task": draw(st.integers(2, 8))},
    )


@settings(max_examples=60, deadline=None)
@given(configs(), st.sampled_from(CASES))
def test_only_roles_in_use_are_counted_and_nothing_is_negative(config: RunConfig, case: str) -> None:
    assert case in CASES
    counts = expected_calls(config, Assumptions.case(case))
    assert {c.role for c in counts} <= set(config.roles_used)
    assert all(c.calls > 0 for c in counts)
    assert config.solver.cycles or {c.stage for c in counts} == {"admission"}


@settings(max_examples=40, deadline=None)
@given(configs())
def test_more_of_the_method_never_costs_less(config: RunConfig) -> None:
    a = Assumptions()
    base = sum(c.calls for c in expected_calls(config, a))
    for section, field, step in (("generation", "tasks", 5), ("admission", "votes", 2), ("solver", "cycles", 1)):
        part = getattr(config, section)
        more = part.model_copy(update={field: getattr(part, field) + step})
        grown = config.model_copy(update={section: more})
        assert sum(c.calls for c in expected_calls(grown, a)) >= base - 1e-9


@settings(max_examples=40, deadline=None)
@given(configs())
def test_the_ends_enclose_what_is_expected(config: RunConfig) -> None:
    low, expected, high = (sum(c.calls for c in expected_calls(config, Assumptions.case(case))) for case in CASES)
    assert low <= expected <= high
