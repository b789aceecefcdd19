"""Judges what containers see: scheduler, agent, kubelet and runtime of one embedded node.

Extended resources are served by DRA. The driver is one on paper, so that what only a vendor's driver does is not
judged: `find_gaps` names it. The embedded runtime has no images; what an image sets in its environment, the pod sets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.api.kinds import DEVICE_CLASS
from claimsmith.model.device import Device
from claimsmith.node.doctor_api import collect_api
from claimsmith.node.doctor_checks_api import API_CHECKS
from claimsmith.node.doctor_local import Machine, collect_local
from claimsmith.testing import builders as b
from tests.cases.casefile import CaseFile, check_fields
from tests.cases.node_stage import NodeStage, node_stage
from tests.scenarios.embedded_node import NODE
from tests.scenarios.scheduling import bench

_DRIVER: Final = "gpu.example.test"
_GAPS: Final = {
    "env": "the driver for NVIDIA cards",
}
"""What an expectation needs that is not there yet."""


def find_gaps(case: CaseFile) -> list[str]:
    """Return the expectations of the containers that nothing can judge yet."""
    return [
        f"container {item['name']}: {name} needs {_GAPS[name]}"
        for item in case.content["containers"]
        for name in item["expect"]
        if name in _GAPS
    ]


async def judge_containers(case: CaseFile) -> list[str]:
    """Return what containers see that they should not, or don't see; each on a node of its own.

    Raises:
        InputError: Something in the case is not understood.
    """
    case.check_fields("nvml", "containers")
    differences = []
    for item in case.content["containers"]:
        check_fields(item, "name", "image-env", "limits", "privileged", "expect")
        check_fields(item["expect"], "injected", "checked-by", "listed-by-doctor", *_GAPS)
        seen = await _run(case.content["nvml"], item)
        differences += [f"container {item['name']}: {text}" for text in _compare(seen, item)]
    return differences


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What came of a container.

    Args:
        devices: The devices that it sees.
        told: What the doctor says of the pods of its node.
    """

    devices: list[str]
    told: str


def _compare(seen: _Seen, item: Mapping[str, Any]) -> Iterator[str]:
    expected = item["expect"]
    if "injected" in expected and seen.devices != (wanted := sorted(expected["injected"])):
        yield f"sees {seen.devices}, right is {wanted}"
    is_told = f"default/{item['name']} " in seen.told
    if is_told is not (expected.get("checked-by") == "doctor" or bool(expected.get("listed-by-doctor"))):
        yield f"the doctor says {seen.told!r}"


async def _run(nvml: Mapping[str, Any], item: Mapping[str, Any]) -> _Seen:
    """Run a pod of one container; return what came of it."""
    async with node_stage({"driver": _DRIVER, "devices": []}) as stage:
        stage.driver.devices = {device.name: device for device in _devices(nvml)}
        await stage.start_driver()
        if stage.agent is not None:
            async with asyncio.timeout(60):
                await stage.agent.wait_published()
        for resource in _resources(nvml):
            await _create_class(stage, resource)
        async with bench(url=stage.url) as cluster:
            variables = [{"name": name, "value": value} for name, value in (item.get("image-env") or {}).items()]
            container = {
                "name": "main",
                "image": "registry.example.test/tool",
                "env": variables,
                "resources": {"limits": {name: str(count) for name, count in item["limits"].items()}},
                "securityContext": {"privileged": bool(item.get("privileged"))},
            }
            await cluster.add_pod(item["name"], containers=[container])
            pod = await stage.node.reaches(item["name"], "Running")
        facts = await collect_api(stage.node.client, NODE)
        told = " ".join(finding.found for finding in API_CHECKS["pods"](collect_local(_machine(stage)), facts))
        return _Seen(devices=sorted(_read_devices(stage.node.output(pod))), told=told)


def _machine(stage: NodeStage) -> Machine:
    return Machine(paths=stage.node.paths, root=stage.node.paths.state)


def _devices(nvml: Mapping[str, Any]) -> Iterator[Device]:
    """Yield the whole cards, and the instances of those that are cut."""
    check_fields(nvml, "gpus", "mig")
    for index in range(nvml["gpus"]):
        instances = (nvml.get("mig") or {}).get(index) or (nvml.get("mig") or {}).get(str(index))
        if not instances:
            yield b.device(f"gpu-{index}", attributes={"resource": "gpu"})
        for instance in instances or ():
            yield b.device(instance["uuid"], attributes={"resource": f"mig-{instance['profile']}"})


def _resources(nvml: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(str(device.attributes["resource"].value) for device in _devices(nvml)))


async def _create_class(stage: NodeStage, resource: str) -> None:
    """Offer the devices of a kind as an extended resource."""
    expression = f"device.driver == '{_DRIVER}' && device.attributes['{_DRIVER}'].resource == '{resource}'"
    spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": f"nvidia.com/{resource}"}
    await stage.node.client.create(DEVICE_CLASS, {"metadata": {"name": resource}, "spec": spec})


def _read_devices(output: list[str]) -> Iterator[str]:
    """Yield the devices whose variables a container printed."""
    for line in output:
        name, _, value = line.removeprefix("env ").partition("=")
        if line.startswith("env ") and name.endswith(_DRIVER.upper().replace(".", "_")):
            yield value.rpartition("/")[2]
