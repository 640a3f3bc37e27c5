"""Compiled programs in bound roles: what a saved module brings, what never changes, and what is refused."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy
import pytest

from programs import Roles
from programs.role import RoleModule
from programs.roles import MODULES
from rri.cases import GuidanceVersion, MemoVersion
from rri.config import ROLES, Role
from rri.errors import ConfigError
from rri.testing import ScriptedServer
from signatures import prompt_digests
from tests.programs.role_cases import CASES, serving

COMPILED = "Compiled instructions for this role."
GUIDANCE, MEMO = "Guidance for this stage of training:", "Memo on known exploits:"
TEXTS = GuidanceVersion(version=3, guidance_a="Ask as nurses do.", guidance_b="State doses.")
NOTE = MemoVersion(version=2, memo="Do not name a topic.")
GUIDED: tuple[Role, ...] = ("proposer", "generator")


def saved(role: Role, path: Path, change: Callable[[RoleModule[Any]], None] | None = None) -> str:
    """A module of a role with other instructions, as a compilation saves it."""
    module = CASES[role].make()
    module.predict.signature = module.predict.signature.with_instructions(COMPILED)
    if change is not None:
        change(module)
    module.save(str(path))
    return str(path)


@contextmanager
def bound(role: Role, program: str) -> Iterator[tuple[Roles, ScriptedServer]]:
    with serving(roles={role: {"program": program}}) as (config, gateway, server):
        yield Roles.bind(config, gateway), server


def system(server: ScriptedServer, role: Role, number: int = -1) -> str:
    return server.of(role)[number].messages[0]["content"]


@pytest.mark.parametrize("role", MODULES)
def test_a_compiled_program_brings_its_instructions_and_keeps_schema_and_route(role: Role, tmp_path: Path) -> None:
    case = CASES[role]
    with serving() as (config, gateway, server):
        assert getattr(Roles.bind(config, gateway), role)(**case.arguments) == case.result
        plain = server.of(role)[0]
    with bound(role, saved(role, tmp_path / "program.json")) as (roles, server):
        assert getattr(roles, role)(**case.arguments) == case.result
        (request,) = server.of(role)
        assert server.total == 1
    assert request.messages[0]["content"].startswith(COMPILED)
    assert request.messages[1:] == plain.messages[1:], "inputs are shown as before"
    assert request.body.get("response_format") == plain.body.get("response_format")
    assert request.schema_name == plain.schema_name


def test_a_compiled_program_brings_its_examples(tmp_path: Path) -> None:
    case = CASES["farmer"]
    example = dspy.Example(conversation=[], rubric=[], max_chars=2500, answer="An example answer.")

    def with_example(module: RoleModule[Any]) -> None:
        module.predict.demos = [example]

    with bound("farmer", saved("farmer", tmp_path / "program.json", with_example)) as (roles, server):
        roles.farmer(**case.arguments)
        shown = json.dumps(server.of("farmer")[0].messages)
    assert "An example answer." in shown


@pytest.mark.parametrize("role", GUIDED)
def test_guidance_stands_below_what_a_compiled_program_brings(role: Role, tmp_path: Path) -> None:
    with bound(role, saved(role, tmp_path / "program.json")) as (roles, server):
        module = dict(zip(GUIDED, roles.guided(TEXTS, NOTE), strict=True))[role]
        assert module(**CASES[role].arguments) == CASES[role].result
        told = system(server, role)
        name = server.of(role)[0].schema_name
    block = TEXTS.guidance_a if role == "proposer" else TEXTS.guidance_b
    assert told.startswith(f"{COMPILED}\n\n{GUIDANCE}\n{block}")
    assert (f"{MEMO}\n{NOTE.memo}" in told) is (role == "generator"), "the memo is for the generator alone"
    assert name == CASES[role].make().signature.__name__


@pytest.mark.parametrize("role", GUIDED)
def test_without_a_program_guidance_stands_below_the_prompt_from_code(role: Role) -> None:
    with serving() as (config, gateway, server):
        roles = Roles.bind(config, gateway)
        dict(zip(GUIDED, roles.guided(TEXTS, NOTE), strict=True))[role](**CASES[role].arguments)
        told = system(server, role)
    base = CASES[role].make().signature.instructions
    assert told.startswith(f"{base}\n\n{GUIDANCE}\n")


def test_new_texts_take_the_place_of_old_ones(tmp_path: Path) -> None:
    """Each pair is made afresh: nothing of an earlier version stays, and the modules of the binding stay plain."""
    program = saved("generator", tmp_path / "program.json")
    with bound("generator", program) as (roles, server):
        for version in (1, 2):
            texts = GuidanceVersion(version=version, guidance_b=f"Text {version}.")
            _, generator = roles.guided(texts, MemoVersion(version=version, memo=f"Memo {version}."))
            generator(**CASES["generator"].arguments)
            told = system(server, "generator")
            assert [f"Text {n}." in told for n in (1, 2)] == [version == 1, version == 2]
            assert [f"Memo {n}." in told for n in (1, 2)] == [version == 1, version == 2]
        roles.generator(**CASES["generator"].arguments)
        assert system(server, "generator").startswith(COMPILED)
        assert GUIDANCE not in system(server, "generator") and MEMO not in system(server, "generator")


def test_empty_texts_add_nothing() -> None:
    with serving() as (config, gateway, server):
        roles = Roles.bind(config, gateway)
        for module in (roles.generator, roles.guided(GuidanceVersion(version=0), MemoVersion(version=0))[1]):
            module(**CASES["generator"].arguments)
        first, second = server.of("generator")
    assert first.body == second.body


def test_a_program_changes_no_prompt_in_code(tmp_path: Path) -> None:
    """Another binding, and the digests in the manifest, know nothing of it."""
    import signatures

    before = prompt_digests(signatures.ALL)
    with bound("generator", saved("generator", tmp_path / "program.json")) as (roles, _):
        roles.guided(TEXTS, NOTE)
        assert prompt_digests(signatures.ALL) == before
        with serving() as (config, gateway, server):
            Roles.bind(config, gateway).generator(**CASES["generator"].arguments)
            assert COMPILED not in system(server, "generator")


# --- refused -----------------------------------------------------------------------------------------


def refused(role: Role, program: str) -> ConfigError:
    with pytest.raises(ConfigError) as error, bound(role, program):
        pass
    assert error.value.what.startswith(f"roles.{role}.program: ")
    assert program in error.value.what
    assert error.value.fix
    return error.value


def test_a_program_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    assert "no file" in refused("referee", str(tmp_path / "none.json")).what
    assert "no file" in refused("referee", str(tmp_path)).what


@pytest.mark.parametrize(
    "content",
    [b"", b"not json", b"[]", b"{}", b"null", b'{"predict": {}}', b'{"other": {"signature": {}}}', b"\xff\xfe"],
)
def test_a_file_that_is_no_saved_program_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "program.json"
    path.write_bytes(content)
    refused("referee", str(path))


def test_every_role_but_the_judge_may_be_compiled() -> None:
    assert set(ROLES) - set(MODULES) == {"judge"}
