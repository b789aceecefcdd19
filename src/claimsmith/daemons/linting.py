"""Lint over manifests and snapshots: every fault with its place, also in objects that could not be used as they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from claimsmith.allocate.lint.check import ObjectKey, lint_cluster
from claimsmith.allocate.lint.values import Fault, Finding, Rule
from claimsmith.api.kinds import POD, Kind, find_kind_of
from claimsmith.api.manifests import Manifest
from claimsmith.api.objects import check_form, convert_manifest, drop_unknown, parse_manifest
from claimsmith.api.workload_pods import PodTemplate, find_pod_templates, make_pod
from claimsmith.daemons.made_templates import find_made_templates
from claimsmith.daemons.offline import OfflineCluster
from claimsmith.daemons.sorted_manifests import explain_unknown, find_issues, is_setting, namespace_of
from claimsmith.errors import FieldError
from claimsmith.model.snapshot import ClusterSnapshot

__all__ = ["LintReport", "lint_manifests"]

_SHOWN_MAX: Final = 80
_NAME_MAX: Final = 150
_FOLLOWING: Final[Mapping[str, frozenset[Rule]]] = MappingProxyType(
    {
        "ResourceSlice": frozenset(
            (
                "unknown-attribute", "class-never-matches", "request-never-matches", "constraint-attribute", "count",
                "never-tolerated", "unknown-capacity", "capacity-amount", "rule-selects-nothing", "pool-incomplete",
                "pool-invalid",
            )
        ),
        "Node": frozenset(("unknown-node", "count")),
        "DeviceClass": frozenset(("unknown-class",)),
        "ResourceClaim": frozenset(("missing-reference",)),
        "ResourceClaimTemplate": frozenset(("missing-reference",)),
        "PodGroup": frozenset(("missing-reference",)),
    }
)  # fmt: skip
"""Rules that may be broken only because an object of the kind could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """What lint has found.

    Args:
        findings: In the order of the files, those of one object together.
        left_out: One sentence for each manifest of a kind that claimsmith does not know, and for what is not told.
        objects: How many objects were looked at.
        devices: How many published devices they were held against.
    """

    findings: tuple[Finding, ...]
    left_out: tuple[str, ...]
    objects: int
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """One manifest of an object.

    Args:
        original: As it stands in its file.
        kept: In the version in which it is kept; None when its form is not sound.
        owner: The workload whose pod it is; None for objects by themselves.
        at: Path of the pod in its workload.
    """

    key: ObjectKey
    original: Manifest
    kept: Manifest | None
    faults: tuple[Fault, ...] = ()
    owner: Manifest | None = None
    at: str = ""


def lint_manifests(manifests: Iterable[Manifest], *, base: ClusterSnapshot | None = None) -> LintReport:
    """Return what is wrong with the objects of manifests, or with all of a snapshot when there is no object in them.

    Args:
        manifests: Objects, and settings of simulated devices.
        base: A cluster that the manifests are put on.

    Raises:
        InputError: Settings of devices can't be used, or an object is there twice.
    """
    reads: list[_Read] = []
    others: list[Manifest] = []
    mistaken: list[Finding] = []
    for number, manifest in enumerate(manifests):
        kind = find_kind_of(manifest.object)
        if kind is not None and kind.is_listable:
            reads.append(_read(kind, _name(manifest, number)))
        elif templates := find_pod_templates(manifest.object):
            reads += [_read_template(manifest, template, number=number) for template in templates]
        elif kind is None and not is_setting(manifest) and (mistake := _find_mistake(manifest)) is not None:
            mistaken.append(mistake)
        else:
            others.append(manifest)
    usable = [item.kept for item in reads if item.kept is not None]
    cluster = OfflineCluster((*others, *usable), base=base)
    snapshot = cluster.snapshot
    is_whole = not (reads or mistaken) and all(map(is_setting, others))
    only = None if is_whole else {item.key for item in reads}
    found = lint_cluster(snapshot, only=only, made_templates=find_made_templates(others))
    unread = {item.key[0] for item in reads if item.kept is None}
    unread |= {item.fault.corrected if item.fault.path == "kind" else item.kind for item in mistaken}
    sound = tuple(_drop_following(found, unread))
    left_out = [sentence for sentence in cluster.left_out if sentence not in cluster.out_of_reach]
    if len(sound) < len(found):
        kinds = ", ".join(sorted(unread.intersection(_FOLLOWING)))
        left_out.append(f"what may follow from objects that can't be read ({kinds}) is not told; correct these first")
    return LintReport(
        findings=(*mistaken, *_join(reads, sound)),
        left_out=tuple(left_out),
        objects=_count(snapshot) if is_whole else len(reads) + len(mistaken),
        devices=sum(len(item.devices) for item in snapshot.slices),
    )


