"""The engine pair through which dspy reaches the gateway, and the way back for errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self, cast

import dspy
from dspy import lm15
from dspy.utils.exceptions import AdapterParseError, LMError

from rri.config import ROLES, Role
from rri.errors import ConfigError, MalformedReply, RriError
from rri.lm.adapter import OutputSpec, spec_named
from rri.lm.gateway import Gateway, ModelRequest
from rri.lm.replies import Reply

__all__ = ["AsyncGatewayEngine", "GatewayEngine", "current_gateway", "model_errors", "role_lm", "use_gateway"]

_CURRENT: list[Gateway] = []


def use_gateway(gateway: Gateway) -> None:
    """Make `gateway` the one that saved programs find again when they are loaded."""
    _CURRENT[:] = [gateway]


def current_gateway() -> Gateway:
    """The gateway that `use_gateway` named last.

    Raises:
        ConfigError: none was named.
    """
    if not _CURRENT:
        raise ConfigError("no gateway is open", "Call rri.lm.open_gateway(...) first")
    return _CURRENT[0]


class _CarriedError(LMError):
    """Takes one of our errors through dspy, which wraps every foreign exception."""

    def __init__(self, error: RriError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def model_errors() -> Iterator[None]:
    """Turn dspy's errors back into ours around a module call.

    Raises:
        ModelError: what the gateway raised, unchanged; MalformedReply where dspy could not parse.
    """
    try:
        yield
    except _CarriedError as carried:
        raise carried.error from None
    except AdapterParseError as error:
        raise MalformedReply(str(error)) from None


class _Engine:
    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format")

    def __init__(self, role: Role, gateway: Gateway | None = None) -> None:
        self.role = role
        self._gateway = gateway

    @property
    def gateway(self) -> Gateway:
        return self._gateway or current_gateway()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # dspy copies modules; the gateway behind them is shared, not copied.
        return self

    def dump_state(self) -> dict[str, Any]:
        return {"role": self.role}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> Self:
        role = state.get("role")
        if role not in ROLES:
            raise ValueError(f"saved engine names the role {role!r}; known are {', '.join(ROLES)}")
        return cls(cast(Role, role))

    def _request(self, request: lm15.Request) -> ModelRequest:
        messages = []
        if request.system is not None:
            messages.append({"role": "system", "content": _text(request.system)})
        messages += [{"role": str(m.role), "content": m.text or ""} for m in request.messages]
        return ModelRequest(
            role=self.role,
            messages=messages,
            output=_output(request.config.response_format),
            temperature=request.config.temperature,
            max_tokens=request.config.max_tokens,
        )

    def _response(self, request: lm15.Request, reply: Reply) -> lm15.Response:
        usage = reply.usage
        return lm15.Response(
            id=f"rri-{self.role}",
            model=request.model,
            message=lm15.Message(role="assistant", parts=(lm15.TextPart(text=reply.text),)),
            finish_reason="stop",
            usage=lm15.Usage(
                input_tokens=usage.tokens_in,
                output_tokens=usage.tokens_out,
                total_tokens=usage.tokens_in + usage.tokens_out,
            ),
        )


class GatewayEngine(_Engine):
    """dspy's synchronous engine."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        try:
            return self._response(request, self.gateway.complete_sync(self._request(request)))
        except RriError as error:
            raise _CarriedError(error) from error


class AsyncGatewayEngine(_Engine):
    """dspy's asynchronous engine."""

    async def complete(self, request: lm15.Request) -> lm15.Response:
        try:
            return self._response(request, await self.gateway.complete(self._request(request)))
        except RriError as error:
            raise _CarriedError(error) from error


def _text(system: Any) -> str:
    return system if isinstance(system, str) else "".join(getattr(part, "text", "") for part in system)


def _output(response_format: Any) -> OutputSpec:
    """The spec that our adapter rendered; dspy carries only its wire form."""
    if not response_format:
        return OutputSpec("text", None, {}, ("text",))
    wire = response_format.get("json_schema", response_format) if isinstance(response_format, dict) else {}
    spec = spec_named(str(wire.get("name", "")))
    if spec is None:
        raise MalformedReply(
            "a response format that rri did not render reached the gateway", "Use rri.lm.RriAdapter with dspy.configure"
        )
    return spec


def role_lm(role: Role, gateway: Gateway | None = None) -> dspy.LM:
    """The dspy.LM of one role. Its calls go to `gateway`, or to the current one when they are made."""
    return dspy.LM(
        f"rri/{role}",
        engine=GatewayEngine(role, gateway),
        async_engine=AsyncGatewayEngine(role, gateway),
        cache=False,
        num_retries=0,
    )
