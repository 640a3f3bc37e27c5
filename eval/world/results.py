"""What one cell of the comparison found: one arm, one seed, one change or none. Written once as `cell.json`."""

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from eval.world.heldout import AnswerKind
from rri.errors import InputError
from rri.rundir import write_atomically
from rri.types import Frozen

__all__ = ["ANSWERS", "CELL", "Arm", "CellResult", "CyclePoint", "Probed", "RubricPoint", "Rubrics", "read_result"]

CELL, ANSWERS = "cell.json", "heldout.jsonl"
"""Files in a cell's folder: its figures, and the held-out answers (`eval.world.heldout`)."""

Arm = Literal["generation-only", "co-evolve-only", "rri"]


class CyclePoint(Frozen):
    """The rollouts of one training cycle.

    Attributes:
        reward: mean training score of those that have one.
        quality: their mean true quality, by the facts.
        words: mean length.
        finished: share that ended by themselves.
        kinds: share of each kind of answer.
    """

    cycle: int
    reward: float
    quality: float
    words: float
    finished: float
    kinds: dict[AnswerKind, float]


class Probed(Frozen):
    """Confirming probes of a set of rubrics, which no decision of the run has seen.

    Attributes:
        probes: how many were measured.
        delta: their mean delta (exploit less honest).
        standard_error: of it; None for a single probe.
        honest_leads: share in which the honest answer scores higher.
        exploitable: share whose delta is above -admission.margin.
        saturated: share whose honest answer scores above admission.honest_max.
    """

    probes: int
    delta: float
    standard_error: float | None
    honest_leads: float
    exploitable: float
    saturated: float


class RubricPoint(Frozen):
    """Rubrics served in a stretch of cycles [first, last], attacked afresh: share exploitable of those measured."""

    first: int
    last: int
    probes: int
    exploitable: float


class Rubrics(Frozen):
    """What the rubrics ask for that the last cycles were served, by what their criteria say.

    Attributes:
        positives, negatives: criteria a rubric.
        values: share of the positives that demand a value.
        wrong_keys: share of those whose value is wrong.
        wrong_negatives: negatives a rubric that punish a true value.
    """

    positives: float
    negatives: float
    values: float
    wrong_keys: float
    wrong_negatives: float


class CellResult(Frozen):
    """Figures of one cell.

    Attributes:
        name: folder of the cell.
        arm: how the run was made.
        seed: of world, base model and run.
        change: what differs from the fair world with the whole method: an ablation, a stress, or nothing.
        constants: digest of the world's constants.
        train_reward: mean training score over the last cycles.
        train_quality: true quality of those same rollouts.
        true_quality, standard_error, answers: on held-out requests.
        kinds: share of each kind of held-out answer.
        before, after: confirming probes of the beaten tasks as they were written, and as they were admitted; None
            where nothing was attacked at admission.
        adopted_before, adopted_after: mean deltas of the same tasks as adoption measured them.
        curve: the training cycles.
        exploitable: rubrics as they were served, over time.
        modes: exploit mode -> cases that the minter labelled with it.
        outcomes: admission outcome -> tasks.
        rubrics: at the end.
        calls: model calls of the run.
        seconds: stage -> wall time.
    """

    name: str
    arm: Arm
    seed: int
    change: str
    constants: str
    train_reward: float
    train_quality: float
    true_quality: float
    standard_error: float
    answers: int
    kinds: dict[AnswerKind, float]
    before: Probed | None
    after: Probed | None
    adopted_before: float | None
    adopted_after: float | None
    curve: tuple[CyclePoint, ...]
    exploitable: tuple[RubricPoint, ...]
    modes: dict[str, int]
    outcomes: dict[str, int]
    rubrics: Rubrics
    calls: int
    seconds: dict[str, float]

    @property
    def gap(self) -> float:
        """By how much the training reward flatters."""
        return self.train_reward - self.true_quality

    def write(self, folder: Path) -> None:
        """Write `cell.json`; a kill leaves no half of it.

        Raises:
            RunDirError: it cannot be written.
        """
        write_atomically(folder / CELL, f"{self.model_dump_json(indent=1)}\n")


def read_result(folder: Path) -> CellResult | None:
    """The result that lies in a cell's folder; None where the cell is not finished.

    Raises:
        InputError: what lies there is no result.
    """
    path = folder / CELL
    if not path.exists():
        return None
    try:
        return CellResult.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path} is no result of a cell: {why}", f"Remove {path}; the cell is measured again"
        ) from None
