"""Commands that make or change a run. Each loads what it needs when it is called."""

from pathlib import Path
from typing import Annotated

import typer

from rri.cli.app import app, overrides_of
from rri.cli.options import (
    ConfigOption,
    JsonOption,
    LayersOption,
    NoCacheOption,
    QuietOption,
    RunDirArgument,
    SetOption,
)

__all__ = ["export", "fork", "generate", "import_", "run", "serve"]


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
        run_command(
            directory, config, overrides_of(set_, no_cache=no_cache), quiet=quiet, as_json=json_, dry_run=dry_run
        )
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

    raise typer.Exit(serve_command(directory, config, overrides_of(set_, no_cache=no_cache), quiet=quiet))


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
        generate_command(directory, config, overrides_of(set_, no_cache=no_cache), out, quiet=quiet, as_json=json_)
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

    overrides = overrides_of(set_)
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

    overrides = overrides_of(set_)
    raise typer.Exit(
        fork_command(directory, new, config or [], overrides, as_drafts=drafts, quiet=quiet, as_json=json_)
    )


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
