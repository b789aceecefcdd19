"""What docs/write-a-driver.md and docs/simulated-devices.md say works as it stands there."""

from __future__ import annotations

import asyncio
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from claimsmith.api.kinds import NODE, POD
from claimsmith.api.manifests import parse_manifests
from claimsmith.daemons.clusterplan import plan_cluster
from claimsmith.daemons.playground import Playground
from claimsmith.drivers.simulated.driver import ClaimSettings, SimulatedDriver
from claimsmith.embedded.kubelet.cdi_registry import MergedEdits
from claimsmith.kube.client import KubeClient
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.sdk.registry import create_drivers
from claimsmith.sdk.strict import parse_strictly
from claimsmith.testing import builders as b
from claimsmith.testing.driverkit import DriverKit
from claimsmith.testing.grantbench import GrantBench
from claimsmith.testing.socketbench import SocketBench
from tests.scenarios.embedded_node import embedded_node
from tests.scenarios.granting_node import reaches, registered, serving_beside, start, wanting
from tests.scenarios.test_kubelet_cluster import become, in_phase

DOCS = Path(__file__).parents[2] / "docs"
FILE_BLOCK = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MODULES = (
    "serial_driver",
    "configured_driver",
    "watching_driver",
    "parameters_driver",
    "telling_driver",
    "learning_driver",
    "memory_driver",
)


def file_blocks() -> dict[str, str]:
    return dict(FILE_BLOCK.findall((DOCS / "write-a-driver.md").read_text()))


def plain_blocks(language: str) -> list[str]:
    text = (DOCS / "simulated-devices.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the page in a folder from which they can be imported, and two ports."""
    for name, text in file_blocks().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "dev").mkdir()
    for port in ("ttyUSB0", "ttyUSB1"):
        (tmp_path / "dev" / port).touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


def make(module: str, cls: str, folder: Path) -> Driver:
    driver: Driver = getattr(importlib.import_module(module), cls)(folder / "dev")
    return driver


def test_the_driver_has_at_most_thirty_lines() -> None:
    assert len(file_blocks()["serial_driver.py"].splitlines()) <= 30


def test_the_kit_passes_as_a_vendor_runs_it(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]

    done = subprocess.run(
        [*command, "test_serial_driver.py"], cwd=folder, capture_output=True, text=True, check=False, timeout=200
    )
    tests = sum(name.startswith("test_") for name in dir(DriverKit))
    assert f"{tests} passed" in done.stdout, done.stdout + done.stderr


async def test_a_container_gets_its_port_over_real_sockets(folder: Path) -> None:
    driver = make("serial_driver", "SerialDriver", folder)
    asked = b.prepare_request(b.device_id("ttyusb1", driver=driver.name))

    async with SocketBench(driver) as bench:
        edits = await bench.prepare(asked)

    check_port(edits, folder)


async def test_a_program_in_the_container_finds_what_its_driver_tells(folder: Path) -> None:
    driver = make("telling_driver", "TellingSerialDriver", folder)
    asked = b.prepare_request(b.device_id("ttyusb1", driver=driver.name))

    async with SocketBench(driver) as bench:
        edits = await bench.prepare(asked)
        (mount,) = edits.mounts
        text = await asyncio.to_thread(Path(mount.host_path).read_text)

    assert mount.container_path.endswith("/claim/r/serial.example.com-metadata.json")
    assert '"int": 9600' in text


async def test_a_container_gets_its_port_as_an_extended_resource(folder: Path) -> None:
    async with GrantBench(make("serial_driver", "SerialDriver", folder)) as bench:
        edits = await bench.give("ttyusb1")

    check_port(edits, folder)


async def test_the_same_driver_runs_a_pod_in_both_ways(folder: Path) -> None:
    """One process, one ledger: a port by a claim, the other one by an extended resource."""
    driver = make("serial_driver", "SerialDriver", folder)
    async with embedded_node() as node, node.running(), node.serving(driver) as plugin:
        async with serving_beside(node, plugin, driver) as plugins:
            await node.run_pod("by-claim", b.result(b.device_id("ttyusb0", driver=driver.name)))
            await reaches(node, lambda: plugins.states()[0].usable == 1)
            await registered(node, plugins)
            pod = await start(node, "by-limit", wanting(1))
            seen = (*node.output(node.pod("by-claim")), *node.output(pod, "c0"))

    assert {"env SERIAL_TTYUSB0=/dev/ttyUSB0", "env SERIAL_TTYUSB1=/dev/ttyUSB1"} <= set(seen)


