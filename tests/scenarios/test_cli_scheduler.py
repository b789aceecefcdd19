"""`claimsmith scheduler` as a process: what it refuses, how it decides, tells of itself, and ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from claimsmith.api.kinds import LEASE, NODE, POD
from claimsmith.embedded.api.server import kubeconfig_for
from claimsmith.kube.client import KubeClient
from tests.scenarios.cli_process import call_claimsmith, complaint, run_claimsmith, start_claimsmith
from tests.scenarios.scheduling import api_server, pod_object


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("--policy", "best"), "--policy: found 'best', allowed first, pack, spread"),
        (("--placement", "wide"), "'wide' is not one of 'spread', 'pack'"),
        (("--name", ""), "--name: found nothing"),
        (("--listen", "x"), "--listen: found 'x', allowed PORT or HOST:PORT"),
        (("--feature-gates", "DRAAdminAccess"), "--feature-gates: found 'DRAAdminAccess', allowed GATE=true"),
        (
            ("--feature-gates", "DRAMagic=true"),
            "--feature-gates: found 'DRAMagic', allowed DRANodeAllocatableResources",
        ),
        (("--kubeconfig", "/nowhere/kc"), "/nowhere/kc"),
    ],
)
def test_what_can_not_be_run_is_refused_in_one_line(arguments: tuple[str, ...], found: str) -> None:
    assert found in complaint(call_claimsmith("scheduler", *arguments))


def test_outside_of_a_pod_a_kubeconfig_is_asked_for(tmp_path: Path) -> None:
    assert "service account of the pod" in complaint(run_claimsmith("scheduler", temporary=tmp_path))


class Log:
    """The log of a process, read beside the event loop."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self._lines = process.stderr

    async def wait(self, message: str) -> dict[str, Any]:
        """Return the fields of the next line with a message."""
        return await asyncio.to_thread(self._read, message)

    def _read(self, message: str) -> dict[str, Any]:
        for raw in self._lines:
            line: dict[str, Any] = json.loads(raw)
            if line["message"] == message:
                return dict(line["fields"])
        raise AssertionError(f"ended without {message!r}")


def _get(port: str, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=200) as answer:
        return str(answer.read().decode())


async def _wait_bound(client: KubeClient, name: str) -> str:
    """Return the node of a pod once it has one."""
    async for event in client.watch(POD, resource_version="0", field_selector=f"metadata.name={name}"):
        if node := event.object["spec"].get("nodeName"):
            return str(node)
    raise AssertionError("the watch ended")


async def test_it_binds_a_pod_tells_of_it_and_gives_its_lease_back(tmp_path: Path) -> None:
    options = ("--name", "mine", "--namespace", "kube-system", "--listen", "0", "--log-format", "json")
    async with api_server() as url, asyncio.timeout(110):
        client = KubeClient.for_url(url)
        (tmp_path / "kc").write_text(yaml.safe_dump(kubeconfig_for(url)))
        await client.create(NODE, {"metadata": {"name": "node-a"}})
        await client.create(POD, {**pod_object("p", (), "", {"schedulerName": "mine"})})
        process = start_claimsmith("scheduler", "--kubeconfig", f"{tmp_path}/kc", *options, temporary=tmp_path)
        try:
            log = Log(process)
            port = (await log.wait("Scheduler listens"))["port"]
            await log.wait("Scheduler decides")
            node = await _wait_bound(client, "p")
            ready, metrics = [await asyncio.to_thread(_get, port, path) for path in ("/readyz", "/metrics")]
            process.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(process.wait, 60)
            lease = await client.get(LEASE, "claimsmith-scheduler", namespace="kube-system")
        finally:
            process.kill()
            process.communicate()
            await client.close()

    assert (node, ready, code, lease["spec"]["holderIdentity"]) == ("node-a", "ok\n", 0, "")
    assert "claimsmith_scheduler_leads 1.0\n" in metrics
    assert 'claimsmith_scheduler_bindings_total{result="ok"} ' in metrics
