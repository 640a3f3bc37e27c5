"""Judge votes on disk: which calls are the same, what is kept, and what processes and kills do to the file."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rri.errors import ModelError, StoreError
from rri.lm import Gateway, ModelRequest, ReplyCache, Totals, output_spec
from rri.lm.calls import Usage
from rri.lm.reply_cache import BATCH, FILE, reply_key
from rri.testing import ChatRequest, Fault, Reply, ScriptedServer, empty, other_json, status, truncated
from signatures import JudgeCriterion
from tests.rigs import open_test_gateway, scripted_config

ROOT = Path(__file__).parents[3]
VERDICT = '{"reason": "scripted", "met": true}'
Script = Callable[[ChatRequest], Reply | Fault | str]


def entry(name: str, number: int) -> tuple[bytes, str]:
    """A key and a reply that shows when it is not whole."""
    return reply_key(name, str(number)), json.dumps({"name": name, "number": number, "filler": f"{number} " * 100})


# --- keys ------------------------------------------------------------------------------------------------


PARTS = st.lists(st.text(alphabet=st.characters(codec=None), max_size=4), max_size=4).map(tuple)


@given(PARTS, PARTS)
def test_two_keys_are_equal_only_for_equal_parts(one: tuple[str, ...], two: tuple[str, ...]) -> None:
    assert (reply_key(*one) == reply_key(*two)) == (one == two)


@given(PARTS, st.integers(0, 20), st.integers(0, 20))
def test_moving_a_border_between_parts_makes_another_key(parts: tuple[str, ...], at: int, to: int) -> None:
    """The same characters in the same order, cut elsewhere."""
    text = "".join(parts)
    one, two = (text[: at % (len(text) + 1)], text[at % (len(text) + 1) :]), (text[:to], text[to:])
    assert (reply_key(*one) == reply_key(*two)) == (one == two)
    assert reply_key(text) not in (reply_key(text, ""), reply_key("", text))


# --- the file --------------------------------------------------------------------------------------------


def test_what_was_put_is_there_at_once_and_after_a_reopening(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "made" / "for it")
    key, reply = entry("a", 1)
    assert cache.get(key) is None
    cache.put(key, reply)
    assert cache.get(key) == reply
    cache.close()
    again = ReplyCache(tmp_path / "made" / "for it")
    assert again.get(key) == reply
    again.close()


@pytest.mark.parametrize("reply", ["", "\0", "Größe 😀", "x" * 300_000], ids=["empty", "nul", "unicode", "long"])
def test_any_text_comes_back_as_it_went_in_and_a_closed_cache_opens_again(tmp_path: Path, reply: str) -> None:
    cache = ReplyCache(tmp_path)
    cache.put(b"key", reply)
    for _ in range(2):
        cache.close()
        cache.close()
        assert cache.get(b"key") == reply


def test_a_newer_reply_takes_the_place_of_the_older_one(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    for reply in ("old", "new"):
        cache.put(b"key", reply)
        cache.close()
    assert cache.get(b"key") == "new"


def test_a_full_batch_is_on_disk_without_a_close(tmp_path: Path) -> None:
    cache, other = ReplyCache(tmp_path), ReplyCache(tmp_path)
    for number in range(BATCH):
        cache.put(*entry("a", number))
    assert all(other.get(entry("a", n)[0]) == entry("a", n)[1] for n in range(BATCH))


def test_what_waits_longer_than_half_a_second_goes_to_disk_with_the_next_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("rri.lm.reply_cache.time", SimpleNamespace(monotonic=lambda: now[0]))
    cache, other = ReplyCache(tmp_path), ReplyCache(tmp_path)
    found = []
    for number, seconds in enumerate((0.0, 0.5, 0.01)):
        now[0] += seconds
        cache.put(*entry("a", number))
        found.append(other.get(entry("a", 0)[0]) is not None)
    assert found == [False, False, True]


def test_threads_share_a_cache(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)

    def work(name: str) -> list[str | None]:
        for number in range(300):
            cache.put(*entry(name, number))
        return [cache.get(entry(name, number)[0]) for number in range(300)]

    with ThreadPoolExecutor(4) as pool:
        found = dict(zip("abcd", pool.map(work, "abcd"), strict=True))
    assert found == {name: [entry(name, n)[1] for n in range(300)] for name in "abcd"}
    cache.close()


def test_the_oldest_go_when_the_file_is_full(tmp_path: Path) -> None:
    """Under the bound plus what one batch holds at every moment, on disk too; what is left is the newest part."""
    cache, bound, batch = ReplyCache(tmp_path, max_mb=1), 2**20, BATCH * 2 * len(entry("a", 9999)[1])
    for number in range(8000):
        cache.put(*entry("a", number))
        if number % 50 == 0:
            assert cache.size_bytes() <= bound
    cache.close()
    assert (tmp_path / FILE).stat().st_size <= bound + batch
    known = [number for number in range(8000) if cache.get(entry("a", number)[0]) is not None]
    assert known == list(range(known[0], 8000))
    assert len(known) > 1000, "no more goes than has to"
    cache.close()


# --- a file that cannot be used --------------------------------------------------------------------------


def refused(folder: Path) -> str:
    with pytest.raises(StoreError) as caught:
        ReplyCache(folder).get(b"key")
    message = str(caught.value)
    assert str(folder / FILE) in message and "--no-cache" in message and "\n" not in message
    return message


@pytest.mark.parametrize(("at", "says"), [(0, "not a database"), (4096, "malformed")], ids=["whole", "entries"])
def test_a_damaged_file_is_an_error_that_names_it_and_the_way_out(tmp_path: Path, at: int, says: str) -> None:
    cache = ReplyCache(tmp_path)
    for number in range(1000):
        cache.put(*entry("a", number))
    cache.close()
    with (tmp_path / FILE).open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 400_000)
    assert says in refused(tmp_path)


def test_another_programs_database_is_refused_at_once(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("CREATE TABLE votes(voter TEXT)")
    with pytest.raises(StoreError, match="no such column"):
        ReplyCache(tmp_path)


def test_a_folder_that_cannot_be_made_or_written_is_an_error_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused(tmp_path / "file")
    refused(tmp_path / "file" / "votes")
    if os.geteuid() != 0:  # nothing is unwritable for root
        tmp_path.chmod(0o500)
        assert "Permission denied" in refused(tmp_path)


# --- calls of the gateway --------------------------------------------------------------------------------


@contextmanager
def serve(script: Script, folder: Path, **sections: Any) -> Iterator[tuple[ScriptedServer, Gateway]]:
    models = {name: script for name in ("judge", "judge-2")}
    with ScriptedServer(models) as server, open_test_gateway(scripted_config(server.url, **sections)) as gateway:
        gateway.cache = ReplyCache(folder)
        yield server, gateway


def request(**changed: Any) -> ModelRequest:
    asked: dict[str, Any] = {"role": "judge", "output": output_spec(JudgeCriterion), "sample": "probe-1#0"}
    return ModelRequest(**{**asked, "messages": [{"role": "user", "content": "?"}], **changed})


def test_the_same_request_and_sample_are_one_call_and_cost_once(tmp_path: Path) -> None:
    prices = {"endpoints": {"main": {"price_in": 5}}}
    with serve(lambda r: Reply(VERDICT, 100, 10), tmp_path, **prices) as (server, gateway):
        replies = [gateway.complete_sync(request()) for _ in range(3)]
        gateway.close_sync()
        with open_test_gateway(scripted_config(server.url, **prices)) as later:
            later.cache = ReplyCache(tmp_path)
            replies.append(later.complete_sync(request()))
            assert later.ledger.by_role == {"judge": Totals(reused=1)}
        assert server.total == 1
        total = gateway.ledger.total()
    assert (total.calls, total.reused, total.tokens_in) == (1, 2, 100) and total.money == pytest.approx(5e-4)
    assert {r.text for r in replies} == {VERDICT} and all(r.value == replies[0].value for r in replies)
    assert replies[-1].usage == Usage()


OTHER_REQUEST: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.7},
    "token limit": {"max_tokens": 511},
    "sample": {"sample": "probe-1#1"},
    "probe": {"sample": "probe-2#0"},
    "prompt": {"messages": [{"role": "user", "content": "? "}]},
    "chat role": {"messages": [{"role": "system", "content": "?"}]},
    "schema name": {"output": replace(output_spec(JudgeCriterion), name="Another")},
    "schema": {"output": replace(output_spec(JudgeCriterion), full={"title": "another"})},
}


@pytest.mark.parametrize("change", OTHER_REQUEST)
def test_a_request_that_differs_in_anything_is_another_call(tmp_path: Path, change: str) -> None:
    with serve(lambda r: VERDICT, tmp_path) as (server, gateway):
        for _ in range(2):
            gateway.complete_sync(request())
            gateway.complete_sync(request(**OTHER_REQUEST[change]))
        assert server.total == 2 and gateway.ledger.total().reused == 2


OTHER_CONFIG: dict[str, dict[str, Any]] = {
    "temperature": {"roles": {"judge": {"temperature": 0.7}}},
    "model": {"roles": {"judge": {"model": "judge-2"}}},
    "revision": {"endpoints": {"main": {"revision": "r2"}}},
    "extra body": {"endpoints": {"main": {"extra_body": {"seed": 1}}}},
}


@pytest.mark.parametrize("change", [*OTHER_CONFIG, "endpoint name", "url"])
def test_a_config_that_differs_in_what_answers_makes_another_call(tmp_path: Path, change: str) -> None:
    with serve(lambda r: VERDICT, tmp_path) as (server, gateway):
        gateway.complete_sync(request())
        sections = OTHER_CONFIG.get(change, {})
        if change == "endpoint name":
            sections = {"endpoints": {"second": {"url": server.url}}, "roles": {"judge": {"endpoint": "second"}}}
        url = server.url.replace("127.0.0.1", "localhost") if change == "url" else server.url
        with open_test_gateway(scripted_config(url, **sections)) as other:
            other.cache = gateway.cache
            for _ in range(2):
                other.complete_sync(request())
            assert (server.total, other.ledger.total().reused) == (2, 1)


@pytest.mark.parametrize("fault", [status(400), status(500), empty(), truncated(VERDICT), other_json()], ids=str)
def test_a_reply_that_failed_is_never_kept(tmp_path: Path, fault: Fault) -> None:
    with serve(lambda r: fault, tmp_path) as (_, gateway), pytest.raises(ModelError):
        gateway.complete_sync(request())
    assert entries(tmp_path) == []


def test_a_kept_reply_that_the_schema_no_longer_takes_is_asked_again_once(tmp_path: Path) -> None:
    with serve(lambda r: VERDICT, tmp_path) as (server, gateway):
        gateway.complete_sync(request())
        gateway.close_sync()
        with sqlite3.connect(tmp_path / FILE) as db:
            db.execute("""UPDATE votes SET reply = '{"verdict": "yes"}'""")
        for _ in range(3):
            assert gateway.complete_sync(request()).text == VERDICT
        assert server.total == 2 and gateway.ledger.total().reused == 2
    assert entries(tmp_path) == [VERDICT]


def entries(folder: Path) -> list[str]:
    with sqlite3.connect(folder / FILE) as db:
        return [reply for (reply,) in db.execute("SELECT reply FROM votes")]


# --- several processes, and kills: this part of the module runs in children ------------------------------


ROUNDS = 60
"""Without a lock about one round in ten fails."""
KILLED_AFTER = (1, BATCH - 1, BATCH + 1, 1000, 1900, 2500)
"""Puts after which the writer is killed, wherever it is by then."""


def fork(work: Callable[[], object]) -> int:
    if pid := os.fork():
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def open_together(start: int, go: int, folder: Path) -> None:
    os.close(go)
    os.read(start, 1)  # until nobody is left who could write
    ReplyCache(folder)


def write_and_read(folder: Path, name: str, other: str) -> None:
    """Write, wait until the other's first entries can be read, and write on."""
    cache = ReplyCache(folder)
    for number in range(1000):
        cache.put(*entry(name, number))
        cache.put(*entry("shared", number))
    deadline = time.monotonic() + 30
    while cache.get(entry(other, 0)[0]) != entry(other, 0)[1]:
        assert time.monotonic() < deadline
    for number in range(1000, 2000):
        cache.put(*entry(name, number))
    cache.close()


