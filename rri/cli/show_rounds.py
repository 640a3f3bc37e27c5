"""`rri show DIR --rounds` and `--round CYCLE`: what the loop did after each finished cycle (METHOD 7)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from rri.cases import GuidanceVersion, MemoVersion
from rri.cli.console import counted, cut, plain_table, readable_time
from rri.cli.show_diff import coloured, diff_units, text_units
from rri.config import RunConfig
from rri.errors import InputError
from rri.rundir import RunDir
from rri.store import RoundRow, Store

__all__ = ["ROUNDS", "RoundShown", "WorkedCycle", "print_round", "print_rounds", "round_of", "worked_cycles"]

ROUNDS = "rounds"
"""Folder of the run directory with one folder for each evolution round."""
KINDS = ("cases", "patches", "evolution", "cycle")
CYCLE, DIAGNOSIS = 76, 56
"""Columns that the figures of a cycle and of a diagnosis take."""


@dataclass(frozen=True, slots=True)
class WorkedCycle:
    """A reported cycle and the loop's rounds on it, in order. One that is still open has no `cycle` round."""

    report: int
    cycle: int
    rounds: tuple[RoundRow, ...]

    @property
    def done(self) -> bool:
        return any(row.kind == "cycle" for row in self.rounds)

    def data(self, kind: str) -> Mapping[str, Any]:
        """What the round of a kind left; empty where it failed or never was."""
        return next((row.data for row in self.rounds if row.kind == kind and row.outcome == "done"), {})

    @property
    def errors(self) -> list[str]:
        return [f"{row.kind}: {row.data.get('error', '')}" for row in self.rounds if row.outcome == "failed"]


def worked_cycles(store: Store) -> list[WorkedCycle]:
    """Every cycle that was reported, oldest first. A resumed trainer reports its cycles anew."""
    found: dict[int, list[RoundRow]] = {report.id: [] for report in store.open_reports()}
    cycles = {report.id: report.cycle for report in store.open_reports()}
    for kind in KINDS:
        for row in store.rounds(kind):
            found.setdefault(row.report, []).append(row)
            cycles[row.report] = row.cycle
    return [WorkedCycle(report, cycles[report], tuple(rows)) for report, rows in sorted(found.items())]


def print_rounds(console: Console, cycles: list[WorkedCycle], config: RunConfig) -> None:
    """A row a cycle, or why there is none."""
    if not cycles:
        console.print(Text(_why_none(config)))
        return
    left = max(10, console.width - CYCLE)
    figures = ("cycle", "groups", "cases", "chosen", "patched", "guidance", "memo", "time")
    table = plain_table("the loop's work after each cycle", (), figures, ("note",))
    for done in cycles:
        cases, patches, evolution = (done.data(kind) for kind in ("cases", "patches", "evolution"))
        seconds = sum(row.seconds for row in done.rounds if row.kind == "cycle")
        table.add_row(
            str(done.cycle),
            *(_count(cases, key) for key in ("groups", "cases", "chosen")),
            _count(patches, "patched", missing="0" if patches or done.data("patches") else "-"),
            *(_put(evolution, key) for key in ("guidance", "memo")),
            readable_time(seconds) if done.done else "open",
            cut("; ".join(done.errors) or _note(patches, evolution), left),
        )
    console.print(table)


def _count(data: Mapping[str, Any], key: str, missing: str = "-") -> str:
    return str(data.get(key, missing))


def _put(evolution: Mapping[str, Any], key: str) -> str:
    """The version that a round put into force: none is `kept`, no round is `-`."""
    if not evolution:
        return "-"
    return "kept" if evolution.get(key) is None else str(evolution[key])


def _note(patches: Mapping[str, Any], evolution: Mapping[str, Any]) -> str:
    others = counted({outcome: n for outcome, n in patches.items() if outcome != "patched"}, "")
    why = [str(evolution[key]) for key in ("why", "memo_error") if evolution.get(key)]
    return "; ".join(filter(None, [others, *why]))


def _why_none(config: RunConfig) -> str:
    if not config.solver.cycles:
        return "no round: solver.cycles is 0, so nothing is trained and no cycle ends"
    every = f"; the first evolution round ends cycle {config.evolution.every_cycles - 1}"
    return "no round yet: the trainer has reported no finished cycle" + (every if config.evolution.enabled else "")


# -- one round ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RoundShown:
    """An evolution round. `after` and `memo_after` are what it put into force, None where the one before stayed.

    `kept` holds what lies in its folder as JSON: counts and diagnoses, decision, memo's decision. A file that is not
    there is left out.
    """

    cycle: int
    rounds: tuple[RoundRow, ...]
    before: GuidanceVersion
    after: GuidanceVersion | None
    memo_before: MemoVersion
    memo_after: MemoVersion | None
    kept: dict[str, Any]
    folder: str


FILES = {"diagnoses": "diagnoses.json", "decision": "decision.json", "memo": "memo-decision.json"}


