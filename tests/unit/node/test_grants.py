"""Devices are given to containers and taken back in an order that a stop at any moment does not upset."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from claimsmith.errors import DriverAnswerError, DriverError, GrantRefusedError
from claimsmith.model.inventory import Inventory
from claimsmith.model.prepared import ContainerEdits, PreparedDevices, PrepareRequest
from claimsmith.node.cdi_files import CdiFiles
from claimsmith.node.checkpoint import parse_content
from claimsmith.node.deviceplugin_rules import OfferedDevice, ResourceRule, plan_offers
from claimsmith.node.entry import Grant
from claimsmith.node.grants import Given, Grants
from claimsmith.node.ledger import Ledger
from claimsmith.telemetry import GRANTS_HELD, Meter
from claimsmith.testing import builders as b
from tests.unit.node.recording_driver import RecordingDriver

RESOURCE = "x.test/gpu"
RULE = ResourceRule(resource=RESOURCE)


class Bench:
    """A node with one driver, whose devices are offered."""

    def __init__(self, root: Path) -> None:
        self.folder, self.cdi = root / "driver", root / "cdi"
        self.folder.mkdir()
        self.cdi.mkdir()
        self.driver, self.meter, self.now_s = RecordingDriver(), Meter(), 100.0
        self.inventory = Inventory.of(
            b.device("gpu-0"),
            b.device("gpu-1"),
            b.device("nic-0", capacity={"bandwidth": b.capacity("10G", default="1G")}, allow_multiple_allocations=True),
        )
        self.ledger = Ledger(self.folder, CdiFiles(self.cdi, self.driver.name).read_claims)
        self.ledger.open()
        self.grants = Grants(
            driver=self.driver,
            ledger=self.ledger,
            cdi_folder=self.cdi,
            boot_id="boot",
            meter=self.meter,
            now_s=lambda: self.now_s,
        )

    def offered(self, *ids: str, rule: ResourceRule = RULE) -> list[OfferedDevice]:
        found = plan_offers(self.driver.name, self.inventory, node=b.NODE, rules=[rule])[rule.resource]
        return [item for item in found if item.id in ids]

    def give(self, *ids: str, rule: ResourceRule = RULE, over: Callable[[Grant], bool] = lambda _: False) -> Given:
        self.now_s += 1
        return self.grants.give(rule, self.offered(*ids, rule=rule), is_over=over)

    def stored(self) -> list[tuple[tuple[str, ...], bool]]:
        """Return ids of the grants on the disk, and whether they are finished."""
        path = self.folder / "checkpoint.json"
        content = parse_content(path.read_bytes(), path)
        assert content is not None
        return [(grant.ids, grant.entry.finished) for grant in content.grants.values()]

    def operations(self) -> list[str]:
        return [operation for operation, _ in self.driver.calls]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_grant_is_on_the_disk_before_the_driver_is_called(bench: Bench) -> None:
    seen: list[object] = []
    bench.driver.fail = lambda operation: seen.append((operation, bench.stored()))
    bench.give("gpu-0")

    assert seen == [("prepare", [(("gpu-0",), False)])]
    assert bench.stored() == [(("gpu-0",), True)]


def test_the_driver_sees_a_claim_that_stands_for_the_grant(bench: Bench) -> None:
    asked: list[PrepareRequest] = []
    answer = bench.driver.prepare

    def prepare(request: PrepareRequest) -> PreparedDevices:
        asked.append(request)
        return answer(request)

    bench.driver.prepare = prepare  # type: ignore[method-assign]
    bench.give("gpu-1", "gpu-0")

    assert (asked[0].claim.namespace, asked[0].claim.name) == ("", RESOURCE)
    assert [(device.id.device, device.request, device.share_id) for device in asked[0].devices] == [
        ("gpu-0", "device", ""),
        ("gpu-1", "device", ""),
    ]


def test_a_device_that_is_made_for_shares_comes_as_one_with_all_there_is(bench: Bench) -> None:
    given = bench.give("nic-0")

    assert [device.share_id for device in given.grant.entry.devices] == ["0"]


def test_the_same_ids_are_undone_before_they_are_given_again(bench: Bench) -> None:
    first, second = bench.give("gpu-0"), bench.give("gpu-0")

    assert bench.operations() == ["prepare", "unprepare", "prepare"]
    assert first.cdi_ids == second.cdi_ids
    assert first.grant != second.grant


def test_a_grant_that_is_over_is_undone_before_its_devices_are_given_again(bench: Bench) -> None:
    bench.give("gpu-0", "gpu-1")
    bench.give("gpu-0", over=lambda grant: True)

    assert bench.operations() == ["prepare", "unprepare", "prepare"]
    assert [ids for ids, _ in bench.stored()] == [("gpu-0",)]


def test_a_grant_that_may_not_be_over_stays_beside_the_new_one(bench: Bench) -> None:
    bench.give("gpu-0", "gpu-1")
    bench.give("gpu-0")

    assert [ids for ids, _ in bench.stored()] == [("gpu-0", "gpu-1"), ("gpu-0",)]


def test_what_is_given_again_is_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bench.give("gpu-0")
    told = list(caplog.messages)
    bench.give("gpu-0")

    assert (told, caplog.messages) == ([], [f"Devices are given again resource={RESOURCE} ids=gpu-0"])


def test_what_was_only_begun_is_not_told_to_be_given_again(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    bench.driver.fail = _fail_at("prepare", "unprepare")
    with pytest.raises(DriverError):
        bench.give("gpu-0")
    bench.driver.fail = lambda operation: None
    bench.give("gpu-0")

    assert [message for message in caplog.messages if "again" in message] == []


def test_a_grant_that_was_given_again_meanwhile_is_not_taken_back(bench: Bench) -> None:
    old = bench.give("gpu-0").grant
    bench.give("gpu-0")

    assert not bench.grants.take_back(old)
    assert [ids for ids, _ in bench.stored()] == [("gpu-0",)]


def test_what_is_taken_back_leaves_nothing(bench: Bench) -> None:
    given = bench.give("gpu-0")

    assert bench.grants.take_back(given.grant)
    assert bench.stored() == []
    assert list(bench.cdi.iterdir()) == []
    assert bench.meter.values()[GRANTS_HELD, (("driver", bench.driver.name),)] == 0


def test_a_driver_that_can_not_undo_keeps_the_grant(bench: Bench) -> None:
    given = bench.give("gpu-0")
    bench.driver.fail = _fail_at("unprepare")

    with pytest.raises(DriverError, match="unprepare failed: OSError: busy"):
        bench.grants.take_back(given.grant)
    assert [ids for ids, _ in bench.stored()] == [("gpu-0",)]


def test_a_failed_prepare_holds_nothing(bench: Bench) -> None:
    bench.driver.fail = _fail_at("prepare")

    with pytest.raises(DriverError, match="prepare failed: OSError: busy"):
        bench.give("gpu-0")
    assert bench.stored() == []
    assert bench.operations() == ["prepare", "unprepare"]


def test_a_failed_prepare_that_can_not_be_undone_is_kept_for_later(bench: Bench) -> None:
    bench.driver.fail = _fail_at("prepare", "unprepare")

    with pytest.raises(DriverError):
        bench.give("gpu-0")
    assert bench.stored() == [(("gpu-0",), False)]


def test_an_answer_that_containers_can_not_use_is_refused(bench: Bench) -> None:
    answer = bench.driver.prepare
    bench.driver.prepare = lambda request: PreparedDevices(  # type: ignore[method-assign]
        devices=answer(request).devices, common=ContainerEdits(env={"A=B": "c"})
    )

    with pytest.raises(DriverAnswerError, match=r"common\.env"):
        bench.give("gpu-0")
    assert bench.stored() == []


def test_more_than_one_replica_needs_a_rule_that_allows_it(bench: Bench) -> None:
    rule = ResourceRule(resource=RESOURCE, replicas=2)

    with pytest.raises(GrantRefusedError, match="found a container that asks for 2, allowed 1"):
        bench.give("gpu-0::0", "gpu-1::0", rule=rule)
    assert bench.operations() == []


def test_what_is_prepared_already_is_not_prepared_again_before_a_start(bench: Bench) -> None:
    given = bench.give("gpu-0")

    assert bench.grants.make_sure(RULE, bench.offered("gpu-0")) == given.grant
    assert bench.operations() == ["prepare"]


def test_a_container_that_starts_without_a_grant_gets_one(bench: Bench) -> None:
    bench.grants.make_sure(RULE, bench.offered("gpu-0"))

    assert bench.stored() == [(("gpu-0",), True)]


def test_what_a_container_has_is_written_down_once(bench: Bench) -> None:
    assert bench.grants.adopt(RESOURCE, bench.offered("gpu-0"))
    assert not bench.grants.adopt(RESOURCE, bench.offered("gpu-0"))

    assert bench.stored() == [(("gpu-0",), False)]
    assert bench.operations() == []


def _fail_at(*operations: str) -> Callable[[str], None]:
    def fail(operation: str) -> None:
        if operation in operations:
            raise OSError("busy")

    return fail
