"""What is done to a node, and what is seen of it: told in words that are the same for every kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc.aio
from google.protobuf.json_format import MessageToDict

from claimsmith.api.kinds import EVENT, NODE, POD, RESOURCE_CLAIM, RESOURCE_SLICE
from claimsmith.kube.client import KubeObject
from claimsmith.kubelet import podresources_v1_pb2 as messages
from claimsmith.kubelet.services import GET_ALLOCATABLE, GET_POD_RESOURCES, LIST_POD_RESOURCES
from claimsmith.model.names import PodRef
from tests.cluster.image import IMAGE
from tests.cluster.recipe import NODE as NODE_NAME
from tests.cluster.watching import wait_for, wait_for_object, wait_gone, wait_phase
from tests.cluster.worlds import LOOK, World
from tests.scenarios.small_dra import DRIVER, Results, SmallDra
from tests.scenarios.small_plugin import RESOURCE, SmallPlugin

__all__ = ["Story"]

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TRIES, _PAUSE_S = 1200, 0.1
_CARDS = {"gpu-0": "Healthy", "gpu-1": "Healthy", "gpu-2": "Healthy"}


class Story:
    """Acts in a world and notes what is seen there.

    Claims have a name of their own in each story, since a kubelet may remember one of an earlier story that failed;
    `told` leaves that out.
    """

    def __init__(self, world: World) -> None:
        self.world, self.client = world, world.client
        self._uids: dict[str, str] = {}
        self._token = f"-{os.urandom(3).hex()}"

    async def tell(self, told: Callable[[Story], Awaitable[Any]]) -> Any:
        """Return what is seen in a story; lists are in one order, since a real kubelet's maps have none."""
        return _steady(await told(self), self._token)

    # --- acting -------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def plugin(
        self, *, pinned: bool = True, options: Mapping[str, bool] | None = None, **changes: Any
    ) -> AsyncIterator[SmallPlugin]:
        """Serve three devices by a plugin that is registered and listed.

        It begins when the kubelet has noticed that the plugin before it has ended: else a real one may notice it
        afterwards, and take the new plugin's devices for lost.

        Args:
            pinned: Whether it prefers the first devices that are free: without, a real kubelet takes any.
            options: Options that it tells besides.
            changes: As for `SmallPlugin`.
        """
        await self.devices_become(0)
        told = {**({"get_preferred_allocation_available": True} if pinned else {}), **(options or {})}
        async with SmallPlugin(self.world.paths.device_plugins, _CARDS, options=told, **changes) as plugin:
            plugin.prefers_first = pinned
            await self._register(plugin)
            await self.devices_become(len(_CARDS))
            yield plugin

    async def _register(self, plugin: SmallPlugin) -> None:
        """Register a plugin, as soon as the kubelet serves, and has noticed that the plugin before it has ended."""
        for _ in range(_TRIES):
            _, refusal = await self.refusal(plugin.register())
            if not refusal:
                return
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError(refusal)

    @contextlib.asynccontextmanager
    async def driver(self, devices: Mapping[str, Results], **changes: Any) -> AsyncIterator[SmallDra]:
        """Serve a DRA driver that is registered."""
        named = {claim + self._token: results for claim, results in devices.items()}
        async with SmallDra(self.world.paths, named, **changes) as driver:
            await driver.registered()
            yield driver

    def container(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return a container, given by what differs from the usual."""
        return _container(name, changes)

    async def start(self, name: str, *containers: Mapping[str, Any], **spec: Any) -> KubeObject:
        """Create a pod, bind it to the node and wait until it runs."""
        await self.create(name, *containers, **spec)
        await self.bind(name)
        return await wait_phase(self.client, name, "Running")

    async def create(self, name: str, *containers: Mapping[str, Any], **spec: Any) -> KubeObject:
        """Create a pod that only a test binds; each container is given by what differs from the usual."""
        pod = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "schedulerName": "by-hand",
                "hostNetwork": True,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [_container("main" if not i else f"c{i}", item) for i, item in enumerate(containers)],
                **spec,
            },
        }
        made = await self.client.create(POD, pod)
        self._uids[name] = made["metadata"]["uid"]
        return made

    async def delete(self, *names: str) -> None:
        """Delete pods and wait until they are gone."""
        for name in names:
            await self.client.delete(POD, name, namespace="default")
        for name in names:
            await wait_gone(self.client, POD, name, namespace="default")

    def uses(self, claim: str) -> dict[str, str]:
        """Return the entry by which a pod uses a claim."""
        return {"name": claim, "resourceClaimName": claim + self._token}

    async def bind(self, name: str) -> None:
        """Bind a pod to the node."""
        await self.client.bind(PodRef("default", name), NODE_NAME)

    async def counts(self, name: str, claim: str, *mappings: tuple[str, str, str]) -> None:
        """Let a claim be the one for extended resources of a pod: of (container, resource, request) each."""
        keys = ("containerName", "resourceName", "requestName")
        status = {
            "resourceClaimName": claim + self._token,
            "requestMappings": [dict(zip(keys, mapping, strict=True)) for mapping in mappings],
        }
        patch = {"status": {"extendedResourceClaimStatus": status}}
        await self.client.patch(POD, name, patch, namespace="default", subresource="status")

    async def ask_to_go(self, name: str) -> None:
        """Ask for a pod's deletion, and wait until the kubelet can't do it."""
        await self.client.delete(POD, name, namespace="default")
        await wait_for_object(self.client, POD, name, lambda pod: bool(pod["metadata"].get("deletionTimestamp")))

    async def is_gone(self, name: str) -> None:
        """Wait until a pod is gone."""
        await wait_gone(self.client, POD, name, namespace="default")

    def fail(self, driver: SmallDra, claim: str, failure: str) -> None:
        """Let a driver fail for a claim from now on; without a text it no longer does."""
        driver.failures[claim + self._token] = failure

    async def claim(
        self,
        name: str,
        *results: tuple[str, str],
        pods: Sequence[KubeObject] = (),
        driver: str = DRIVER,
        changes: Sequence[Mapping[str, str]] = (),
    ) -> KubeObject:
        """Create a claim with the devices that it got, each for a request, reserved for pods; without any it waits.

        Args:
            changes: Further fields of each result, such as its `shareID`, or others instead.
        """
        requests = dict.fromkeys(request for _, request in results) or ("r",)
        spec = {"devices": {"requests": [{"name": r, "exactly": {"deviceClassName": "gpu"}} for r in requests]}}
        made = await self.client.create(RESOURCE_CLAIM, {"metadata": _meta(name + self._token), "spec": spec})
        if not results:
            return made
        fields: list[Mapping[str, str]] = [*changes, *({} for _ in results)]
        devices = [
            {"request": r, "driver": driver, "pool": "pool", "device": device, **more}
            for (device, r), more in zip(results, fields, strict=False)
        ]
        await self._status(name, {"allocation": {"devices": {"results": devices}}})
        await self.reserve(name, *pods)
        return made

    async def reserve(self, name: str, *pods: KubeObject) -> None:
        """Reserve a claim for pods."""
        users = [{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in pods]
        if users:
            await self._status(name, {"reservedFor": users})

    async def _status(self, name: str, status: Mapping[str, Any]) -> None:
        metadata = {"finalizers": ["resource.kubernetes.io/delete-protection"]}
        claim = name + self._token
        await self.client.patch(RESOURCE_CLAIM, claim, {"metadata": metadata}, namespace="default")
        await self.client.patch(RESOURCE_CLAIM, claim, {"status": status}, namespace="default", subresource="status")

    # --- seeing -------------------------------------------------------------------------------------------------------

    async def offered(self, resource: str, amount: str | None) -> None:
        """Wait until the node offers an amount of a resource; None: nothing."""

        def holds(node: KubeObject) -> bool:
            return bool(node["status"]["allocatable"].get(resource) == amount)

        await wait_for_object(self.client, NODE, NODE_NAME, holds)

    async def devices_become(self, count: int) -> None:
        """Wait until the kubelet knows so many healthy devices: the node's status follows it by seconds."""
        for _ in range(_TRIES):
            if len(await self.allocatable()) == count:
                return
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError(f"found devices {await self.allocatable()}, allowed {count}")

    async def amounts(self, capacity: str, allocatable: str) -> None:
        """Wait until the node tells amounts of the plugin's resource."""

        def holds(node: KubeObject) -> bool:
            status = node["status"]
            return (status["capacity"].get(RESOURCE), status["allocatable"].get(RESOURCE)) == (capacity, allocatable)

        await wait_for_object(self.client, NODE, NODE_NAME, holds)

    async def publish(self, name: str) -> None:
        """Publish an empty slice of the driver."""
        pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": NODE_NAME, "pool": pool, "devices": []}
        await self.client.create(RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})

    async def slices(self) -> list[str]:
        """Return the names of all slices."""
        return [item["metadata"]["name"] for item in (await self.client.list(RESOURCE_SLICE)).items]

    async def slices_become(self, names: list[str]) -> None:
        """Wait until there are just some slices."""
        await wait_for(self.client, RESOURCE_SLICE, lambda items: [item["metadata"]["name"] for item in items] == names)

    async def status(self, name: str) -> dict[str, Any]:
        """Return what of a pod's status tells of its devices, once the kubelet has told anything of the pod."""
        status = (await wait_for_object(self.client, POD, name, _is_told)).get("status") or {}
        containers = {
            item["name"]: {
                "state": next(iter(item["state"])),
                "why": {key: text for key, text in _why(item).items() if text},
                "devices": item.get("allocatedResourcesStatus"),
            }
            for item in status.get("containerStatuses") or ()
        }
        told = {key: status.get(key) for key in ("phase", "reason", "message")}
        return {**told, "containers": containers}

    async def phase(self, name: str) -> Any:
        """Return the phase of a pod."""
        return (await self.client.get(POD, name, namespace="default"))["status"]["phase"]

    async def called(self, driver: SmallDra, call: str) -> None:
        """Wait until a driver was called so."""
        for _ in range(_TRIES):
            if call in [name for name, _ in driver.calls]:
                return
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError(f"driver {driver.name}: found calls {driver.calls}, allowed a {call}")

    async def waits_for(self, name: str, reason: str) -> None:
        """Wait until a container of a pod waits for a reason."""
        await wait_for_object(self.client, POD, name, lambda pod: f"'reason': '{reason}'" in str(pod.get("status")))

    async def refusal(self, call: Awaitable[Any]) -> tuple[str, str]:
        """Return code and text with which the kubelet refuses a call."""
        try:
            await call
        except grpc.aio.AioRpcError as error:
            return error.code().name, re.sub(r"/\S*/", "FOLDER/", error.details() or "")
        return "OK", ""

    async def wait_devices(self, name: str, *words: str) -> None:
        """Wait until the status of a pod's devices has some words."""
        await wait_for_object(self.client, POD, name, lambda pod: all(word in _devices_of(pod) for word in words))

    async def warning(self, name: str, reason: str) -> str:
        """Wait for a warning about a pod; return its message without uids."""

        def told(events: Sequence[KubeObject]) -> bool:
            return any(_is_about(event, uid, reason) for event in events)

        uid = self._uids[name]
        events = await wait_for(self.client, EVENT, told)
        message = next(event["message"] for event in events if _is_about(event, uid, reason))
        return _UID.sub("UID", message)

    async def listed(self, name: str) -> Any:
        """Return what the pod resources service tells of a pod when it lists all."""
        answer = await self.ask(LIST_POD_RESOURCES, messages.ListPodResourcesRequest())
        return [pod for pod in answer.get("pod_resources", ()) if pod["name"] == name]

    async def wait_listed(self, name: str) -> Any:
        """Return what the service tells of a pod once it knows it, which after a restart takes a moment."""
        for _ in range(_TRIES):
            if found := await self.listed(name):
                return found
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError(f"pod {name}: found nothing in the pod resources service")

    async def described(self, name: str) -> Any:
        """Return what the pod resources service tells of one pod."""
        request = messages.GetPodResourcesRequest(pod_namespace="default", pod_name=name)
        return await self.ask(GET_POD_RESOURCES, request)

    async def allocatable(self) -> Any:
        """Return the devices of plugins that the service tells of."""
        answer = await self.ask(GET_ALLOCATABLE, messages.AllocatableResourcesRequest())
        return sorted(answer.get("devices", ()), key=str)

    async def ask(self, method: Any, request: Any) -> Any:
        """Ask the pod resources service; return its answer, or the error that it gives."""
        async with grpc.aio.insecure_channel(f"unix:{self.world.paths.state}/pod-resources/kubelet.sock") as channel:
            call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
            try:
                return MessageToDict(await call(request), preserving_proto_field_name=True)
            except grpc.aio.AioRpcError as error:
                return {"error": (error.code().name, error.details())}

    async def checkpoint_of(self, *devices: str) -> Any:
        """Return what the checkpoint of devices says once these are the healthy ones in it."""
        for _ in range(_TRIES):
            found = self.device_checkpoint()
            if found["registered"].get(RESOURCE) == [*devices]:
                return found
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError(f"found checkpoint {found}, allowed healthy devices {devices}")

    def device_checkpoint(self) -> Any:
        """Return what the checkpoint of devices says, without uids and order."""
        path = self.world.paths.device_plugins / "kubelet_internal_checkpoint"
        data = json.loads(path.read_text())["Data"]
        entries = [
            {key: value for key, value in entry.items() if key != "PodUID"} for entry in data["PodDeviceEntries"] or ()
        ]
        registered = {name: sorted(ids or ()) for name, ids in (data["RegisteredDevices"] or {}).items()}
        return {"entries": sorted(entries, key=str), "registered": registered}

    def claim_checkpoint(self) -> Any:
        """Return what the checkpoint of claims says, without uids."""
        data = json.loads((self.world.paths.state / "dra_manager_state").read_text())["Data"]
        return json.loads(_UID.sub("UID", data))


