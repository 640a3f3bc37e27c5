"""The estimate against runs that really happened, on models whose outcomes are scripted."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from programs.estimate import RunEstimate, estimate_run
from rri.store import Store
from rri.testing import FaultMix, truncated
from tests.programs.scripted_run import FATES, LENGTHS, PASSAGES, ScriptedRun, scripted_run

SHARES = {
    "rule_breaks": 0.0,
    "unusable_replies": 0.0,
    "vote_flips": 0.0,
    "usable_requests": 1.0,
    "first_probe_passes": 2 / 20,
    "first_probe_discarded": 1 / 20,
    "probe_ungraded": 0.0,
    # Of 17 tasks in repair 5 hold after the first round, so there are 29 rounds; two of them need a second attack.
    "rewrite_passes": 5 / 17,
    "fresh_probe_discarded": 2 / 29,
    "added_criteria": 0.0,
    "truncated_answers": 0.0,
    "chars_per_token": 1.0,
    **LENGTHS,
}
"""What the scripts do. Tokens are characters here."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("run"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def run(store: Store) -> Iterator[ScriptedRun]:
    with scripted_run(store) as run:
        yield run


@pytest.fixture(scope="module")
def estimate(run: ScriptedRun) -> RunEstimate:
    return estimate_run(run.config, SHARES, PASSAGES)


def expected_calls(estimate: RunEstimate) -> dict[str, float]:
    return {role.role: role.calls.expected for role in estimate.roles}


def test_the_run_did_what_its_scripts_say(run: ScriptedRun) -> None:
    outcomes = Counter(a.outcome for a in run.admissions)
    assert outcomes == {"passed": 2, "discarded": 1, "repaired": 5, "kept": 12}
    assert len(FATES) == 20
    assert sum(len(a.rewrites) for a in run.admissions) == 29


def test_calls_by_role_are_exact(run: ScriptedRun, estimate: RunEstimate) -> None:
    assert run.rollouts == estimate.rollouts == 24
    assert run.calls() == pytest.approx(expected_calls(estimate))


def test_a_run_without_chance_has_one_figure(estimate: RunEstimate) -> None:
    assert estimate.total.calls.low == estimate.total.calls.expected == estimate.total.calls.high


@pytest.mark.parametrize("role", ["proposer", "generator", "farmer", "honest", "judge", "rewriter"])
def test_tokens_by_role_are_close(role: str, run: ScriptedRun, estimate: RunEstimate) -> None:
    found = next(r for r in estimate.roles if r.role == role)
    sent, came = run.chars()[role]
    assert found.tokens_in.expected == pytest.approx(sent, rel=0.04)
    assert found.tokens_out.expected == pytest.approx(came, rel=0.04)


def test_disk_is_close(store: Store, run: ScriptedRun, estimate: RunEstimate) -> None:
    assert estimate.disk_bytes.expected == pytest.approx(store.path.stat().st_size, rel=0.10)


def test_noise_is_predicted_within_a_tenth(tmp_path: Path) -> None:
    """One vote in twenty is wrong and one reply in twenty is cut; both change what is asked for afterwards."""
    store = Store(tmp_path)
    faults = FaultMix({truncated(): 0.05}, seed=3)
    try:
        with scripted_run(
            store, flips=0.05, fault=lambda r: None if r.schema_name == "Ready" else faults.draw()
        ) as run:
            noisy = {**SHARES, "vote_flips": 0.05, "unusable_replies": 0.05}
            expected = expected_calls(estimate_run(run.config, noisy, PASSAGES))
            assert run.calls() == pytest.approx(expected, rel=0.10)
    finally:
        store.close()


def test_other_numbers_of_the_method_are_predicted_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    sections = {
        "admission": {"rounds": 1, "votes": 1},
        "grading": {"votes": 5},
        "generation": {"tasks": 10, "requests_per_call": 4},
        "solver": {"cycles": 1, "rollouts_per_task": 2},
    }
    shares = {**SHARES, "first_probe_passes": 2 / 10, "first_probe_discarded": 1 / 10, "fresh_probe_discarded": 2 / 7}
    try:
        with scripted_run(store, **sections) as run:
            assert run.calls() == pytest.approx(expected_calls(estimate_run(run.config, shares, PASSAGES)))
    finally:
        store.close()
