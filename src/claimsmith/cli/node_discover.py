"""`claimsmith node discover` and `claimsmith node label`: what the drivers of this machine find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from claimsmith.cli.exits import Exit, tell
from claimsmith.cli.node_options import (
    Config,
    Context,
    Kubeconfig,
    NodeName,
    Plugins,
    SettingsFiles,
    get_node,
    open_client,
    run_drivers,
)
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.daemons.node_discovery import Discovery
    from claimsmith.kube.client import KubeClient
    from claimsmith.publish.labels_write import LabelWrite

__all__ = ["discover", "label"]


def discover(
    config: Config = None,
    plugin: Plugins = None,
    settings: SettingsFiles = None,
    node: NodeName = "",
    slices: Annotated[bool, typer.Option("--slices", help="Print the ResourceSlices that would be published.")] = False,
    output: Output = Format.TABLE,
) -> int:
    """Run the drivers on this machine once and show what they find; nothing is published.

    Example: claimsmith node discover --plugin simulated --settings gpus.yaml
    """
    name = get_node(node)
    found = run_drivers(config, plugin, settings, node=name)
    _tell_problems(found)
    if slices:
        _print_slices(found, output)
    elif output is Format.TABLE:
        _print_devices(found)
    else:
        print_value({"node": name, "drivers": [_describe(item) for item in found]}, output)
    return Exit.BAD_INPUT if any(item.error for item in found) else Exit.DONE


def label(  # noqa: PLR0913 - what a command takes are its options
    config: Config = None,
    plugin: Plugins = None,
    settings: SettingsFiles = None,
    node: NodeName = "",
    prefix: Annotated[str, typer.Option(metavar="DOMAIN", help="Domain of the labels.")] = "claimsmith.dev",
    attribute: Annotated[
        list[str] | None, typer.Option(metavar="NAME", show_default=False, help="Tell this attribute too; repeatable.")
    ] = None,
    nvidia_names: Annotated[
        bool, typer.Option("--nvidia-names", help="Also those of NVIDIA's gpu-feature-discovery, as far as true.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Set them on the Node instead of printing them.")] = False,
    feature_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="Write a file for Node Feature Discovery instead."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --apply: take over labels that others have set.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    output: Output = Format.TABLE,
) -> int:  # fmt: skip
    """Show the labels that follow from the devices of this machine, or set them.

    Example: claimsmith node label --apply --kubeconfig admin.conf
    """
    import asyncio

    from claimsmith.daemons.node_discovery import label_sources
    from claimsmith.publish.labels import LabelOptions, plan_labels

    if apply and feature_file is not None:
        raise InputError("--apply: found together with --feature-file, allowed one of them; choose one")
    options = LabelOptions(prefix=prefix, attributes=tuple(attribute or ()), nvidia_names=nvidia_names)
    name = get_node(node)
    found = run_drivers(config, plugin, settings, node=name)
    _tell_problems(found)
    if any(item.error for item in found):
        # Labels of a driver that can't list its devices now must not go.
        return Exit.BAD_INPUT
    labels = plan_labels(label_sources(found, node=name), options)
    if apply:
        _tell_write(asyncio.run(_apply(open_client(kubeconfig, context), name, labels, force=force)), name)
    elif feature_file is not None:
        _write_file(feature_file, labels)
    elif output is Format.TABLE:
        print_table(("LABEL", "VALUE"), labels.items())
    else:
        print_value(labels, output)
    return Exit.DONE


async def _apply(client: KubeClient, node: str, labels: Mapping[str, str], *, force: bool) -> LabelWrite:
    from claimsmith.publish.labels_write import apply_labels

    try:
        return await apply_labels(client, node, labels, force=force)
    finally:
        await client.close()


def _tell_write(done: LabelWrite, node: str) -> None:
    for key, owner in sorted(done.left.items()):
        tell(f"label {key}: found another value set by {owner}, left alone; take it over with --force")
    for key in done.added:
        typer.echo(f"node {node}: {key} set")
    for key in done.removed:
        typer.echo(f"node {node}: {key} removed")
    if done.body is None:
        typer.echo(f"node {node}: nothing to change")


def _write_file(path: Path, labels: Mapping[str, str]) -> None:
    from claimsmith.node.durable import write_durable
    from claimsmith.publish.labels import render_feature_file

    write_durable(path, render_feature_file(labels))
    typer.echo(f"{path}: {len(labels)} labels written")


def _tell_problems(found: tuple[Discovery, ...]) -> None:
    for item in found:
        if item.error:
            tell(item.error)
        for problem in item.problems:
            tell(str(problem))
    if not found:
        tell("no driver for this node; name one with --plugin, or its settings with --settings")


def _print_devices(found: tuple[Discovery, ...]) -> None:
    rows = [row for item in found for row in _iter_rows(item)]
    if rows:
        print_table(("DEVICE", "ATTRIBUTES", "CAPACITY", "TAINTS"), rows)


def _iter_rows(item: Discovery) -> Iterator[tuple[str, str, str, str]]:
    for part in item.slices:
        for device in part.devices:
            attributes = (f"{name}={attribute.value}" for name, attribute in sorted(device.attributes.items()))
            capacity = (f"{name}={amount.value}" for name, amount in sorted(device.capacity.items()))
            taints = (str(taint) for taint in device.taints)
            yield (
                f"{item.driver}/{part.pool}/{device.name}",
                " ".join(attributes) or "-",
                " ".join(capacity) or "-",
                " ".join(taints) or "-",
            )


def _describe(item: Discovery) -> dict[str, Any]:
    from claimsmith.api.resource import encode_device

    pools: dict[str, list[dict[str, Any]]] = {}
    for part in item.slices:
        pools.setdefault(part.pool, []).extend(encode_device(device) for device in part.devices)
    return {
        "driver": item.driver,
        "error": item.error,
        "problems": [str(problem) for problem in item.problems],
        "pools": [{"name": name, "devices": devices} for name, devices in pools.items()],
    }


def _print_slices(found: tuple[Discovery, ...], output: Format) -> None:
    from claimsmith.api.resource import encode_resource_slice

    items = [encode_resource_slice(part) for item in found for part in item.slices]
    chosen = Format.YAML if output is Format.TABLE else output
    print_value({"apiVersion": "v1", "kind": "List", "items": items}, chosen)