def check_port(edits: MergedEdits, folder: Path) -> None:
    """Check that a container gets the second port."""
    assert edits.env == {"SERIAL_TTYUSB1": "/dev/ttyUSB1"}
    assert [(node.path, node.host_path) for node in edits.device_nodes] == [
        ("/dev/ttyUSB1", str(folder / "dev" / "ttyUSB1"))
    ]


def install(folder: Path) -> None:
    """Make the page's entry point known, as pip does."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["claimsmith.drivers"]
    info = folder / "serial_driver-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = "\n".join(f"{name} = {target}" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[claimsmith.drivers]\n{lines}\n")
    importlib.invalidate_caches()


def test_the_entry_point_makes_the_driver_known(folder: Path) -> None:
    install(folder)

    (driver,) = create_drivers("serial", DriverContext(node_name="node-a"))
    assert (driver.name, type(driver).__name__) == ("serial.example.com", "SerialDriver")


def test_the_package_holds_the_module_of_its_entry_point(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    target = project["project"]["entry-points"]["claimsmith.drivers"]["serial"]

    assert project["tool"]["setuptools"]["py-modules"] == [target.partition(":")[0]]


def test_a_driver_may_be_for_some_nodes_only(folder: Path) -> None:
    cls = importlib.import_module("configured_driver").ConfiguredSerialDriver

    assert [len(cls.create(DriverContext(node_name=node))) for node in ("serial-1", "gpu-1")] == [1, 0]


@pytest.mark.parametrize(
    ("module", "cls"),
    [
        ("watching_driver", "WatchingSerialDriver"),
        ("parameters_driver", "ParametersSerialDriver"),
        ("learning_driver", "LearningSerialDriver"),
    ],
)
def test_the_further_drivers_of_the_page_pass_the_kit(folder: Path, module: str, cls: str) -> None:
    class Kit(DriverKit):
        def make_driver(self) -> Driver:
            return make(module, cls, folder)

    kit = Kit()
    for name in (name for name in dir(kit) if name.startswith("test_")):
        getattr(kit, name)()


def test_the_driver_with_partitions_passes_the_kit(folder: Path) -> None:
    cls = importlib.import_module("memory_driver").MemoryDriver

    class Kit(DriverKit):
        def make_driver(self) -> Driver:
            driver: Driver = cls()
            return driver

    for name in (name for name in dir(Kit) if name.startswith("test_")):
        getattr(Kit(), name)()


async def reaches_count(client: KubeClient, amount: int) -> None:
    """Wait until the node counts so many ports that nobody has."""
    await become(
        client, NODE, "node-a",
        lambda node: ((node or {}).get("status") or {}).get("allocatable", {}).get("example.com/port") == str(amount),
    )  # fmt: skip


async def test_the_cluster_of_the_page_runs_the_driver_for_claims_and_for_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(folder)
    monkeypatch.setattr(
        importlib.import_module("serial_driver").SerialDriver.__init__, "__defaults__", (folder / "dev",)
    )
    plan = plan_cluster(parse_manifests((folder / "cluster.yaml").read_text(), source=str(folder / "cluster.yaml")))

    (counting,) = parse_manifests((folder / "counts.yaml").read_text(), source="counts.yaml")

    async with Playground(plan) as playground:
        pods = [await become(playground.client, POD, "claims", in_phase("Running"))]
        await reaches_count(playground.client, 1)
        await playground.client.create(POD, counting.object)
        pods.append(await become(playground.client, POD, "counts", in_phase("Running")))
        seen = [playground.logs.find_lines(pod["metadata"]["uid"], "main") or () for pod in pods]

    assert [any("env SERIAL_TTYUSB" in line.text for line in lines) for lines in seen] == [True, True]


@pytest.mark.parametrize("text", plain_blocks("yaml"))
def test_every_document_of_the_page_gives_devices(tmp_path: Path, text: str) -> None:
    path = tmp_path / "devices.yaml"
    path.write_text(text)

    (driver,) = SimulatedDriver.create(DriverContext(node_name="mixed", settings_files=(path,)))
    assert driver.discover().pools[0].devices


def test_the_parameters_of_the_page_are_those_of_the_driver() -> None:
    (text,) = plain_blocks("json")

    assert parse_strictly(msgspec.json.decode(text), ClaimSettings) == ClaimSettings(env={"MODE": "fast"})
