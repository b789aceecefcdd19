"""Where a command that only reads finds its cluster: in files, in a snapshot, or behind a kubeconfig."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from claimsmith.cli.exits import tell
from claimsmith.cli.options import Strict
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.api.manifests import Manifest
    from claimsmith.cluster.read import ReadCluster
    from claimsmith.daemons.offline import OfflineCluster
    from claimsmith.kube.client import KubeClient
    from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["ClusterSource", "reads_cluster"]

_PARAMETER: Final = "source"
_SIGNALLED: Final = 128
_OF_FILES: Final = (
    Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--files",
            metavar="PATH",
            show_default=False,
            help="Manifests: a file, a folder, or - for stdin; may be repeated. With one of the next two: put on top.",
        ),
    ],
    None,
)
_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "files": _OF_FILES,
    "snapshot": (
        Annotated[
            str,
            typer.Option(metavar="FILE", show_default=False, help="A file of `claimsmith snapshot save`; - is stdin."),
        ],
        "",
    ),
    "kubeconfig": (
        Annotated[
            str,
            typer.Option(
                metavar="FILE",
                show_default=False,
                help="Read a live cluster. Taken from KUBECONFIG or ~/.kube/config when nothing else is named.",
            ),
        ],
        "",
    ),
    "context": (
        Annotated[str, typer.Option(metavar="NAME", show_default=False, help="Context of the kubeconfig.")],
        "",
    ),
    "strict": (Strict, False),
}
"""The options that stand for the one parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """What the user named.

    Args:
        files: Paths of manifests; alone, or put on the snapshot or the live cluster.
        snapshot: Path of a snapshot file; empty for none.
        kubeconfig, context: The way to a live cluster; both empty for none.
        strict: Refuse fields in files that a kind does not have instead of leaving them out.
        base: What a live cluster was found to be; None: it is read when it is asked for.
    """

    files: tuple[str, ...] = ()
    snapshot: str = ""
    kubeconfig: str = ""
    context: str = ""
    strict: bool = False
    base: ClusterSnapshot | None = None

    def open(self, *, node: str = "", like_upstream: bool = False, more: tuple[Manifest, ...] = ()) -> OfflineCluster:
        """Return the cluster for decisions; what is left out of it is told on stderr.

        Args:
            node: Name of the only node to look at; empty for all.
            like_upstream: Choose exactly as upstream, also where it is wrong.
            more: Further manifests to put on top.

        Raises:
            InputError: Nothing is named, or what is named can't be used.
            KubeconfigError: There is no way to the cluster.
            ApiError: The cluster refused or could not be reached.
        """
        from claimsmith.cli.inputs import read_manifests
        from claimsmith.daemons.offline import OfflineCluster

        base = self._read_base()
        cluster = OfflineCluster(
            (*read_manifests(self.files), *more), base=base, node=node, like_upstream=like_upstream, strict=self.strict
        )
        for sentence in cluster.left_out:
            tell(sentence)
        if base is None and not cluster.snapshot.nodes and os.environ.get("KUBECONFIG"):
            tell(
                "the files have no node, and KUBECONFIG does not count beside -f; name --kubeconfig to put them on top"
            )
        return cluster

    def read(self) -> tuple[tuple[Manifest, ...], ClusterSnapshot | None]:
        """Return the manifests of the files as they are, and the snapshot that they are put on; None for none.

        Raises:
            InputError: Nothing is named, or what is named can't be read.
            KubeconfigError: There is no way to the cluster.
            ApiError: The cluster refused or could not be reached.
        """
        from claimsmith.cli.inputs import read_manifests

        return read_manifests(self.files), self._read_base()

    def check_live(self) -> None:
        """Refuse what is no live cluster.

        Raises:
            InputError: What is named is none, or something is put on top of it.
        """
        for option, value in (("--snapshot", self.snapshot), ("-f", self.files)):
            if value:
                raise InputError(f"--yes: found {option} too, allowed a live cluster alone; leave {option} out")

    def open_client(self, *, manager: str) -> KubeClient:
        """Return a client for the live cluster, to change it; the caller closes it.

        Args:
            manager: Name under which the server records what is written.

        Raises:
            InputError: What is named is no live cluster, or something is put on top of it.
            KubeconfigError: There is no way to the cluster.
        """
        from claimsmith.kube.client import KubeClient

        self.check_live()
        path = _find_kubeconfig(self.kubeconfig)
        return KubeClient.from_kubeconfig(path, context=self.context or None, field_manager=manager)

    def _read_base(self) -> ClusterSnapshot | None:
        """Return the snapshot that files are put on; None for files alone."""
        if self.base is not None:
            return self.base
        if self.snapshot and (self.kubeconfig or self.context):
            raise InputError(
                "--snapshot: found --kubeconfig or --context too, allowed one cluster; leave one of them out"
            )
        if self.snapshot:
            return _read_snapshot(self.snapshot)
        if self.kubeconfig or self.context:
            return _read_live(_find_kubeconfig(self.kubeconfig), self.context)
        if self.files:
            return None
        return _read_live(_find_kubeconfig(""), "")


def reads_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name a cluster, in the place of its parameter `source: ClusterSource`.

    The command can be called with a `source` as well.
    """

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        if _PARAMETER not in options:
            named = {name: options.pop(name, default) for name, (_, default) in _OPTIONS.items()}
            named["files"] = tuple(named["files"] or ())
            options[_PARAMETER] = ClusterSource(**named)
        command(*args, **options)

    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        own = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters.extend(_option_parameters() if parameter.name == _PARAMETER else [own])
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _option_parameters() -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in _OPTIONS.items()
    ]


def _read_snapshot(path: str) -> ClusterSnapshot:
    from claimsmith.api.snapshotfile import parse_snapshot_objects
    from claimsmith.cli.inputs import read_text
    from claimsmith.cluster.build import build_snapshot

    found = parse_snapshot_objects(read_text(path), source="<stdin>" if path == "-" else path)
    return build_snapshot(found.objects, resource_version=found.resource_version)


def _read_live(kubeconfig: Path, context: str) -> ClusterSnapshot:
    from claimsmith.cli.interrupts import run_interruptible

    read = run_interruptible(_list_cluster(kubeconfig, context))
    if isinstance(read, int):
        raise typer.Exit(_SIGNALLED + read)
    for sentence in read.left_out:
        tell(sentence)
    return read.snapshot


async def _list_cluster(kubeconfig: Path, context: str) -> ReadCluster:
    from claimsmith.cluster.read import read_cluster
    from claimsmith.kube.client import KubeClient

    client = KubeClient.from_kubeconfig(kubeconfig, context=context or None)
    try:
        return await read_cluster(client)
    finally:
        await client.close()


def _find_kubeconfig(named: str) -> Path:
    """Return the kubeconfig that is named, or that kubectl would take.

    Raises:
        InputError: None is named, and none is in the usual places.
    """
    usual = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    if named or usual:
        return Path(named or usual)
    home = Path("~/.kube/config").expanduser()
    if home.is_file():
        return home
    raise InputError(
        "cluster: found none of -f, --snapshot and --kubeconfig, and no kubeconfig in the usual places, "
        "allowed any of them; name one"
    )
