"""What a round is given and leaves: contradictions are refused, evidence is added up, every record is in a file."""

import json

import pytest
from pydantic import ValidationError

from rri.cases import (
    CaseDiagnosis,
    Check,
    GradedCase,
    GuidanceVersion,
    MemoVersion,
    Patch,
    PatchRound,
)
from rri.config import MemoConfig
from rri.distribution import distribution
from rri.evolution_rules import count_diagnoses
from rri.memo_score import Decision, MemoObservations, score_versions
from rri.rounds import (
    ExploitEvidence,
    Hackability,
    MeasuredGuidance,
    MemoEvidence,
    MemoOutcome,
    RejectedGuidance,
    RoundEvidence,
    RoundOutcome,
)
from rri.types import Criterion, Grade, Verdict
from rri.vocabulary import ExploitLabel
from tests.rigs import make_task

TASK = make_task(8, 8, -6)
GRADE = Grade(
    verdicts=(Verdict(outcome="met"), Verdict(outcome="unknown"), Verdict(outcome="unmet")), score=0.5, raw=0.5
)
CASE = GradedCase(cycle=4, position=7, row=2, task=TASK, answer="An answer.", truncated=True, grade=GRADE, score=0.5)


def patch(*rounds: tuple[ExploitLabel | None, list[tuple[str, float, bool]]], case: int = 1) -> Patch:
    """A patch from (label, checks) of each round; a check is text, points, accepted."""
    made = [
        PatchRound(
            number=n,
            exploit="Exploit.",
            label=label,
            checks=tuple(
                Check(
                    criterion=Criterion(text=text, points=points),
                    why="",
                    outcome="accepted" if accepted else "overlap",
                )
                for text, points, accepted in checks
            ),
        )
        for n, (label, checks) in enumerate(rounds, 1)
    ]
    return Patch(case=case, before=TASK, task=TASK, outcome="patched", rounds=tuple(made))


# --- evidence ------------------------------------------------------------------------------------------


def test_hackability_is_the_mean_before_and_after() -> None:
    found = Hackability.of([(0.4, 0.0), (0.6, -0.4)])
    assert (found.n, found.before, found.after) == (2, pytest.approx(0.5), pytest.approx(-0.2))
    assert Hackability.of([]) == Hackability()


@pytest.mark.parametrize("figures", [{"n": 2}, {"n": 2, "before": 0.1}, {"n": 0, "before": 0.1, "after": 0.1}])
def test_hackability_without_measurements_has_no_mean_and_with_them_both(figures: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="give means of what is there"):
        Hackability.model_validate(figures)


def test_exploits_are_added_up_from_the_patches() -> None:
    patches = [
        patch(("breadth_padding", [("States a", 8, True), ("States b", 8, False), ("Claims c", -6, True)])),
        patch(("task_restatement", []), ("keyword_stuffing", [("States d", 7, True)])),
        patch(("breadth_padding", [])),
        patch(("none", [])),
        patch((None, [])),
        patch(),
    ]
    found = ExploitEvidence.of([0.2, 0.4], patches)
    assert found.gaps == (0.2, 0.4)
    assert found.labels == {"breadth_padding": 2, "task_restatement": 1}, (
        "the second round's exploit is the adversary's"
    )
    assert list(found.labels) == ["breadth_padding", "task_restatement"]
    assert [(c.text, c.points) for c in found.patches] == [("States a", 8), ("Claims c", -6), ("States d", 7)]
    assert found.hackability == Hackability()


def test_memo_versions_rise_and_each_is_observed_once() -> None:
    one, two = MemoVersion(version=1), MemoVersion(version=2)
    assert MemoEvidence(cycle=0, versions=(one, two)).current is two
    for versions in ((), (two, one), (one, one)):
        with pytest.raises(ValidationError):
            MemoEvidence(cycle=0, versions=versions)
    twice = (MemoObservations(version=1), MemoObservations(version=1))
    with pytest.raises(ValidationError, match=r"observed once, got \[1, 1\]"):
        MemoEvidence(cycle=0, versions=(one,), observations=twice)


# --- files ---------------------------------------------------------------------------------------------


def round_outcome(guidance: GuidanceVersion | None) -> RoundOutcome:
    before = GuidanceVersion(version=2, guidance_a="Old A.", guidance_b="Old B.", summary="Old.")
    found = CaseDiagnosis(
        case=CASE,
        failure_mode="calculation",
        gap="adding up",
        rubric_defect="none",
        task_defect="none",
        verdict="model_failed_fair_task",
    )
    diagnoses = (found, CaseDiagnosis(case=CASE, failed="role analyst: HTTP 500"))
    return RoundOutcome(
        evidence=RoundEvidence(
            cycle=4,
            guidance=before,
            cases=(CASE, CASE),
            tasks=(TASK,),
            train_mean=0.5,
            history=(MeasuredGuidance(guidance=before, train_mean=0.45),),
            exploits=ExploitEvidence.of([0.2], [patch(("breadth_padding", [("States a", 8, True)]))]),
        ),
        diagnoses=diagnoses,
        counts=count_diagnoses(diagnoses),
        figures=distribution([TASK]),
        drifts=(),
        statistics="Statistics.",
        diagnosed="Diagnoses.",
        exploits="Exploits.",
        guidance=guidance,
        why="" if guidance else "kept",
        rejected=(RejectedGuidance(guidance_a="Bad A.", guidance_b="Bad B.", summary="", problems=("too long",)),),
        prompts=(({"role": "user", "content": "Asked \u00e9."},),),
    )


