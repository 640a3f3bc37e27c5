"""The trainer's processes end with their launcher, and leave a readable reason when they fail."""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from rri.errors import ConfigError, ServiceRefused, ServiceUnavailable
from tests.training.starts import DEADLINE_S, Launch
from training.lifetime import EXIT_FILE, clear_exit, exit_code_of, record_exit

# Each rank names itself through the FIFO, then sleeps for longer than the test may last.
RANK = """
import os, time
from pathlib import Path
from training.lifetime import die_with_parent
die_with_parent()
with open({fifo!r}, "w") as fifo:
    fifo.write(f"{{os.getpid()}}\\n")
time.sleep(600)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
def test_ranks_of_a_multi_rank_launcher_die_with_it(launch: Launch, tmp_path: Path) -> None:
    fifo, script = tmp_path / "pids", tmp_path / "rank.py"
    os.mkfifo(fifo)
    script.write_text(RANK.format(fifo=str(fifo)))
    launcher = launch("torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), PYTHONPATH=".")
    ranks: list[psutil.Process] = []
    while len(ranks) < 2:
        with fifo.open() as stream:  # blocks until a rank opens the other end
            ranks += [psutil.Process(int(line)) for line in stream]
    launcher.process.kill()
    _, alive = psutil.wait_procs(ranks, timeout=DEADLINE_S)
    assert not alive


def test_exit_file(tmp_path: Path) -> None:
    record_exit(tmp_path, ConfigError("a is 1, b is 2", "Change a"))
    record_exit(tmp_path, ServiceUnavailable("gone"))
    assert json.loads((tmp_path / EXIT_FILE).read_text()) == {"code": 75, "message": "gone"}
    clear_exit(tmp_path)
    clear_exit(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert [exit_code_of(e) for e in (ServiceRefused("x"), ConfigError("x"))] == [8, 2]
