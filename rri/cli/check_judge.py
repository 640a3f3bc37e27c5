"""`rri check-judge`: whether a judge is usable, and for what, before money is spent on it."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.agreement import Estimate
from eval.judge_check import JudgeCheck, JudgeReport, Judging, Step, judge_alone, judge_report
from eval.labelled import LabelledFile, draw, read_labelled
from eval.length_bias import LengthBias
from eval.usability import Thresholds, missing_labels
from rri.cli.console import ProgressLine, progress_line, readable_time
from rri.config import RunConfig, Sources, load_config
from rri.errors import Interrupted
from rri.lm import Gateway, Totals, check_endpoints, open_gateway

__all__ = ["check_judge_command"]

STEP = Step()
STYLES = {"training": "green", "reports": "yellow", "nothing": "red", "unclear": "yellow"}


def check_judge_command(
    path: Path,
    source: Sources,
    overrides: Mapping[str, Any],
    *,
    strict: bool,
    limit: int | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Judge labelled verdicts and say what the judge may be used for; exit code 0 for training, 10 for less.

    Raises:
        InputError: the file is wrong; no model was called then.
        BudgetExhausted, ModelError, Interrupted: it ended early. The figures until then were printed.
    """
    file = read_labelled(path)
    config = judge_alone(load_config(source, overrides))
    judging = Judging(draw(file.items, limit, config.seed))
    with progress_line(quiet=quiet or as_json) as line:
        met = sum(item.met for item in judging.items)
        if missing := missing_labels(met, len(judging.items) - met):
            line.say(f"too little to tell whatever the judge says: {', '.join(missing)} needed")
        gateway = open_gateway(config, progress=line.say)
        judge = {**gateway.routes["judge"].as_manifest(), "votes": config.grading.votes, "strict": strict}
        try:
            spent, seconds = _judge(gateway, config, judging, strict, line)
        finally:
            gateway.close_sync()
    if judging.stopped is not None and not judging.verdicts:
        raise judging.stopped
    report = judge_report(judging, spent, seconds, config)
    if as_json:
        sys.stdout.write(json.dumps(_as_data(path, file, judge, judging, report, config)) + "\n")
    else:
        _show(Console(), file, judge, judging, report, config)
    if judging.stopped is not None:
        raise judging.stopped
    return 0 if report.usability.use == "training" else 10


def _judge(
    gateway: Gateway, config: RunConfig, judging: Judging, strict: bool, line: ProgressLine
) -> tuple[Totals, float]:
    """Cast the votes; what they cost and the seconds that passed."""
    line.update("asking the judge's endpoint")
    gateway.loop.run(check_endpoints(gateway, ("judge",)))
    before, started = gateway.ledger.total(), time.monotonic()
    check = JudgeCheck(gateway, config.grading, strict=strict)
    try:
        gateway.loop.run(check.run(judging, _teller(gateway, judging, line)))
    except KeyboardInterrupt:
        judging.stopped = Interrupted("interrupted", "The figures are of what was judged until then")
    after = gateway.ledger.total()
    spent = Totals(**{f.name: getattr(after, f.name) - getattr(before, f.name) for f in fields(Totals)})
    return spent, time.monotonic() - started


def _teller(gateway: Gateway, judging: Judging, line: ProgressLine) -> Callable[[], None]:
    started = time.monotonic()

    def tell() -> None:
        done, total, elapsed = len(judging.verdicts), len(judging.items), time.monotonic() - started
        spent = gateway.ledger.total()
        parts = [f"judged {done}/{total}" + (f" ({judging.unknown} unknown)" if judging.unknown else "")]
        parts.append(f"{spent.calls} calls, {(spent.tokens_in + spent.tokens_out) / 1000:.1f}k tokens")
        parts.append(f"{spent.money:.2f} money, {judging.votes / max(elapsed, 1e-9):.1f} votes/s")
        parts.append(f"{readable_time(elapsed)}, about {readable_time(elapsed / done * (total - done))} left")
        line.update(" | ".join(parts))

    return tell


def _as_data(
    path: Path,
    file: LabelledFile,
    judge: dict[str, Any],
    judging: Judging,
    report: JudgeReport,
    config: RunConfig,
) -> dict[str, Any]:
    return {
        "file": str(path),
        "lines": file.lines,
        "ties": file.ties,
        "items": len(file.items),
        "expert_disagreement": file.expert_disagreement,
        "asked": len(judging.items),
        "judged": len(judging.verdicts),
        "stopped": str(judging.stopped) if judging.stopped else "",
        "judge": judge,
        "protocol": "ours",
        **asdict(report),
        "step": {**asdict(STEP), **_step(report, config)},
        "words": report.usability.words,
        "thresholds": asdict(Thresholds()),
    }


def _step(report: JudgeReport, config: RunConfig) -> dict[str, float]:
    concurrency = config.endpoints[config.roles["judge"].endpoint].concurrency
    return report.cost.of_step(STEP, concurrency, report.flips.rate.value)


