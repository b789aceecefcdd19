"""`claimsmith snapshot`: a cluster's device state in a file, for bug reports and what-if."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from claimsmith.cli.exits import tell
from claimsmith.cli.options import Output
from claimsmith.cli.output import Format, print_table, print_value
from claimsmith.cli.sources import ClusterSource, reads_cluster
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["save", "show", "snapshot_app"]

_YAML: Final = (".yaml", ".yml")

snapshot_app = typer.Typer(
    help="A cluster's device state in a file, without secrets.", add_completion=False, rich_markup_mode=None
)


@snapshot_app.callback(invoke_without_command=True)
def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@snapshot_app.command(short_help="Write a snapshot file.")
@reads_cluster
def save(
    file: Annotated[str, typer.Argument(metavar="FILE", help="*.json, *.yaml, or - for JSON on stdout.")],
    source: ClusterSource,
) -> None:
    """Write what decisions read of a cluster to a file: nodes, devices, classes, claims, pods, budgets and quotas.

    Left out are Secrets and all other kinds, environment, images and commands of containers, annotations, opaque
    parameters of drivers, and free text. The rights `list` on what is read are enough.

    Example: claimsmith snapshot save cluster.json --kubeconfig admin.conf
    """
    from claimsmith.api.snapshotfile import encode_snapshot, reduce_snapshot

    if file != "-":
        _check_place(Path(file))
    snapshot = reduce_snapshot(source.open().snapshot)
    text = _render(encode_snapshot(snapshot), file)
    if file == "-":
        sys.stdout.write(text)
        return
    _write(Path(file), text)
    tell(f"{file}: {len(text.encode())} bytes; {', '.join(f'{name} {n}' for name, n in _count(snapshot).items() if n)}")


@snapshot_app.command(short_help="Say what is in a snapshot file.")
def show(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A snapshot file; - for stdin.")],
    output: Output = Format.TABLE,
) -> None:
    """Count what is in a snapshot file, and how much of it is in use.

    Example: claimsmith snapshot show cluster.json
    """
    found = ClusterSource(snapshot=file).open().snapshot
    drivers = _describe_drivers(found)
    if output is not Format.TABLE:
        print_value({"counts": _count(found), "drivers": drivers}, output)
        return
    print_table(("WHAT", "NUMBER"), [(name, str(number)) for name, number in _count(found).items()])
    rows = [(name, *(str(part[key]) for key in ("pools", "devices", "inUse"))) for name, part in drivers.items()]
    print_table(("DRIVER", "POOLS", "DEVICES", "IN USE"), rows)


def _count(snapshot: ClusterSnapshot) -> dict[str, int]:
    allocated = len(snapshot.allocated_claims())
    waiting = sum(not pod.node_name and not pod.finished for pod in snapshot.pods.values())
    return {
        "nodes": len(snapshot.nodes),
        "slices": len(snapshot.slices),
        "devices": sum(len(item.devices) for item in snapshot.slices),
        "classes": len(snapshot.classes),
        "allocated claims": allocated,
        "other claims": len(snapshot.claims) - allocated,
        "claim templates": len(snapshot.templates),
        "pods on nodes": len(snapshot.pods) - waiting,
        "waiting pods": waiting,
        "pod groups": len(snapshot.pod_groups),
        "taint rules": len(snapshot.taint_rules),
        "disruption budgets": len(snapshot.budgets),
        "quotas": len(snapshot.quotas),
    }


def _describe_drivers(snapshot: ClusterSnapshot) -> dict[str, dict[str, int]]:
    pools = {(item.driver, item.pool) for item in snapshot.slices}
    published = {(item.driver, item.pool, device.name): None for item in snapshot.slices for device in item.devices}
    held = {
        result.device_id: None
        for claim in snapshot.allocated_claims()
        for result in (claim.allocation.results if claim.allocation else ())
        if not result.admin_access
    }
    by_pool = Counter(driver for driver, _ in pools)
    by_device = Counter(driver for driver, _, _ in published)
    in_use = Counter(device.driver for device in held)
    names = sorted({*by_pool, *in_use})
    return {name: {"pools": by_pool[name], "devices": by_device[name], "inUse": in_use[name]} for name in names}


def _render(value: dict[str, Any], file: str) -> str:
    if file.endswith(_YAML):
        import yaml

        return yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, width=120)
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=1).decode() + "\n"


def _check_place(path: Path) -> None:
    """Make sure that a snapshot may be written there.

    Raises:
        InputError: There is something that is no snapshot, or no folder for it.
    """
    from claimsmith.api.snapshotfile import is_snapshot_text

    try:
        if path.is_dir() or (path.exists() and not is_snapshot_text(_read_start(path))):
            raise InputError(f"{path}: found something that is no snapshot, allowed a new file; name another path")
        if not path.absolute().parent.is_dir():
            raise InputError(
                f"{path}: found no folder {path.absolute().parent}, allowed an existing one; make it first"
            )
    except OSError as error:
        raise _unwritable(path, error) from error


def _read_start(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(1000).decode(errors="replace")


def _write(path: Path, text: str) -> None:
    """Write a file at once, readable by its owner alone.

    Raises:
        InputError: It can't be written.
    """
    import tempfile

    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}."[:100])
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"{path}: can't be written ({error.strerror or error}), allowed a writable place; name another path"
    )
