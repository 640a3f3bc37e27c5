"""What the comparison of the cells found, as `world.json` holds it."""

from pathlib import Path

from eval.world.heldout import AnswerKind
from eval.world.results import Arm, Probed
from rri.rundir import write_atomically
from rri.types import Frozen

__all__ = [
    "WORLD",
    "AblationRow",
    "Ablations",
    "Check",
    "Comparison",
    "Difference",
    "Repair",
    "RepairRow",
    "SeedDifference",
    "SeedRow",
    "Seeds",
]

WORLD = "world.json"
"""The file in the folder of the whole comparison."""


class SeedRow(Frozen):
    """One cell. Rewards and qualities are fractions, 1 is the best; deltas are fractions too.

    Attributes:
        train_reward, train_quality: of the rollouts of the last cycles.
        true_quality, standard_error, answers, kinds: of held-out answers.
        gap: training reward less true quality.
        delta_before, delta_after: of the confirming probes; None where there are none.
        exploitable: share of the rubrics served last that are exploitable; None where none was measured.
        wrong_keys, wrong_negatives: as in `eval.world.results.Rubrics`.
    """

    seed: int
    train_reward: float
    train_quality: float
    true_quality: float
    standard_error: float
    answers: int
    gap: float
    delta_before: float | None
    delta_after: float | None
    exploitable: float | None
    kinds: dict[AnswerKind, float]
    wrong_keys: float
    wrong_negatives: float


class SeedDifference(Frozen):
    """How much better one solver is than another one in true quality, paired by request."""

    seed: int
    mean: float
    standard_error: float


class AblationRow(SeedRow):
    """RRI with one part switched off.

    Attributes:
        cost: true quality of the whole method of the same seed less this one; None where that cell is missing.
        whole_wrong_keys, whole_wrong_negatives: of the whole method, to be put beside.
    """

    cost: SeedDifference | None
    whole_wrong_keys: float | None
    whole_wrong_negatives: float | None


class Seeds(Frozen):
    """Cells that differ in their seed alone, in its order."""

    seeds: tuple[SeedRow, ...]


class Ablations(Frozen):
    """As `Seeds`, of one ablation."""

    seeds: tuple[AblationRow, ...]


class Difference(Frozen):
    """A difference over the seeds that have both sides.

    Attributes:
        mean: of the seeds' differences.
        standard_error: the larger one of the two below; checks go by it.
        combined_error: of the mean, from the errors of the seeds: what the answers leave open.
        spread_error: of the mean, from how the seeds differ; None for a single one.
    """

    seeds: tuple[SeedDifference, ...]
    mean: float
    standard_error: float
    combined_error: float
    spread_error: float | None


class RepairRow(Frozen):
    """What repair brought in one cell of the arm `rri`.

    Attributes:
        before, after: its confirming probes.
        adopted_before, adopted_after: mean deltas as adoption itself saw them, which picked what it measured.
    """

    seed: int
    before: Probed | None
    after: Probed | None
    adopted_before: float | None
    adopted_after: float | None


class Repair(Frozen):
    """Repair over the seeds.

    Attributes:
        before, after: confirming probes of the seeds that have both, each probe counting once; None without any.
        paper_before, paper_after: mean deltas of the paper's 9B run.
    """

    seeds: tuple[RepairRow, ...]
    before: Probed | None
    after: Probed | None
    paper_before: float
    paper_after: float


class Check(Frozen):
    """One thing that was to be shown.

    Attributes:
        name, target, found: in words.
        met: None where cells for it are missing.
    """

    name: str
    target: str
    found: str
    met: bool | None


class Comparison(Frozen):
    """Everything that is made of the cells.

    Attributes:
        constants: digest of the fair world's constants; None without a cell of it.
        arms: arm -> its cells in the fair world.
        ablations: ablation -> its cells.
        stresses: stress -> arm -> its cells in that world.
        differences: `A minus B` -> difference in the fair world.
        stress_differences: stress -> `rri` less `generation-only`.
        repair: None without a cell of the arm `rri`.
        checks: all of them, also those that could not be made.
    """

    constants: str | None
    arms: dict[Arm, Seeds]
    ablations: dict[str, Ablations]
    stresses: dict[str, dict[Arm, Seeds]]
    differences: dict[str, Difference]
    stress_differences: dict[str, Difference]
    repair: Repair | None
    checks: tuple[Check, ...]

    def write(self, folder: Path) -> None:
        """Write `world.json`; a kill leaves no half of it.

        Raises:
            RunDirError: it cannot be written.
        """
        write_atomically(folder / WORLD, f"{self.model_dump_json(indent=1)}\n")
