"""Manifests of a user sorted by what they are for: settings of drivers, objects of known kinds, and the rest: pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from claimsmith.api.kinds import Kind, find_kind_of, find_meant_kind, get_kind_of
from claimsmith.api.manifests import Manifest
from claimsmith.api.objects import check_form, check_manifest, convert_manifest, drop_unknown
from claimsmith.api.snapshotfile import SNAPSHOT_KIND
from claimsmith.api.workload_pods import find_pod_templates
from claimsmith.embedded.api.defaults import fill_defaults
from claimsmith.embedded.api.naming import generate_name
from claimsmith.errors import InputError
from claimsmith.sdk.settings import SETTINGS_API_VERSION, find_named_nodes
from claimsmith.validate import FieldIssue, validate_create
from claimsmith.validate.names import check_driver_name, check_pool_name, check_subdomain

__all__ = [
    "AGENT_KIND",
    "SETTINGS_KIND",
    "SortedManifests",
    "UnknownKind",
    "explain_unknown",
    "find_issues",
    "is_setting",
    "namespace_of",
    "sort_manifests",
]

SETTINGS_KIND: Final = "SimulatedDevices"
"""Kind of the settings that the driver of embedded and offline clusters reads."""

AGENT_KIND: Final = "AgentConfiguration"
"""Kind of the configuration of agents, which those of embedded nodes follow too."""

_SHOWN_MAX: Final = 80
_NO_TIME: Final = "1970-01-01T00:00:00Z"
"""Stands for the time at which defaults are filled in; nothing that is checked depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedManifests:
    """Manifests by what they are for, each part in the order of the files.

    Args:
        settings: Settings of simulated devices.
        agents: Configurations of agents.
        objects: Objects of kinds that claimsmith knows, with the kind, in the version in which they are kept; they
            have been checked.
        left_out: One sentence for each manifest that is neither, and for each field that a kind does not have.
    """

    settings: tuple[Manifest, ...]
    agents: tuple[Manifest, ...]
    objects: tuple[tuple[Kind, Manifest], ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKind:
    """What is to be said of an object of an unknown kind.

    Args:
        hint: What is allowed and what to do, to be put behind the kind.
        path: The field that is probably wrong; empty when the object may be right as it is.
        correct: What to write there.
    """

    hint: str
    path: str = ""
    correct: str = ""


def sort_manifests(manifests: Iterable[Manifest], *, strict: bool = False) -> SortedManifests:
    """Return manifests sorted by what they are for.

    Args:
        manifests: The manifests.
        strict: Refuse fields that a kind does not have instead of leaving them out.

    Raises:
        InputError: A manifest has no kind, breaks a rule of the API, or an object is there twice.
    """
    settings: list[Manifest] = []
    agents: list[Manifest] = []
    objects: list[tuple[Kind, Manifest]] = []
    left_out: list[str] = []
    for manifest in manifests:
        kind = find_kind_of(manifest.object)
        if kind is not None and kind.is_listable:
            kept, unknown = _read_object(kind, manifest, strict=strict)
            left_out += unknown
            objects.append((kind.hub, kept))
        elif _is_ours(manifest, AGENT_KIND):
            agents.append(manifest)
        elif _is_ours(manifest, SETTINGS_KIND):
            _check_settings(manifest)
            settings.append(manifest)
        elif not _is_ours(manifest, SNAPSHOT_KIND):  # which says nothing but that objects follow
            said = explain_unknown(manifest)
            found = f"{manifest.object['apiVersion']} {manifest.object['kind']}"
            left_out.append(f"{manifest.locate()}: left out {found}{said.hint}")
    _refuse_twins(objects)
    return SortedManifests(
        settings=tuple(settings), agents=tuple(agents), objects=tuple(objects), left_out=tuple(left_out)
    )


def namespace_of(kind: Kind, manifest: Manifest) -> str:
    """Return the namespace of an object: `default` when it names none, empty for kinds without namespaces."""
    if not kind.namespaced:
        return ""
    return str((manifest.object.get("metadata") or {}).get("namespace") or "default")


def _read_object(kind: Kind, manifest: Manifest, *, strict: bool) -> tuple[Manifest, list[str]]:
    """Return an object as it is kept, and a sentence for each field that is left out of it."""
    for error in check_manifest(manifest, strict=strict):
        raise error
    unknown = [
        f"{error.source}: left out {error.path}, which {kind} does not have; {error.hint}"
        for error in check_form(manifest).unknown
    ]
    manifest = convert_manifest(drop_unknown(manifest) if unknown else manifest)
    _refuse(manifest, find_issues(kind.hub, manifest))
    return manifest, unknown


def find_issues(kind: Kind, manifest: Manifest) -> tuple[FieldIssue, ...]:
    """Return what an API server would refuse of a new object; one that was read from a server has passed already.

    Args:
        kind: Its kind, in the version in which it is kept.
        manifest: In that version, with a sound form.
    """
    value = copy.deepcopy(dict(manifest.object))
    metadata = value["metadata"] = value.get("metadata") or {}
    if metadata.get("uid"):
        return ()
    value.pop("status", None)
    if kind.namespaced:
        metadata["namespace"] = namespace_of(kind, manifest)
    if metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = generate_name(metadata["generateName"], lambda letters: letters[0])
    fill_defaults(kind.plural, value, now=_NO_TIME)
    return validate_create(kind, value)


def _check_settings(manifest: Manifest) -> None:
    """Refuse names in settings that an API server would refuse later; the driver checks the rest."""
    issues: list[FieldIssue] = []
    for index, name in enumerate(find_named_nodes(manifest)):
        issues += check_subdomain(name, f"spec.nodes[{index}]")
    spec = manifest.object.get("spec") or {}
    for field, check in (("driver", check_driver_name), ("pool", check_pool_name)):
        if isinstance(spec, Mapping) and isinstance(spec.get(field), str) and spec[field]:
            issues += check(spec[field], f"spec.{field}")
    _refuse(manifest, issues)


def _refuse(manifest: Manifest, issues: Iterable[FieldIssue]) -> None:
    """Raise the first issue, in words that also stand alone."""
    for issue in issues:
        is_missing = issue.type == "Required"
        shown = "nothing" if is_missing else repr(issue.value)
        shown = f"{shown[:_SHOWN_MAX]}…" if len(shown) > _SHOWN_MAX else shown
        found = f"found {shown}, " if is_missing or issue.value is not None else ""
        hint = "add it" if is_missing else "correct it"
        place = f"{manifest.locate(issue.path)}: {issue.path}"
        raise InputError(f"{place}: {found}{issue.detail or 'not allowed'}; {hint}")


def is_setting(manifest: Manifest) -> bool:
    """Tell whether a manifest is for claimsmith itself: settings, a configuration, the head of a snapshot."""
    return any(_is_ours(manifest, kind) for kind in (SETTINGS_KIND, AGENT_KIND, SNAPSHOT_KIND))


def _is_ours(manifest: Manifest, kind: str) -> bool:
    obj = manifest.object
    return obj.get("apiVersion") == SETTINGS_API_VERSION and obj.get("kind") == kind


def explain_unknown(manifest: Manifest) -> UnknownKind:
    """Return what to say of an object of a kind that claimsmith does not know.

    Raises:
        InputError: It does not say what it is.
    """
    api_version, kind = manifest.object.get("apiVersion"), manifest.object.get("kind")
    if not (isinstance(api_version, str) and api_version and isinstance(kind, str) and kind):
        get_kind_of(manifest.object, source=manifest.locate())
    if api_version == SETTINGS_API_VERSION:
        meant = AGENT_KIND if str(kind).lower().startswith("agent") else SETTINGS_KIND
        return UnknownKind(path="kind", hint=f", allowed {meant}; correct the kind", correct=meant)
    if find_pod_templates(manifest.object):
        return UnknownKind(hint="; its pods are not made here, write them as Pods")
    near = find_meant_kind(str(api_version), str(kind))
    if near is None:
        return UnknownKind(hint="; claimsmith has no use for this kind")
    hint = f"; write apiVersion: {near.api_version}, kind: {near.kind}"
    if near.kind != kind:
        return UnknownKind(path="kind", hint=hint, correct=near.kind)
    return UnknownKind(path="apiVersion", hint=hint, correct=near.api_version)


def _refuse_twins(objects: Iterable[tuple[Kind, Manifest]]) -> None:
    seen: dict[tuple[Kind, str, str], Manifest] = {}
    for kind, manifest in objects:
        name = str((manifest.object.get("metadata") or {}).get("name") or "")
        key = (kind, namespace_of(kind, manifest), name)
        if name and key in seen:
            place = f"{key[1]}/{name}" if key[1] else name
            raise InputError(
                f"{manifest.locate()}: found a second {kind.kind} {place} (the first: {seen[key].locate()}), "
                "allowed one; rename or remove it"
            )
        seen[key] = manifest