def victim(folder: Path, after: int) -> int:
    """A process that writes without end is killed once it has put `after` entries."""
    reading, writing = os.pipe()

    def write() -> None:
        cache = ReplyCache(folder)
        for number in range(10**6):
            cache.put(*entry("a", number))
            os.write(writing, b".")

    pid = fork(write)
    os.close(writing)
    done = 0
    while done < after:
        done += len(os.read(reading, after - done))
    os.kill(pid, signal.SIGKILL)
    os.close(reading)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


def run_children(base: str) -> None:
    """All that needs processes of its own; one process imports for all of them."""
    both, opened = Path(base, "both"), Path(base, "opened")
    children = [fork(partial(write_and_read, both, name, other)) for name, other in ("ab", "ba")]
    exits = {"both": [os.waitpid(pid, 0)[1] for pid in children], "opened": []}
    for attempt in range(ROUNDS):
        start, go = os.pipe()
        children = [fork(partial(open_together, start, go, opened / str(attempt))) for _ in range(2)]
        os.close(go)
        exits["opened"] += [os.waitpid(pid, 0)[1] for pid in children]
    exits["killed"] = [victim(Path(base, str(after)), after) for after in KILLED_AFTER]
    sys.stdout.write(json.dumps(exits))


@pytest.fixture(scope="module")
def children(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, list[int]]]]:
    base = tmp_path_factory.mktemp("children")
    code = "import sys; from tests.rri.lm.test_reply_cache import run_children; run_children(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(base)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    yield base, json.loads(done.stdout)


