"""The command line's app: its options for all commands, and what commands share. Commands register with it."""

from typing import Annotated, Any

import typer
import yaml

from rri.errors import ConfigError

__all__ = ["STATE", "app", "overrides_of"]

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

STATE = {"debug": False}


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    STATE["debug"] = debug


def overrides_of(pairs: list[str] | None, *, no_cache: bool = False) -> dict[str, Any]:
    """Values by dotted key, from the command line's KEY=VALUE pairs.

    Raises:
        ConfigError: a pair is none, or its value is no YAML.
    """
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