def _drop_following(found: Iterable[Finding], unread: Collection[str]) -> Iterator[Finding]:
    """Yield the findings that stay true whatever the objects of some kinds say that could not be read."""
    rules = frozenset[Rule]().union(*(_FOLLOWING.get(kind, frozenset()) for kind in unread))
    return (item for item in found if item.fault.rule not in rules)


def _find_mistake(manifest: Manifest) -> Finding | None:
    """Return the finding of an object whose kind is probably written wrong; None when it may be right.

    Raises:
        InputError: It does not say what it is.
    """
    said = explain_unknown(manifest)
    if not said.path:
        return None
    kind, metadata = str(manifest.object["kind"]), manifest.object.get("metadata")
    namespace = str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""
    text = f"there is no {manifest.object['apiVersion']} {kind}{said.hint}"
    fault = Fault(rule="unknown-kind", severity="error", path=said.path, text=text, corrected=said.correct)
    return Finding(
        kind=kind, namespace=namespace, name=_name_of(manifest), fault=fault, source=manifest.locate(said.path)
    )


def _count(snapshot: ClusterSnapshot) -> int:
    mappings = (snapshot.classes, snapshot.claims, snapshot.templates, snapshot.pods)
    return sum(len(mapping) for mapping in mappings) + len(snapshot.taint_rules) + len(snapshot.slices)


def _name(manifest: Manifest, number: int) -> Manifest:
    """Return a manifest with a name, one that nobody else has when a server would make it up."""
    metadata = manifest.object.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("name") or not metadata.get("generateName"):
        return manifest
    named = {**metadata, "name": f"{metadata['generateName']}{number}"}
    return replace(manifest, object={**manifest.object, "metadata": named})


def _read_template(workload: Manifest, template: PodTemplate, *, number: int) -> _Read:
    """Return the pod of a workload, under a name that nobody else has."""
    name = f"{number}.{template.name or 'pod'}.{_name_of(workload)[:_NAME_MAX]}".strip(".")
    pod = make_pod(workload, template, name=name)
    return replace(_read(POD, pod), owner=workload, at=template.path)


def _name_of(manifest: Manifest) -> str:
    metadata = manifest.object.get("metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, dict) else ""


def _read(kind: Kind, manifest: Manifest) -> _Read:
    """Return a manifest with what the API would refuse of it."""
    form = check_form(manifest)
    faults = [_tell_form(error, "api") for error in form.wrong]
    faults += [_tell_form(error, "unknown-field") for error in form.unknown]
    metadata = manifest.object.get("metadata")
    name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
    if form.wrong:
        key = (kind.kind, "", name)
        return _Read(key=key, original=manifest, kept=None, faults=tuple(faults))
    key = (kind.kind, namespace_of(kind, manifest), name)
    kept = convert_manifest(drop_unknown(manifest) if form.unknown else manifest)
    issues = find_issues(kind.hub, kept)
    faults += [Fault(rule="api", severity="error", path=issue.path, text=_shorten(issue.message)) for issue in issues]
    return _Read(key=key, original=manifest, kept=_let_pass(kept) if issues else kept, faults=tuple(faults))


def _tell_form(error: FieldError, rule: str) -> Fault:
    text = f"found {_shorten(repr(error.found))}, allowed {error.allowed}; {error.hint}"
    if rule == "unknown-field":
        return Fault(rule="unknown-field", severity="error", path=error.path, text=f"no such field; {error.hint}")
    return Fault(rule="api", severity="error", path=error.path, text=text)


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX * 4 else f"{text[: _SHOWN_MAX * 4]}…"


def _let_pass(manifest: Manifest) -> Manifest | None:
    """Return an object that the API would refuse in a form that is not asked again; None when it can't be read at all.

    Its selectors are still worth a look: an object with a uid counts as one that a server has let pass.
    """
    metadata = {**(manifest.object.get("metadata") or {}), "uid": "refused"}
    passing = replace(manifest, object={**manifest.object, "metadata": metadata})
    try:
        parse_manifest(passing)
    except FieldError:
        return None
    return passing


def _join(reads: Sequence[_Read], found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of each manifest, those of the API first, with their places; without manifests as they are.

    One fault is told for one field: what the API says, or what lint corrects instead.
    """
    if not reads:
        yield from found
        return
    faults: dict[ObjectKey, list[Fault]] = defaultdict(list)
    for one in found:
        faults[one.kind, one.namespace, one.name].append(one.fault)
    for item in reads:
        kind, namespace, name = item.key
        mine = faults[item.key]
        corrected = {fault.path for fault in mine if fault.rule == "quantity"}
        api = [fault for fault in item.faults if fault.path not in corrected]
        refused = {fault.path for fault in api}
        if item.owner is not None:
            kind, name = str(item.owner.object["kind"]), _name_of(item.owner)
        for fault in (*api, *(fault for fault in mine if fault.path not in refused)):
            source = item.original.locate(fault.path)
            told = replace(fault, path=f"{item.at}.{fault.path}") if item.at else fault
            yield Finding(kind=kind, namespace=namespace, name=name, fault=told, source=source)
