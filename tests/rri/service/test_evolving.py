"""Evolution rounds in the run: when, on what evidence, what comes into force, and what is left of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rri.cases import GuidanceVersion, MemoVersion
from rri.config import EvolutionConfig
from rri.evidence import Admission, Probe
from rri.store import Origin
from rri.testing import Fault, hang, status
from rri.types import Grade
from tests.rri.service.looping import LoopBench, looping

DOWN = status(400)
PLAIN = ("Good", "Plain", "Plain")
"""A group of which the referee is not asked to make a case."""
EVERY: dict[str, Any] = {
    "evolution": {"every_cycles": 1},
    "exploits": {"enabled": False},
    "patches": {"enabled": False},
}
FILES = {
    "statistics.md",
    "statistics.json",
    "diagnoses.md",
    "diagnoses.json",
    "exploits.md",
    "evidence.json",
    "decision.json",
    "guidance-before.md",
    "guidance-after.md",
    "prompts.json",
    "memo-scores.json",
    "memo-evidence.json",
    "memo-decision.json",
    "memo-before.md",
    "memo-after.md",
    "memo-hackability.md",
    "memo-prompts.json",
    "calls.jsonl",
}


@pytest.fixture
def faults() -> dict[str, Fault]:
    return {}


@pytest.fixture
def bench(tmp_path: Path, faults: dict[str, Fault]) -> Iterator[LoopBench]:
    with looping(tmp_path, faults, **EVERY) as bench:
        yield bench


def probed(bench: LoopBench, number: int, delta: float, honest: float, memo: int = 0) -> None:
    """A task that was written under a memo, with the figures of its first probe."""
    task = bench.task(number).model_copy(update={"task_id": f"{number:06}-probed"})
    bench.do(bench.store.add_draft(task, Origin(guidance=0, memo=memo)))
    grades = [Grade(verdicts=(), score=score, raw=score) for score in (honest + delta, honest)]
    probe = Probe(status="measured", exploit_grade=grades[0], honest_grade=grades[1], delta=delta)
    bench.do(
        bench.store.add_admission(
            Admission(original=task, task=task, outcome="kept", probe=probe, delta_before=delta, delta_after=delta)
        )
    )


def folder(bench: LoopBench, cycle: int) -> Path:
    return bench.store.path.parent / "rounds" / f"cycle-{cycle:05}"


def read(bench: LoopBench, cycle: int, name: str) -> Any:
    return json.loads((folder(bench, cycle) / name).read_text())


def diagnosed(bench: LoopBench) -> list[str]:
    """Kind and place of the answers that the analyst was shown, sorted."""
    return sorted(" ".join(r.block("answer").split()[:2]) for r in bench.server.of("analyst"))


# --- when --------------------------------------------------------------------------------------------


def test_a_round_is_due_with_every_fifth_cycle(tmp_path: Path) -> None:
    assert EvolutionConfig().every_cycles == 5
    with looping(tmp_path, evolution={"every_cycles": 5}) as bench:
        assert [cycle for cycle in range(16) if bench.evolver.due(cycle)] == [4, 9, 14]


def test_no_round_is_ever_due_where_nothing_evolves(tmp_path: Path) -> None:
    off: dict[str, Any] = {"evolution": {"enabled": False}, "memo": {"enabled": False}}
    with looping(tmp_path, **off) as bench:
        assert not any(bench.evolver.due(cycle) for cycle in range(20))


def test_a_trainer_that_goes_back_does_not_make_a_cycle_evolve_twice(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.cycle(0, task, kinds=PLAIN)
    bench.cycle(1, task, kinds=PLAIN)
    assert bench.put == [(1, 0), (2, 0)]
    bench.do(bench.store.supersede(0))
    for cycle in (0, 1):
        bench.cycle(cycle, task, kinds=PLAIN)
    assert bench.put == [(1, 0), (2, 0)], "both cycles have had their rounds"
    bench.cycle(2, task, kinds=PLAIN)
    assert bench.put == [(1, 0), (2, 0), (3, 0)]
    assert [row.cycle for row in bench.store.rounds("evolution")] == [0, 1, 2]


def test_a_round_that_failed_is_made_up_for_when_its_cycle_comes_again(
    bench: LoopBench, faults: dict[str, Fault]
) -> None:
    task = bench.task(1)
    faults["meta_optimizer"] = DOWN
    bench.cycle(0, task, kinds=PLAIN)
    bench.do(bench.store.supersede(0))
    faults.clear()
    bench.cycle(0, task, kinds=PLAIN)
    assert bench.outcomes("evolution") == ["failed", "done"]


# --- evidence ----------------------------------------------------------------------------------------


def test_evidence_is_from_the_cycles_since_the_last_round(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.cycle(0, task, kinds=PLAIN)
    first = diagnosed(bench)
    assert first == ["Good 0.0.0", "Plain 0.0.1", "Plain 0.0.2"]
    bench.cycle(1, task, kinds=PLAIN)
    assert set(diagnosed(bench)) - set(first) == {"Good 1.1.0", "Plain 1.1.1", "Plain 1.1.2"}
    assert len(diagnosed(bench)) == 6, "nothing is diagnosed twice"


def test_what_a_failed_round_had_to_read_is_read_by_the_next_one(bench: LoopBench, faults: dict[str, Fault]) -> None:
    task = bench.task(1)
    faults["meta_optimizer"] = DOWN
    bench.cycle(0, task, kinds=PLAIN)
    faults.clear()
    before = len(diagnosed(bench))
    bench.cycle(1, task, kinds=PLAIN)
    assert len(diagnosed(bench)) - before == 6


def test_superseded_and_unscored_rollouts_are_no_evidence(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.graded(0, 0, task, ("Good", "Good", "Good"))
    bench.do(bench.store.supersede(0))
    bench.cycle(0, task, kinds=("Plain", "?", "Plain"))
    assert diagnosed(bench) == ["Plain 0.0.0", "Plain 0.0.2"]


def test_confirmed_exploits_and_accepted_criteria_are_shown(tmp_path: Path) -> None:
    with looping(tmp_path, evolution={"every_cycles": 2}) as bench:
        for cycle in (0, 1):
            bench.cycle(cycle, bench.task(cycle + 1))
        evidence = read(bench, 1, "evidence.json")["exploits"]
        assert evidence["gaps"] == [0.5, 0.5]
        assert evidence["labels"] == {"breadth_padding": 2}
        assert len(evidence["patches"]) == bench.store.loop_figures()["accepted"] > 0
        shown = bench.server.of("meta_optimizer")[0].block("exploits")
        assert "Confirmed exploits of the assistant in training: 2." in shown


def test_means_by_guidance_count_scored_rollouts_alone(bench: LoopBench) -> None:
    """Version 0 was in force in cycle 0 alone, version 1 in cycles 1 and 2; what has no score weighs nothing."""
    task = bench.task(1)
    for cycle, scores in enumerate(((0.25, 0.75), (1.0, None, None, None), (0.0, 0.5, 0.0))):
        for row, score in enumerate(scores):
            kind = "?" if score is None else f"Plain{row}"
            bench.graded(cycle, 10 * cycle + row, task, (kind,), score=score)
        if cycle != 1:
            bench.report(cycle)
            bench.work()
    history = read(bench, 2, "evidence.json")["history"]
    assert [h["version"] for h in history] == [0, 1]
    assert [h["train_mean"] for h in history] == [pytest.approx(0.5), pytest.approx((1.0 + 0.5) / 4)]


# --- what comes into force ---------------------------------------------------------------------------


def test_guidance_and_round_come_together_and_writers_are_told(bench: LoopBench) -> None:
    bench.cycle(0, bench.task(1), kinds=PLAIN)
    (row,) = bench.store.rounds("evolution")
    latest = bench.store.guidance_versions()[-1]
    assert row.data["guidance"] == latest.version == 1
    assert latest.cycle == row.cycle == 0
    assert bench.put == [(1, 0)]
    assert bench.evolver.stats() == {
        "guidance": 1,
        "memo": 0,
        "memo_decision": row.data["memo_decision"],
        "evolutions": 1,
    }
    assert row.data["memo_decision"]["action"] == "wait"


def test_a_restart_goes_on_with_what_is_in_force(bench: LoopBench) -> None:
    task = bench.task(1)
    bench.cycle(0, task, kinds=PLAIN)
    latest = bench.evolver.guidance
    bench.open()
    assert bench.evolver.guidance == latest
    bench.cycle(1, task, kinds=PLAIN)
    shown = bench.server.of("meta_optimizer")[1]
    assert shown.block("guidance_a") == latest.guidance_a


def test_a_round_that_was_cut_off_leaves_nothing_in_force_and_is_done_again(
    bench: LoopBench, faults: dict[str, Fault]
) -> None:
    bench.graded(0, 0, bench.task(1), PLAIN)
    bench.report(0)
    faults["meta_optimizer"] = hang()
    bench.work_until(lambda: bench.server.count("meta_optimizer") == 1)
    assert [g.version for g in bench.store.guidance_versions()] == [0]
    faults.clear()
    bench.open()
    bench.work()
    assert [g.version for g in bench.store.guidance_versions()] == [0, 1]
    assert bench.outcomes("evolution") == ["done"]


def test_guidance_that_is_kept_word_for_word_is_no_new_version(tmp_path: Path) -> None:
    with looping(tmp_path, **EVERY) as bench:
        same = {"summary": "Good as it is.", "new_guidance_a": "Vary.", "new_guidance_b": "State values."}
        bench.server.models["meta_optimizer"] = lambda _: json.dumps(same)
        for cycle in (0, 1):
            bench.cycle(cycle, bench.task(1), kinds=PLAIN)
        assert [g.version for g in bench.store.guidance_versions()] == [0, 1]
        assert [row.data["guidance"] for row in bench.store.rounds("evolution")] == [1, None]
        assert "kept the guidance" in bench.store.rounds("evolution")[1].data["why"]


def test_a_cycle_without_scores_has_a_round_that_changes_nothing(bench: LoopBench) -> None:
    bench.cycle(0, bench.task(1), kinds=("?", "?"))
    (row,) = bench.store.rounds("evolution")
    assert (row.outcome, row.data["guidance"], row.data["why"]) == ("done", None, "no graded case to learn from")
    assert bench.server.count("meta_optimizer") == 0


# --- memo --------------------------------------------------------------------------------------------


def test_a_memo_is_proposed_on_the_first_probes_of_its_own_tasks(bench: LoopBench) -> None:
    for number in (11, 12):
        probed(bench, number, delta=0.4, honest=0.5)
    bench.cycle(0, bench.task(1), kinds=PLAIN)
    assert bench.put == [(1, 1)]
    memo = bench.store.memo_versions()[-1]
    assert (memo.version, memo.decision, memo.cycle) == (1, "new", 0)
    assert bench.evolver.stats()["memo_decision"]["action"] == "propose"
    bench.cycle(1, bench.task(1), kinds=PLAIN)
    assert bench.store.memo_versions()[-1] == memo, "nothing was written under it yet"


def test_a_memo_that_made_things_worse_is_rolled_back_to_the_letter(bench: LoopBench) -> None:
    for number in (11, 12):
        probed(bench, number, delta=0.4, honest=0.5)
    bench.cycle(0, bench.task(1), kinds=PLAIN)
    for number in (13, 14):
        probed(bench, number, delta=0.6, honest=0.5, memo=1)
    bench.cycle(1, bench.task(1), kinds=PLAIN)
    back = bench.store.memo_versions()[-1]
    assert (back.version, back.decision, back.of) == (2, "rolled_back", 0)
    assert back.memo == bench.store.memo_versions()[0].memo
    assert bench.evolver.memo == back
    assert bench.put[-1] == (2, 2)


def test_a_memo_optimizer_that_fails_is_counted_and_the_guidance_is_kept(
    bench: LoopBench, faults: dict[str, Fault]
) -> None:
    for number in (11, 12):
        probed(bench, number, delta=0.4, honest=0.5)
    faults["memo_optimizer"] = DOWN
    bench.cycle(0, bench.task(1), kinds=PLAIN)
    assert bench.outcomes("evolution") == ["done", "failed"]
    assert bench.put == [(1, 0)]
    assert bench.store.rounds("evolution")[0].data["memo_error"].startswith("role memo_optimizer")
    assert bench.loop.failures == 1
    assert bench.evolver.stats()["memo_decision"] is None
    assert not (folder(bench, 0) / "memo-decision.json").exists()
    assert (folder(bench, 0) / "guidance-after.md").exists()
    bench.do(bench.store.supersede(0))
    bench.cycle(0, bench.task(1), kinds=PLAIN)
    assert [g.version for g in bench.store.guidance_versions()] == [0, 1], "the guidance has had its round"


def test_without_a_memo_nobody_asks_for_one(tmp_path: Path) -> None:
    with looping(tmp_path, memo={"enabled": False}, **EVERY) as bench:
        bench.cycle(0, bench.task(1), kinds=PLAIN)
        assert bench.put == [(1, 0)]
        assert not list(folder(bench, 0).glob("memo*"))


# --- what is left ------------------------------------------------------------------------------------


def test_a_round_leaves_a_folder_with_everything_about_it(bench: LoopBench) -> None:
    for number in (11, 12):
        probed(bench, number, delta=0.4, honest=0.5)
    bench.cycle(0, bench.task(1), kinds=PLAIN)
    assert {path.name for path in folder(bench, 0).iterdir()} == FILES
    assert bench.evolver.guidance.guidance_a in (folder(bench, 0) / "guidance-after.md").read_text()
    assert (folder(bench, 0) / "memo-after.md").read_text() == bench.evolver.memo.memo
    calls = [json.loads(line) for line in (folder(bench, 0) / "calls.jsonl").read_text().splitlines()]
    assert [call["role"] for call in calls] == ["analyst"] * 3 + ["meta_optimizer", "memo_optimizer"]
    sent = bench.server.of("meta_optimizer")[0].messages
    assert calls[3]["messages"] == sent
    assert json.loads((folder(bench, 0) / "prompts.json").read_text())[0] == sent
    assert calls[3]["reply"] and calls[3]["error"] == ""


def test_the_calls_of_a_round_are_its_own(bench: LoopBench) -> None:
    for cycle in (0, 1):
        bench.cycle(cycle, bench.task(1), kinds=PLAIN)
    lines = (folder(bench, 1) / "calls.jsonl").read_text().splitlines()
    answers = [json.loads(line)["messages"][-1]["content"] for line in lines if '"analyst"' in line]
    assert len(answers) == 3
    assert all(" 1.1." in answer for answer in answers)


def test_texts_that_a_run_begins_with_are_version_0_for_good(bench: LoopBench) -> None:
    begun = (bench.store.guidance_versions(), bench.store.memo_versions())
    later = GuidanceVersion(version=0, guidance_a="Other."), MemoVersion(version=0, memo="Other.")
    bench.do(bench.store.begin_texts(*later))
    assert (bench.store.guidance_versions(), bench.store.memo_versions()) == begun
