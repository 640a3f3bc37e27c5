"""A producer with its real writer, admitter, store and pool, on scripted models and a shelf instead of an index."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from programs import Roles, TaskWriter
from rri.cases import GuidanceVersion, MemoVersion
from rri.config import RunConfig
from rri.lm import Gateway
from rri.pool import Pool
from rri.service.producer import GuidedWriter, Producer
from rri.store import Store
from rri.testing import ChatRequest, Fault, Reply, ScriptedServer, role_models
from rri.types import Message, Reference
from tests.rigs import open_test_gateway, scripted_config

__all__ = ["Shop", "producing"]

PASSAGES = [Reference(id=f"p{i}", title=f"Rule {i}", text=f"Rule {i} says {i}.", source="book") for i in range(3)]

Tokens = Callable[[list[Message]], int]
Model = Callable[[ChatRequest], Reply | Fault | str]


class Shelf:
    """Finds the first passages."""

    async def asearch(self, query: str, k: int) -> list[Reference]:
        return PASSAGES[:k]


class Shop:
    """A producer and what it works with.

    Args:
        config, gateway, server, store: what it is made on.
        tokens: length of a prompt in the solver's tokens.
    """

    pool: Pool
    producer: Producer

    def __init__(
        self, config: RunConfig, gateway: Gateway, server: ScriptedServer, store: Store, tokens: Tokens
    ) -> None:
        self.config = config
        self.gateway = gateway
        self.server = server
        self.store = store
        self.tokens = tokens
        self.roles = Roles.bind(config, gateway)
        self.expecting = True
        self.open()

    def open(self) -> None:
        """A new pool and a new producer on what the store holds, as a restart makes them."""
        self.gateway.loop.run(self._open())

    async def _open(self) -> None:
        config, store = self.config, self.store
        self.pool = Pool(store, config.seed, config.pool, lambda: self.expecting, lambda: self.producer.nudge())
        self.producer = Producer(config, self.writer(), self.roles.admitter(), store, self.pool, self.tokens)

    def run(self) -> None:
        """Produce until the target is reached."""
        self.gateway.loop.run(self.producer.run())

    def writer(self, guidance: GuidanceVersion | None = None, memo: MemoVersion | None = None) -> GuidedWriter:
        """A writer under these texts."""
        guidance, memo = guidance or GuidanceVersion(version=0), memo or MemoVersion(version=0)
        proposer, generator = self.roles.guided(guidance, memo)
        config = self.config
        writer = TaskWriter(proposer, generator, Shelf(), PASSAGES, config.domain, config.generation, config.seed)
        return GuidedWriter(writer, guidance.version, memo.version)


@contextmanager
def producing(
    folder: Path,
    models: dict[str, Model] | None = None,
    *,
    fault: Callable[[ChatRequest], Fault | None] = lambda request: None,
    tokens: Tokens = lambda messages: 1,
    **sections: Any,
) -> Iterator[Shop]:
    """A shop on an empty store in `folder`."""
    with ScriptedServer(role_models(**(models or {})), fault=fault) as server:
        config = scripted_config(server.url, **sections)
        store = Store(folder)
        try:
            with open_test_gateway(config, store) as gateway:
                yield Shop(config, gateway, server, store, tokens)
        finally:
            store.close()
