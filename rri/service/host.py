"""Serving one run over HTTP on the gateway's loop."""

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Iterator

import uvicorn

from rri.client import SERVICE_FILE, write_address
from rri.config import ServiceConfig
from rri.errors import ConfigError
from rri.service.app import make_app
from rri.service.run import OpenRun
from rri.wire import ServiceAddress

__all__ = ["check_access", "hosted"]

TOKEN_VARIABLE = "RRI_SERVICE_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check_access(settings: ServiceConfig) -> None:
    """Raises:
    ConfigError: others can reach the host, and there is no token.
    """
    if settings.host not in LOOPBACK and not os.environ.get(TOKEN_VARIABLE):
        raise ConfigError(
            f"service.host is {settings.host}, which others can reach, and there is no token",
            f"Export {TOKEN_VARIABLE} with a secret of your own",
        )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}", "Change service.host or service.port"
        ) from None
    return listener


@contextlib.contextmanager
def hosted(run: OpenRun) -> Iterator[ServiceAddress]:
    """Serve `run` while the block lasts; its address stands in the run directory meanwhile.

    Raises:
        ConfigError: the address cannot be used, or a token is missing.
    """
    settings = run.config.service
    check_access(settings)
    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24)
    listener = _listen(settings.host, settings.port)
    config = uvicorn.Config(
        make_app(run, token), log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    loop = run.gateway.loop
    serving = loop.submit(server.serve([listener]))
    port = listener.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = ServiceAddress(url=f"http://{host}:{port}", token=token, pid=os.getpid())
    loop.run(run.start())
    write_address(run.folder.path, address)
    try:
        yield address
    finally:
        (run.folder.path / SERVICE_FILE).unlink(missing_ok=True)
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            serving.result(timeout=10)
