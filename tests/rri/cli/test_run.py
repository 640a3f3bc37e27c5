"""`rri run`: what it says of a trainer that failed."""

import json
from pathlib import Path

import pytest

from rri.cli.run import TRAINER_EXIT, _told

TORN = """
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : -6 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 4711
============================================================
"""


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (TORN, "a rank was ended: Signal 6 (SIGABRT) received by PID 4711"),
        ("Traceback\nValueError: no such model\n\n=======\n", "ValueError: no such model"),
        ("---\n", "no output"),
        ("", "no output"),
    ],
)
def test_a_trainer_that_left_no_word_is_quoted_by_its_log(log: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert _told(tmp_path, 1, tmp_path / "log") == (1, why)


def test_its_own_word_comes_first(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(TORN)
    (tmp_path / TRAINER_EXIT).write_text(json.dumps({"code": 8, "message": "refused"}))
    assert _told(tmp_path, 1, tmp_path / "log") == (8, "refused")
