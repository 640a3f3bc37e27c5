"""From a config to a gateway that answers."""

import atexit
import tempfile
from collections.abc import Callable
from pathlib import Path

from rri.config import CacheConfig, RunConfig
from rri.lm.calls import CallSink, Ledger
from rri.lm.embedded import EmbeddedServer, cache_dir, fetch_gguf
from rri.lm.engine import use_gateway
from rri.lm.gateway import Gateway
from rri.lm.reply_cache import ReplyCache
from rri.lm.routes import resolve_routes

__all__ = ["open_gateway"]


def open_gateway(
    config: RunConfig,
    *,
    ledger: Ledger | None = None,
    sink: CallSink | None = None,
    log_dir: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
    say: Callable[[str], None] | None = None,
) -> Gateway:
    """Resolve the routes, start the embedded model where a role uses it, and make the gateway current.

    Args:
        config: the run's config.
        ledger, sink: see `Gateway`.
        log_dir: where the embedded model logs.
        progress: told what is being opened.
        say: told when an endpoint goes away or comes back; `progress` by default.

    Raises:
        ConfigError: a route cannot be resolved.
        StoreError: the vote cache cannot be opened.
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
        cache=_open_cache(config.cache),
        say=say or progress,
    )
    use_gateway(gateway)
    return gateway


def _open_cache(config: CacheConfig) -> ReplyCache | None:
    if not config.enabled:
        return None
    return ReplyCache(Path(config.folder) if config.folder else cache_dir() / "votes", config.max_mb)
