"""Hack and patch at admission: every branch of METHOD 5 on models whose scores are steered to the percent.

Rubrics here hold criteria "States figure NN" worth 100 points in all; an answer meets those whose words it
holds. The farmer and the honest answer of the k-th probe earn the k-th pair of percentages.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from programs import Roles
from programs.admission import rewritten
from rri.evidence import Admission
from rri.testing import ChatRequest, Fault, ScriptedServer, status
from rri.types import Labels, Message, Reference, Rubric, Task
from tests.programs.test_probe import TASK as BARE
from tests.programs.test_probe import answer, judge
from tests.rigs import open_test_gateway, scripted_config

CRITERIA = BARE.rubric.criteria
TASK = Task(
    task_id="000007-abc",
    conversation=(Message(role="user", content="Task one."),),
    rubric=BARE.rubric,
    references=(Reference(id="r1", title="Secret title", text="Secret text", source="Secret source"),),
    labels=Labels(use_case="explain", specialty="Secret specialty", difficulty="advanced"),
)
FAILED = status(400)

Part = int | str | Fault
"""What an answer is to be: a percentage to earn, its own text, or a fault."""


def rewrite_reply(task: str, criteria: Sequence[tuple[str, int]] | None = None) -> str:
    pairs = criteria if criteria is not None else [(c.text, int(c.points)) for c in CRITERIA]
    return json.dumps(
        {
            "task": task,
            "criteria": [{"text": text, "points": points} for text, points in pairs],
            "exploit_fails": "It states nothing.",
            "honest_passes": "It states everything.",
        }
    )


@dataclass
class Outcome:
    """An admission with what the models were asked on the way."""

    admission: Admission
    server: ScriptedServer

    @property
    def counts(self) -> tuple[int, int]:
        """Probes and rewrites."""
        return self.server.count("farmer"), self.server.count("rewriter")


@contextmanager
def scripted(
    probes: Sequence[tuple[Part, Part]], rewrites: Sequence[str | Fault] | None = None, **sections: Any
) -> Iterator[tuple[Roles, ScriptedServer]]:
    def part(which: int) -> Callable[[ChatRequest], str | Fault]:
        def write(request: ChatRequest) -> str | Fault:
            wanted = probes[request.number][which]
            return answer(wanted, mark=f"{request.model} {request.number}. ") if isinstance(wanted, int) else wanted

        return write

    def rewrite(request: ChatRequest) -> str | Fault:
        return rewrites[request.number] if rewrites else rewrite_reply(f"Rewrite {request.number + 1}.")

    models = {"farmer": part(0), "honest": part(1), "judge": judge, "rewriter": rewrite}
    sections["admission"] = {"votes": 1, **sections.get("admission", {})}
    with ScriptedServer(models) as server:
        config = scripted_config(server.url, **sections)
        with open_test_gateway(config) as gateway:
            yield Roles.bind(config, gateway), server


def admit(
    probes: Sequence[tuple[Part, Part]],
    rewrites: Sequence[str | Fault] | None = None,
    task: Task = TASK,
    **sections: Any,
) -> Outcome:
    with scripted(probes, rewrites, **sections) as (roles, server):
        return Outcome(roles.grader.gateway.loop.run(roles.admitter().admit(task)), server)


def rewrite_outcomes(admission: Admission) -> list[str]:
    return [r.outcome for r in admission.rewrites]


# -- the first probe decides ---------------------------------------------------------


def test_a_passing_task_is_admitted_as_it_is() -> None:
    out = admit([(40, 60)])
    assert out.admission.outcome == "passed"
    assert out.admission.task == out.admission.original == TASK
    assert out.admission.delta_before == out.admission.delta_after == pytest.approx(-0.20)
    assert out.counts == (1, 0)


def test_admission_switched_off_asks_no_model() -> None:
    out = admit([], admission={"enabled": False}, memo={"enabled": False})
    assert (out.admission.outcome, out.admission.task, out.admission.probe) == ("not_probed", TASK, None)
    assert out.server.total == 0


def test_without_repair_rounds_a_beaten_task_is_kept() -> None:
    out = admit([(60, 60)], admission={"rounds": 0})
    assert (out.admission.outcome, out.admission.task) == ("kept", TASK)
    assert out.counts == (1, 0)


def test_a_first_probe_without_effect_admits_the_task_unmeasured_without_another() -> None:
    out = admit([(0, 60)])
    assert (out.admission.outcome, out.admission.task) == ("discarded", TASK)
    assert (out.admission.delta_before, out.admission.delta_after) == (None, None)
    assert "scored nothing" in out.admission.why
    assert out.admission.probe is not None and out.admission.probe.exploit_grade is not None
    assert out.counts == (1, 0)


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        ((FAILED, 60), "no farmer answer"),
        ((60, FAILED), "no honest answer"),
        (("short", 60), "the exploit has 5 characters"),
        ((60, "short"), "the honest answer has 5 characters"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_a_first_probe_without_a_measurement_admits_the_task_unchanged(probe: tuple[Part, Part], why: str) -> None:
    out = admit([probe])
    assert (out.admission.outcome, out.admission.task) == ("unmeasured", TASK)
    assert (out.admission.delta_before, out.admission.delta_after) == (None, None)
    assert why in out.admission.why
    assert out.counts == (1, 0)


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        ((41, 60), "exploitable"),
        ((5, 14), "unsatisfiable, exploitable"),
        ((70, 93), "saturated"),
        ((90, 93), "saturated, exploitable"),
    ],
)
def test_every_reason_leads_to_repair_and_is_kept(probe: tuple[Part, Part], why: str) -> None:
    out = admit([probe, (10, 60)])
    assert out.admission.why == why
    assert out.server.count("rewriter") >= 1


# -- accepted rewrites ------------------------------------------------------------------


def test_a_rewrite_that_passes_repairs_the_task_in_one_round() -> None:
    out = admit([(60, 50), (20, 60)])
    admission = out.admission
    assert (admission.outcome, rewrite_outcomes(admission)) == ("repaired", ["accepted"])
    assert admission.original == TASK
    assert (admission.task.task_id, admission.task.version) == (TASK.task_id, 2)
    assert admission.task.request == "Rewrite 1."
    assert admission.delta_before == pytest.approx(0.10)
    assert admission.delta_after == pytest.approx(-0.40)
    assert out.counts == (2, 1), "no second round once a probe passes"


def test_an_accepted_rewrite_that_is_still_beaten_is_rewritten_on_its_own_exploit() -> None:
    out = admit([(80, 50), (60, 50), (20, 50)])
    admission = out.admission
    assert (admission.outcome, rewrite_outcomes(admission)) == ("repaired", ["accepted", "accepted"])
    assert (admission.task.version, admission.task.request) == (3, "Rewrite 2.")
    assert admission.delta_before == pytest.approx(0.30)
    assert admission.delta_after == pytest.approx(-0.30)
    first, second = out.server.of("rewriter")
    fresh = admission.rewrites[0].probes[-1]
    assert (second.block("exploit"), second.block("honest")) == (fresh.exploit, fresh.honest)
    assert fresh.exploit.startswith("farmer 1.") and first.block("exploit").startswith("farmer 0.")
    assert json.loads(second.block("conversation"))[-1]["content"] == "Rewrite 1."


def test_a_second_rewrite_is_measured_against_the_version_it_rewrote() -> None:
    """0.50 -> 0.30 is accepted, and 0.16 is only 0.14 below that, though 0.34 below the original."""
    out = admit([(90, 40), (70, 40), (56, 40)])
    assert rewrite_outcomes(out.admission) == ["accepted", "rejected"]
    assert (out.admission.outcome, out.admission.task.request) == ("repaired", "Rewrite 1.")
    assert out.admission.delta_after == pytest.approx(0.30)


@pytest.mark.parametrize(("exploit", "accepted"), [(65, True), (66, False), (64, True)])
def test_a_drop_of_exactly_fifteen_hundredths_is_accepted(exploit: int, accepted: bool) -> None:
    out = admit([(80, 50), (exploit, 50)], admission={"rounds": 1})
    assert out.admission.outcome == ("repaired" if accepted else "best_drop")
    assert out.admission.rewrites[0].outcome == ("accepted" if accepted else "rejected")
    if not accepted:
        assert out.admission.rewrites[0].why == "delta fell by 0.14, less than 0.15"


@pytest.mark.parametrize("honest", range(20, 90, 10))
def test_the_edge_of_acceptance_holds_at_every_height(honest: int) -> None:
    out = admit([(honest + 5, honest), (honest - 10, honest)], admission={"rounds": 1})
    assert out.admission.outcome == "repaired"


@pytest.mark.parametrize(("honest", "accepted"), [(14, False), (15, True), (92, True), (93, False)])
def test_a_rewrite_counts_only_with_its_honest_answer_in_the_band(honest: int, accepted: bool) -> None:
    out = admit([(95, 50), (5, honest)], admission={"rounds": 1})
    assert out.admission.outcome == ("repaired" if accepted else "kept")
    if not accepted:
        assert f"the honest score 0.{honest} is outside [0.15, 0.92]" in out.admission.rewrites[0].why


def test_a_rejected_rewrite_leaves_the_second_round_to_the_original() -> None:
    out = admit([(60, 50), (55, 50), (20, 50)])
    assert rewrite_outcomes(out.admission) == ["rejected", "accepted"]
    assert (out.admission.task.version, out.admission.task.request) == (2, "Rewrite 2.")
    second = out.server.of("rewriter")[1]
    assert json.loads(second.block("conversation"))[-1]["content"] == "Task one."
    assert second.block("exploit").startswith("farmer 0.")


# -- the largest drop -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probes", "adopted"),
    [
        ([(80, 50), (70, 50), (75, 50)], "Rewrite 1."),
        ([(80, 50), (75, 50), (70, 50)], "Rewrite 2."),
        ([(80, 50), (90, 50), (79, 50)], "Rewrite 2."),  # the smallest positive drop
        ([(80, 50), (5, 14), (79, 50)], "Rewrite 2."),  # a larger drop, but nobody can satisfy it
        ([(80, 50), (70, 93), (79, 50)], "Rewrite 2."),  # a larger drop, but saturated
    ],
)
def test_without_an_accepted_rewrite_the_largest_drop_in_the_band_is_adopted(
    probes: list[tuple[Part, Part]], adopted: str
) -> None:
    out = admit(probes)
    admission = out.admission
    assert (admission.outcome, rewrite_outcomes(admission)) == ("best_drop", ["rejected", "rejected"])
    assert (admission.task.request, admission.task.version) == (adopted, 2)
    chosen = next(r for r in admission.rewrites if r.task == admission.task)
    assert admission.delta_after == chosen.probes[-1].delta
    assert admission.delta_before is not None and admission.delta_after is not None
    assert admission.delta_after < admission.delta_before


@pytest.mark.parametrize(
    "probes",
    [
        [(80, 50), (80, 50), (80, 50)],  # no drop
        [(80, 50), (90, 50), (81, 50)],  # worse
        [(80, 50), (5, 14), (70, 93)],  # drops outside the band
        [(80, 60), (60, 40), (60, 40)],  # no drop, though the rounded differences differ: 0.8 - 0.6 > 0.6 - 0.4
    ],
    ids=["equal", "worse", "out-of-band", "equal-but-for-rounding"],
)
def test_without_a_drop_in_the_band_the_task_is_kept(probes: list[tuple[Part, Part]]) -> None:
    out = admit(probes)
    assert (out.admission.outcome, out.admission.task) == ("kept", TASK)
    assert out.admission.delta_after == out.admission.delta_before
    assert out.counts == (3, 2)


def test_a_passing_rewrite_ends_the_repair_even_below_the_bar() -> None:
    out = admit([(40, 55), (35, 60)])
    assert (out.admission.outcome, rewrite_outcomes(out.admission)) == ("best_drop", ["rejected"])
    assert out.admission.task.request == "Rewrite 1."
    assert out.counts == (2, 1)


# -- fresh probes without effect ---------------------------------------------------------------


def test_a_fresh_probe_without_effect_is_tried_exactly_once_more() -> None:
    out = admit([(60, 50), (0, 50), (20, 50)])
    record = out.admission.rewrites[0]
    assert (out.admission.outcome, record.outcome) == ("repaired", "accepted")
    assert [p.status for p in record.probes] == ["discarded", "measured"]
    assert record.probes[0].exploit != record.probes[1].exploit, "the second attack is a fresh one"
    assert out.counts == (3, 1)


def test_two_fresh_probes_without_effect_count_as_unmeasured_and_both_are_kept() -> None:
    out = admit([(60, 50), (0, 50), (0, 50), (0, 50), (0, 50)])
    assert (out.admission.outcome, rewrite_outcomes(out.admission)) == ("kept", ["rejected", "rejected"])
    for record in out.admission.rewrites:
        assert [p.status for p in record.probes] == ["discarded", "discarded"]
        assert record.why.startswith("not measured: the adversary scored nothing")
        assert record.task is not None
    assert out.counts == (5, 2)


@pytest.mark.parametrize("fresh", [(FAILED, 50), (50, FAILED), ("short", 50)], ids=["farmer", "honest", "short"])
def test_an_unmeasured_fresh_probe_is_not_tried_again(fresh: tuple[Part, Part]) -> None:
    out = admit([(60, 50), fresh, (20, 50)])
    assert rewrite_outcomes(out.admission) == ["rejected", "accepted"]
    assert out.admission.rewrites[0].why.startswith("not measured: ")
    assert out.counts == (3, 2)


# -- rewrites that cannot be used -----------------------------------------------------------------


def test_a_rewrite_that_breaks_the_rules_is_asked_for_again_with_the_reasons() -> None:
    broken = rewrite_reply("Broken.", [(f"Names value {i}", 8) for i in range(11)])
    out = admit([(60, 50), (20, 50)], [broken, rewrite_reply("Mended.")])
    first, second = out.server.of("rewriter")
    assert first.block("problems") == ""
    assert json.loads(second.block("problems")) == [
        "the rewrite has 11 criteria, the version before it 12; keep at least as many"
    ]
    assert (out.admission.outcome, out.admission.task.request) == ("repaired", "Mended.")
    assert out.counts == (2, 2)


def test_rewrites_that_keep_breaking_the_rules_are_asked_for_twice_a_round_and_never_probed() -> None:
    broken = rewrite_reply("Broken.", [(f"Names value {i}", 8) for i in range(11)])
    out = admit([(60, 50)], [broken] * 4)
    assert (out.admission.outcome, rewrite_outcomes(out.admission)) == ("kept", ["unusable", "unusable"])
    assert out.counts == (1, 4)
    assert [r.block("problems") != "" for r in out.server.of("rewriter")] == [False, True, False, True]
    for record in out.admission.rewrites:
        assert (record.task, record.probes) == (None, ())
        assert "breaks the rules" in record.why and "11 criteria" in record.why


def test_a_rewriter_that_fails_costs_its_round_and_says_why() -> None:
    out = admit([(60, 50), (20, 50)], [FAILED, rewrite_reply("Second round.")])
    assert rewrite_outcomes(out.admission) == ["failed", "accepted"]
    assert "no rewrite" in out.admission.failure
    assert out.admission.rewrites[0].why.startswith("no rewrite: role rewriter: ")
    assert out.admission.task.version == 2


def test_an_empty_task_is_no_rewrite() -> None:
    out = admit([(60, 50), (20, 50)], [rewrite_reply("  "), rewrite_reply("Mended.")])
    assert "the task is empty" in json.loads(out.server.of("rewriter")[1].block("problems"))
    assert out.admission.task.request == "Mended."


def test_a_rewrite_is_salvaged_before_its_fresh_probe() -> None:
    """Small points are clamped to 5 and growth is trimmed to four, and the farmer attacks what was mended."""
    task = TASK.model_copy(update={"rubric": Rubric(criteria=CRITERIA[:2])})
    words = [(c.text, 1) for c in CRITERIA[:7]] + [("Claims that the rule was repealed", -2)]
    most = ". ".join(c.text for c in CRITERIA[:5]).ljust(300, ".")
    out = admit([(most, most), (CRITERIA[0].text.ljust(300, "."), most)], [rewrite_reply("Wide.", words)], task)
    adopted = out.admission.rewrites[0].task
    assert adopted is not None
    assert [c.points for c in adopted.rubric.criteria] == [5] * 6
    attacked = json.loads(out.server.of("farmer")[1].block("rubric"))
    assert attacked == [c.model_dump() for c in adopted.rubric.criteria]
    assert out.server.count("rewriter") == 1, "what can be mended is not sent back"


# -- versions and identity ----------------------------------------------------------------------------


def test_a_rewrite_replaces_the_last_user_message_and_the_rubric_and_keeps_the_rest() -> None:
    conversation = (
        Message(role="system", content="Be brief."),
        Message(role="user", content="First."),
        Message(role="assistant", content="Reply."),
        Message(role="user", content="Second."),
        Message(role="assistant", content="A start"),
    )
    before = TASK.model_copy(update={"conversation": conversation, "version": 4})
    rubric = Rubric(criteria=CRITERIA[:3])
    after = rewritten(before, "New.", rubric)
    assert [m.content for m in after.conversation] == ["Be brief.", "First.", "Reply.", "New.", "A start"]
    assert after.version == 5
    assert after.rubric == rubric
    same = {"task_id", "references", "labels", "schema_version"}
    assert after.model_dump(include=same) == before.model_dump(include=same)
    assert before.version == 4, "the version before is untouched"


def test_the_version_counts_from_the_one_that_came_in() -> None:
    out = admit([(80, 50), (60, 50), (20, 50)], task=TASK.model_copy(update={"version": 6}))
    assert (out.admission.original.version, out.admission.task.version) == (6, 8)
    assert [r.task.version for r in out.admission.rewrites if r.task] == [7, 8]
