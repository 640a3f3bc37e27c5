"""Search in the run's passages for the solver's tools (METHOD 6).

The nearest passages are given out as they stand. The method puts a frozen summarizer between search and solver, which
is a role that this version does not have.
"""

from typing import Any

from rri.errors import ServiceUnavailable
from rri.knowledge import PassageIndex
from rri.store import Store
from rri.wire import SearchRequest, SearchResponse

__all__ = ["PassageSearch"]


class PassageSearch:
    """Answers queries. One that fails fails alone: the solver reads that there is no result, and training goes on.

    Args:
        index: the passages.
        store: where failures are kept.
    """

    def __init__(self, index: PassageIndex, store: Store) -> None:
        self.index = index
        self.store = store
        self.searches = 0
        self.failures = 0
        self.last_error = ""

    async def search(self, request: SearchRequest) -> SearchResponse:
        """The nearest passages, best first; fewer than asked for where the corpus is smaller.

        Raises:
            ServiceUnavailable: the index failed.
        """
        self.searches += 1
        try:
            passages = await self.index.asearch(request.query, request.passages)
        except Exception as error:  # whatever the index raises, it is this query that has no result
            self.failures += 1
            self.last_error = " ".join(f"{type(error).__name__}: {error}".split())
            await self.store.log("search_failed", self.last_error)
            raise ServiceUnavailable(f"the search failed: {self.last_error}", "Try another query") from error
        return SearchResponse(passages=tuple(passages))

    def stats(self) -> dict[str, Any]:
        """Counters for `rri status` and `/metrics`, of this start."""
        return {"searches": self.searches, "failures": self.failures, "last_error": self.last_error}
