"""The server: real HTTP against a process of its own, well and badly spoken to."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eval.world.config import world_config
from eval.world.constants import WorldConstants
from eval.world.criteria import topic
from eval.world.facts import World
from eval.world.models import MODELS, WorldModels
from eval.world.prompts import Prompt
from eval.world.server import WorldServer, main
from programs import Grader
from programs.judge import judge_fields
from rri.aio import collect
from rri.config import parse_config
from rri.errors import EndpointRefused, EndpointUnreachable
from rri.lm import ModelRequest, check_endpoints, output_spec
from rri.lm.adapter import render
from signatures import HonestAnswer, JudgeCriterion
from tests.eval.world.rig import WORLD, ask, right, task_of
from tests.rigs import open_test_gateway

REQUEST = ask(*WORLD.relations[:3])
E, R = REQUEST.entity, REQUEST.asked[0]
TASK = task_of(REQUEST, (topic(E, R), 8))


@pytest.fixture(scope="module")
def server() -> Iterator[WorldServer]:
    with WorldServer(WORLD) as running:
        yield running


def body_of(answer: str, model: str = "judge") -> dict[str, Any]:
    messages = render(JudgeCriterion, [], judge_fields(TASK, answer, topic(E, R), 5))
    return {"model": model, "messages": messages, "response_format": output_spec(JudgeCriterion).response_format()}


def fetch(url: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data), timeout=10) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def post(server: WorldServer, body: Any) -> tuple[int, dict[str, Any]]:
    return fetch(f"{server.url}/chat/completions", body)


# --- well spoken to ------------------------------------------------------------------------------------


def test_a_reply_is_what_the_models_say(server: WorldServer) -> None:
    body = body_of("what the models say")
    models = WorldModels(WORLD)
    prompt = Prompt("judge", body["messages"], "JudgeCriterion")
    for _ in range(4):
        status, reply = post(server, body)
        assert (status, reply["choices"][0]["finish_reason"]) == (200, "stop")
        assert reply["choices"][0]["message"]["content"] == models.reply(prompt)
        assert (
            reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"] > 0
        )


def test_models_are_listed_and_calls_counted(server: WorldServer) -> None:
    assert {m["id"] for m in fetch(f"{server.url}/models")[1]["data"]} == set(MODELS)
    before = fetch(f"{server.url}/calls")[1].get("judge", 0)
    post(server, body_of("counted"))
    assert fetch(f"{server.url}/calls")[1]["judge"] == before + 1


def test_the_gateway_finds_every_role_ready_and_grades(server: WorldServer) -> None:
    config = parse_config(world_config(WORLD, server.url, Path("none"), "none"), where="test")
    with open_test_gateway(config) as gateway:
        grader = Grader(gateway, "healthbench", config.grading)

        async def whole() -> list[Any]:
            await check_endpoints(gateway, config.roles_used)
            return await collect([partial(grader.grade, TASK, f"{right(E, R)} {i}") for i in range(50)], 50)

        grades = gateway.loop.run(whole())
    assert sum(g.raw == 1.0 for g in grades) >= 48
    assert all(g.score is not None for g in grades)


def test_many_clients_at_once_are_answered(server: WorldServer) -> None:
    with ThreadPoolExecutor(32) as threads:
        found = list(threads.map(lambda i: post(server, body_of(f"client {i}")), range(200)))
    assert {status for status, _ in found} == {200}


def test_requests_in_pieces_and_several_in_one_packet_are_read(server: WorldServer) -> None:
    """A client may send as it likes: nothing of a request is lost where a packet ends."""
    raw = json.dumps(body_of("pieces")).encode()
    one = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(raw) + raw
    with socket.create_connection(("127.0.0.1", port_of(server)), timeout=10) as line:
        for start in range(0, len(one), 500):
            line.sendall(one[start : start + 500])
        assert len(responses(line, 1)) == 1
        line.sendall(one * 3)
        assert [status for status, _ in responses(line, 3)] == [200, 200, 200]


def port_of(server: WorldServer) -> int:
    return int(server.url.split(":")[2].split("/")[0])


def responses(line: socket.socket, n: int) -> list[tuple[int, bytes]]:
    found, buffer = [], b""
    while len(found) < n:
        head, separator, rest = buffer.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) if separator else 0
        if not separator or len(rest) < length:
            data = line.recv(65536)
            assert data, "the server hung up"
            buffer += data
            continue
        found.append((int(head.split()[1]), rest[:length]))
        buffer = rest[length:]
    return found


# --- badly spoken to -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"no json", 400, "cannot be read"),
        (b"[]", 400, "cannot be read"),
        ({"model": "judge"}, 400, "cannot be read"),
        ({"model": "judge", "messages": []}, 400, "cannot be read"),
        ({"model": "oracle", "messages": []}, 404, "no model 'oracle'"),
        ({**body_of("x"), "messages": [{"role": "user", "content": "hello"}] * 2}, 400, "no text of this world"),
    ],
)
def test_what_cannot_be_answered_is_refused_and_the_server_goes_on(
    server: WorldServer, body: Any, status: int, said: str
) -> None:
    found, reply = post(server, body)
    assert found == status and said in reply["error"]["message"]
    assert post(server, body_of("after"))[0] == 200


@pytest.mark.parametrize("path", ["/v1/other", "/"])
def test_other_paths_are_not_found(server: WorldServer, path: str) -> None:
    assert fetch(f"http://127.0.0.1:{port_of(server)}{path}")[0] == 404


def test_a_prompt_of_another_world_is_an_error_of_the_call_and_never_an_answer(server: WorldServer) -> None:
    config = parse_config(world_config(WORLD, server.url, Path("none"), "none"), where="test")
    fields = {"standing_instructions": "x", "conversation": [{"role": "user", "content": "What is a dose?"}]}
    with open_test_gateway(config) as gateway:
        request = ModelRequest("honest", render(HonestAnswer, [], fields), output_spec(HonestAnswer))
        with pytest.raises(EndpointRefused, match="no text of this world"):
            gateway.complete_sync(request)


# --- the process ---------------------------------------------------------------------------------------


def test_world_and_constants_reach_the_child() -> None:
    world = World.make(101, entities=7, relations=5, values=9)
    constants = WorldConstants(judge_flip=1.0)
    entity, relation = world.entities[0], world.relations[0]
    answer = f"the {relation} of {entity} matters ."
    messages = render(JudgeCriterion, [], judge_fields(TASK, answer, topic(entity, relation), 5))
    with WorldServer(world, constants) as server:
        _, reply = post(server, {"model": "judge", "messages": messages})
    assert json.loads(reply["choices"][0]["message"]["content"])["met"] is False


def test_the_child_ends_with_its_context() -> None:
    with WorldServer(WORLD) as server:
        url = server.url
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/models", timeout=5)


def test_the_child_ends_with_a_parent_that_is_killed() -> None:
    code = (
        "from eval.world.facts import World\nfrom eval.world.server import WorldServer\nimport sys, time\n"
        "with WorldServer(World.make(100)) as s:\n    print(s.url, flush=True)\n    time.sleep(60)"
    )
    root = Path(__file__).parents[3]
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root)
    assert parent.stdout is not None
    url = parent.stdout.readline().strip()
    assert fetch(f"{url}/models")[0] == 200
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/models", timeout=5).close()
        except (urllib.error.URLError, ConnectionError):
            return
    raise AssertionError("the server outlived its parent")


def test_a_port_that_is_taken_is_an_error_with_a_name() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(EndpointUnreachable, match="model server ended"),
            WorldServer(WORLD, port=taken.getsockname()[1]),
        ):
            pass


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["100", "--relations", "11"], "11 relations"),
        (["100", "--constants", '{"judge_flip": 2}'], "constants: judge_flip"),
        (["100", "--constants", "flip"], "constants: JSON"),
        (["100", "--constants", '{"flip": 1}'], "constants: flip"),
    ],
)
def test_wrong_options_are_said_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
