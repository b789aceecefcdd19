from __future__ import annotations

from claimsmith.model.claim import AllocatedDeviceStatus, NetworkData
from claimsmith.publish.claimstatus import plan_device_status
from claimsmith.testing.builders import claim_key

HEAD = {"name": "claim", "namespace": "default", "uid": "uid-claim"}


def test_what_is_applied_holds_the_devices_and_the_uid_of_the_claim() -> None:
    report = AllocatedDeviceStatus(
        driver="d", pool="p", device="nic-0", data={"slot": 3}, network_data=NetworkData(ips=("10.0.0.1/24",))
    )

    assert plan_device_status(claim_key(), [report]) == {
        "metadata": HEAD,
        "status": {
            "devices": [
                {
                    "driver": "d",
                    "pool": "p",
                    "device": "nic-0",
                    "data": {"slot": 3},
                    "networkData": {"ips": ["10.0.0.1/24"]},
                }
            ]
        },
    }


def test_nothing_to_say_gives_up_what_was_said() -> None:
    assert plan_device_status(claim_key(), []) == {"metadata": HEAD, "status": {}}
