"""A role whose reply has rules that no schema can hold."""

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar, cast

from programs.role import RoleModule
from rri.errors import MalformedReply

__all__ = ["CheckedRole"]

R = TypeVar("R")


class CheckedRole(RoleModule[R]):
    """Asks once more, with the problems, when a reply breaks a rule; a second broken reply is an error.

    A subclass takes `problems` in `fields`, says in `check` what is wrong with a prediction and in `read` what a
    right one means.
    """

    role: ClassVar[str]

    def check(self, prediction: Any, **arguments: Any) -> list[str]:
        """What is wrong with a prediction, as sentences that the model can mend it by."""
        raise NotImplementedError

    def read(self, prediction: Any, **arguments: Any) -> R:
        """What the caller gets for a prediction without problems."""
        raise NotImplementedError

    def result(self, prediction: Any) -> R:
        # The arguments are needed to read it, so it passes as it is.
        return cast(R, prediction)

    def forward(self, **arguments: Any) -> R:
        """Raises:
        ModelError: no usable reply; MalformedReply where two in a row broke the rules.
        """
        prediction = super().forward(**arguments)
        if problems := self.check(prediction, **arguments):
            prediction = super().forward(**_with_problems(arguments, problems))
        return self._read(prediction, arguments)

    async def aforward(self, **arguments: Any) -> R:
        """Raises:
        ModelError: no usable reply; MalformedReply where two in a row broke the rules.
        """
        prediction = await super().aforward(**arguments)
        if problems := self.check(prediction, **arguments):
            prediction = await super().aforward(**_with_problems(arguments, problems))
        return self._read(prediction, arguments)

    def _read(self, prediction: Any, arguments: dict[str, Any]) -> R:
        if problems := self.check(prediction, **arguments):
            raise MalformedReply(
                f"role {self.role}: the reply breaks the rules twice: {'; '.join(problems)}",
                "Use a stronger model for this role",
            )
        return self.read(prediction, **arguments)


def _with_problems(arguments: dict[str, Any], problems: Sequence[str]) -> dict[str, Any]:
    return {**arguments, "problems": [*arguments.get("problems", ()), *problems]}