def _steady(value: Any, token: str) -> Any:
    """Return a value without a token in its texts, and with its lists in one order; tuples keep theirs."""
    if isinstance(value, dict):
        return {key: _steady(item, token) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((_steady(item, token) for item in value), key=str)
    if isinstance(value, tuple):
        return tuple(_steady(item, token) for item in value)
    return value.replace(token, "") if isinstance(value, str) else value


def _container(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    seconds = changes.get("seconds", 1_000_000)
    resources: dict[str, Any] = {}
    if amount := changes.get("gpus"):
        resources["limits"] = {RESOURCE: str(amount)}
    if limits := changes.get("limits"):
        resources["limits"] = dict(limits)
    if claims := changes.get("claims"):
        resources["claims"] = [
            {"name": n, **({"request": r} if r else {})} for n, _, r in (c.partition("/") for c in claims)
        ]
    found = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", LOOK.format(seconds=seconds)],
        "resources": resources,
        "env": [{"name": key, "value": value} for key, value in changes.get("env", {}).items()],
    }
    return {**found, **({"restartPolicy": "Always"} if changes.get("stays") else {})}


def _meta(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "default"}


def _is_told(pod: KubeObject) -> bool:
    """Whether a kubelet has written the status of a pod, which the API server may refuse it at first."""
    status = pod.get("status") or {}
    return bool(status.get("containerStatuses")) or status.get("phase") == "Failed"


def _why(status: Mapping[str, Any]) -> dict[str, Any]:
    state = next(iter(status["state"].values()))
    return {key: state.get(key) for key in ("reason", "message", "exitCode")}


def _devices_of(pod: KubeObject) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return str([item.get("allocatedResourcesStatus") for item in statuses])


def _is_about(event: KubeObject, uid: str, reason: str) -> bool:
    return (event["involvedObject"].get("uid"), event["reason"]) == (uid, reason)
