"""What the recursive loop has done, for the screen of `rri show` (METHOD 7)."""

from collections.abc import Iterator, Mapping
from typing import Any

from rri.cli.console import counted, share
from rri.config import RunConfig
from rri.memo_score import MemoObservations, MemoScore, score_versions
from rri.shape import plan_shape
from rri.store import Store

__all__ = ["loop_lines", "loop_of", "memo_scores"]


def memo_scores(store: Store, config: RunConfig) -> dict[int, MemoScore]:
    """Memo version -> its figures over the first probes of the tasks written under it."""
    observed = [
        MemoObservations(version=version, deltas=tuple(deltas), honests=tuple(honests))
        for version, (deltas, honests) in store.probes_by_memo().items()
    ]
    return {score.version: score for score in score_versions(observed, config.memo)}


def loop_of(store: Store, config: RunConfig) -> dict[str, Any]:
    """The loop's figures as JSON-able data; texts in force are None where the run was never started."""
    guidance, memo = store.guidance_versions(), store.memo_versions()
    failures = [message for _, message, _ in store.events("loop_failed")]
    outages = [message for _, message, _ in store.events("endpoint") if "answers again" not in message]
    evicted = {(row.task_id, row.version) for row in store.evictions()}
    cases = store.case_rows()
    return {
        "enabled": {
            name: getattr(config, name).enabled for name in ("admission", "exploits", "patches", "evolution", "memo")
        },
        "guidance": _in_force(guidance[-1].version, guidance[-1].cycle, guidance[-1].summary) if guidance else None,
        "memo": _in_force(memo[-1].version, memo[-1].cycle, memo[-1].summary) if memo else None,
        "memo_score": _g(memo_scores(store, config), memo[-1].version) if memo else None,
        "evolutions": sum(row.outcome == "done" for row in store.rounds("evolution")),
        "cases": len(cases),
        "chosen": sum(case.chosen for case in cases),
        **store.loop_figures(),
        "backlog": len(store.open_reports()),
        "failures": len(failures),
        "last_error": failures[-1] if failures else "",
        "outages": len(outages),
        "last_outage": outages[-1] if outages else "",
        "shape": _shape(store, config),
        "evictions": len(evicted),
        "out_now": sum(entry in evicted for entry in store.servable()),
    }


def _in_force(version: int, cycle: int, summary: str) -> dict[str, Any]:
    return {"version": version, "cycle": cycle, "summary": summary}


def _g(scores: Mapping[int, MemoScore], version: int) -> float | None:
    return scores[version].score if version in scores else None


def _shape(store: Store, config: RunConfig) -> dict[str, Any]:
    """The shape controls as they stand after the tasks written so far."""
    settings = config.generation
    rows, earlier = store.origins(settings.shape.rows_needed)
    plan = plan_shape(rows, settings.positives, settings.negative_share, settings.shape, earlier=earlier)
    return {"saturated": list(plan.saturated), "warnings": list(plan.warnings)}


def loop_lines(loop: Mapping[str, Any]) -> Iterator[str]:
    """One fact a line; what is switched off, or never happened, takes no line of its own."""
    on = loop["enabled"]
    off = [name for name, enabled in on.items() if not enabled]
    if off:
        yield f"off in this run: {', '.join(off)}"
    if loop["guidance"] is not None:
        yield f"in force: guidance {_text(loop['guidance'])}, memo {_text(loop['memo'], loop['memo_score'])}"
    if on["exploits"]:
        yield _cases(loop)
    if on["patches"] and loop["cases"]:
        yield f"repair: {loop['chosen']} cases chosen; {counted(loop['patches'])}; {loop['accepted']} criteria accepted"
    if pairs := loop["preference"]["pairs"]:
        longer, earlier = (share(loop["preference"][side], pairs) for side in ("longer", "earlier"))
        yield f"referee: of {pairs} decisive pairs the longer answer won {longer}, the one shown earlier {earlier}"
    if loop["evictions"]:
        yield f"evictions from the difficulty band: {loop['evictions']}; {loop['out_now']} tasks are out now"
    yield from _troubles(loop)


def _text(made: Mapping[str, Any], score: float | None = None) -> str:
    notes = [f"since cycle {made['cycle'] + 1}"] if made["cycle"] >= 0 else ["the first"]
    notes += [f"g {score:+.2f}"] if score is not None else []
    return f"{made['version']} ({', '.join(notes)})"


def _cases(loop: Mapping[str, Any]) -> str:
    groups = sum(loop["rankings"].values())
    if not groups:
        return "exploit cases: none yet; no group was ranked so far"
    others = {outcome: n for outcome, n in loop["rankings"].items() if outcome != "case"}
    return f"exploit cases: {loop['cases']} in {groups} groups" + (f" ({counted(others)})" if others else "")


def _troubles(loop: Mapping[str, Any]) -> Iterator[str]:
    if loop["backlog"]:
        yield f"finished cycles that wait for the loop: {loop['backlog']}"
    if loop["failures"]:
        yield f"failed rounds of the loop: {loop['failures']}; the last one: {loop['last_error']}"
    if loop["outages"]:
        yield f"endpoint outages: {loop['outages']}; the last one: {loop['last_outage']}"
    if loop["shape"]["saturated"]:
        said = "; ".join(loop["shape"]["warnings"]) or "the target is still reached"
        yield f"shape controls at their end: {', '.join(loop['shape']['saturated'])}; {said}"
