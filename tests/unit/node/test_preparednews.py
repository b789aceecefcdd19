"""Claims of which a driver has learnt more are told of until that is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from claimsmith.errors import ClaimNotReadyError, DriverError, NotFoundError, UnreachableError
from claimsmith.kube.backoff import Backoff
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.preparednews import PreparedNews
from claimsmith.testing.builders import claim_key


class Teller:
    """Tells of claims, unless errors are left to be raised; `told` has the claims that were tried."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.told: list[str] = []
        self.is_done, self.was_asked = asyncio.Event(), asyncio.Event()

    async def refresh(self, claim: ClaimKey) -> None:
        self.told.append(claim.name)
        self.was_asked.set()
        if claim.name == "last":
            self.is_done.set()
        elif self._errors:
            raise self._errors.pop(0)


@asynccontextmanager
async def telling(teller: Teller) -> AsyncIterator[PreparedNews]:
    news = PreparedNews(teller.refresh, backoff=Backoff(initial_s=0.001, max_s=0.001))
    work = asyncio.create_task(news.run())
    yield news
    await teller.is_done.wait()
    work.cancel()


@pytest.mark.parametrize("error", [UnreachableError("no answer"), DriverError("busy"), TimeoutError()])
async def test_what_can_not_be_told_now_is_told_later(error: Exception) -> None:
    teller = Teller(error, error)
    async with telling(teller) as news:
        news.note(claim_key("first"))
        while len(teller.told) < 3:
            await teller.was_asked.wait()
            teller.was_asked.clear()
        news.note(claim_key("last"))

    assert teller.told == ["first", "first", "first", "last"]


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("claim default/first: found none", status=404, reason="NotFound"),
        ClaimNotReadyError(claim_key("first"), "found it made again", lasts=True),
    ],
)
async def test_a_claim_that_is_over_is_told_of_no_more(error: Exception) -> None:
    teller = Teller(error)
    async with telling(teller) as news:
        news.note(claim_key("first"))
        news.note(claim_key("last"))

    assert teller.told == ["first", "last"]


async def test_news_of_a_claim_in_the_meantime_are_told_once() -> None:
    teller = Teller()
    async with telling(teller) as news:
        for _ in range(5):
            news.note(claim_key("first"))
        news.note(claim_key("last"))

    assert teller.told == ["first", "last"]
