"""Confirming probes: what is attacked afresh, and what becomes of attacks that give no figure."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval.world.confirming import Confirmed, confirm, probed, spread
from eval.world.criteria import topic, value
from rri.config import AdmissionConfig
from rri.evidence import Admission, AdmissionOutcome, Probe
from rri.testing import Fault, status
from rri.testing.server import ChatRequest
from rri.types import Grade, Task
from tests.eval.world.kept import kept_run, rolled
from tests.eval.world.rig import WORLD, ask, task_of, world_rig

A, B = WORLD.relations[:2]
REQUEST = ask(A, B)
E = REQUEST.entity
BORN = task_of(REQUEST, (topic(E, A), 8), (topic(E, B), 8))
MENDED = task_of(REQUEST, (value(E, A, WORLD.facts[E, A]), 8), (value(E, B, WORLD.facts[E, B]), 6), (topic(E, A), 2))
MENDED = MENDED.model_copy(update={"version": 2})


def measured(delta: float, honest: float = 0.5, *reasons: Any) -> Probe:
    grade = Grade(verdicts=(), score=honest, raw=honest)
    return Probe(status="measured", delta=delta, honest_grade=grade, exploit_grade=grade, reasons=reasons)


def test_figures_are_over_measured_probes() -> None:
    probes = [
        measured(0.4, 0.5, "exploitable"),
        measured(-0.4, 0.93, "saturated"),
        measured(-0.1, 0.92, "exploitable"),
        measured(-0.3),
        Probe(status="discarded"),
        Probe(status="unmeasured", failed=True),
    ]
    found = probed(probes, AdmissionConfig())
    assert found is not None
    assert (found.probes, found.honest_leads, found.exploitable, found.saturated) == (4, 0.75, 0.5, 0.25)
    assert found.delta == pytest.approx(-0.1)
    assert found.standard_error == pytest.approx((0.38 / 3 / 4) ** 0.5)
    assert probed(probes[4:], AdmissionConfig()) is None
    alone = probed(probes[:1], AdmissionConfig())
    assert alone is not None and alone.standard_error is None


def test_a_spread_goes_over_the_whole_order() -> None:
    assert spread(range(10), 5) == [0, 2, 4, 6, 8]
    assert spread(range(3), 5) == [0, 1, 2]
    assert spread(range(3), 0) == []


def confirmed(
    tmp_path: Path, admissions: list[Admission], fault: Callable[[ChatRequest], Fault | None] = lambda request: None
) -> tuple[Confirmed, int]:
    """What confirming finds in a run of two cycles that served every admitted task, and how many answers it asked."""
    tasks = [task for a in admissions for task in {a.original.version: a.original, a.task.version: a.task}.values()]
    rows = [rolled(a.task, c, 0, "x", 0.5, position=n) for c in (0, 1) for n, a in enumerate(admissions)]
    with (
        kept_run(tmp_path, tasks, rows, admissions) as store,
        world_rig(tmp_path, fault=fault, solver={"cycles": 2}) as rig,
    ):
        found = confirm(store, rig.config, probes=10, stretches=5, stretch_probes=10)
        return found, rig.server.count("farmer")


def entered(outcome: AdmissionOutcome, number: int, task: Task = MENDED, **deltas: float) -> Admission:
    name = {"task_id": f"{number:06}-abc"}
    return Admission(
        original=BORN.model_copy(update=name),
        task=task.model_copy(update=name),
        outcome=outcome,
        **deltas,  # type: ignore[arg-type]
    )


def test_beaten_tasks_are_attacked_as_written_and_as_admitted(tmp_path: Path) -> None:
    admissions = [
        entered("repaired", 1, delta_before=0.5, delta_after=-0.6),
        entered("best_drop", 2, delta_before=0.3, delta_after=-0.2),
        entered("passed", 3, BORN),
    ]
    found, attacks = confirmed(tmp_path, admissions)
    assert found.before is not None and found.after is not None
    assert (found.before.probes, found.after.probes) == (2, 2), "a task that passed was never repaired"
    assert found.before.delta >= 0 > found.after.delta, "topics are met by naming them, values are not"
    assert found.adopted == (pytest.approx(0.4), pytest.approx(-0.4))
    assert [(p.first, p.last, p.probes) for p in found.exploitable] == [(0, 0, 3), (1, 1, 3)], (
        "no more parts than cycles"
    )
    assert found.exploitable[0].exploitable == pytest.approx(1 / 3)
    assert attacks == 2 + 2 + 6


def test_where_nothing_was_attacked_at_admission_only_served_rubrics_are(tmp_path: Path) -> None:
    found, _ = confirmed(tmp_path, [entered("not_probed", 1, BORN)])
    assert (found.before, found.after, found.adopted) == (None, None, None)
    assert [p.exploitable for p in found.exploitable] == [1.0, 1.0]


def test_attacks_that_fail_are_left_out(tmp_path: Path) -> None:
    refused = status(400)
    found, _ = confirmed(
        tmp_path,
        [entered("repaired", 1, delta_before=0.5, delta_after=-0.6)],
        lambda request: refused if request.model == "farmer" else None,
    )
    assert (found.before, found.after, found.exploitable) == (None, None, ())
