"""Commands that only read, on files, on a snapshot and on a live cluster: the same answers, and nothing changed."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from claimsmith.api.kinds import DEVICE_CLASS, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.daemons.tour import TOUR_FOLDER
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer, kubeconfig_for
from claimsmith.embedded.store import Store
from claimsmith.kube.client import KubeClient
from tests.scenarios.cli_process import Ran, call_claimsmith, complaint, run_claimsmith

EXAMPLE: Final = str(TOUR_FOLDER)
HELD: Final = str(TOUR_FOLDER.parent / "what-if/cluster.yaml")
SECRET: Final = "hunter2-swordfish"
SLICE: Final[dict[str, Any]] = {
    "metadata": {"name": "alpha-gpus"},
    "spec": {
        "driver": "gpu.example.com",
        "nodeName": "alpha",
        "pool": {"name": "alpha", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "one"}, {"name": "two"}],
    },
}
CLAIM: Final[dict[str, Any]] = {
    "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": 1}}]}
}
WAITING: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: second}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, count: 1}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: mine}
spec:
  containers: [{name: main, image: 'x:1', resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimName: second}]
"""


@pytest.fixture(autouse=True)
def _no_usual_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with Store(stored_kinds()) as opened:
        yield opened


@pytest.fixture
async def kubeconfig(store: Store, tmp_path: Path) -> AsyncIterator[Path]:
    """A kubeconfig of a cluster with two devices, one of them held by a claim with secrets around it."""
    async with EmbeddedApiServer(store) as server:
        client = KubeClient.for_url(server.url)
        await client.create(NODE, {"metadata": {"name": "alpha", "annotations": {"token": SECRET}}})
        await client.create(DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {}})
        await client.create(RESOURCE_SLICE, SLICE)
        await client.create(RESOURCE_CLAIM, {"metadata": {"name": "first"}, "spec": CLAIM}, namespace="default")
        results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "alpha", "device": "one"}]
        status = {"status": {"allocation": {"devices": {"results": results}}}}
        await client.patch(RESOURCE_CLAIM, "first", status, namespace="default", subresource="status")
        env = [{"name": "TOKEN", "value": SECRET}]
        pod = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "x:1", "env": env}]}}
        await client.create(POD, pod, namespace="default")
        await client.close()
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_for(server.url)))
        yield path


async def run(*arguments: str, temporary: Path, text: bytes = b"", **changes: str) -> Ran:
    return await asyncio.to_thread(run_claimsmith, *arguments, temporary=temporary, text=text, **changes)


async def test_a_live_cluster_is_read_and_left_as_it_is(store: Store, kubeconfig: Path, tmp_path: Path) -> None:
    before = store.version
    ran = await run("devices", "--kubeconfig", str(kubeconfig), "-o", "json", temporary=tmp_path)
    held = {item["device"]: item["heldBy"] for item in json.loads(ran.out)["devices"]}

    assert (ran.code, ran.err) == (0, "")
    assert held == {"gpu.example.com/alpha/one": ["default/first"], "gpu.example.com/alpha/two": []}
    assert store.version == before


