"""What the two optimizers are told: figures that match the code, in the order in which they count."""

from typing import Any

import pytest

from programs.meta_optimizer import MetaOptimizer
from programs.round_report import (
    diagnoses_text,
    difficulty_gauge,
    exploits_text,
    hackability_text,
    prompt_of,
    score_formula,
    signed_criterion,
    statistics_text,
)
from rri.config import EvolutionConfig, GenerationConfig, MemoConfig
from rri.distribution import Distribution, ReferenceFigures, distribution, drift
from rri.evolution_rules import DiagnosisCounts
from rri.memo_score import MemoObservations, MemoScore, score_versions
from rri.rounds import ExploitEvidence, Hackability
from rri.scoring import RULES, ScoreRule, training_score
from rri.types import Criterion
from tests.rigs import make_task

TASKS = [make_task(8, 8, -6), make_task(8, 8), make_task(8, 8, 8, -6)]
REFERENCE = ReferenceFigures(
    criteria_mean=3.75, criterion_chars_mean=135, negative_share=0.75, use_cases={"explain": 0.6, "write": 0.4}
)


# --- score formula -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_one_plain_sentence(rule: ScoreRule) -> None:
    sentence = score_formula(rule)
    assert sentence.startswith("An answer's score is ")
    assert sentence.endswith(".") and ". " not in sentence


@pytest.mark.parametrize("rule", RULES)
def test_the_sentence_says_what_the_rule_does(rule: ScoreRule) -> None:
    """Whether points count, whether a met negative subtracts, and whether length costs, as the code has it."""
    criteria = [Criterion(text="a", points=9), Criterion(text="b", points=3), Criterion(text="c", points=-6)]
    sentence = score_formula(rule)
    by_points = training_score(rule, criteria[:2], ["met", "unmet"], 100) == 0.75
    assert by_points is (rule != "equal-weights")
    assert ("share of the criteria" in sentence) is not by_points
    taxed = training_score(rule, criteria, ["met"] * 3, 2500) != training_score(rule, criteria, ["met"] * 3, 2000)
    assert ("2000 characters loses 0.0147 for every 500" in sentence) is taxed
    assert training_score(rule, criteria, ["met"] * 3, 10) == training_score(rule, criteria, ["met"] * 3, 2000)


# --- statistics ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "said"),
    [
        (0.39, "too hard"),
        (0.4, "keep this difficulty"),
        (0.5, "keep this difficulty"),
        (0.6, "keep this difficulty"),
        (0.3 * 2 + 1e-12, "keep this difficulty"),
        (0.61, "too easy"),
        (0.9, "too easy"),
        (-0.2, "too hard"),
    ],
)
def test_the_gauge_reads_four_to_six_tenths_as_right(mean: float, said: str) -> None:
    text = difficulty_gauge(mean, None, GenerationConfig())
    assert said in text
    assert f"{mean:.2f}. From 0.4 to 0.6 is right" in text


def test_the_gauge_never_asks_for_milder_rubrics_and_takes_the_band_of_the_config() -> None:
    assert "never for milder rubrics" in difficulty_gauge(0.1, None, GenerationConfig())
    wide = GenerationConfig(difficulty_low=0.05, difficulty_high=0.95)
    assert "From 0.05 to 0.95 is right: keep" in difficulty_gauge(0.1, None, wide)


def test_the_gauge_tells_the_current_guidance_apart_and_says_when_nothing_was_graded() -> None:
    assert "is 0.50, and 0.30 under the current guidance" in difficulty_gauge(0.5, 0.3, GenerationConfig())
    assert difficulty_gauge(None, None, GenerationConfig()) == ("Nothing was graded yet, so the difficulty is unknown.")


def test_what_drifted_stands_before_the_figures_with_the_number_to_hit() -> None:
    figures = distribution(TASKS)
    drifts = drift(figures, REFERENCE)
    assert {d.figure for d in drifts} == {"use_case:explain", "use_case:write", "criterion_chars_mean"}
    text = statistics_text("The gauge.", figures, drifts, REFERENCE)
    gauge, drifted, whole = (
        text.index(s) for s in ("The gauge.", "Drifted, to be mended first:", "Figures of the latest")
    )
    assert gauge < drifted < whole
    for found in drifts:
        assert drifted < text.index(found.sentence) < whole
    assert "Use case 'write' makes up 0% of the tasks. Bring it to 40%." in text


def test_every_figure_stands_beside_its_reference() -> None:
    text = statistics_text("", distribution(TASKS), [], REFERENCE)
    assert "Figures of the latest 3 tasks:" in text
    assert "mean 3.00, reference 3.75, median 3; 2.33 positive and 0.67 negative" in text
    assert "2: 1, 3: 1, 4: 1" in text
    assert "Tasks with a negative criterion: 67%, reference 75%" in text
    assert "Use cases: explain 100%, reference 60%; write 0%, reference 40%" in text
    assert "Tasks with a trap on purpose: 0%" in text
    assert "- Nothing that has a reference." in text


def test_a_figure_without_a_reference_or_a_measurement_says_no_number_it_does_not_have() -> None:
    text = statistics_text("", distribution(TASKS), [], None)
    assert "reference 0" not in text and "None" not in text
    assert "specialties" not in text and "Self-similarity" not in text
    empty = statistics_text("", Distribution(tasks=0), [], REFERENCE)
    assert empty.endswith("Figures of the latest 0 tasks:")


