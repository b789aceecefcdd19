from __future__ import annotations

import pytest

from claimsmith.errors import DriverAnswerError
from claimsmith.model.claim import NetworkData
from claimsmith.model.prepared import DeviceCondition, DeviceStatus, PreparedDevice, PreparedDevices
from claimsmith.node.claimstatus import ClaimStatus, encode_claim_status, find_claim_status, plan_claim_status
from claimsmith.testing.builders import prepare_request, requested

READY = DeviceCondition(type="Ready", status="True", reason="Configured", message="all is well")
LATER_S = 1_800_000_000.0


def plan(status: DeviceStatus | None, *, now_s: float = 0.0, before: ClaimStatus | None = None) -> ClaimStatus:
    asked = prepare_request(requested("nic-0", share="11111111-1111-4111-8111-111111111111"))
    answer = PreparedDevices(devices=(PreparedDevice(device=asked.devices[0], status=status),))
    return plan_claim_status(asked, answer, now_s=now_s, before=before)


def test_a_report_names_the_device_and_its_share() -> None:
    network = NetworkData(interface_name="eth1", ips=("10.0.0.1/24",))
    (report,) = plan(DeviceStatus(conditions=(READY,), data={"a": 1}, network=network)).devices

    assert (report.pool, report.device, report.share_id) == ("node-a", "nic-0", "11111111-1111-4111-8111-111111111111")
    assert (report.data, report.network_data) == ({"a": 1}, network)


def test_a_device_without_a_status_is_not_in_the_report() -> None:
    assert plan(None).devices == ()


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = plan(DeviceStatus(conditions=(READY,)))
    same = plan(DeviceStatus(conditions=(READY,)), now_s=LATER_S, before=first)
    failed = DeviceCondition(type="Ready", status="False", reason="Lost")
    changed = plan(DeviceStatus(conditions=(failed,)), now_s=LATER_S, before=first)

    times = [item.devices[0].conditions[0]["lastTransitionTime"] for item in (first, same, changed)]
    assert times == ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "2027-01-15T08:00:00Z"]


def test_the_file_gives_back_what_was_written() -> None:
    status = plan(DeviceStatus(conditions=(READY,), data={"list": [1, {"x": None}]}))

    assert find_claim_status(encode_claim_status(status)) == status


def test_a_damaged_file_says_nothing() -> None:
    whole = encode_claim_status(plan(DeviceStatus(conditions=(READY,))))

    assert [find_claim_status(whole[:size]) for size in range(len(whole))] == [None] * len(whole)


@pytest.mark.parametrize(
    ("status", "field"),
    [
        (
            DeviceStatus(conditions=(DeviceCondition(type="Ready", status="true", reason="X"),)),
            r"conditions\[0\]\.status",
        ),
        (
            DeviceStatus(conditions=(DeviceCondition(type="Ready", status="True", reason=""),)),
            r"conditions\[0\]\.reason",
        ),
        (DeviceStatus(network=NetworkData(ips=("10.0.0.1",))), r"networkData\.ips\[0\]"),
        (DeviceStatus(data={"x": "y" * 11_000}), "data"),
    ],
)
def test_what_the_api_server_would_refuse_is_an_error_that_names_the_field(status: DeviceStatus, field: str) -> None:
    with pytest.raises(DriverAnswerError, match=rf"^devices\[0\]\.status\.{field}"):
        plan(status)
