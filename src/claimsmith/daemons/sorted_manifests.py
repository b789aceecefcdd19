"""Manifests of a user sorted by what they are for: settings of drivers, objects of known kinds, and the rest: pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from claimsmith.api.kinds import KINDS, Kind, find_kind_of, get_kind_of
from claimsmith.api.manifests import Manifest
from claimsmith.api.objects import check_manifest
from claimsmith.errors import InputError
from claimsmith.sdk.settings import SETTINGS_API_VERSION

__all__ = ["SETTINGS_KIND", "SortedManifests", "namespace_of", "sort_manifests"]

SETTINGS_KIND: Final = "SimulatedDevices"
"""Kind of the settings that the driver of embedded and offline clusters reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedManifests:
    """Manifests by what they are for, each part in the order of the files.

    Args:
        settings: Settings of simulated devices.
        objects: Objects of kinds that claimsmith knows, with the kind; their form has been checked.
        left_out: One sentence for each manifest that is neither.
    """

    settings: tuple[Manifest, ...]
    objects: tuple[tuple[Kind, Manifest], ...]
    left_out: tuple[str, ...]


def sort_manifests(manifests: Iterable[Manifest]) -> SortedManifests:
    """Return manifests sorted by what they are for.

    Raises:
        InputError: A manifest has no kind, a field is unknown or of a wrong type, or an object is there twice.
    """
    settings: list[Manifest] = []
    objects: list[tuple[Kind, Manifest]] = []
    left_out: list[str] = []
    for manifest in manifests:
        kind = find_kind_of(manifest.object)
        if kind is not None and kind.is_listable:
            for error in check_manifest(manifest):
                raise error
            objects.append((kind, manifest))
        elif _is_settings(manifest):
            settings.append(manifest)
        else:
            left_out.append(_explain(manifest))
    _refuse_twins(objects)
    return SortedManifests(settings=tuple(settings), objects=tuple(objects), left_out=tuple(left_out))


def namespace_of(kind: Kind, manifest: Manifest) -> str:
    """Return the namespace of an object: `default` when it names none, empty for kinds without namespaces."""
    if not kind.namespaced:
        return ""
    return str((manifest.object.get("metadata") or {}).get("namespace") or "default")


def _is_settings(manifest: Manifest) -> bool:
    obj = manifest.object
    return obj.get("apiVersion") == SETTINGS_API_VERSION and obj.get("kind") == SETTINGS_KIND


def _explain(manifest: Manifest) -> str:
    """Return why an object is left out.

    Raises:
        InputError: It does not say what it is.
    """
    api_version, kind = manifest.object.get("apiVersion"), manifest.object.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not api_version or not kind:
        get_kind_of(manifest.object, source=manifest.locate())
        raise InputError(
            f"{manifest.locate()}: found apiVersion {api_version!r}, kind {kind!r}, allowed are texts; quote them"
        )
    if api_version == SETTINGS_API_VERSION:
        return f"{manifest.locate()}: left out {api_version} {kind}, allowed {SETTINGS_KIND}; correct the kind"
    near = next((known for known in KINDS if known.kind.lower() == kind.lower()), None)
    hint = f"write apiVersion: {near.api_version}, kind: {near.kind}" if near else "claimsmith does not know this kind"
    return f"{manifest.locate()}: left out {api_version} {kind}; {hint}"


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
