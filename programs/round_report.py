"""What a round tells the two optimizers: figures in plain sentences, in the order in which they count (METHOD 3)."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from programs.probe import TOLERANCE
from programs.role import RoleModule
from programs.shown import latest
from rri.config import EvolutionConfig, GenerationConfig, MemoConfig
from rri.distribution import Distribution, Drift, ReferenceFigures
from rri.evolution_rules import DiagnosisCounts
from rri.lm.adapter import render
from rri.memo_score import TARGET, MemoScore
from rri.rounds import ExploitEvidence, Hackability, Prompt
from rri.scoring import LENGTH_CENTRE, LENGTH_SLOPE, LENGTH_UNIT, ScoreRule
from rri.types import Criterion

__all__ = [
    "diagnoses_text",
    "difficulty_gauge",
    "exploits_text",
    "hackability_text",
    "prompt_of",
    "score_formula",
    "signed_criterion",
    "statistics_text",
]

PATCHES_SHOWN = 20
CRITERION_CHARS = 240
"""The longest minted criterion has 220 characters (METHOD 7); its sign stands before it."""

_FRACTION = (
    "An answer's score is the sum of the points of the criteria that it meets, divided by the sum of all positive "
    "points; a negative criterion that is met subtracts, so that scores below 0 are possible and 1 is the highest"
)


def score_formula(rule: ScoreRule) -> str:
    """How the training score of an answer comes about under `rule`, as one plain sentence (METHOD 2)."""
    if rule == "equal-weights":
        return "An answer's score is the share of the criteria that it meets; points do not count."
    if rule == "medxpertqa":
        return "An answer's score is 1 if it names the right choice, which is the one criterion, and 0 if not."
    if rule == "healthbench-professional":
        return (
            f"{_FRACTION}; an answer of more than {LENGTH_CENTRE} characters loses {LENGTH_SLOPE:g} for every "
            f"{LENGTH_UNIT} characters beyond, and a shorter one gains nothing."
        )
    return f"{_FRACTION}."


def prompt_of(module: RoleModule[Any], **arguments: Any) -> Prompt:
    """The messages that a call of `module` with these arguments sends. Pure: nothing is called."""
    return tuple(render(module.predict.signature, module.predict.demos, module.fields(**arguments)))


# -- statistics ---------------------------------------------------------------------------------------


def difficulty_gauge(train_mean: float | None, current_mean: float | None, config: GenerationConfig) -> str:
    """What the mean training score says of the tasks' difficulty.

    Args:
        train_mean: rolling mean of the training scores; None while nothing was graded.
        current_mean: the mean under the current guidance.
        config: the band that is right, its ends included.
    """
    if train_mean is None:
        return "Nothing was graded yet, so the difficulty is unknown."
    low, high = config.difficulty_low, config.difficulty_high
    said = f"The mean training score of late is {train_mean:.2f}"
    if current_mean is not None:
        said += f", and {current_mean:.2f} under the current guidance"
    said += f". From {low:g} to {high:g} is right: "
    if train_mean > high + TOLERANCE:
        return f"{said}the tasks are too easy. Ask for more in the task, and leave the rubrics' standards alone."
    if train_mean < low - TOLERANCE:
        return f"{said}the tasks are too hard. Ask for less in the task, never for milder rubrics."
    return f"{said}keep this difficulty."


def statistics_text(
    gauge: str, figures: Distribution, drifts: Sequence[Drift], reference: ReferenceFigures | None
) -> str:
    """The difficulty gauge, then what has drifted with the number to hit, then all figures beside their references.

    Args:
        gauge: what the training scores say (`difficulty_gauge`).
        figures: of the latest tasks.
        drifts: what lies outside its limits.
        reference: the domain's figures.
    """
    drifted = [f"- {d.sentence}" for d in drifts] or ["- Nothing that has a reference."]
    return "\n".join(
        [
            "Difficulty, a gauge and no goal:",
            f"- {gauge}",
            "",
            "Drifted, to be mended first:",
            *drifted,
            "",
            f"Figures of the latest {figures.tasks} tasks:",
            *_figures(figures, reference or ReferenceFigures()),
        ]
    )


def _figures(found: Distribution, reference: ReferenceFigures) -> Iterator[str]:
    def beside(value: float | None, form: str) -> str:
        return "" if value is None else f", reference {value:{form}}"

    if found.criteria_mean is not None:
        spread = ", ".join(f"{n}: {tasks}" for n, tasks in (found.criteria_histogram or {}).items())
        yield (
            f"- Criteria of a rubric: mean {found.criteria_mean:.2f}{beside(reference.criteria_mean, '.2f')}, median "
            f"{found.criteria_median:g}; {found.positives_mean:.2f} positive and {found.negatives_mean:.2f} negative; "
            f"rubrics by number of criteria: {spread}"
        )
    if found.criterion_chars_mean is not None:
        yield (
            f"- Characters of a criterion: mean {found.criterion_chars_mean:.0f}"
            f"{beside(reference.criterion_chars_mean, '.0f')}, median {found.criterion_chars_median:.0f}"
        )
    if found.negative_share is not None:
        yield f"- Tasks with a negative criterion: {found.negative_share:.0%}{beside(reference.negative_share, '.0%')}"
    if found.red_team_share is not None:
        yield f"- Tasks with a trap on purpose: {found.red_team_share:.0%}"
    if found.use_cases is not None:
        wanted = reference.use_cases or {}
        names = dict.fromkeys([*found.use_cases, *wanted])
        shares = [f"{n} {found.use_cases.get(n, 0.0):.0%}{beside(wanted.get(n), '.0%')}" for n in names]
        yield f"- Use cases: {'; '.join(shares)}"
    if found.specialties is not None:
        yield f"- Different specialties: {found.specialties}"
    if found.self_similarity is not None:
        yield (
            f"- Self-similarity: two requests share {found.self_similarity:.3f} of their word sequences on average"
            f"{beside(reference.self_similarity, '.3f')}; {found.near_duplicates:.0%} of {found.pairs} pairs are close "
            "to duplicates"
        )


# -- diagnoses ----------------------------------------------------------------------------------------


def diagnoses_text(counts: DiagnosisCounts, config: EvolutionConfig) -> str:
    """The counts of a round, fair failures apart from faults of the generator."""
    verdicts = {name: counts.verdicts.get(name, 0) for name in ("model_failed_fair_task", "generator_at_fault")}
    lines = [
        f"{counts.cases} graded cases: {config.worst_share:.0%} the worst of late, {config.best_share:.0%} the best, "
        "the rest at random. So the counts compare causes and are no rates.",
        *([f"{counts.failed} of them could not be diagnosed and are in no count."] if counts.failed else []),
        f"- model_failed_fair_task: {verdicts['model_failed_fair_task']}. What the answers lacked: "
        f"{_listed(counts.failure_modes)}.",
        f"- generator_at_fault: {verdicts['generator_at_fault']}. Rubric defects: {_listed(counts.rubric_defects)}. "
        f"Task defects: {_listed(counts.task_defects)}.",
        f"- model_succeeded: {counts.verdicts.get('model_succeeded', 0)}.",
    ]
    if counts.side_defects:
        lines.append(f"- Defects that were seen but decided no outcome: {_listed(counts.side_defects)}.")
    return "\n".join(lines)


def _listed(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items()) or "none named"


# -- exploits -----------------------------------------------------------------------------------------


def signed_criterion(criterion: Criterion) -> str:
    """A criterion with what meeting it means, without its points."""
    return f"{'required' if criterion.points > 0 else 'penalised'}: {criterion.text}"


def exploits_text(exploits: ExploitEvidence) -> str:
    """Measured hackability, confirmed exploits and accepted criteria, each said to be absent where it is."""
    lines = [_hackability(exploits.hackability)]
    if exploits.gaps:
        lines.append(
            f"Confirmed exploits of the assistant in training: {len(exploits.gaps)}. They score "
            f"{fmean(exploits.gaps):.2f} more than the better answer on average, {max(exploits.gaps):.2f} at most. How "
            f"they do it: {_listed(exploits.labels)}."
        )
    else:
        lines.append("No exploit of the assistant in training was confirmed.")
    if exploits.patches:
        positive = sum(c.points > 0 for c in exploits.patches)
        lines.append(
            f"Criteria that repairs added and that tell the answers apart: {positive} required, "
            f"{len(exploits.patches) - positive} penalised."
        )
        texts = [signed_criterion(c) for c in exploits.patches]
        lines += [f"- {text}" for text in latest(texts, PATCHES_SHOWN, CRITERION_CHARS)]
    return "\n".join(lines)


def _hackability(found: Hackability) -> str:
    if found.before is None or found.after is None:
        return "Hackability was not measured."
    return (
        f"Hackability, measured on {found.n} tasks: on average an adversary's empty answer scores "
        f"{_lead(found.before)} an honest one at birth, and {_lead(found.after)} it once the tasks are admitted."
    )


def _lead(delta: float) -> str:
    return f"{abs(delta):.2f} {'above' if delta > 0 else 'below'}"


def hackability_text(current: MemoScore, baseline: float | None, exploits: ExploitEvidence, config: MemoConfig) -> str:
    """What the memo optimizer is told of the current memo's figures.

    Args:
        current: the figures of the current memo, measured.
        baseline: mean honest score of the first measured version.
        exploits: hackability over all latest tasks, and the confirmed cases.
        config: the numbers of g.

    Raises:
        ValueError: the current memo has no score.
    """
    if current.score is None or current.delta_mean is None or current.honest_mean is None or baseline is None:
        raise ValueError(f"memo {current.version} has no score yet, so there is nothing to tell")
    lines = [
        f"The number to lower is {current.score:.3f} under the current memo, over {current.n} first probes of tasks "
        f"written under it. The target is {TARGET:g} or less.",
        f"On average the empty answer scores {_lead(current.delta_mean)} the honest one, and the honest answer scores "
        f"{current.honest_mean:.2f}.",
    ]
    if config.honest_penalty:
        charge = current.score - current.delta_mean
        lines.append(
            f"Honest answers scored {baseline:.2f} at the start. {charge:.3f} of the number is the extra charge for "
            f"what they score above that by more than {config.honest_slack:g}."
        )
    lines.append(_hackability(exploits.hackability))
    if exploits.gaps:
        lines.append(
            f"The assistant in training beat the rubrics in {len(exploits.gaps)} confirmed cases, by "
            f"{fmean(exploits.gaps):.2f} on average."
        )
    return "\n".join(lines)