async def test_a_snapshot_of_a_live_cluster_gives_the_same_answers_without_its_secrets(
    kubeconfig: Path, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.json"
    saved = await run("snapshot", "save", str(file), "--kubeconfig", str(kubeconfig), temporary=tmp_path)
    live = await run("devices", "--kubeconfig", str(kubeconfig), "-o", "json", temporary=tmp_path)

    assert saved.code == 0, saved.err
    assert SECRET not in file.read_text()
    assert call_claimsmith("devices", "--snapshot", str(file), "-o", "json").out == live.out


async def test_files_are_put_on_a_live_cluster(kubeconfig: Path, tmp_path: Path) -> None:
    ran = await run(
        "explain", "pod/mine", "-f", "-", "--kubeconfig", str(kubeconfig), temporary=tmp_path, text=WAITING.encode()
    )

    assert (ran.code, ran.out) == (0, "pod/default/mine fits on node alpha: alpha/two\n")


async def test_without_any_option_the_usual_kubeconfig_is_taken(kubeconfig: Path, tmp_path: Path) -> None:
    ran = await run("devices", "-o", "json", temporary=tmp_path, KUBECONFIG=str(kubeconfig))

    assert len(json.loads(ran.out)["devices"]) == 2


async def test_a_cluster_that_does_not_answer_makes_exit_3(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with socket.create_server(("127.0.0.1", 0)) as freed:
        host, port = freed.getsockname()
    path.write_text(yaml.safe_dump(kubeconfig_for(f"http://{host}:{port}")))
    ran = await run("devices", "--kubeconfig", str(path), temporary=tmp_path)

    assert f"at {host}:{port}" in complaint(ran, code=3)


@pytest.mark.parametrize("name", ["cluster.json", "cluster.yaml"])
def test_files_and_their_snapshot_give_the_same_decisions(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    saved = call_claimsmith("snapshot", "save", str(file), "-f", EXAMPLE)
    direct = call_claimsmith("allocate", "-f", EXAMPLE, "-o", "json")

    assert saved.err.startswith(f"claimsmith: {file}: ")
    assert "nodes 5, " in saved.err
    for option in ("--snapshot", "-f"):
        ran = call_claimsmith("allocate", option, str(file), "-o", "json")
        assert without_ids(ran) == without_ids(direct)


def without_ids(ran: Ran) -> Any:
    """Return decisions without share ids, which are new in each run."""
    assert ran.code == 1, ran.err
    return [
        {**item, "claims": [drop_share_ids(claim) for claim in item.get("claims", [])]}
        for item in json.loads(ran.out)["decisions"]
    ]


def drop_share_ids(claim: dict[str, Any]) -> Any:
    devices = claim["allocation"]["devices"]["results"]
    return [{key: value for key, value in result.items() if key != "shareID"} for result in devices]


def test_a_snapshot_is_readable_by_its_owner_alone_and_can_be_saved_anew(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    for _ in range(2):
        assert call_claimsmith("snapshot", "save", str(file), "-f", EXAMPLE).code == 0

    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_snapshot_goes_through_pipes() -> None:
    saved = call_claimsmith("snapshot", "save", "-", "-f", HELD)
    shown = call_claimsmith("snapshot", "show", "-", "-o", "json", text=saved.out.encode())

    counts = json.loads(shown.out)["counts"]

    assert (counts["devices"], counts["pods on nodes"], counts["waiting pods"]) == (12, 5, 1)
    assert json.loads(shown.out)["drivers"] == {"gpu.example.com": {"pools": 3, "devices": 12, "inUse": 8}}


def test_show_counts_in_tables_too() -> None:
    saved = call_claimsmith("snapshot", "save", "-", "-f", HELD)
    lines = [
        line.split() for line in call_claimsmith("snapshot", "show", "-", text=saved.out.encode()).out.splitlines()
    ]

    assert ["devices", "12"] in lines
    assert ["gpu.example.com", "3", "12", "8"] in lines


def test_a_file_that_is_no_snapshot_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mine")
    line = complaint(call_claimsmith("snapshot", "save", str(file), "-f", EXAMPLE))

    assert line == f"{file}: found something that is no snapshot, allowed a new file; name another path"
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("snapshot", "save", "/proc/none/x.json", "-f", EXAMPLE), "/proc/none/x.json: found no folder /proc/none"),
        (("snapshot", "save", "/proc/x.json", "-f", EXAMPLE), "/proc/x.json: can't be written"),
        (("snapshot", "save"), "missing argument 'FILE'; see `claimsmith snapshot save --help`"),
        (("snapshot", "show", "missing.json"), "missing.json: can't be read"),
        (("devices", "--snapshot", "x", "--context", "y"), "--snapshot: found --kubeconfig or --context too"),
        (("devices",), "cluster: found none of -f, --snapshot and --kubeconfig"),
        (("devices", "--kubeconfig", "missing"), "missing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], told: str) -> None:
    assert told in complaint(call_claimsmith(*arguments))


@pytest.mark.parametrize("command", [("devices",), ("allocate",), ("explain", "pod/a"), ("snapshot", "save", "-")])
def test_manifests_that_are_no_snapshot_are_refused_as_one(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    line = complaint(call_claimsmith(*command, "--snapshot", str(tmp_path / "pod.yaml")))

    assert "found 'v1 Pod' as the first object, allowed claimsmith.dev/v1alpha1 ClusterSnapshot" in line
