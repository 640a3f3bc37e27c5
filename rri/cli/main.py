"""The command line. Commands load lazily, so that `rri --help` answers at once."""

import sys
import traceback
from pathlib import Path
from typing import Annotated, Any, Optional

import typer
import yaml

from rri.cli.options import (
    ConfigOption,
    JsonOption,
    LayersOption,
    ModelsOption,
    NoCacheOption,
    QuietOption,
    RunDirArgument,
    SetOption,
)
from rri.errors import ConfigError, RriError

__all__ = ["app", "main"]

app = typer.Typer(
    name="rri",
    help=(
        "Recursive reward improvement: write tasks with rubrics, attack and repair each rubric, and train a solver on "
        "what is left.\n\nStart with: rri run DIR --config smoke"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    _STATE["debug"] = debug


_STATE = {"debug": False}


def _overrides(pairs: Optional[list[str]], *, no_cache: bool = False) -> dict[str, Any]:
    values: dict[str, Any] = {"cache.enabled": False} if no_cache else {}
    for pair in pairs or []:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"--set {pair!r} is not KEY=VALUE", "Write for example --set solver.cycles=4")
        try:
            values[key] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"--set {pair!r}: the value is not valid YAML", "Quote it") from None
    return values


@app.command()
def run(
    directory: RunDirArgument,
    config: ConfigOption = None,
    set_: SetOption = None,
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
    json_: JsonOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and the resolved config as YAML, and stop.")
    ] = False,
) -> None:
    """Admit tasks and train the solver on them. Run it again to resume.

    The directory keeps everything: config, tasks, attacks, grades, every model call, checkpoints.

    [bold]Examples[/bold]

      rri run runs/first --config smoke

      rri run runs/first -s budget.money=20

      rri run runs/baseline -c paper-9b -c generation-only --dry-run
    """
    from rri.cli.run import run_command

    raise typer.Exit(
        run_command(directory, config, _overrides(set_, no_cache=no_cache), quiet=quiet, as_json=json_, dry_run=dry_run)
    )


@app.command()
def serve(
    directory: RunDirArgument,
    config: ConfigOption = None,
    set_: SetOption = None,
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
) -> None:
    """Own a run and serve tasks and grades, without starting a trainer.

    Start trainers yourself, on this machine or others:

      accelerate launch --config_file training/zero3.yaml -m training.grpo --run DIR
    """
    from rri.cli.run import serve_command

    raise typer.Exit(serve_command(directory, config, _overrides(set_, no_cache=no_cache), quiet=quiet))


@app.command()
def generate(
    directory: RunDirArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the admitted tasks go, as JSONL.")],
    config: ConfigOption = None,
    set_: SetOption = None,
    no_cache: NoCacheOption = False,
    quiet: QuietOption = False,
    json_: JsonOption = False,
) -> None:
    """Write, attack and repair tasks without training, and save the admitted ones as JSONL.

    [bold]Example[/bold]

      rri generate runs/tasks --config smoke --out tasks.jsonl
    """
    from rri.cli.generate import generate_command

    raise typer.Exit(
        generate_command(directory, config, _overrides(set_, no_cache=no_cache), out, quiet=quiet, as_json=json_)
    )


@app.command("import")
def import_(
    directory: RunDirArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Tasks with rubrics, JSONL.", show_default=False)],
    config: ConfigOption = None,
    set_: SetOption = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave refused lines out; without it all or none.")
    ] = False,
    quiet: QuietOption = False,
    json_: JsonOption = False,
) -> None:
    """Bring tasks and rubrics of your own into a run. Its next start attacks, repairs and admits them first.

    A line of FILE: {"prompt": "...", "rubric": [{"criterion": "...", "points": 8}]}, a HealthBench or ProfBench row as
    published, or a task as `rri generate` writes it. An id and labels may be given. No model is called.

    [bold]Examples[/bold]

      rri import runs/mine rubrics.jsonl --config mine.yaml

      rri run runs/mine
    """
    from rri.cli.import_ import import_command

    overrides = _overrides(set_)
    raise typer.Exit(import_command(directory, file, config, overrides, skip_bad=skip_bad, quiet=quiet, as_json=json_))


