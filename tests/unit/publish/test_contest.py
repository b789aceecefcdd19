from __future__ import annotations

from typing import Any

from claimsmith.kube.backoff import Backoff
from claimsmith.publish.contest import REPAIRS_AT_ONCE, Contest, find_last_manager


class Bench:
    def __init__(self) -> None:
        self.time_s, self.pauses = 0.0, list[float]()
        self.contest = Contest(Backoff(jitter=0, pause=self.pause), clock=lambda: self.time_s)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def repair(self) -> bool:
        begins = self.contest.count()
        await self.contest.pace()
        self.contest.written()
        return begins


async def test_a_few_repairs_need_no_pause_and_further_ones_do() -> None:
    bench = Bench()
    begins = [await bench.repair() for _ in range(REPAIRS_AT_ONCE + 3)]

    assert begins == [False] * REPAIRS_AT_ONCE + [True, False, False]
    assert len(bench.pauses) == 3


async def test_after_a_quiet_time_a_contest_is_over() -> None:
    bench = Bench()
    for _ in range(REPAIRS_AT_ONCE + 1):
        await bench.repair()
    bench.time_s = 31.0
    begins = await bench.repair()

    assert (begins, bench.contest.is_on, len(bench.pauses)) == (False, False, 1)


async def test_new_devices_begin_the_count_anew() -> None:
    bench = Bench()
    for _ in range(REPAIRS_AT_ONCE):
        await bench.repair()
    bench.contest.reset()
    await bench.repair()

    assert bench.contest.repairs == 1


def test_the_last_manager_of_all_objects_is_found() -> None:
    def entry(manager: str, second: int) -> dict[str, str]:
        return {"manager": manager, "time": f"2026-01-01T10:00:0{second}Z"}

    objects: list[dict[str, Any]] = [
        {"metadata": {"managedFields": [entry("ours", 1), entry("rival", 5)]}},
        {"metadata": {"managedFields": [entry("early", 0)]}},
        {"metadata": {}},
    ]

    assert find_last_manager(objects) == "rival"
    assert find_last_manager([]) == ""
