"""The shape of tasks as the real producer writes them, on generators that deliver less than asked (METHOD 4.4)."""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rri.shape import ShapeRow
from rri.testing import ChatRequest
from tests.rri.service.producing import producing

OFF = {name: {"enabled": False} for name in ("admission", "exploits", "patches", "evolution", "memo")}
SETTLED = 400
"""Tasks after which the controllers have seen a whole window."""


@dataclass
class Stingy:
    """A generator that delivers this share of what it was asked for, positives and negatives each, evenly spread."""

    share: float
    asked: int = 0
    delivered: int = 0
    asked_negatives: int = 0
    negatives: int = 0

    def write(self, request: ChatRequest) -> str:
        self.asked += int(request.block("positives"))
        positives = max(1, int(self.asked * self.share) - self.delivered)
        self.delivered += positives
        number = request.number
        criteria: list[dict[str, Any]] = [
            {"text": f"Mentions topic {i} of case {number}", "points": 8} for i in range(positives)
        ]
        if request.block("negative") == "true":
            self.asked_negatives += 1
            if int(self.asked_negatives * self.share) > self.negatives:
                self.negatives += 1
                criteria.append({"text": f"Claims that case {number} was dropped", "points": -6})
        return json.dumps({"task": f"Case {number}.", "criteria": criteria, "specialty": "rules", "level": "basic"})


def written(folder: Path, share: float, tasks: int) -> tuple[list[ShapeRow], Any]:
    """What was asked and delivered, task by task, and the last plan."""
    generation = {"tasks": tasks, "concurrency": 16, "requests_per_call": 12, "recent_requests": 0}
    pool = {"ahead": tasks, "evict": True}
    sections: dict[str, Any] = {**OFF, "generation": generation, "pool": pool}
    with producing(folder, {"generator": Stingy(share).write}, **sections) as shop:
        shop.run()
        assert shop.producer.admitted == tasks
        return shop.store.origins(tasks)[0], shop.producer.plan


def test_9_three_quarters_of_what_is_asked_are_enough_for_both_targets(tmp_path: Path) -> None:
    rows, plan = written(tmp_path, 0.78, 950)
    settled = rows[SETTLED:]
    negatives = fmean(row.negatives > 0 for row in settled)
    assert abs(negatives - 0.75) < 0.05
    assert abs(fmean(row.positives + row.negatives for row in settled) - 3.75) < 0.05
    early = rows[:80]
    assert fmean(row.negatives > 0 for row in early) < 0.65, "before the warm-up nothing is corrected"
    assert plan.warnings == ()


def test_9_a_worse_generator_saturates_the_controllers_which_say_so(tmp_path: Path) -> None:
    rows, plan = written(tmp_path, 0.5, 480)
    assert plan.saturated == ("negatives", "positives")
    assert [warning.split(":")[0] for warning in plan.warnings] == ["negatives", "positives"]
    latest = rows[-100:]
    assert all(row.asked_negative and row.asked_positives == 4 for row in latest), "more cannot be asked for"
