"""The list of exploit cases: what became of each, and why there is none."""

import asyncio
from pathlib import Path

from rri.cases import PatchRound
from rri.cli.show_cases import CaseLine, case_lines, print_cases
from tests.rri.cli.looped import Looped
from tests.rri.cli.made import made_run, page
from tests.rri.store.evidence import case_of, check, numbered, patch_of, ranking


def test_every_case_of_a_run_is_a_line_with_its_patch(looped: Looped) -> None:
    store = looped.run.store
    lines = case_lines(store)
    assert [line.case.number for line in lines] == [row.number for row in store.case_rows()]
    assert {line.outcome for line in lines} == {"patched"}
    for line in lines:
        patch = store.patch_of(line.case.number)
        assert patch is not None
        assert (line.accepted, line.label) == (len(patch.accepted), "breadth_padding")
        assert line.lead_before is not None and line.lead_before < 0, "the exploit led when it was caught"
        assert (line.lead_before, line.lead_after) == (patch.lead_before, patch.lead_after)


def test_cases_without_a_patch_wait_or_were_not_chosen(tmp_path: Path) -> None:
    task = numbered(1)
    with made_run(tmp_path) as (store, _, config):
        cases = [(case_of(task, gap, position=n), n != 1) for n, gap in enumerate((0.5, 0.25, 0.75))]
        asyncio.run(store.add_cases(1, [ranking(task)], cases))
        rounds = PatchRound(number=1, exploit="x", label="other", checks=(check(8, "overlap"),))
        asyncio.run(store.add_patch(patch_of(3, task, rounds, lead_before=-0.75, lead_after=-0.75, why="1 overlap")))
        rows, lines = store.case_rows(), case_lines(store)
        assert lines == [
            CaseLine(rows[0], "waiting"),
            CaseLine(rows[1], "not_chosen"),
            CaseLine(rows[2], "unpatched", 0, "other", -0.75, -0.75, "1 overlap"),
        ]
        wide = page(lambda console: print_cases(console, lines, config, {"case": 3}), width=140)
        narrow = page(lambda console: print_cases(console, lines, config, {"case": 3}), width=80)
    assert "1 overlap" in wide
    assert "other" in wide
    assert "overlap" not in narrow
    for figure in ("0.75", "-0.75", "000001-abc", "not_chosen", "waiting"):
        assert figure in narrow, "a narrow terminal shows every figure whole"
