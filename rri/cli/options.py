"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ConfigOption",
    "JsonOption",
    "LayersOption",
    "ModelsOption",
    "NoCacheOption",
    "QuietOption",
    "RunDirArgument",
    "SetOption",
]

RunDirArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Run directory.", show_default=False)]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="A preset's name or a YAML file. Repeatable, later ones over earlier ones. Needed for a new run; a "
        "resumed one has its own.",
    ),
]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="NAME|FILE",
        help="A preset's name or a YAML file. Repeatable, later ones over earlier ones.",
        show_default="smoke",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="KEY=VALUE", help="Change one config value, e.g. -s solver.cycles=4. Repeatable."
    ),
]
NoCacheOption = Annotated[
    bool, typer.Option("--no-cache", help="Pay for every judge vote anew, also for those that are kept on disk.")
]
LayersOption = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME|FILE", help="A layer over the run's config. Repeatable."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="One line now and then instead of a live display.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
