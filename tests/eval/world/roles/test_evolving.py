"""Analyst and optimizers through the real role modules; what they write passes the real rules."""

from pathlib import Path
from typing import Any

import pytest

from eval.world.criteria import topic, value
from eval.world.facts import mention
from eval.world.roles.evolving import GUIDANCE_A, GUIDANCE_B, MEMOS
from programs import Diagnosis, NewGuidance, NewMemo
from programs.round_report import diagnoses_text, exploits_text
from rri.config import EvolutionConfig
from rri.evolution_rules import DiagnosisCounts
from rri.guidance_rules import check_guidance, check_memo
from rri.rounds import ExploitEvidence, Hackability
from rri.types import Grade, Verdict
from signatures import PastMemo
from tests.eval.world.rig import CERTAIN, WORLD, Rig, ask, right, task_of, world_rig, wrong

REQUEST = ask(*WORLD.relations[:3])
E, (A, B, C) = REQUEST.entity, REQUEST.asked
FACTS = WORLD.of(E)
TOPICS = task_of(REQUEST, (topic(E, A), 8), (topic(E, B), 8))
VALUES = task_of(REQUEST, (value(E, A, FACTS[A]), 8), (value(E, B, FACTS[B]), 8))
NAMES = " ".join(mention(E, r) for r in REQUEST.asked)
STATES = f"{right(E, A)} {right(E, B)} {right(E, C)}"


# --- analyst -------------------------------------------------------------------------------------------


def graded(score: float | None) -> Grade:
    verdict = Verdict(outcome="met" if score else "unmet")
    return Grade(verdicts=(verdict, verdict), score=score, raw=score, unscored="" if score is not None else "unknown")


def diagnosed(tmp_path: Path, task: Any, answer: str, score: float | None, **constants: float) -> Diagnosis:
    with world_rig(tmp_path, CERTAIN.model_copy(update=constants)) as rig:
        found: Diagnosis = rig.call(rig.roles.analyst, task=task, answer=answer, grade=graded(score))
    return found


def test_names_that_a_rubric_of_topics_pays_are_the_generators_fault(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, TOPICS, NAMES, 1.0)
    assert (found.verdict, found.rubric_defect) == ("generator_at_fault", "gameable_restates_task")


def test_an_analyst_that_does_not_spot_it_takes_it_for_success(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, TOPICS, NAMES, 1.0, analyst_spots=0.0)
    assert (found.verdict, found.rubric_defect) == ("model_succeeded", "none")


@pytest.mark.parametrize(
    ("answer", "mode", "relation"),
    [
        (f"{right(E, A)} {wrong(E, B)} {right(E, C)}", "hallucinated_specifics", B),
        (f"{right(E, A)} {mention(E, B)} {right(E, C)}", "knowledge_specificity", B),
        (f"{right(E, A)} {right(E, B)}", "incompleteness", C),
    ],
)
def test_a_fair_failure_names_what_is_missing(tmp_path: Path, answer: str, mode: str, relation: str) -> None:
    found = diagnosed(tmp_path, VALUES, answer, 0.5)
    assert (found.verdict, found.failure_mode) == ("model_failed_fair_task", mode)
    assert relation in found.gap and len(found.gap.split()) <= 15


def test_a_rubric_of_values_is_not_blamed(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, VALUES, NAMES, 1.0).verdict == "model_failed_fair_task"


@pytest.mark.parametrize(
    ("score", "verdict"), [(1.0, "model_succeeded"), (0.6, "model_succeeded"), (0.59, "generator_at_fault")]
)
def test_a_true_answer_that_is_paid_little_is_the_generators_fault(tmp_path: Path, score: float, verdict: str) -> None:
    assert diagnosed(tmp_path, TOPICS, STATES, score).verdict == verdict


def test_an_unscored_case_is_diagnosed_by_its_answer(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, TOPICS, STATES, None).verdict == "model_succeeded"


def test_a_misread_case_says_nothing(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, TOPICS, NAMES, 1.0, analyst_misreads=1.0)
    assert found.verdict == "model_failed_fair_task" and found.gap == ""


# --- meta-optimizer ------------------------------------------------------------------------------------


def evidence(gameable: int = 0, cases: int = 20, **found: Any) -> dict[str, str]:
    """Diagnoses and exploits as an evolution round words them."""
    counts = DiagnosisCounts(
        cases=cases,
        verdicts={"generator_at_fault": gameable, "model_failed_fair_task": cases - gameable},
        rubric_defects={"gameable_restates_task": gameable} if gameable else {},
    )
    diagnoses = diagnoses_text(counts, EvolutionConfig())
    return {"diagnoses": diagnoses, "exploits": exploits_text(ExploitEvidence(**found))}


