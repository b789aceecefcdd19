from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.embedded.kubelet.dra import PodClaims
from claimsmith.embedded.kubelet.dra_checkpoint import ClaimState
from claimsmith.embedded.kubelet.plugins import DraPlugins, PreparedDevice
from claimsmith.embedded.kubelet.views import PodView, view_pod
from claimsmith.errors import NotFoundError, PodStartError
from claimsmith.model.claim import ResourceClaim
from claimsmith.testing.builders import allocated, claim, request


class Claims:
    """Claims without devices, so that no driver is called."""

    def __init__(self, **uids: str) -> None:
        self.uids = uids

    def find_known(self, namespace: str, name: str) -> ResourceClaim | None:
        return allocated(claim(name, request(), uid=self.uids[name]), reserved_for=["a", "b"])

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        raise NotFoundError(name)


def pod(name: str) -> PodView:
    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}], "containers": [{"name": "main"}]}
    return view_pod({"metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"}, "spec": spec})


def pod_claims(folder: Path, **uids: str) -> PodClaims:
    claims = PodClaims(DraPlugins(), Claims(**uids), folder / "state")
    claims.load()
    return claims


async def test_what_pods_use_is_known_after_a_restart_but_must_be_prepared_again(tmp_path: Path) -> None:
    first = pod_claims(tmp_path, c="u1")
    await first.prepare(pod("a"))
    await first.prepare(pod("b"))
    state = pod_claims(tmp_path, c="u1").states()[0]

    assert (state.uid, state.pods, state.prepared) == ("u1", {"uid-a", "uid-b"}, False)


async def test_a_stop_between_removing_the_old_file_and_naming_the_new_one_loses_nothing(tmp_path: Path) -> None:
    await pod_claims(tmp_path, c="u1").prepare(pod("a"))
    (tmp_path / "state").rename(tmp_path / ".state")

    assert pod_claims(tmp_path, c="u1").pods() == {"uid-a"}


async def test_a_pod_waits_while_its_claims_can_not_be_written_down(tmp_path: Path) -> None:
    claims = pod_claims(tmp_path / "full", c="u1")
    with pytest.raises(PodStartError, match=r"full/state: can't be written: No such file or directory"):
        await claims.prepare(pod("a"))
    (tmp_path / "full").mkdir()
    await claims.prepare(pod("a"))

    assert pod_claims(tmp_path / "full", c="u1").pods() == {"uid-a"}


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'[{"name": 3}]'])
def test_a_damaged_file_counts_as_empty(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "state").write_bytes(data)

    assert pod_claims(tmp_path).states() == ()


async def test_a_claim_of_the_same_name_with_another_uid_waits_for_the_old_one(tmp_path: Path) -> None:
    claims = pod_claims(tmp_path, c="u1")
    await claims.prepare(pod("a"))
    later = PodClaims(DraPlugins(), Claims(c="u2"), tmp_path / "state")
    later.load()

    with pytest.raises(PodStartError, match="old ResourceClaim with same name c and different UID u1 still exists"):
        await later.prepare(pod("b"))


async def test_a_claim_that_is_being_unprepared_takes_no_other_pod(tmp_path: Path) -> None:
    claims = pod_claims(tmp_path, c="u1")
    await claims.prepare(pod("a"))
    claims.states()[0].unpreparing = True

    with pytest.raises(PodStartError, match="ResourceClaim c is being unprepared"):
        await claims.prepare(pod("b"))


async def test_the_last_pod_takes_the_claim_with_it(tmp_path: Path) -> None:
    claims = pod_claims(tmp_path, c="u1")
    await claims.prepare(pod("a"))
    await claims.prepare(pod("b"))
    await claims.unprepare("uid-a")
    left = claims.pods()
    await claims.unprepare("uid-b")

    assert (left, claims.states(), pod_claims(tmp_path).states()) == ({"uid-b"}, (), ())


async def test_a_pod_whose_claim_is_not_made_yet_waits_for_it(tmp_path: Path) -> None:
    spec = {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}
    view = view_pod({"metadata": {"namespace": "default", "name": "a"}, "spec": spec})

    with pytest.raises(PodStartError, match="pod default/a: ResourceClaim not created yet for pod claim c"):
        await pod_claims(tmp_path).prepare(view)


def test_a_device_without_request_names_is_for_all_requests() -> None:
    devices = (
        PreparedDevice(pool="n", device="d0", requests=("r",), cdi_ids=("k=0",)),
        PreparedDevice(pool="n", device="d1", cdi_ids=("k=1", "k=2")),
    )
    state = ClaimState(namespace="default", name="c", uid="u", devices={"driver": devices})

    assert (state.cdi_ids("r"), state.cdi_ids("other"), state.cdi_ids("")) == (
        ["k=0", "k=1", "k=2"],
        ["k=1", "k=2"],
        ["k=0", "k=1", "k=2"],
    )
