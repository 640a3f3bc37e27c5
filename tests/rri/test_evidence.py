"""What is kept of an attack and a repair: frozen, strict, and the same after a round trip through JSON."""

import itertools
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rri.evidence import Admission, AdmissionOutcome, Probe, ProbeReason, Rewrite
from rri.types import Grade
from tests.rigs import make_task

TASK = make_task(8, -6)


def grade(score: float | None) -> Grade:
    return Grade(verdicts=(), score=score, raw=score, unscored="" if score is not None else "the judge failed")


STATUSES = ("measured", "discarded", "unmeasured")
REASONS = [r for n in range(4) for r in itertools.combinations(get_args(ProbeReason), n)]

scores = st.none() | st.floats(-2, 2)
probes = st.builds(
    Probe,
    status=st.sampled_from(STATUSES),
    exploit=st.text(max_size=20),
    honest=st.text(max_size=20),
    exploit_grade=st.none() | scores.map(grade),
    honest_grade=st.none() | scores.map(grade),
    delta=scores,
    reasons=st.sampled_from(REASONS),
    why=st.text(max_size=20),
)
rewrites = st.builds(
    Rewrite,
    round=st.integers(1, 2),
    outcome=st.sampled_from(["accepted", "rejected", "unusable"]),
    why=st.text(max_size=20),
    task=st.none() | st.just(TASK),
    probes=st.lists(probes, max_size=2).map(tuple),
)
admissions = st.builds(
    Admission,
    original=st.just(TASK),
    task=st.just(TASK),
    outcome=st.sampled_from(get_args(AdmissionOutcome)),
    probe=st.none() | probes,
    rewrites=st.lists(rewrites, max_size=2).map(tuple),
    delta_before=scores,
    delta_after=scores,
)


@given(admissions)
def test_an_admission_is_the_same_after_json(admission: Admission) -> None:
    assert Admission.model_validate_json(admission.model_dump_json()) == admission


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("reasons", REASONS)
def test_a_probe_passes_only_when_measured_and_without_a_reason_against_it(
    status: Any, reasons: tuple[ProbeReason, ...]
) -> None:
    probe = Probe(status=status, reasons=reasons, delta=-0.5)
    assert probe.passed is (status == "measured" and reasons == ())


@pytest.mark.parametrize("score", [0.0, 0.5, -0.25, None])
def test_the_honest_score_is_that_of_the_grade(score: float | None) -> None:
    assert Probe(status="measured", honest_grade=grade(score)).honest_score == score


def test_without_a_grade_there_is_no_honest_score() -> None:
    assert Probe(status="unmeasured").honest_score is None


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Probe, {"status": "passed"}),
        (Probe, {"status": "measured", "reasons": ["boring"]}),
        (Probe, {"status": "measured", "score": 1}),
        (Rewrite, {"round": 1, "outcome": "adopted", "why": ""}),
        (Admission, {"original": TASK, "task": TASK, "outcome": "admitted"}),
        (Admission, {"original": TASK, "outcome": "passed"}),
    ],
)
def test_words_and_fields_that_are_not_in_the_vocabulary_are_refused(kind: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**fields)


def test_evidence_cannot_be_changed() -> None:
    probe = Probe(status="measured", delta=0.1)
    with pytest.raises(ValidationError, match="frozen"):
        probe.delta = -1.0


def test_the_reasons_stand_in_headline_order() -> None:
    """METHOD 5: the first of unsatisfiable, saturated, exploitable is the headline."""
    assert get_args(ProbeReason) == ("unsatisfiable", "saturated", "exploitable")
