"""Each role as a module of its own: alone, bound, sync and async, and without memory (DESIGN, habits)."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import fields
from functools import partial

import dspy
import pytest

from programs import Farmer, Judge, Roles
from programs.judge import REASON_WORDS
from rri.aio import collect
from rri.config import ROLES, GradingConfig, Role
from rri.errors import (
    BudgetExhausted,
    ConfigError,
    EndpointFailed,
    EndpointRefused,
    MalformedReply,
    ModelError,
    TruncatedReply,
)
from rri.lm import role_lm
from rri.testing import ChatRequest, Fault, ScriptedServer, other_json, role_models, status, truncated
from rri.types import Vote
from tests.programs.role_cases import CASES, TASK, serving
from tests.rigs import make_task, open_test_gateway, scripted_config

PLAIN = ("farmer", "honest", "summarizer")
"""Roles whose reply is one text, and no JSON."""

each_role = pytest.mark.parametrize("role", ROLES)


@pytest.fixture
def restored_settings() -> Iterator[None]:
    """`dspy.configure` is global."""
    before = dspy.settings.lm
    yield
    dspy.configure(lm=before)


# -- one role -----------------------------------------------------------------------


@each_role
def test_a_module_works_alone_after_dspy_configure(role: Role, restored_settings: None) -> None:
    case = CASES[role]
    with serving() as (_, gateway, server):
        dspy.configure(lm=role_lm(role, gateway))
        assert case.make()(**case.arguments) == case.result
        assert server.total == server.count(role) == 1


@each_role
def test_sync_and_async_send_the_same_and_return_the_same(role: Role) -> None:
    case = CASES[role]
    with serving() as (_, gateway, server):
        module = case.make()
        module.set_lm(role_lm(role, gateway))
        results = [module(**case.arguments), asyncio.run(module.acall(**case.arguments))]
        results.append(gateway.loop.run(module.acall(**case.arguments)))
        bodies = [r.body for r in server.of(role)]
    assert results == [case.result] * 3
    assert bodies[0] == bodies[1] == bodies[2]


@each_role
def test_the_prompt_is_the_signature_and_the_arguments_under_the_roles_sampling(role: Role) -> None:
    case = CASES[role]
    with serving() as (config, gateway, server):
        module = case.make()
        module.set_lm(role_lm(role, gateway))
        module(**case.arguments)
        (request,) = server.of(role)
    assert request.messages[0]["content"].startswith(module.predict.signature.instructions)
    assert {name: request.block(name) for name in case.shown} == case.shown
    assert request.body["temperature"] == config.roles[role].temperature
    assert request.body["max_tokens"] == config.roles[role].max_tokens
    plain = role in PLAIN
    assert ("response_format" in request.body) is not plain, "an answer is plain text, all else is checked JSON"


@each_role
def test_a_module_keeps_nothing_between_calls(role: Role) -> None:
    case = CASES[role]
    with serving() as (_, gateway, server):
        module, lm = case.make(), role_lm(role, gateway)
        module.set_lm(lm)
        before = (json.dumps(module.dump_state(), sort_keys=True, default=str), sorted(vars(module)))
        for _ in range(3):
            module(**case.arguments)
        assert (json.dumps(module.dump_state(), sort_keys=True, default=str), sorted(vars(module))) == before
        assert (module.history, module.predict.history, lm.history) == ([], [], [])
        assert (module.predict.traces, module.predict.demos) == ([], [])
        assert len({json.dumps(r.body, sort_keys=True) for r in server.of(role)}) == 1


@each_role
@pytest.mark.parametrize(
    ("fault", "error"), [(status(400), EndpointRefused), (status(503), EndpointFailed), (truncated(), TruncatedReply)]
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_errors_come_out_as_ours_and_name_the_role(
    role: Role, fault: Fault, error: type[ModelError], asynchronous: bool
) -> None:
    case = CASES[role]
    with serving(lambda _: fault) as (_, gateway, _server):
        module = case.make()
        module.set_lm(role_lm(role, gateway))
        with pytest.raises(error, match=f"role {role}: "):
            asyncio.run(module.acall(**case.arguments)) if asynchronous else module(**case.arguments)


@pytest.mark.parametrize("role", [r for r in ROLES if r not in PLAIN])
def test_json_of_another_shape_is_never_repaired_into_a_result(role: Role) -> None:
    case = CASES[role]
    extra = json.dumps({**json.loads(case.reply), "surplus": 1})
    for text in ('{"verdict": "yes"}', "not json", f"```json\n{case.reply}\n```", extra):
        with serving(lambda _, text=text: other_json(text)) as (_, gateway, server):  # type: ignore[misc]
            module = case.make()
            module.set_lm(role_lm(role, gateway))
            with pytest.raises(MalformedReply):
                module(**case.arguments)
            assert server.count(role) == 2, "one fresh sample, no more"


def test_an_exhausted_budget_comes_out_of_a_module() -> None:
    with serving(budget={"calls": 1}) as (_, gateway, _server):
        farmer = Farmer()
        farmer.set_lm(role_lm("farmer", gateway))
        farmer(task=TASK)
        with pytest.raises(BudgetExhausted):
            farmer(task=TASK)
        with pytest.raises(BudgetExhausted):
            asyncio.run(farmer.acall(task=TASK))


def test_one_module_serves_many_calls_at_once_without_mixing_them() -> None:
    def echo(request: ChatRequest) -> str:
        return json.loads(request.block("conversation"))[0]["content"]  # type: ignore[no-any-return]

    tasks = [
        TASK.model_copy(update={"conversation": (TASK.conversation[0].model_copy(update={"content": f"Ask {i}."}),)})
        for i in range(16)
    ]
    with serving(echo) as (_, gateway, _server):
        farmer = Farmer()
        farmer.set_lm(role_lm("farmer", gateway))
        thunks = [partial(farmer.acall, task=task) for task in tasks]
        assert asyncio.run(collect(thunks, 16)) == [f"Ask {i}." for i in range(16)]


# -- particulars -----------------------------------------------------------------------


def test_the_strict_judge_has_another_prompt_and_the_same_reply() -> None:
    with serving() as (_, gateway, server):
        votes = []
        for strict in (False, True):
            judge = Judge(strict=strict, reason_words=25)
            judge.set_lm(role_lm("judge", gateway))
            votes.append(judge(**CASES["judge"].arguments))
        plain, noted = server.of("judge")
    assert votes[0] == votes[1]
    assert "to the letter" in noted.messages[0]["content"] and "to the letter" not in plain.messages[0]["content"]
    assert plain.messages[1] == noted.messages[1]
    assert plain.block("reason_words") == "25"


@pytest.mark.parametrize("strict", [False, True])
def test_judge_and_grader_send_the_same_bytes(strict: bool) -> None:
    """The plain module and the fast path differ in nothing a server could see."""
    task = make_task(8)
    with serving() as (config, gateway, server):
        judge = Judge(strict=strict)
        judge.set_lm(role_lm("judge", gateway))
        judge(task=task, answer="Answer.", criterion=task.rubric.criteria[0].text)
        gateway.loop.run(Roles.bind(config, gateway).grader.grade(task, "Answer.", strict=strict))
        first, *votes = [json.dumps(r.body, sort_keys=True) for r in server.of("judge")]
    assert set(votes) == {first}


def test_the_judges_default_reason_length_is_the_graders() -> None:
    assert GradingConfig().reason_words == REASON_WORDS


def test_an_unmet_criterion_is_a_known_vote() -> None:
    with serving(lambda _: json.dumps({"reason": "No.", "met": False})) as (_, gateway, _server):
        judge = Judge()
        judge.set_lm(role_lm("judge", gateway))
        assert judge(**CASES["judge"].arguments) == Vote(outcome="unmet", reason="No.")


def test_a_role_without_a_route_says_so_and_calls_nothing() -> None:
    with serving(solver={"retrieval": False}) as (config, gateway, server):
        summarizer = Roles.bind(config, gateway).summarizer
        with pytest.raises(ConfigError, match="role summarizer has no route in this config"):
            summarizer(**CASES["summarizer"].arguments)
        assert server.total == 0


# -- all roles -------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [r for r in ROLES if r in {f.name for f in fields(Roles)}])
def test_a_bound_role_speaks_to_its_own_route(role: Role) -> None:
    case = CASES[role]
    with serving() as (config, gateway, server):
        module = getattr(Roles.bind(config, gateway), role)
        assert module(**case.arguments) == case.result
        assert asyncio.run(module.acall(**case.arguments)) == case.result
        assert server.total == server.count(role) == 2


def test_the_bound_parts_follow_the_config() -> None:
    with serving(admission={"margin": 0.3}, grading={"votes": 5}) as (config, gateway, server):
        roles = Roles.bind(config, gateway)
        assert roles.honest(task=TASK) == "Answer."
        assert server.of("honest")[0].block("standing_instructions") == config.domain.system_prompt
        assert roles.grader.config == config.grading
        assert roles.grader.rule == config.domain.score_rule
        assert roles.prober().config == roles.admitter().config == config.admission
        assert roles.prober().farmer is roles.farmer


def test_two_bindings_do_not_share_a_gateway() -> None:
    with serving() as (config, gateway, server), serving() as (other_config, other_gateway, other_server):
        bound, other = Roles.bind(config, gateway), Roles.bind(other_config, other_gateway)
        other.farmer(task=TASK)
        assert (server.total, other_server.total) == (0, 1)
        bound.farmer(task=TASK)
        assert (server.total, other_server.total) == (1, 1)


def test_the_scripted_roles_of_the_package_are_exploitable_at_birth_and_hold_after_one_repair() -> None:
    """The models that tests, benchmarks and the known-truth world share give the method work to do."""
    with ScriptedServer(role_models()) as server:
        config = scripted_config(server.url)
        with open_test_gateway(config) as gateway:
            admission = gateway.loop.run(Roles.bind(config, gateway).admitter().admit(make_task(8, 8, 8, -6)))
    assert admission.outcome == "repaired"
    assert len(admission.rewrites) == 1
    assert admission.delta_after is not None and admission.delta_after <= -0.20