def test_two_processes_that_write_at_once_lose_nothing_and_read_each_other(children: Any) -> None:
    base, exits = children
    assert exits["both"] == [0, 0]
    cache = ReplyCache(base / "both")
    for name, count in (("a", 2000), ("b", 2000), ("shared", 1000)):
        assert all(cache.get(entry(name, n)[0]) == entry(name, n)[1] for n in range(count)), name
    cache.close()


def test_processes_that_make_the_file_at_once_all_get_it(children: Any) -> None:
    assert children[1]["opened"] == [0] * 2 * ROUNDS


@pytest.mark.parametrize("after", KILLED_AFTER)
def test_a_kill_leaves_a_readable_file_with_whole_entries(children: Any, after: int) -> None:
    """All but the last batch are there, in order and whole, and writing goes on."""
    base, exits = children
    assert exits["killed"] == [signal.SIGKILL] * len(KILLED_AFTER)
    folder = base / str(after)
    cache = ReplyCache(folder)
    known = 0
    while (reply := cache.get(entry("a", known)[0])) is not None:
        assert reply == entry("a", known)[1]
        known += 1
    assert known > after - BATCH
    cache.put(*entry("a", known))
    cache.close()
    with sqlite3.connect(folder / FILE) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("SELECT count(*) FROM votes").fetchone() == (known + 1,)
