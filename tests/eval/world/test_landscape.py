"""The reward landscape through the real programs: what rubrics pay for before and after repair, without any solver."""

from functools import cache
from statistics import fmean

import pytest

from eval.world.landscape import STRATEGIES, VARIANTS, Landscape, main, survey
from tests.eval.world.rig import WORLD

PAID = ("names what is asked", "names all it can")


@cache
def surveyed() -> Landscape:
    return survey(WORLD, tasks=60)


# --- a surveyed world ----------------------------------------------------------------------------------


def test_repair_takes_from_names_and_not_from_statements() -> None:
    found = surveyed().variants["untuned"]
    for way in PAID:
        at_birth, admitted = found.rewards[way]
        assert admitted < at_birth - 0.05
    at_birth, admitted = found.rewards["states what is asked"]
    assert admitted > at_birth - 0.03
    assert found.value_share < 0.2 < found.value_share_after - 0.1


def test_admission_measures_what_the_paper_measured() -> None:
    """Fitted constants: the lead of the exploit falls from 0.43 to 0.01 there, over thousands of tasks."""
    deltas = surveyed().variants["untuned"].beaten
    before, after = (fmean(column) for column in zip(*deltas, strict=True))
    assert len(deltas) > 40
    assert before == pytest.approx(0.43, abs=0.12)
    assert after == pytest.approx(0.01, abs=0.15)


def test_orders_bring_values_and_both_bring_most() -> None:
    shares = {name: found.value_share for name, found in surveyed().variants.items()}
    assert set(shares) == set(VARIANTS)
    assert shares["untuned"] < min(shares["guidance"], shares["memo"])
    assert max(shares["guidance"], shares["memo"]) < shares["both"] < 0.7


def test_no_arm_wins_by_construction() -> None:
    """Untuned rubrics pay truth no less than names, so a solver may keep it. Repaired ones still pay names a part."""
    untuned, both = surveyed().variants["untuned"].rewards, surveyed().variants["both"].rewards
    assert untuned["states, names the rest"][0] >= untuned["names all it can"][0] - 0.02
    assert both["names all it can"][1] > 0.25
    assert both["states, names the rest"][1] < 0.95


def test_true_quality_of_the_ways_of_answering() -> None:
    qualities = surveyed().qualities
    assert {name: qualities[name] for name in PAID} == dict.fromkeys(PAID, 0)
    assert qualities["states what is asked"] == qualities["states, names the rest"] == 1
    assert 0.1 < qualities["half and half"] < 0.5


def test_exploit_cases_are_found_and_patched() -> None:
    patched = surveyed().patched
    assert patched.cases and any(p.accepted for p in patched.patches)
    assert all(c.gap >= 0.15 - 1e-9 for c in patched.cases)
    assert 0.5 < patched.positive_share <= 1
    assert patched.incorrect <= len(patched.cases) / 2
    measured, won = patched.attacks_won
    assert 0 < won <= measured


def test_the_report_says_all_of_it() -> None:
    text = surveyed().report()
    for said in (*VARIANTS, *STRATEGIES, "Exploit cases:", "paper 0.43 -> 0.01", "seed 100"):
        assert said in text


# --- the command ---------------------------------------------------------------------------------------


def test_the_command_prints_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["100", "--tasks", "12", "--constants", '{"value_share": 0.5}']) == 0
    assert "World of seed 100, 12 tasks a variant." in capsys.readouterr().out


def test_wrong_constants_are_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["100", "--constants", '{"flip": 1}']) == 2
    error = capsys.readouterr().err
    assert "constants: flip" in error and error.count("\n") == 1