@app.command()
def fork(
    directory: RunDirArgument,
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Directory of the new run.", show_default=False)],
    config: LayersOption = None,
    set_: SetOption = None,
    drafts: Annotated[bool, typer.Option("--drafts", help="Attack every task again before it is served.")] = False,
    quiet: QuietOption = False,
    json_: JsonOption = False,
) -> None:
    """Start a new run from another run's tasks, guidance and memo, under a changed config.

    Its admitted tasks can be served at once, with their evidence; grades, cases and calls stay behind. The other run
    may be going on. It is only read.

    [bold]Examples[/bold]

      rri fork runs/first runs/second -s solver.cycles=200 -s generation.tasks=1024

      rri fork runs/first runs/baseline -c generation-only
    """
    from rri.cli.fork import fork_command

    overrides = _overrides(set_)
    raise typer.Exit(
        fork_command(directory, new, config or [], overrides, as_drafts=drafts, quiet=quiet, as_json=json_)
    )


@app.command()
def probe(
    task: Annotated[Path, typer.Argument(metavar="TASK.json", help="One task with its rubric.", show_default=False)],
    config: ModelsOption = None,
    set_: SetOption = None,
    no_cache: NoCacheOption = False,
    json_: JsonOption = False,
) -> None:
    """Attack one rubric and show the exploit beside the honest answer, verdict by verdict.

    Exit code 0: the rubric holds. 10: it was beaten. 11: the attack gave no figure.

    [bold]Example[/bold]

      rri probe task.json --config my-models.yaml
    """
    from rri.cli.probe import probe_command

    raise typer.Exit(probe_command(task, config or ["smoke"], _overrides(set_, no_cache=no_cache), as_json=json_))


@app.command("check-judge")
def check_judge(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Labelled verdicts, JSONL, or a HealthBench meta-eval.", show_default=False
        ),
    ],
    config: ModelsOption = None,
    set_: SetOption = None,
    limit: Annotated[
        Optional[int], typer.Option("--limit", "-n", min=1, help="Judge a seeded draw of so many items.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Judge under the strict note of probes and patches.")
    ] = False,
    quiet: QuietOption = False,
    json_: JsonOption = False,
) -> None:
    """Measure the judge against experts' labels before money is spent on it, and say what it is usable for.

    A line of FILE: {"request": "...", "answer": "...", "criterion": "...", "met": true}. "conversation", a list of
    {role, content}, may stand for "request", and "labels", a list of several experts' answers, for "met".

    Every vote is cast, none saved by an early stop: it costs items x grading.votes calls.

    Exit code 0: usable for training reward and probes. 10: for reports only, not usable, or it cannot be told.

    [bold]Examples[/bold]

      rri check-judge labels.jsonl --config mine.yaml -s budget.money=2

      rri check-judge meta_eval.jsonl -c mine.yaml --limit 500
    """
    from rri.cli.check_judge import check_judge_command

    sources, overrides = config or ["smoke"], _overrides(set_)
    raise typer.Exit(
        check_judge_command(file, sources, overrides, strict=strict, limit=limit, quiet=quiet, as_json=json_)
    )


