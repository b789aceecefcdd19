"""When the kubelet is asked what pods have: not while it may be admitting one."""

from __future__ import annotations

import asyncio

from claimsmith.node.deviceplugins import settle


async def count_pauses(grants: int) -> tuple[int, bool]:
    """Return after how many pauses the kubelet is asked, while grants come in so many of them; and what is left."""
    news, pauses = asyncio.Event(), list[float]()
    news.set()

    async def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) <= grants:
            news.set()

    await settle(news, pause_s=1.0, sleep=sleep)
    return len(pauses), news.is_set()


async def test_one_pause_follows_one_grant() -> None:
    assert await count_pauses(0) == (1, False)


async def test_a_grant_in_a_pause_asks_for_another_one() -> None:
    assert await count_pauses(2) == (3, False)


async def test_grants_without_end_put_off_the_question_for_ten_pauses() -> None:
    assert await count_pauses(1000) == (10, False)