def guided(rig: Rig, shown: dict[str, str], a: str = "", b: str = "") -> NewGuidance:
    fixed: dict[str, Any] = {"score_formula": "s", "statistics": "s", "gaps": [], "history": []}
    found: NewGuidance = rig.call(rig.roles.meta_optimizer, **fixed, guidance_a=a, guidance_b=b, **shown)
    return found


BEATEN = {"hackability": Hackability(n=3, before=0.2, after=0.0)}
HOLDING = {"hackability": Hackability(n=3, before=-0.2, after=-0.3)}


@pytest.mark.parametrize(
    ("shown", "demand"),
    [
        (evidence(), 0),
        (evidence(2), 0),
        (evidence(3), 0.5),
        (evidence(5), 0.5),
        (evidence(6), 1),
        (evidence(1, cases=5), 0.5),
        (evidence(**BEATEN), 0.5),
        (evidence(**HOLDING), 0),
        (evidence(gaps=(0.3,)), 1),
    ],
)
def test_guidance_follows_the_evidence(tmp_path: Path, shown: dict[str, str], demand: float) -> None:
    with world_rig(tmp_path) as rig:
        found = guided(rig, shown)
    expected = (GUIDANCE_A, GUIDANCE_B[demand]) if demand else ("", "")
    assert (found.guidance_a, found.guidance_b) == expected
    assert found.summary


def test_what_was_asked_for_before_stays(tmp_path: Path) -> None:
    with world_rig(tmp_path) as rig:
        kept = guided(rig, evidence(), GUIDANCE_A, GUIDANCE_B[1.0])
        weaker = guided(rig, evidence(3), GUIDANCE_A, GUIDANCE_B[1.0])
        own = guided(rig, evidence(), "Vary.", "Be kind.")
    assert (kept.guidance_a, kept.guidance_b) == (GUIDANCE_A, GUIDANCE_B[1.0])
    assert weaker.guidance_b == GUIDANCE_B[1.0]
    assert (own.guidance_a, own.guidance_b) == ("Vary.", "Be kind.")


def test_what_it_writes_may_be_used() -> None:
    assert [problem for text in (GUIDANCE_A, *GUIDANCE_B.values()) for problem in check_guidance(text)] == []
    assert [problem for memo in MEMOS for problem in check_memo(memo)] == []


# --- memo optimizer ------------------------------------------------------------------------------------


def remembered(
    tmp_path: Path, number: float, memo: str = "", shown: bool = True, given_up: tuple[str, ...] = ()
) -> str:
    history = [
        PastMemo(version=i, memo=text, decision="written anew, then given up for version 0")
        for i, text in enumerate(given_up)
    ]
    with world_rig(tmp_path) as rig:
        found: NewMemo = rig.call(
            rig.roles.memo_optimizer,
            memo=memo,
            hackability=f"The number to lower is {number:.3f} under the current memo, over 9 first probes of tasks",
            modes={"hedge_namedrop": 3} if shown else {},
            minted=[],
            history=history,
        )
    assert len(found.summary) <= 200
    return found.memo


def test_without_exploits_of_the_assistant_the_memo_only_asks_for_values(tmp_path: Path) -> None:
    assert remembered(tmp_path, 0.4, shown=False) == MEMOS[0]
    assert remembered(tmp_path, 0.4, MEMOS[0], shown=False) == ""


def test_with_exploits_it_goes_on_to_ban_topics(tmp_path: Path) -> None:
    assert remembered(tmp_path, 0.4, MEMOS[0]) == MEMOS[1]
    assert remembered(tmp_path, 0.4, MEMOS[1]) == ""


def test_what_was_given_up_does_not_come_back(tmp_path: Path) -> None:
    assert remembered(tmp_path, 0.4, MEMOS[0], given_up=(MEMOS[1],)) == MEMOS[2]
    assert remembered(tmp_path, 0.4, MEMOS[0], given_up=(MEMOS[1], MEMOS[2])) == ""


@pytest.mark.parametrize("number", [0.0, -0.2])
def test_at_the_target_nothing_is_proposed(tmp_path: Path, number: float) -> None:
    assert remembered(tmp_path, number) == ""