def test_repetition_is_told_in_numbers() -> None:
    figures = Distribution(tasks=9, pairs=36, self_similarity=0.051, near_duplicates=0.25, specialties=4)
    text = statistics_text("", figures, [], ReferenceFigures(self_similarity=0.02))
    assert "share 0.051 of their word sequences on average, reference 0.020; 25% of 36 pairs" in text
    assert "Different specialties: 4" in text


# --- diagnoses -----------------------------------------------------------------------------------------


def test_counts_are_told_under_the_verdict_that_they_belong_to() -> None:
    counts = DiagnosisCounts(
        cases=20,
        failed=2,
        verdicts={"model_failed_fair_task": 11, "generator_at_fault": 4, "model_succeeded": 3},
        failure_modes={"calculation": 7, "safety_miss": 4},
        rubric_defects={"untestable_vague": 3},
        task_defects={},
        side_defects={"too_easy": 2},
    )
    text = diagnoses_text(counts, EvolutionConfig())
    assert "20 graded cases: 50% the worst of late, 25% the best, the rest at random" in text
    assert "are no rates" in text
    assert "2 of them could not be diagnosed" in text
    fair = next(line for line in text.splitlines() if line.startswith("- model_failed_fair_task: 11."))
    fault = next(line for line in text.splitlines() if line.startswith("- generator_at_fault: 4."))
    assert "calculation 7, safety_miss 4" in fair
    assert "Rubric defects: untestable_vague 3. Task defects: none named." in fault
    assert "- model_succeeded: 3." in text
    assert "decided no outcome: too_easy 2" in text


def test_nothing_is_told_of_what_did_not_happen() -> None:
    text = diagnoses_text(DiagnosisCounts(cases=1, verdicts={"model_succeeded": 1}), EvolutionConfig())
    assert "could not be diagnosed" not in text and "decided no outcome" not in text


# --- exploits ------------------------------------------------------------------------------------------


def evidence(patches: int = 1, **other: Any) -> ExploitEvidence:
    criteria = [Criterion(text=f"States value {i}", points=8 if i % 2 == 0 else -6) for i in range(patches)]
    return ExploitEvidence(patches=tuple(criteria), **other)


def test_exploits_are_told_with_their_gaps_tricks_and_signs() -> None:
    found = evidence(
        2,
        gaps=(0.2, 0.4),
        labels={"breadth_padding": 2},
        hackability=Hackability(n=40, before=0.43, after=-0.02),
    )
    text = exploits_text(found)
    assert "measured on 40 tasks" in text
    assert "scores 0.43 above an honest one at birth, and 0.02 below it once" in text
    assert "Confirmed exploits of the assistant in training: 2. They score 0.30 more" in text
    assert "0.40 at most. How they do it: breadth_padding 2." in text
    assert "1 required, 1 penalised" in text
    assert text.endswith("- required: States value 0\n- penalised: States value 1")


def test_without_an_adversary_the_text_says_so() -> None:
    assert exploits_text(ExploitEvidence()) == (
        "Hackability was not measured.\nNo exploit of the assistant in training was confirmed."
    )


def test_the_latest_twenty_criteria_are_shown_whole() -> None:
    longest = Criterion(text="x" * 220, points=-6)
    found = evidence(24)
    text = exploits_text(found.model_copy(update={"patches": (*found.patches, longest)}))
    assert "- [5 earlier ones left out]\n- penalised: States value 5\n" in text
    assert "States value 4\n" not in text
    assert text.endswith(f"- penalised: {'x' * 220}")


def test_a_sign_stands_for_the_points() -> None:
    assert signed_criterion(Criterion(text="States a", points=8)) == "required: States a"
    assert signed_criterion(Criterion(text="Claims a", points=-6)) == "penalised: Claims a"


def scored(**config: Any) -> str:
    settings = MemoConfig(**config)
    observed = [MemoObservations(version=1, deltas=(0.2, 0.4), honests=(0.6, 0.6))]
    (score,) = score_versions(observed, settings)
    # Measured against a first version at 0.5: the charge is 2 * (0.1 - 0.02).
    score = score.model_copy(update={"score": 0.3 + (0.16 if settings.honest_penalty else 0.0)})
    return hackability_text(score, 0.5, evidence(0, gaps=(0.2,), hackability=Hackability.of([(0.5, 0.1)])), settings)


def test_the_memo_optimizer_is_told_the_number_and_its_parts() -> None:
    text = scored()
    assert "The number to lower is 0.460 under the current memo, over 2 first probes" in text
    assert "The target is 0 or less" in text
    assert "scores 0.30 above the honest one, and the honest answer scores 0.60" in text
    assert "scored 0.50 at the start. 0.160 of the number is the extra charge" in text
    assert "measured on 1 tasks" in text
    assert "in 1 confirmed cases, by 0.20" in text


def test_without_the_penalty_no_charge_is_spoken_of() -> None:
    assert "charge" not in scored(honest_penalty=False)


def test_a_memo_without_a_score_has_nothing_to_tell() -> None:
    with pytest.raises(ValueError, match="memo 3 has no score"):
        hackability_text(MemoScore(version=3, n=1), None, ExploitEvidence(), MemoConfig())


# --- prompts -------------------------------------------------------------------------------------------


def test_a_prompt_is_rendered_without_a_call() -> None:
    module = MetaOptimizer()
    arguments = {
        "score_formula": score_formula("healthbench"),
        "guidance_a": "",
        "guidance_b": "",
        "statistics": "Figures.",
        "diagnoses": "",
        "gaps": [],
        "exploits": "",
        "history": [],
    }
    system, user = prompt_of(module, **arguments)
    assert system["content"].startswith(module.predict.signature.instructions)
    assert "<statistics>\nFigures.\n</statistics>" in user["content"]
