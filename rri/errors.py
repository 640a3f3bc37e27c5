"""The whole error tree of rri. Every message says what happened, where, and what to do.

::

    RriError
    |-- ConfigError            a config file, preset or option is wrong            (exit 2)
    |-- InputError             a file that the user gave is wrong                  (exit 2)
    |   |-- CorpusError          passages file: path and line
    |   `-- TaskFileError        task or rubric file: path and line
    |-- RunDirError            the run directory cannot be used                    (exit 3)
    |   |-- RunLocked            another process owns it
    |   |-- RunVersionMismatch   written by another layout version
    |   `-- RunConfigChanged     resumed under another config
    |-- StoreError             the database could not keep a row (disk full, ...)  (exit 4)
    |-- ModelError             a model call failed; it never becomes a verdict     (exit 5)
    |   |-- EndpointError        the endpoint did not answer as asked
    |   |   |-- EndpointUnreachable   refused, reset, DNS                  (retried)
    |   |   |-- EndpointTimeout       no answer before the deadline        (retried)
    |   |   |-- EndpointBusy          429                                  (retried)
    |   |   |-- EndpointFailed        5xx, or a reply that is no JSON      (retried)
    |   |   `-- EndpointRefused       400, 401, 403, 404: fix the request  (not retried)
    |   `-- ReplyError           the endpoint answered, the reply is unusable
    |       |-- EmptyReply
    |       |-- TruncatedReply        finish reason "length"
    |       `-- MalformedReply        not JSON, or JSON of another shape
    |-- BudgetExhausted        a hard limit of the run was reached                 (exit 6)
    |-- Interrupted            Ctrl-C or SIGTERM                                    (exit 130)
    |-- TrainerFailed          the trainer ended with an error of its own           (exit 9)
    |-- EmbeddedModelError     the embedded model cannot be fetched or started     (exit 7)
    `-- ServiceError           the client could not use the service                (exit 8)
        |-- ServiceUnavailable     down, paused or overloaded: wait and try again
        `-- ServiceRefused         the request is wrong: waiting will not help
"""

from typing import ClassVar

__all__ = [
    "BudgetExhausted",
    "ConfigError",
    "CorpusError",
    "EmbeddedModelError",
    "EmptyReply",
    "EndpointBusy",
    "EndpointError",
    "EndpointFailed",
    "EndpointRefused",
    "EndpointTimeout",
    "EndpointUnreachable",
    "InputError",
    "Interrupted",
    "MalformedReply",
    "ModelError",
    "ReplyError",
    "RriError",
    "RunConfigChanged",
    "RunDirError",
    "RunLocked",
    "RunVersionMismatch",
    "ServiceError",
    "ServiceRefused",
    "ServiceUnavailable",
    "StoreError",
    "TaskFileError",
    "TrainerFailed",
    "TruncatedReply",
]


class RriError(Exception):
    """Base of every error that rri raises on purpose.

    Args:
        what: what happened and where, with the values that clash.
        fix: what the reader can do about it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what, fix)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}. {self.fix}" if self.fix else self.what


class ConfigError(RriError):
    """A config file, preset or option is wrong."""

    exit_code = 2


class InputError(RriError):
    """A file that the user gave is wrong."""

    exit_code = 2


class CorpusError(InputError):
    """A passages file is missing, empty or malformed."""


class TaskFileError(InputError):
    """A task or rubric file is missing or malformed."""


class RunDirError(RriError):
    """The run directory cannot be used."""

    exit_code = 3


class RunLocked(RunDirError):
    """Another process owns the run directory."""


class RunVersionMismatch(RunDirError):
    """The run directory was written by another layout version."""


class RunConfigChanged(RunDirError):
    """The run was started under another config."""


class StoreError(RriError):
    """The database could not keep a row."""

    exit_code = 4


class ModelError(RriError):
    """A model call failed. It is data for the caller, never a verdict."""

    exit_code = 5
    retryable: ClassVar[bool] = False


class EndpointError(ModelError):
    """The endpoint did not answer as asked."""

    def __init__(self, what: str, fix: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(what, fix)
        self.retry_after = retry_after


class EndpointUnreachable(EndpointError):
    """Refused, reset, or no such host."""

    retryable = True


class EndpointTimeout(EndpointError):
    """No answer before the deadline."""

    retryable = True


class EndpointBusy(EndpointError):
    """HTTP 429."""

    retryable = True


class EndpointFailed(EndpointError):
    """HTTP 5xx, or a body that is not a chat completion."""

    retryable = True


class EndpointRefused(EndpointError):
    """HTTP 4xx other than 429: the request or the key is wrong."""


class ReplyError(ModelError):
    """The endpoint answered, but the reply is unusable."""


class EmptyReply(ReplyError):
    """The reply has no content."""


class TruncatedReply(ReplyError):
    """The reply stopped at the token limit; it is never repaired into an answer."""


class MalformedReply(ReplyError):
    """The reply is not JSON, or JSON of another shape."""


class BudgetExhausted(RriError):
    """A hard limit on calls, tokens, money or time was reached."""

    exit_code = 6


class EmbeddedModelError(RriError):
    """The embedded model cannot be fetched or started."""

    exit_code = 7


class Interrupted(RriError):
    """Ctrl-C or SIGTERM ended the command; what was reported is kept."""

    exit_code = 130


class TrainerFailed(RriError):
    """The trainer ended with an error of its own."""

    exit_code = 9


class ServiceError(RriError):
    """The client could not use the service."""

    exit_code = 8


class ServiceUnavailable(ServiceError):
    """The service is down, paused or overloaded: wait and try again."""


class ServiceRefused(ServiceError):
    """The request is wrong: waiting will not help."""
