"""Runs that several tests of commands look at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rri.cli.looped import Looped, looped_run


@pytest.fixture(scope="session")
def looped(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Iterator[Looped]:
    """A run that goes on, its loop round several times. For reading only."""
    with looped_run(tmp_path_factory.mktemp("looped"), tiny_model, budget={"hours": 5}) as looped:
        yield looped
