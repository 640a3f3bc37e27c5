"""The error tree: as its docstring draws it, one exit code for each kind, and messages that say what to do."""

import copy
import inspect
import pickle
import re

import pytest

from rri import errors
from rri.errors import EndpointBusy, EndpointError, ModelError, ReplyError, RriError

CLASSES = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, RriError)}


def drawn() -> dict[str, tuple[str, int | None, str]]:
    """Class -> (parent, exit code where one is written, the line) as the module's docstring draws them."""
    tree: dict[str, tuple[str, int | None, str]] = {}
    above: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").split("::", 1)[1].splitlines():
        found = re.match(r"^(?P<lead>[\s|`-]*)(?P<name>[A-Z]\w+)", line)
        if found is None:
            continue
        depth = len(found["lead"])
        while above and above[-1][0] >= depth:
            above.pop()
        code = re.search(r"\(exit (\d+)\)", line)
        tree[found["name"]] = (above[-1][1] if above else "Exception", int(code[1]) if code else None, line)
        above.append((depth, found["name"]))
    return tree


def test_the_docstring_draws_every_error_below_its_parent() -> None:
    assert {name: parent for name, (parent, _, _) in drawn().items()} == {
        name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()
    }


def test_every_error_can_be_imported_by_star() -> None:
    assert sorted(errors.__all__) == sorted(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_the_exit_code_is_the_drawn_one(name: str) -> None:
    tree, at = drawn(), name
    while tree[at][1] is None and at != "RriError":
        at = tree[at][0]
    assert CLASSES[name].exit_code == (tree[at][1] or 1)


def test_the_kinds_have_different_exit_codes() -> None:
    """2 is what the command line itself uses for a wrong call, so both kinds of wrong input share it."""
    codes = [kind.exit_code for kind in RriError.__subclasses__()]
    assert sorted(codes) == [2, 2, 3, 4, 5, 6, 7, 8, 9, 130]


@pytest.mark.parametrize("name", [n for n, kind in CLASSES.items() if issubclass(kind, ModelError)])
def test_what_is_retried_is_what_the_docstring_says(name: str) -> None:
    kind = CLASSES[name]
    assert issubclass(kind, ModelError)
    line = drawn()[name][2]
    assert kind.retryable is ("(retried)" in line)
    assert not (kind.retryable and issubclass(kind, ReplyError))


@pytest.mark.parametrize("kind", CLASSES.values())
def test_a_message_says_what_happened_and_what_to_do(kind: type[RriError]) -> None:
    assert str(kind("the lamp is dark", "Change the bulb")) == "the lamp is dark. Change the bulb"
    assert str(kind("the lamp is dark")) == "the lamp is dark"


@pytest.mark.parametrize("kind", CLASSES.values())
def test_an_error_survives_the_way_between_processes(kind: type[RriError]) -> None:
    error = kind("what", "fix")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), other.what, other.fix, str(other)) == (kind, "what", "fix", "what. fix")


def test_an_endpoint_error_keeps_how_long_to_wait() -> None:
    assert EndpointError("what").retry_after is None
    assert pickle.loads(pickle.dumps(EndpointBusy("what", retry_after=2.5))).retry_after == 2.5


def test_every_error_is_caught_as_one() -> None:
    assert all(issubclass(kind, RriError) for kind in CLASSES.values())
    assert not issubclass(RriError, (OSError, ValueError))
