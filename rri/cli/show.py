"""`rri show`."""

from pathlib import Path

from rri.cli.summary import print_summary, summary_of
from rri.rundir import RunDir
from rri.store import Store

__all__ = ["show_command"]


def show_command(directory: Path, *, as_json: bool) -> int:
    """Print the summary of a run, going on or ended."""
    folder = RunDir.existing(directory)
    store = Store(directory)
    try:
        print_summary(summary_of(store, folder), as_json=as_json)
    finally:
        store.close()
    return 0
