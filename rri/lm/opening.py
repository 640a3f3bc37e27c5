"""From a config to a gateway that answers."""

import atexit
import tempfile
from collections.abc import Callable
from pathlib import Path

from rri.config import RunConfig
from rri.lm.calls import CallSink, Ledger
from rri.lm.embedded import EmbeddedServer, fetch_gguf
from rri.lm.engine import use_gateway
from rri.lm.gateway import Gateway, resolve_routes

__all__ = ["open_gateway"]


def open_gateway(
    config: RunConfig,
    *,
    ledger: Ledger | None = None,
    sink: CallSink | None = None,
    log_dir: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Gateway:
    """Resolve the routes, start the embedded model where a role uses it, and make the gateway current.

    Raises:
        ConfigError: a route cannot be resolved.
        EmbeddedModelError: the embedded model cannot be fetched or started.
    """
    routes = resolve_routes(config)
    embedded = None
    if config.uses_embedded:
        folder = log_dir or Path(tempfile.mkdtemp(prefix="rri-"))
        folder.mkdir(parents=True, exist_ok=True)
        embedded = EmbeddedServer(fetch_gguf(progress), folder / "embedded.log")
        progress("starting the embedded model")
        embedded.start()
        atexit.register(embedded.stop)
    gateway = Gateway(
        routes,
        ledger=ledger or Ledger(config.budget),
        sink=sink,
        embedded_url=embedded.url if embedded else None,
    )
    use_gateway(gateway)
    return gateway