def _show(
    console: Console,
    file: LabelledFile,
    judge: dict[str, Any],
    judging: Judging,
    report: JudgeReport,
    config: RunConfig,
) -> None:
    """Figures, bias by length, cost, and the verdict last."""
    prompt = "the strict prompt of probes and patches" if judge["strict"] else "the training prompt"
    sampled = "" if judge["temperature"] is None else f", temperature {judge['temperature']:g}"
    console.print(Text(f"judge: {judge['model']} at {judge['url']}{sampled}, {judge['votes']} votes, {prompt}"))
    console.print(Text(_counts(file, judging)))
    console.print(_figures(report, judge["votes"]))
    if report.length.r is not None and report.length.thirds:
        console.print(_lengths(report.length))
    for line in (*_costs(report, config), *_failures(report)):
        console.print(Text(line))
    if judging.stopped is not None:
        console.print(Text("It ended early: the figures are of what was judged until then.", style="yellow"))
    usability = report.usability
    console.print(Text(usability.words, style=f"bold {STYLES[usability.use]}"))
    for shortfall in usability.shortfalls:
        console.print(Text(f"  not for {shortfall.purpose}: {shortfall.words}"))
    for missing in usability.missing:
        console.print(Text(f"  needed: {missing}"))


def _counts(file: LabelledFile, judging: Judging) -> str:
    parts = [f"{file.lines} lines, {len(file.items)} items"]
    if file.ties:
        parts.append(f"{file.ties} left out because their labels are split evenly")
    parts.append(f"{len(judging.verdicts)} judged")
    if file.expert_disagreement is not None:
        parts.append(f"experts' labels on one item differ in {file.expert_disagreement:.1%} of the pairs")
    return ", ".join(parts)


def _figures(report: JudgeReport, votes: int) -> Table:
    a, t, flips, length = report.agreement, Thresholds(), report.flips, report.length
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("value", "95% interval", "training", "reports"):
        table.add_column(name, no_wrap=True, justify="right")
    table.add_row("kappa", *_plain(a.kappa), f">= {t.kappa_training:g}", f">= {t.kappa_reports:g}")
    table.add_row("macro-F1", *_plain(a.macro_f1))
    table.add_row("accuracy", *_plain(a.accuracy))
    table.add_row("  always met / unmet", f"{_figure(a.always_met)} / {_figure(a.always_unmet)}")
    table.add_row(
        "judged minus labelled", *_percent(a.lean, "+"), f"+-{t.lean_training:.0%}", f"+-{t.lean_reports:.0%}"
    )
    table.add_row("unknown", *_percent(a.unknown), f"<= {t.unknown_training:.0%}", f"<= {t.unknown_reports:.0%}")
    table.add_row("flips, pairs of votes", *_percent(flips.rate))
    for n, left in report.left.items():
        limit = f"<= {t.flips_left_training:.0%}" if n == votes else ""
        even = report.left_if_even[n]
        table.add_row(f"  majority of {n} leaves", _share(left), "" if even is None else f"{even:.1%} if even", limit)
    p = "" if length.p is None else f"p {length.p:.3f}"
    limits = (f"+-{t.length_training:g}", f"+-{t.length_reports:g}")
    table.add_row("length (r)", _figure(length.r, "+"), p, *limits)
    table.caption = f"intervals draw {a.drawn}; even: were all items equally doubtful"
    table.caption_justify = "left"
    return table


def _lengths(length: LengthBias) -> Table:
    table = Table(title="met, by length of the answer", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in ("items", "characters", "labelled", "judged", "wrong met", "wrong unmet"):
        table.add_column(name, no_wrap=True, justify="right")
    for name, third in zip(("shortest", "middle", "longest"), length.thirds, strict=True):
        shares = (third.labelled_met, third.judged_met, third.wrong_met, third.wrong_unmet)
        table.add_row(name, str(third.items), f"{third.shortest}-{third.longest}", *map(_share, shares))
    return table


def _costs(report: JudgeReport, config: RunConfig) -> list[str]:
    c, step = report.cost, _step(report, config)
    verdicts, calls = max(c.verdicts, 1), max(c.calls, 1)
    name = config.roles["judge"].endpoint
    money, step_money = f"{c.money:.4f} money", f"{step['money']:.2f} money"
    if not c.priced:
        money = step_money = f"money not known (endpoints.{name} has no price)"
    shape = f"{STEP.tasks} x {STEP.rollouts} answers x {STEP.criteria} criteria x {STEP.votes} votes"
    lines = [
        f"cost: {c.calls:,} calls ({c.failed:,} failed), {c.tokens_in:,} tokens in, {c.tokens_out:,} out, {money}; "
        f"{c.call_seconds / calls:.3g} s a call, {c.wall_seconds / verdicts:.3g} s a verdict",
        f"one training step, {shape}: {step['calls']:,.0f} calls, {step['tokens_in']:,.0f} tokens in, "
        f"{step['tokens_out']:,.0f} out, {step_money}, {readable_time(step['hours'] * 3600)} at "
        f"{config.endpoints[name].concurrency} calls at once",
    ]
    if step["share_with_early_stop"] < 1:
        lines.append(f"  with early stop about {step['share_with_early_stop']:.0%} of that")
    return lines


def _failures(report: JudgeReport) -> list[str]:
    if not report.failed_votes:
        return []
    return [f"{report.failed_votes} votes failed, {report.reason_share:.0%} of them like this: {report.reason}"]


def _plain(estimate: Estimate) -> tuple[str, str]:
    if estimate.low is None or estimate.high is None:
        return _figure(estimate.value), ""
    return _figure(estimate.value), f"{estimate.low:.2f} to {estimate.high:.2f}"


def _percent(estimate: Estimate, sign: str = "") -> tuple[str, str]:
    if estimate.low is None or estimate.high is None:
        return _share(estimate.value, sign), ""
    return _share(estimate.value, sign), f"{estimate.low:{sign}.1%} to {estimate.high:{sign}.1%}"


def _figure(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.2f}"


def _share(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.1%}"
