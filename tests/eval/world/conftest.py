"""A base model that is small enough to be made in a test, and that still learns to read its prompt."""

from pathlib import Path

import pytest

from tests.eval.world.small import SETTINGS, SMALL


@pytest.fixture(scope="session")
def small_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder. Read only."""
    from eval.world.pretraining import pretrain  # brings torch, which most tests of the world do without

    return pretrain(SMALL, tmp_path_factory.mktemp("base") / "small", SETTINGS)
