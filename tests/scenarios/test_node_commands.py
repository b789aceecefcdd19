"""`claimsmith node …` as people call it: on files, and on an API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from claimsmith.api.kinds import DEVICE_CLASS, NODE, RESOURCE_SLICE
from claimsmith.api.resource import encode_resource_slice
from claimsmith.cli.kubeconfig import written_kubeconfig
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.store import Store
from claimsmith.kube.client import KubeClient
from claimsmith.node.doctor_api import collect_api
from claimsmith.publish.releases import read_releases
from claimsmith.testing import builders as b
from tests.scenarios.cli_process import Ran, call_claimsmith, complaint, run_claimsmith, start_claimsmith

NODE_NAME = "node-a"
SETTINGS = """\
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec:
  gpus:
  - {model: A100-40, count: 2}
  - {model: L4, fault: xid-79}
"""


@pytest.fixture
def settings(tmp_path: Path) -> str:
    path = tmp_path / "cards.yaml"
    path.write_text(SETTINGS)
    return str(path)


@pytest.fixture
def fewer(tmp_path: Path) -> str:
    path = tmp_path / "fewer.yaml"
    path.write_text(SETTINGS.replace("  - {model: L4, fault: xid-79}\n", ""))
    return str(path)


class Cluster:
    """An API server with one node, and the command line."""

    def __init__(self, client: KubeClient, folder: Path, kubeconfig: Path) -> None:
        self.client, self.folder, self.kubeconfig = client, folder, kubeconfig

    async def run(self, *arguments: str) -> Ran:
        """Run `claimsmith node` with some arguments on this cluster."""
        call = ("node", *arguments, "--node", NODE_NAME, "--kubeconfig", str(self.kubeconfig))
        return await asyncio.to_thread(run_claimsmith, *call, temporary=self.folder)

    async def node(self) -> dict[str, Any]:
        return await self.client.get(NODE, NODE_NAME)

    async def amount(self) -> str | None:
        found: str | None = ((await self.node()).get("status") or {}).get("capacity", {}).get("nvidia.com/gpu")
        return found


@contextlib.asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
        client = KubeClient.for_url(server.url)
        await client.create(NODE, {"metadata": {"name": NODE_NAME}})
        try:
            with written_kubeconfig(folder / "kubeconfig", server.url):
                yield Cluster(client, folder, folder / "kubeconfig")
        finally:
            await client.close()


# --- discover and label -----------------------------------------------------------------------------------------------


def discover(*arguments: str) -> Ran:
    return call_claimsmith("node", "discover", "--node", NODE_NAME, *arguments)


def test_discover_lists_what_the_drivers_find(settings: str) -> None:
    ran = discover("--settings", settings, "-o", "json")
    found = json.loads(ran.out)

    (driver,) = found["drivers"]
    (pool,) = driver["pools"]
    assert (ran.code, found["node"], pool["name"]) == (0, NODE_NAME, NODE_NAME)
    assert [device["name"] for device in pool["devices"]] == ["gpu-0", "gpu-1", "gpu-2"]


def test_discover_shows_the_taint_of_a_device_that_has_failed(settings: str) -> None:
    ran = discover("--settings", settings)

    (line,) = [line for line in ran.out.splitlines() if "gpu-2" in line]
    assert "claimsmith.dev/unhealthy=xid-79:NoSchedule" in line


def test_discover_prints_the_slices_that_would_be_published(settings: str) -> None:
    ran = discover("--settings", settings, "--slices", "-o", "json")

    (item,) = json.loads(ran.out)["items"]
    assert (item["kind"], item["spec"]["nodeName"]) == ("ResourceSlice", NODE_NAME)


def test_discover_says_what_an_installed_driver_lacks() -> None:
    ran = discover()

    assert (ran.code, ran.out) == (2, "")
    assert "name a file" in ran.err


def test_discover_takes_a_configuration_or_plugins_but_not_both(settings: str) -> None:
    ran = discover("--config", settings, "--plugin", "simulated")

    assert "--plugin: found together with --config" in complaint(ran)


def test_a_driver_that_is_not_installed_is_bad_input() -> None:
    ran = discover("--plugin", "unheard-of")

    assert ran.code == 2
    assert "driver plugin 'unheard-of'" in complaint(ran)


def test_label_prints_what_would_be_set(settings: str) -> None:
    ran = call_claimsmith("node", "label", "--settings", settings, "-o", "json")

    labels = json.loads(ran.out)
    assert (labels["claimsmith.dev/gpu.count"], labels["claimsmith.dev/gpu.A100-40.count"]) == ("3", "2")
    assert labels["claimsmith.dev/gpu.driver-version"] == labels["claimsmith.dev/gpu.L4.driver-version"] == "580.65.6"


def test_label_writes_a_feature_file(tmp_path: Path, settings: str) -> None:
    target = tmp_path / "features.d" / "claimsmith"
    target.parent.mkdir()
    ran = call_claimsmith("node", "label", "--settings", settings, "--feature-file", str(target))

    assert ran.code == 0
    assert "claimsmith.dev/gpu.models=2\n" in target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["claimsmith"]


async def test_label_sets_and_removes_labels_of_the_node(tmp_path: Path, settings: str, fewer: str) -> None:
    async with cluster(tmp_path) as found:
        first = await found.run("label", "--apply", "--settings", settings)
        labels = (await found.node())["metadata"]["labels"]
        second = await found.run("label", "--apply", "--settings", fewer)

        assert (first.code, second.code) == (0, 0)
        assert labels["claimsmith.dev/gpu.L4.count"] == "1"
        assert "claimsmith.dev/gpu.L4.count" not in (await found.node())["metadata"]["labels"]
        assert f"node {NODE_NAME}: claimsmith.dev/gpu.L4.count removed" in second.out


async def test_a_label_of_somebody_else_is_told_and_left(tmp_path: Path, settings: str) -> None:
    async with cluster(tmp_path) as found:
        key = "claimsmith.dev/gpu.count"
        await found.client.for_manager("kubectl").patch(NODE, NODE_NAME, {"metadata": {"labels": {key: "9"}}})
        ran = await found.run("label", "--apply", "--settings", settings)

        assert (await found.node())["metadata"]["labels"][key] == "9"
        assert "another value set by kubectl" in ran.err


# --- capacity ---------------------------------------------------------------------------------------------------------


async def test_capacity_is_set_shown_and_unset(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        await found.run("capacity", "set", "nvidia.com/gpu=2")
        amount = await found.amount()
        shown = await found.run("capacity", "show", "-o", "json")
        await found.run("capacity", "unset", "nvidia.com/gpu")

        assert amount == "2"
        assert json.loads(shown.out)["resources"] == [
            {"resource": "nvidia.com/gpu", "capacity": "2", "allocatable": "2", "wanted": 2, "keptBy": "hand"}
        ]
        assert await found.amount() is None


async def test_capacity_warns_of_a_class_that_serves_the_resource(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        device_class = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
        await found.client.create(DEVICE_CLASS, device_class)
        ran = await found.run("capacity", "set", "nvidia.com/gpu=2")

        assert ran.code == 0
        assert "DeviceClass gpus serves nvidia.com/gpu" in ran.err


async def test_capacity_that_is_kept_comes_back_until_the_command_ends(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        process = start_claimsmith(
            "node", "capacity", "set", "nvidia.com/gpu=2", "--keep", "--node", NODE_NAME,
            "--kubeconfig", str(found.kubeconfig), temporary=tmp_path,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            while b"keeping it" not in await asyncio.to_thread(process.stdout.readline):
                continue
            zero = {"status": {"capacity": {"nvidia.com/gpu": "0"}, "allocatable": {"nvidia.com/gpu": "0"}}}
            await found.client.patch(NODE, NODE_NAME, zero, subresource="status")
            async with asyncio.timeout(60):
                while await found.amount() != "2":
                    continue
        finally:
            process.send_signal(signal.SIGINT)
            await asyncio.to_thread(process.communicate)

        assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (("set", "gpu=1"), "a domain of its own"),
        (("set", "nvidia.com/gpu=0.5"), "counted whole"),
        (("set", "nvidia.com/gpu=1", "nvidia.com/gpu=2"), "found a resource twice"),
        (("unset", "cpu"), "a domain of its own"),
        (("set", "nvidia.com/gpu=1", "--node", "Not A Name"), "--node"),
        (("set", "nvidia.com/gpu=1", "--kubeconfig", "/nowhere"), "/nowhere"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], mentions: str) -> None:
    ran = call_claimsmith("node", "capacity", *arguments)

    assert ran.code == 2
    assert mentions in complaint(ran)


async def test_a_node_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        await found.client.delete(NODE, NODE_NAME)
        ran = await found.run("capacity", "set", "nvidia.com/gpu=2")

        assert ran.code == 2


# --- release ---------------------------------------------------------------------------------------------------------


async def test_release_asks_the_nodes_agent_for_a_device_by_its_name(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        await found.client.create(RESOURCE_SLICE, encode_resource_slice(b.slice_(b.device("gpu-0"))))
        ran = await found.run("release", "gpu-0")

        assert ran.code == 0
        assert read_releases(await found.node()) == {b.device_id("gpu-0")}


async def test_release_refuses_a_name_that_the_node_has_not(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        ran = await found.run("release", "gpu-7")

        assert "device gpu-7: found none of that name on node node-a" in complaint(ran)


# --- doctor -----------------------------------------------------------------------------------------------------------


def doctor(folder: Path, *arguments: str) -> Ran:
    places = [
        ("kubelet-root", "k"),
        ("device-plugin-dir", "k/device-plugins"),
        ("cdi-dir", "cdi"),
        ("host-root", "host"),
    ]
    options = [text for name, place in places for text in (f"--{name}", str(folder / place))]
    return call_claimsmith("node", "doctor", "--node", NODE_NAME, *options, *arguments)


def test_the_doctor_names_missing_folders_and_ends_with_1(tmp_path: Path) -> None:
    ran = doctor(tmp_path, "--no-api", "-o", "json")
    findings = json.loads(ran.out)["findings"]

    missing = [finding["found"] for finding in findings if finding["check"] == "folders"]
    assert ran.code == 1
    assert len(missing) == 5
    assert all(str(tmp_path) in text for text in missing)


def test_the_doctor_ends_with_3_when_the_api_server_is_silent(tmp_path: Path) -> None:
    with written_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1"):
        ran = doctor(tmp_path, "--kubeconfig", str(tmp_path / "kubeconfig"), "-q", "-o", "json")

    assert ran.code == 3
    assert "api-server" in {finding["check"] for finding in json.loads(ran.out)["findings"]}


async def test_the_doctor_asks_the_api_server(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        facts = await collect_api(found.client, NODE_NAME)

        assert facts.error == ""
        assert "v1" in facts.dra_versions
        assert facts.version.startswith("v1.")
        assert facts.node is not None
        assert (facts.devices, facts.claims, facts.access) == ((), frozenset(), ())


async def test_the_doctor_of_a_node_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        facts = await collect_api(found.client, "node-b")

        assert facts.node is None