@app.command()
def estimate(
    config: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG...",
            help="A preset's name or a YAML file; several are laid over each other.",
            show_default=False,
        ),
    ],
    set_: SetOption = None,
    assume: Annotated[
        Optional[list[str]],
        typer.Option("--assume", "-a", metavar="NAME=NUMBER", help="A figure that you know better. Repeatable."),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Say what a run will cost before it makes any call: calls, tokens, money and time by role, and the budget.

    Every figure is expected, with a cheap and a dear end. Asks no model. Times need the speed of your server:
    give prompt_rate and reply_rate, in tokens a second of one request.

    [bold]Examples[/bold]

      rri estimate mine.yaml -s budget.money=50

      rri estimate default -a answer_chars=3000 -a prompt_rate=5000 -a reply_rate=60
    """
    from rri.cli.estimate import estimate_command

    raise typer.Exit(estimate_command(config, _overrides(set_), assume or [], as_json=json_))


@app.command()
def show(
    directory: RunDirArgument,
    task: Annotated[str, typer.Option("--task", "-t", metavar="ID", help="A task's whole life; part of an id.")] = "",
    cases: Annotated[bool, typer.Option("--cases", help="Every exploit case in a line.")] = False,
    rounds: Annotated[bool, typer.Option("--rounds", help="The loop's work after each cycle.")] = False,
    round_: Annotated[
        Optional[int], typer.Option("--round", metavar="CYCLE", min=0, help="The evolution round of that cycle.")
    ] = None,
    memo: Annotated[bool, typer.Option("--memo", help="Every exploit memo with its score.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Repair figures beside the paper's.")] = False,
    json_: JsonOption = False,
) -> None:
    """What happened in a run, in one screen, or one part of it in full. Works beside a running one.

    [bold]Examples[/bold]

      rri show runs/first

      rri show runs/first --task 000012 | less

      rri show runs/first --round 4 --json
    """
    from rri.cli.show import Asked, show_command

    asked = Asked(task=task, cases=cases, rounds=rounds, round=round_, memo=memo, repair=repair)
    raise typer.Exit(show_command(directory, asked, as_json=json_))


@app.command()
def status(directory: RunDirArgument, json_: JsonOption = False) -> None:
    """Whether a run is going on, how far it is, and the last error."""
    from rri.cli.status import status_command

    raise typer.Exit(status_command(directory, as_json=json_))


@app.command()
def calls(
    directory: RunDirArgument,
    role: Annotated[str, typer.Option(help="proposer, generator, farmer, honest, judge or rewriter.")] = "",
    task: Annotated[str, typer.Option(help="Calls of one task id.")] = "",
    last: Annotated[int, typer.Option(help="How many of the latest calls.", min=1)] = 5,
    since: Annotated[str, typer.Option(help="Only calls after this time, e.g. 2026-05-01T12:00.")] = "",
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Read kept model calls back: the prompt as sent, the reply, tokens, time and error.

    [bold]Example[/bold]

      rri calls runs/first --role farmer --last 1
    """
    from rri.cli.calls import calls_command

    raise typer.Exit(calls_command(directory, role=role, task_id=task, last=last, since=since, as_json=json_))


@app.command()
def export(
    directory: RunDirArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make.", show_default=False)],
    quiet: QuietOption = False,
    json_: JsonOption = False,
) -> None:
    """Write the trained model as a folder: safetensors (adapters merged), tokenizer, a card with figures, config."""
    from rri.cli.export import export_command

    raise typer.Exit(export_command(directory, out, quiet=quiet, as_json=json_))


@app.command()
def plan(
    config: Annotated[
        list[str], typer.Argument(metavar="CONFIG...", help="Presets or YAML files.", show_default=False)
    ],
    set_: SetOption = None,
    gpus: Annotated[list[int], typer.Option(min=1, help="GPUs of all machines. Repeatable.")] = [8, 16, 64],  # noqa: B006
    gpu_memory_gb: Annotated[int, typer.Option(min=1, help="Memory of one GPU.")] = 80,
    model: Annotated[Optional[Path], typer.Option("--config", help="config.json of the base model.")] = None,
    json_: JsonOption = False,
) -> None:
    """Say whether training fits on so many GPUs, what to change where it does not, and about how long a cycle takes."""
    from rri.cli.plan_memory import plan_command

    raise typer.Exit(plan_command(config, _overrides(set_), gpus, gpu_memory_gb, model, as_json=json_))


@app.command()
def presets() -> None:
    """The configs that ship with rri: complete ones, and arms and settings to put over one with another -c."""
    from rri.config import describe_presets, list_domains

    found = describe_presets()
    width = max(len(p.name) for p in found)
    typer.echo("\n".join(f"{p.name:<{width}}  {p.kind:<8}  {p.about}" for p in found))
    typer.echo(f"\nDomains, for -s domain=NAME: {', '.join(list_domains())}")


def main() -> None:
    """Entry point: errors of ours are one line, and the exit code tells their kind."""
    try:
        app()
    except RriError as error:
        if _STATE["debug"]:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
