"""A reply that breaks a rule is asked for once more with the problem, and never a third time."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from programs import Minter, Referee
from programs.checked import CheckedRole
from rri.config import Role
from rri.errors import EndpointRefused, MalformedReply
from rri.lm import role_lm
from rri.testing import ChatRequest, Fault, status
from tests.programs.role_cases import CASES, serving

BROKEN: dict[Role, tuple[str, str]] = {
    "minter": (json.dumps({"criteria": [], "label": "other"}), "the label is other but there are no criteria"),
    "referee": (json.dumps({"notes": "n", "tiers": [["A"], ["B"]]}), "C: missing"),
}
"""A reply that the schema lets through, and what is wrong with it."""

each_role = pytest.mark.parametrize("role", BROKEN)
sync_and_async = pytest.mark.parametrize("asynchronous", [False, True])


def ask(
    role: Role, reply: Callable[[ChatRequest], Fault | str], asynchronous: bool, **more: Any
) -> tuple[Any, list[ChatRequest]]:
    """What the module returns or raises, and the requests it made."""
    case = CASES[role]
    with serving(reply) as (_, gateway, server):
        module = case.make()
        module.set_lm(role_lm(role, gateway))
        arguments = {**case.arguments, **more}
        try:
            result = asyncio.run(module.acall(**arguments)) if asynchronous else module(**arguments)
        except (MalformedReply, EndpointRefused) as error:
            result = error
        return result, server.of(role)


def test_both_checked_roles_are_here() -> None:
    assert {cls.role for cls in CheckedRole.__subclasses__()} == set(BROKEN)
    assert issubclass(Minter, CheckedRole) and issubclass(Referee, CheckedRole)


@each_role
@sync_and_async
def test_a_right_reply_takes_one_call(role: Role, asynchronous: bool) -> None:
    result, requests = ask(role, lambda _: CASES[role].reply, asynchronous)
    assert result == CASES[role].result
    assert len(requests) == 1
    assert requests[0].block("problems") == ""


@each_role
@sync_and_async
def test_a_broken_reply_is_asked_for_once_more_with_the_problem(role: Role, asynchronous: bool) -> None:
    broken, problem = BROKEN[role]
    result, (first, second) = ask(role, lambda r: CASES[role].reply if r.number else broken, asynchronous)
    assert result == CASES[role].result
    assert first.block("problems") == ""
    assert problem in second.block("problems")
    shown = second.messages[-1]["content"].split("\n\n<problems>")[0]
    assert shown == first.messages[-1]["content"], "all else is asked as before"


@each_role
@sync_and_async
def test_two_broken_replies_are_an_error_that_says_what_was_wrong(role: Role, asynchronous: bool) -> None:
    broken, problem = BROKEN[role]
    error, requests = ask(role, lambda _: broken, asynchronous)
    assert isinstance(error, MalformedReply)
    assert f"role {role}: " in str(error) and problem in str(error)
    assert len(requests) == 2


@each_role
def test_problems_that_the_caller_tells_come_first(role: Role) -> None:
    broken, problem = BROKEN[role]
    _, requests = ask(role, lambda _: broken, True, problems=["told before"])
    assert json.loads(requests[0].block("problems")) == ["told before"]
    told = json.loads(requests[1].block("problems"))
    assert told[0] == "told before" and problem in told[1]


@each_role
@sync_and_async
def test_a_failing_endpoint_is_not_asked_again(role: Role, asynchronous: bool) -> None:
    error, requests = ask(role, lambda _: status(400), asynchronous)
    assert isinstance(error, EndpointRefused)
    assert len(requests) == 1


@each_role
def test_an_endpoint_that_fails_at_the_second_asking_is_an_endpoints_error(role: Role) -> None:
    broken, _ = BROKEN[role]
    error, requests = ask(role, lambda r: status(400) if r.number else broken, True)
    assert isinstance(error, EndpointRefused)
    assert len(requests) == 2