NEW = GuidanceVersion(version=3, cycle=4, guidance_a="New A.", guidance_b="New B.", summary="New.")


def test_the_files_of_a_round_hold_all_that_it_saw_and_decided() -> None:
    files = round_outcome(NEW).files()
    assert files["statistics.md"] == "Statistics.\n"
    assert json.loads(files["statistics.json"])["train_mean"] == 0.5
    assert json.loads(files["statistics.json"])["figures"]["criteria_mean"] == 3
    diagnosed = json.loads(files["diagnoses.json"])
    assert diagnosed["counts"]["verdicts"] == {"model_failed_fair_task": 1}
    first, second = diagnosed["cases"]
    assert {k: first[k] for k in ("cycle", "position", "row", "task_id", "version", "truncated", "score")} == {
        "cycle": 4,
        "position": 7,
        "row": 2,
        "task_id": TASK.task_id,
        "version": 1,
        "truncated": True,
        "score": 0.5,
    }
    assert first["outcomes"] == ["met", "unknown", "unmet"]
    assert (first["gap"], first["verdict"], first["failed"]) == ("adding up", "model_failed_fair_task", "")
    assert (second["verdict"], second["failed"]) == (None, "role analyst: HTTP 500")
    evidence = json.loads(files["evidence.json"])
    assert evidence["history"] == [{"version": 2, "train_mean": 0.45}]
    assert evidence["tasks"] == [{"task_id": TASK.task_id, "version": 1}]
    assert evidence["exploits"]["patches"] == [{"text": "States a", "points": 8.0}]
    decision = json.loads(files["decision.json"])
    assert decision["before"] == 2
    assert GuidanceVersion.model_validate(decision["guidance"]) == NEW
    assert decision["rejected"][0]["problems"] == ["too long"]
    assert "Old A." in files["guidance-before.md"] and "Old B." in files["guidance-before.md"]
    assert "New A." in files["guidance-after.md"] and "New B." in files["guidance-after.md"]
    assert json.loads(files["prompts.json"]) == [[{"role": "user", "content": "Asked \u00e9."}]]


def test_a_round_without_new_guidance_leaves_no_text_after_it() -> None:
    files = round_outcome(None).files()
    assert "guidance-after.md" not in files
    decision = json.loads(files["decision.json"])
    assert (decision["guidance"], decision["why"]) == (None, "kept")


def memo_outcome(memo: MemoVersion | None) -> MemoOutcome:
    observed = (MemoObservations(version=0, deltas=(0.1, 0.3), honests=(0.5, 0.5)),)
    before = MemoVersion(version=0, memo="Old memo.\n")
    return MemoOutcome(
        evidence=MemoEvidence(cycle=4, versions=(before,), observations=observed),
        decision=Decision(action="propose", why="g is 0.2"),
        scores=score_versions(observed, MemoConfig()),
        baseline=0.5,
        hackability="Beaten.",
        memo=memo,
        why="" if memo else "nothing proposed",
        prompts=(({"role": "user", "content": "Asked."},),),
    )


def test_the_files_of_a_memo_round_hold_the_texts_unchanged() -> None:
    new = MemoVersion(version=1, memo="New memo. ", decision="new")
    files = memo_outcome(new).files()
    assert (files["memo-before.md"], files["memo-after.md"]) == ("Old memo.\n", "New memo. ")
    scores = json.loads(files["memo-scores.json"])
    assert scores["honest_baseline"] == 0.5
    assert scores["versions"] == [{"version": 0, "n": 2, "delta_mean": 0.2, "honest_mean": 0.5, "score": 0.2}]
    assert json.loads(files["memo-evidence.json"])["observations"][0]["deltas"] == [0.1, 0.3]
    decision = json.loads(files["memo-decision.json"])
    assert decision["decision"]["action"] == "propose"
    assert MemoVersion.model_validate(decision["memo"]) == new
    assert files["memo-hackability.md"] == "Beaten.\n"
    assert "memo-after.md" not in memo_outcome(None).files()


def test_both_rounds_can_keep_their_files_in_one_folder() -> None:
    assert not set(round_outcome(NEW).files()) & set(memo_outcome(MemoVersion(version=1)).files())
