"""Search in the run's passages for the solver's tools: what is found goes through the summarizer (METHOD 6)."""

import asyncio
from typing import Any

from programs.summarizer import Summarizer
from rri.errors import ModelError, ServiceRefused, ServiceUnavailable
from rri.knowledge import PassageIndex
from rri.lm.calls import tagged
from rri.store import Store
from rri.types import Reference
from rri.wire import SearchRequest, SearchResponse

__all__ = ["PassageSearch"]


class PassageSearch:
    """Answers queries. One that fails fails alone: the solver reads that there is no result, and training goes on.

    Args:
        index: the passages.
        summarizer: writes the brief. Where it fails the query has no result; passages are never given out instead.
            None where the solver does not retrieve: queries are refused.
        store: where failures are kept.
        timeout_s: seconds that a brief may take. The solver waits no longer.
    """

    def __init__(self, index: PassageIndex, summarizer: Summarizer | None, store: Store, timeout_s: float) -> None:
        self.index = index
        self.summarizer = summarizer
        self.store = store
        self.timeout_s = timeout_s
        self.searches = 0
        self.failures = 0
        self.last_error = ""

    async def search(self, request: SearchRequest) -> SearchResponse:
        """One brief of the nearest passages; an empty one, without a model call, where there are none.

        Raises:
            ServiceUnavailable: the index or the summarizer failed.
            BudgetExhausted: a hard limit is reached.
            ServiceRefused: the solver of this run does not retrieve.
        """
        if self.summarizer is None:
            raise ServiceRefused("this run answers no searches: solver.retrieval is false", "Set it to true")
        self.searches += 1
        sample = f"search-{self.searches}"
        try:
            passages = await self.index.asearch(request.query, request.passages)
        except Exception as error:  # whatever the index raises, it is this query that has no result
            raise await self._failed(f"{type(error).__name__}: {error}") from error
        if not passages:
            return SearchResponse(brief="")
        with tagged("", sample):
            return SearchResponse(brief=await self._brief(self.summarizer, request.query, passages))

    async def _brief(self, summarizer: Summarizer, query: str, passages: list[Reference]) -> str:
        try:
            # An endpoint that is away would hold the call for longer than anybody waits for it.
            async with asyncio.timeout(self.timeout_s):
                return str(await summarizer.acall(query=query, passages=passages))
        except ModelError as error:
            raise await self._failed(f"{type(error).__name__}: {error}") from error
        except TimeoutError as error:
            raise await self._failed(f"no brief within {self.timeout_s:g} s") from error

    async def _failed(self, why: str) -> ServiceUnavailable:
        """Count and keep a failure; what the solver is told of it."""
        self.failures += 1
        self.last_error = " ".join(why.split())
        await self.store.log("search_failed", self.last_error)
        return ServiceUnavailable(f"the search failed: {self.last_error}", "Try another query")

    def stats(self) -> dict[str, Any]:
        """Counters for `rri status` and `/metrics`, of this start."""
        return {"searches": self.searches, "failures": self.failures, "last_error": self.last_error}
