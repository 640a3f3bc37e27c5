"""Commands that ask: of models, of configs, and of runs, which they leave as they are."""

from pathlib import Path
from typing import Annotated

import typer

from rri.cli.app import app, overrides_of
from rri.cli.options import JsonOption, ModelsOption, NoCacheOption, QuietOption, RunDirArgument, SetOption

__all__ = ["calls", "check_judge", "estimate", "plan", "presets", "probe", "show", "status", "world"]


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

    raise typer.Exit(probe_command(task, config or ["smoke"], overrides_of(set_, no_cache=no_cache), as_json=json_))


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
        int | None, typer.Option("--limit", "-n", min=1, help="Judge a seeded draw of so many items.")
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

    sources, overrides = config or ["smoke"], overrides_of(set_)
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
        list[str] | None,
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

    raise typer.Exit(estimate_command(config, overrides_of(set_), assume or [], as_json=json_))


@app.command()
def show(
    directory: RunDirArgument,
    task: Annotated[str, typer.Option("--task", "-t", metavar="ID", help="A task's whole life; part of an id.")] = "",
    cases: Annotated[bool, typer.Option("--cases", help="Every exploit case in a line.")] = False,
    rounds: Annotated[bool, typer.Option("--rounds", help="The loop's work after each cycle.")] = False,
    round_: Annotated[
        int | None, typer.Option("--round", metavar="CYCLE", min=0, help="The evolution round of that cycle.")
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
def plan(
    config: Annotated[
        list[str], typer.Argument(metavar="CONFIG...", help="Presets or YAML files.", show_default=False)
    ],
    set_: SetOption = None,
    gpus: Annotated[list[int], typer.Option(min=1, help="GPUs of all machines. Repeatable.")] = [8, 16, 64],  # noqa: B006
    gpu_memory_gb: Annotated[int, typer.Option(min=1, help="Memory of one GPU.")] = 80,
    model: Annotated[Path | None, typer.Option("--config", help="config.json of the base model.")] = None,
    json_: JsonOption = False,
) -> None:
    """Say whether training fits on so many GPUs, what to change where it does not, and about how long a cycle takes."""
    from rri.cli.plan_memory import plan_command

    raise typer.Exit(plan_command(config, overrides_of(set_), gpus, gpu_memory_gb, model, as_json=json_))


@app.command()
def world(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the comparison.")],
    arms: Annotated[str, typer.Option(help="Comma-separated.")] = "generation-only,co-evolve-only,rri",
    seeds: Annotated[str, typer.Option(help="Comma-separated. Each is a world of its own.")] = "0,1,2",
    ablations: Annotated[
        int | None, typer.Option(metavar="SEED", min=0, help="Also rri with one part off at a time, on this seed.")
    ] = None,
    stresses: Annotated[
        int | None, typer.Option(metavar="SEED", min=0, help="Also worlds with one bad model, on this seed.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="KEY=VALUE",
            help="Change a size: cycles, tasks, requests, entities, relations, values, learning_rate, ... Repeatable.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Cells at once.")] = 2,
    quiet: QuietOption = False,
    json_: JsonOption = False,
) -> None:
    """Compare arms in a small world whose truth is known: does repair make the solver better, or only its score?

    Everything but the language models is the real thing. It needs no GPU, key or network; an arm and seed takes
    minutes. What is finished stays; run it again to go on. Writes world.json, world.md and world.png.

    [bold]Examples[/bold]

      rri world --out runs/world

      rri world --out runs/world --ablations 0 --stresses 0

      rri world --out runs/tiny --seeds 7 -s cycles=20 -s tasks=120 -s requests=100
    """
    from rri.cli.world import world_command

    raise typer.Exit(
        world_command(
            out,
            arms,
            seeds,
            overrides_of(set_),
            ablations=ablations,
            stresses=stresses,
            jobs=jobs,
            quiet=quiet,
            as_json=json_,
        )
    )


@app.command()
def presets() -> None:
    """The configs that ship with rri: complete ones, and arms and settings to put over one with another -c."""
    from rri.config import describe_presets, list_domains

    found = describe_presets()
    width = max(len(p.name) for p in found)
    typer.echo("\n".join(f"{p.name:<{width}}  {p.kind:<8}  {p.about}" for p in found))
    typer.echo(f"\nDomains, for -s domain=NAME: {', '.join(list_domains())}")
