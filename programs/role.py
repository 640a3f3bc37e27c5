"""What all role modules share: one predictor, our adapter, and our errors."""

from typing import Any, Generic, TypeVar

import dspy

from rri.lm.adapter import RriAdapter
from rri.lm.engine import model_errors

__all__ = ["RoleModule"]

R = TypeVar("R")

_ADAPTER = RriAdapter()


class RoleModule(dspy.Module, Generic[R]):
    """A role: typed arguments in, a typed result out, one model call between.

    Works alone after `dspy.configure(lm=...)`, or bound with `set_lm`. A subclass says in `fields` what its
    arguments put into the prompt and in `result` what a prediction means. Keeps no state between calls.
    """

    signature: type[dspy.Signature]

    def __init__(self) -> None:
        super().__init__()
        self.predict = dspy.Predict(self.signature)

    def load_state(self, state: Any, **options: Any) -> None:
        """Load a saved module; it keeps its signature's name, which dspy would drop and the wire schema carries."""
        name = self.predict.signature.__name__
        super().load_state(state, **options)
        self.predict.signature.__name__ = name

    def fields(self, **arguments: Any) -> dict[str, Any]:
        """Input values of the signature."""
        return arguments

    def result(self, prediction: Any) -> R:
        """What the caller gets."""
        raise NotImplementedError

    def forward(self, **arguments: Any) -> R:
        """Raises:
        ModelError: no usable reply.
        """
        with model_errors(), dspy.context(adapter=_ADAPTER, disable_history=True):
            prediction = self.predict(**self.fields(**arguments))
        return self.result(prediction)

    async def aforward(self, **arguments: Any) -> R:
        """Raises:
        ModelError: no usable reply.
        """
        with model_errors(), dspy.context(adapter=_ADAPTER, disable_history=True):
            prediction = await self.predict.acall(**self.fields(**arguments))
        return self.result(prediction)
