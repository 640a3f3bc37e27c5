"""The life of a task: found by part of its id, told whole, with a reason for all that is missing."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from rri.cases import PatchRound
from rri.cli.show_life import print_life
from rri.cli.show_task import TaskLife, find_task, life_of, why_no_case
from rri.errors import InputError
from rri.evidence import Rewrite
from rri.store import Origin, ServedRow, Store
from tests.rigs import scripted_config
from tests.rri.cli.commands import rri_here
from tests.rri.cli.looped import Looped
from tests.rri.cli.made import made_run, page
from tests.rri.store.evidence import admitted, attack, case_of, check, graded, numbered, patch_of, ranking

IDS = ["000001-abc", "000001-abd", "000012-xyz", "mine"]
CONFIG = scripted_config("http://127.0.0.1:1/v1")


# --- finding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "found"), [("000012", "000012-xyz"), ("000001-abc", "000001-abc"), ("m", "mine")])
def test_as_much_of_an_id_as_tells_it_apart_is_enough(wanted: str, found: str) -> None:
    assert find_task(IDS, wanted) == found
    assert find_task(["ab", "abc"], "ab") == "ab", "a whole id is that task, whatever begins with it"


def test_an_id_that_fits_several_names_them() -> None:
    with pytest.raises(InputError, match="2 tasks start with '000001': 000001-abc, 000001-abd"):
        find_task(IDS, "000001")
    with pytest.raises(InputError, match="and 3 more"):
        find_task([f"0{n}" for n in range(8)], "0")


def test_an_id_that_fits_none_names_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        find_task(IDS, "00012-xyz")
    assert caught.value.what == "no task '00012-xyz' among 4"
    assert caught.value.fix.startswith("The nearest are 000012-xyz")
    with pytest.raises(InputError, match="holds no task yet"):
        find_task([], "x")


# --- a scripted run ------------------------------------------------------------------------------------


def patched_twice(looped: Looped) -> str:
    """A task that was rewritten at admission and patched since."""
    return next(p.task_id for p in looped.run.store.patches() if p.version > 3)


def test_a_life_is_told_from_origin_to_scores(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    task_id = patched_twice(looped)
    out = rri_here(capsys, "show", str(looped.folder), "--task", task_id[:6]).out
    life = life_of(looped.run.store, looped.run.config, task_id)
    assert f"task {task_id}: version {life.now} is in the pool" in out
    assert "written under guidance 0 and memo 0" in out
    assert "asked for 3 positives and a negative; came with 3 and 1" in out
    assert "version 1, as it was written" in out
    assert "version 2, rewritten in admission, round 1" in out
    assert "\n+ State each value.\n" in out
    assert "\n-   +8  Mentions topic 0" in out
    assert "\n+   +8  States the value 0 of the rule\n" in out
    assert "rewrite of round 1: accepted, delta fell from" in out
    assert "the rewriter: It states no value." in out
    first = life.cases[0]
    assert f"version 3, patched on case {first.number} of cycle {first.case.cycle}" in out
    assert f"exploit, row {first.case.exploit.row}, raw score" in out
    assert "rows shown as" in out
    assert "accepted; B" in out, "every minted criterion with what became of it"
    assert "attack after round 1" in out
    for row in life.served:
        assert f"{row.position} ({row.source})" in out
    assert "training scores" in out


def test_a_life_as_data_is_what_the_store_holds(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    task_id, store = patched_twice(looped), looped.run.store
    data = json.loads(rri_here(capsys, "show", str(looped.folder), "--task", task_id, "--json").out)
    assert [v["version"] for v in data["versions"]] == [t.version for t in store.versions(task_id)]
    assert data["admission"]["outcome"] == "repaired"
    assert [c["number"] for c in data["cases"]] == [c.number for c in store.case_rows(task_id)]
    checks = data["cases"][0]["patch"]["rounds"][0]["checks"]
    assert {c["outcome"] for c in checks} == {"accepted", "not_separating"}
    assert checks[0]["better"]["outcome"] == "met"
    assert data["origin"]["source"] == "written"
    assert sum(s["rollouts"] for s in data["scores"]) == 6 * len(data["served"])


def test_a_task_without_a_case_says_how_often_it_was_ranked(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    store = looped.run.store
    with_case = {row.task_id for row in store.case_rows()}
    task_id = next(i for i in store.task_ids() if i not in with_case)
    groups = sum(store.ranked(task_id).values())
    assert groups
    out = rri_here(capsys, "show", str(looped.folder), "--task", task_id).out
    assert f"no exploit case yet; the referee was given {groups} group" in out
    assert "it never left the difficulty band" in out


def test_a_miss_is_one_line(looped: Looped, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = rri_here(capsys, "show", str(looped.folder), "--task", "000009")
    assert outcome.code == 2
    assert "The nearest are 00000" in outcome.error_line


# --- lives that a scripted run does not bring about ----------------------------------------------------


def told(store: Store, task_id: str, **fields: Any) -> str:
    return page(lambda console: print_life(console, life_of(store, CONFIG, task_id), **fields))


def test_a_draft_says_what_it_waits_for(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, config):
        asyncio.run(store.add_draft(numbered(1), Origin(source="imported")))
        life = life_of(store, config, "000001-abc")
        assert set(life.notes) == {"admission", "cases", "served", "scores", "evictions"}
        out = told(store, "000001-abc")
    assert "task 000001-abc: not in the pool" in out
    assert "version 1, as it was imported" in out
    assert "it waits as a draft, which the next start attacks first" in out
    assert "not served: it is not in the pool" in out


def test_a_refused_task_says_why(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, _):
        asyncio.run(store.add_admission(admitted(numbered(1), outcome="refused", why="its prompt is too long")))
        assert "not attacked: its prompt is too long" in told(store, "000001-abc")


def test_a_rewrite_that_became_no_version_is_shown_with_its_reason(tmp_path: Path) -> None:
    lost = Rewrite(
        round=1, outcome="rejected", why="delta fell by 0.05", task=numbered(1, 2), probes=(attack("exploitable"),)
    )
    unusable = Rewrite(round=2, outcome="unusable", why="the rewrite breaks the rules: the task is empty")
    with made_run(tmp_path) as (store, _, _):
        evidence = admitted(
            numbered(1), outcome="kept", probe=attack("exploitable"), rewrites=(lost, unusable), delta_before=0.5
        )
        asyncio.run(store.add_admission(evidence))
        out = told(store, "000001-abc")
    assert "rewrite of round 1: rejected, delta fell by 0.05" in out
    assert "+   +8  Mentions topic 0 of rule one, version 2 of 1" in out
    assert "rewrite of round 2: unusable, the rewrite breaks the rules" in out
    assert "kept, delta +0.50 -> -" in out


def test_a_case_that_waits_and_one_that_was_passed_over_are_told_apart(tmp_path: Path) -> None:
    task = numbered(1)
    with made_run(tmp_path) as (store, _, _):
        asyncio.run(store.add_admission(admitted(task)))
        cases = [(case_of(task, 0.5), True), (case_of(task, 0.25, position=1), False)]
        asyncio.run(store.add_cases(1, [ranking(task)], cases))
        out = told(store, "000001-abc")
    assert "it waits for repair" in out
    assert "not chosen for repair: the largest gaps of its cycle went first" in out


def test_a_second_round_shows_the_attack_that_beat_the_first(tmp_path: Path) -> None:
    task = numbered(1)
    first = PatchRound(
        number=1, exploit="x", label="hedge_namedrop", checks=(check(8),), attack=attack_on(task, 4, "exploitable")
    )
    second = PatchRound(number=2, exploit="y", checks=(check(-6, "honest_meets", 1),), why="1 honest_meets")
    with made_run(tmp_path) as (store, _, _):
        asyncio.run(store.add_admission(admitted(task)))
        asyncio.run(store.add_cases(1, [ranking(task)], [(case_of(task), True)]))
        asyncio.run(store.add_patch(patch_of(1, task, first, second, lead_before=-0.5, lead_after=0.0)))
        out = told(store, "000001-abc")
    assert "patch round 1: hedge_namedrop" in out
    assert "patch round 2: no label; 1 honest_meets" in out
    assert "case exploit" in out
    assert "lead of the better answer -0.50 -> +0.00" in out
    assert "exploit 0.50, honest 0.50, delta +0.50: exploitable" in out


def attack_on(task: Any, criteria: int, *reasons: Any) -> Any:
    """An attack on a rubric of so many criteria."""
    probe = attack(*reasons)
    grade = probe.exploit_grade
    assert grade is not None
    whole = grade.model_copy(update={"verdicts": (grade.verdicts[0],) * criteria})
    return probe.model_copy(update={"exploit_grade": whole, "honest_grade": whole})


def test_an_eviction_tells_its_figures_and_whether_the_task_came_back(tmp_path: Path) -> None:
    task = numbered(1)
    with made_run(tmp_path) as (store, _, _):
        asyncio.run(store.add_admission(admitted(task)))
        asyncio.run(store.add_eviction("000001-abc", 1, 0.95, 0.00005, 8))
        out = told(store, "000001-abc")
        assert "version 1 left the draw: mean 0.95, variance 0.0001 over 8 rollouts\n" in out
        round_ = PatchRound(number=1, exploit="x", checks=(check(8),))
        asyncio.run(store.add_cases(1, [], [(case_of(task), True)]))
        asyncio.run(store.add_patch(patch_of(1, task, round_)))
        assert "over 8 rollouts; a later version has come back" in told(store, "000001-abc")


def test_positions_and_scores_are_told_by_version(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, _):
        asyncio.run(store.add_admission(admitted(numbered(1))))
        for row in (ServedRow(0, "000001-abc", 1, "fresh"), ServedRow(7, "000001-abc", 1, "draw")):
            asyncio.run(store.add_served(row))
        asyncio.run(store.add_grades([graded(numbered(1), c, c, score) for c, score in enumerate((0.5, None))]))
        out = told(store, "000001-abc")
    assert "version 1 served at 0 (fresh), 7 (draw)" in out
    assert ["1", "2", "1", "0.500", "0-1"] in [line.split() for line in out.splitlines()]


def test_a_forked_task_names_the_run_that_it_comes_from(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, _):
        versions = [numbered(1), numbered(1, 2)]
        asyncio.run(store.add_forked([(admitted(versions[0]), versions)]))
        out = told(store, "000001-abc", forked_from={"run_id": "abc123", "path": "runs/first"})
    assert "forked from run abc123 (runs/first)" in out
    assert "version 2, patched in the run before" in out


# --- why there is no case ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranked", "said"),
    [
        ({}, "no group was ranked so far"),
        ({"no_case": 1}, "the referee was given 1 group"),
        (
            {"no_case": 9, "flipped": 2, "failed": 1},
            "12 groups, of which 2 did not hold in the reverse order and 1 had",
        ),
    ],
)
def test_no_case_is_explained_by_the_groups_that_were_ranked(ranked: dict[str, int], said: str) -> None:
    assert said in why_no_case(CONFIG, ranked)


def test_a_life_needs_no_case_to_be_empty() -> None:
    """The type holds what a page needs, so a page can be made of a life that was built by hand."""
    life = TaskLife("x", None, None, (numbered(1),), None, (), {}, (), (), (), {"cases": "none"})
    assert "how it came to be was not kept" in page(lambda console: print_life(console, life))
