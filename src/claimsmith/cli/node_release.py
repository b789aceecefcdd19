"""`claimsmith node release`: take devices back into use that do not return by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from claimsmith.cli.node_options import Context, Kubeconfig, NodeName, get_node, open_client
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.kube.client import KubeClient
    from claimsmith.model.names import DeviceId

__all__ = ["release"]


def release(
    devices: Annotated[
        list[str], typer.Argument(metavar="DEVICE...", help="Name on the node, or DRIVER/POOL/DEVICE.")
    ],
    node: NodeName = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:  # fmt: skip
    """Ask the agent of a node to take devices back into use that have failed and work again.

    It is for causes whose rule has `returns: false`. A device whose driver still reports the failure stays out of use.

    Example: claimsmith node release gpu-0 --node node-a
    """
    name = get_node(node)
    import asyncio

    found = asyncio.run(_release(open_client(kubeconfig, context), name, devices))
    for device in found:
        typer.echo(f"node {name}: asked to release {device}")


async def _release(client: KubeClient, node: str, names: Sequence[str]) -> tuple[DeviceId, ...]:
    from claimsmith.publish.releases import ask_release

    try:
        found = await _resolve(client, node, names)
        await ask_release(client, node, add=found)
        return found
    finally:
        await client.close()


async def _resolve(client: KubeClient, node: str, names: Sequence[str]) -> tuple[DeviceId, ...]:
    """Return the devices that names mean.

    Raises:
        InputError: The node has none of that name, or several.
    """
    from claimsmith.api.kinds import RESOURCE_SLICE
    from claimsmith.api.resource import parse_resource_slice
    from claimsmith.model.names import DeviceId
    from claimsmith.publish.releases import parse_device_id

    listed = await client.list(RESOURCE_SLICE, field_selector=f"spec.nodeName={node}")
    known = [
        DeviceId(item.driver, item.pool, device.name)
        for item in map(parse_resource_slice, listed.items)
        for device in item.devices
    ]
    found = []
    for name in names:
        fitting = [parse_device_id(name)] if "/" in name else [device for device in known if device.device == name]
        if len(fitting) != 1:
            has = f"{', '.join(map(str, fitting))}" if fitting else "none of that name"
            raise InputError(f"device {name}: found {has} on node {node}, allowed one; write DRIVER/POOL/DEVICE")
        found.append(fitting[0])
    return tuple(found)