def round_of(store: Store, folder: RunDir, config: RunConfig, cycle: int) -> RoundShown:
    """The evolution round at the end of `cycle`.

    Raises:
        InputError: no round ended it; those that are there are named.
    """
    rows = store.rounds("evolution")
    found = tuple(row for row in rows if row.cycle == cycle)
    if not found:
        raise InputError(f"no evolution round ended cycle {cycle}", _rounds_there(rows, config))
    guidance, memos = store.guidance_versions(), store.memo_versions()
    path = folder.path / ROUNDS / f"cycle-{cycle:05}"
    return RoundShown(
        cycle=cycle,
        rounds=found,
        before=[v for v in guidance if v.cycle < cycle][-1],
        after=next((v for v in guidance if v.cycle == cycle), None),
        memo_before=[v for v in memos if v.cycle < cycle][-1],
        memo_after=next((v for v in memos if v.cycle == cycle), None),
        kept={name: data for name, file in FILES.items() if (data := _json(path / file)) is not None},
        folder=str(path),
    )


def _rounds_there(rows: list[RoundRow], config: RunConfig) -> str:
    if not config.evolution.enabled:
        return "evolution.enabled is false in this run"
    cycles = sorted({row.cycle for row in rows})
    if cycles:
        return f"Rounds ended cycles {', '.join(map(str, cycles))}"
    every = config.evolution.every_cycles
    return f"There was none yet; one ends every {every} cycles, the first one cycle {every - 1}"


def _json(path: Path) -> Any:
    """Content of a file; None where it is missing, for a folder may be cleared away."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}", "Restore it, or remove it") from None


def print_round(console: Console, shown: RoundShown) -> None:
    """Diagnoses, the decision, the change of guidance and of memo, and where the rest lies."""
    console.print(Rule(Text(f"evolution round of cycle {shown.cycle}")))
    for row in shown.rounds:
        error = f": {row.data['error']}" if row.outcome == "failed" else ""
        console.print(Text(f"{row.outcome} in {readable_time(row.seconds)}{error}"))
    _print_diagnoses(console, shown)
    data = next((row.data for row in shown.rounds if row.outcome == "done"), {})
    _print_guidance(console, shown, str(data.get("why", "")))
    _print_memo(console, shown, data)
    if shown.kept:
        console.print(Text(f"\nprompts, statistics and evidence: {shown.folder}"))
    else:
        console.print(Text(f"\nits folder is gone: {shown.folder}", style="yellow"))


def _print_diagnoses(console: Console, shown: RoundShown) -> None:
    found = shown.kept.get("diagnoses")
    if not found:
        return
    counts = found["counts"]
    console.print(Text(f"\ndiagnoses: {counts['cases']} cases, {counts['failed']} failed", style="bold"))
    for name in ("verdicts", "failure_modes", "rubric_defects", "task_defects", "side_defects"):
        if counts[name]:
            console.print(Text(f"  {name.replace('_', ' ')}: {counted(counts[name])}"))
    table = plain_table("", ("task", "verdict"), ("score",), ("found",))
    for case in found["cases"]:
        named = [case[key] for key in ("failure_mode", "rubric_defect", "task_defect")]
        what = [name for name in named if name and name != "none"]
        said = case["gap"] or case["failed"]
        table.add_row(
            case["task_id"],
            case["verdict"] or "failed",
            f"{case['score']:.2f}",
            cut(": ".join(filter(None, (", ".join(what), said))), max(10, console.width - DIAGNOSIS)),
        )
    console.print(table)


def _print_guidance(console: Console, shown: RoundShown, why: str) -> None:
    before, after = shown.before, shown.after
    went = f"{before.version} -> {after.version}" if after else f"{before.version} stays"
    console.print(Text(f"\nguidance {went}" + (f": {after.summary if after else why}"), style="bold"))
    for name in ("guidance_a", "guidance_b"):
        if after is not None:
            console.print(Text(name, style="underline"))
            lines = diff_units(text_units(getattr(before, name)), text_units(getattr(after, name)))
            console.print(coloured(lines))
    for rejected in shown.kept.get("decision", {}).get("rejected", []):
        console.print(Text(f"rejected: {'; '.join(rejected['problems'])}", style="yellow"))


def _print_memo(console: Console, shown: RoundShown, data: Mapping[str, Any]) -> None:
    before, after, decision = shown.memo_before, shown.memo_after, data.get("memo_decision")
    why = f"{decision['action']}, {decision['why']}" if decision else str(data.get("memo_error", ""))
    if not why:
        return
    went = f"{before.version} -> {after.version}" if after else f"{before.version} stays"
    console.print(Text(f"\nmemo {went}: {why}", style="bold"))
    kept = shown.kept.get("memo", {})
    if after is None and kept.get("why") and kept["why"] not in why:
        console.print(Text(kept["why"]))
    if after is not None:
        console.print(Text(after.summary))
        console.print(coloured(diff_units(text_units(before.memo), text_units(after.memo))))
    for rejected in kept.get("rejected", []):
        console.print(Text(f"rejected: {'; '.join(rejected['problems'])}", style="yellow"))
