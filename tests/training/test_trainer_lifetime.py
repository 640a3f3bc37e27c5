"""The trainer's processes end with their launcher, and leave a readable reason when they fail."""

import json
import socket
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from rri.errors import ConfigError, ServiceRefused, ServiceUnavailable
from tests.training.starts import DEADLINE_S, Launch
from training.lifetime import EXIT_FILE, clear_exit, exit_code_of, record_exit

# Each rank tells its process id, then waits for a signal.
RANK = """
import os, signal, socket
from rri.lifetime import die_with_parent
die_with_parent()
with socket.create_connection(("127.0.0.1", {port})) as line:
    line.sendall(str(os.getpid()).encode())
signal.pause()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl is Linux's")
def test_ranks_of_a_multi_rank_launcher_die_with_it(launch: Launch, tmp_path: Path) -> None:
    script, ranks = tmp_path / "rank.py", []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        script.write_text(RANK.format(port=server.getsockname()[1]))
        launcher = launch("torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script), PYTHONPATH=".")
        for _ in range(2):
            line, _ = server.accept()
            with line:
                ranks.append(psutil.Process(int(line.recv(32))))
    launcher.process.kill()
    _, alive = psutil.wait_procs(ranks, timeout=DEADLINE_S)
    assert not alive


def test_exit_file(tmp_path: Path) -> None:
    record_exit(tmp_path, ConfigError("a is 1, b is 2", "Change a"))
    record_exit(tmp_path, ServiceUnavailable("gone"))
    assert json.loads((tmp_path / EXIT_FILE).read_text()) == {"code": 75, "message": "gone"}
    record_exit(tmp_path, RuntimeError("Connection closed by peer"))
    assert json.loads((tmp_path / EXIT_FILE).read_text())["code"] == 75, "a rank that lost its peers says nothing new"
    clear_exit(tmp_path)
    record_exit(tmp_path, RuntimeError("out of memory"))
    assert json.loads((tmp_path / EXIT_FILE).read_text()) == {"code": 1, "message": "out of memory"}
    clear_exit(tmp_path)
    clear_exit(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert [exit_code_of(e) for e in (ServiceRefused("x"), ConfigError("x"))] == [8, 2]


LEAVING = """
import atexit
from training.lifetime import leave

class Fragile:
    def __del__(self):
        print("destroyed", flush=True)

kept = Fragile()
atexit.register(print, "handled")
print("said without a flush", end=" ")
leave(3)
"""


def test_a_rank_leaves_with_its_exit_handlers_and_without_destructors(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text(LEAVING)
    started = launch("leaving", PYTHONPATH=str(tmp_path))
    assert started.wait() == 3
    assert started.output.strip() == "said without a flush handled"
