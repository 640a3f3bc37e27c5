"""The repair report beside the paper's figures."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from eval.repair_report import Measure, RepairReport, repair_report
from rri.cli.show_repair import WORDS, print_repair
from tests.rigs import scripted_config
from tests.rri.cli.looped import Looped
from tests.rri.cli.made import made_run, page

CONFIG = scripted_config("http://127.0.0.1:1/v1")
NOTHING = RepairReport(**{f.name: Measure(None, 0) for f in fields(RepairReport)})


def row(text: str, name: str) -> list[str]:
    """What stands behind the words of a figure: this run's, over how many of what, the paper's."""
    words = WORDS[name][0]
    line = next(line for line in text.splitlines() if line.strip().startswith(words))
    return line.split(words)[1].split()


def test_a_runs_figures_stand_beside_the_papers(looped: Looped) -> None:
    report = repair_report(looped.run.store, looped.run.config.admission.margin)
    text = page(lambda console: print_repair(console, report, looped.run.config))
    accepted = looped.run.stats()["loop"]["accepted"]
    assert row(text, "positive_share") == ["100%", str(accepted), "criteria", "81%"]
    assert row(text, "new_exploit")[1:] == [str(report.new_exploit.n), "attacks", "84%"]
    assert row(text, "delta_before")[1:] == ["6", "tasks", "+0.43"]
    assert row(text, "reward_after")[3] == "0.55"
    assert "nothing to say" not in text
    assert report.delta_before.value == pytest.approx(looped.run.stats()["admission"]["delta_before"])
    assert report.delta_after.value == pytest.approx(looped.run.stats()["admission"]["delta_after"])


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0%"), (0.001, "0.1%"), (0.0099, "1.0%"), (0.01, "1%"), (0.33, "33%"), (1.0, "100%")]
)
def test_a_small_share_is_not_rounded_to_nothing(value: float, shown: str) -> None:
    report = replace(NOTHING, honest_leads_before=Measure(value, 1000))
    assert row(page(lambda console: print_repair(console, report, CONFIG)), "honest_leads_before")[0] == shown


def test_a_figure_without_a_measurement_is_a_dash_and_its_part_says_why(tmp_path: Path) -> None:
    with made_run(tmp_path) as (store, _, config):
        text = page(lambda console: print_repair(console, repair_report(store), config), width=80)
    assert row(text, "margin") == ["-", "0", "cases", "0.40"]
    assert "no adopted rewrite of a beaten task yet" in text
    assert "no criterion was accepted yet" in text
    patched = replace(NOTHING, positive_share=Measure(1.0, 3))
    assert "no patched task was graded under both" in page(lambda console: print_repair(console, patched, CONFIG))
