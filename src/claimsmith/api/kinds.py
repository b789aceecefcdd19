"""The registry of kinds: names, scope, subresources and wire types of everything claimsmith reads or serves.

A kind may be served in several versions. One of them is the hub: the version in which objects are kept, checked and
converted through (`Kind.hub`); `api.versions` converts.

Nothing of `api.wire` is imported before a wire type is asked for, so that looking up a name costs nothing.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from claimsmith.api.spelling import count_edits
from claimsmith.errors import InputError

if TYPE_CHECKING:
    from claimsmith.api.wire.base import Wire

__all__ = [
    "BINDING",
    "DEVICE_CLASS",
    "DEVICE_REPORT",
    "DEVICE_TAINT_RULE",
    "EVENT",
    "KINDS",
    "LEASE",
    "NAMESPACE",
    "NODE",
    "OLDER_KINDS",
    "POD",
    "POD_DISRUPTION_BUDGET",
    "POD_GROUP",
    "PRIORITY_CLASS",
    "READ_KINDS",
    "RESOURCE_CLAIM",
    "RESOURCE_CLAIM_TEMPLATE",
    "RESOURCE_POOL_STATUS_REQUEST",
    "RESOURCE_QUOTA",
    "RESOURCE_SLICE",
    "SERVED_KINDS",
    "SERVICE_ACCOUNT",
    "WORKLOAD",
    "Kind",
    "find_kind",
    "find_kind_of",
    "find_list_kind",
    "find_meant_kind",
    "find_resource",
    "get_kind_of",
    "iter_group_versions",
    "split_api_version",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of API object.

    Args:
        group: API group; empty for the core group.
        version: Version within the group, such as `v1`.
        kind: Name in `kind`, such as `ResourceClaim`.
        plural: Name in URLs, such as `resourceclaims`.
        module: Module of `claimsmith.api.wire` that holds the wire types.
        short_names: What kubectl accepts instead of the plural.
        categories: Groups of kinds that kubectl knows, such as `all`.
        namespaced: False for cluster-wide kinds.
        has_status: True when the `status` subresource exists.
        subresources: Further subresources, such as `binding` of pods.
        verbs: What a client may do with the kind itself.
        hub_version: Version in which the objects are kept; empty when it is this one.
        deprecated: Kubernetes releases in which this version became deprecated, and in which it goes; empty for none.

    Source: kubectl api-resources of Kubernetes v1.37.2; strategies in k8s.io/kubernetes v1.37.2 pkg/registry.
    """

    group: str
    version: str
    kind: str
    plural: str
    module: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    hub_version: str = ""
    deprecated: tuple[str, str] | tuple[()] = ()

    @property
    def deprecation(self) -> str:
        """What a client of this version is warned of; empty when there is nothing to say."""
        if not self.deprecated:
            return ""
        since, until = self.deprecated
        return f"{self.api_version} {self.kind} is deprecated in v{since}+, unavailable in v{until}+"

    @property
    def hub(self) -> Kind:
        """The same kind in the version in which its objects are kept; most often itself."""
        return _BY_PLURAL[self.group, self.hub_version, self.plural] if self.hub_version else self

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """Name of one object in kubectl's words: the kind in lower case."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """Kind of a list of these objects, such as `ResourceClaimList`."""
        return f"{self.kind}List"

    @property
    def is_listable(self) -> bool:
        """False for kinds that are only posted, such as Binding."""
        return "list" in self.verbs

    @property
    def wire_type(self) -> type[Wire]:
        """The Struct of one object; its module is imported at the first use."""
        return _load_type(self.module, self.kind)

    @property
    def wire_list_type(self) -> type[Wire]:
        """The Struct of a list of objects.

        Raises:
            AttributeError: The kind has no list (see `is_listable`).
        """
        return _load_type(self.module, self.list_kind)

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"


@lru_cache(maxsize=256)
def _load_type(module: str, name: str) -> type[Wire]:
    """Import a module of the wire types and return one type of it."""
    found: type[Wire] = getattr(importlib.import_module(f"claimsmith.api.wire.{module}"), name)
    return found


_RESOURCE_GROUP: Final = "resource.k8s.io"

POD: Final = Kind(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    module="core_pod",
    short_names=("po",),
    categories=("all",),
    has_status=True,
    subresources=("binding", "log"),
)
NODE: Final = Kind(
    group="",
    version="v1",
    kind="Node",
    plural="nodes",
    module="core_node",
    short_names=("no",),
    namespaced=False,
    has_status=True,
)
NAMESPACE: Final = Kind(
    group="",
    version="v1",
    kind="Namespace",
    plural="namespaces",
    module="core_cluster",
    short_names=("ns",),
    namespaced=False,
    has_status=True,
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)
EVENT: Final = Kind(group="", version="v1", kind="Event", plural="events", module="core_cluster", short_names=("ev",))
BINDING: Final = Kind(group="", version="v1", kind="Binding", plural="bindings", module="core_pod", verbs=("create",))
SERVICE_ACCOUNT: Final = Kind(
    group="", version="v1", kind="ServiceAccount", plural="serviceaccounts", module="core_cluster", short_names=("sa",)
)
RESOURCE_SLICE: Final = Kind(
    group=_RESOURCE_GROUP,
    version="v1",
    kind="ResourceSlice",
    plural="resourceslices",
    module="resource_slice",
    namespaced=False,
)
RESOURCE_CLAIM: Final = Kind(
    group=_RESOURCE_GROUP,
    version="v1",
    kind="ResourceClaim",
    plural="resourceclaims",
    module="resource_claim",
    has_status=True,
)
RESOURCE_CLAIM_TEMPLATE: Final = Kind(
    group=_RESOURCE_GROUP,
    version="v1",
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    module="resource_claim",
)
DEVICE_CLASS: Final = Kind(
    group=_RESOURCE_GROUP,
    version="v1",
    kind="DeviceClass",
    plural="deviceclasses",
    module="resource_class",
    namespaced=False,
)
DEVICE_TAINT_RULE: Final = Kind(
    group=_RESOURCE_GROUP,
    version="v1",
    kind="DeviceTaintRule",
    plural="devicetaintrules",
    module="resource_class",
    namespaced=False,
    has_status=True,
)
LEASE: Final = Kind(group="coordination.k8s.io", version="v1", kind="Lease", plural="leases", module="coordination")
PRIORITY_CLASS: Final = Kind(
    group="scheduling.k8s.io",
    version="v1",
    kind="PriorityClass",
    plural="priorityclasses",
    module="scheduling",
    short_names=("pc",),
    namespaced=False,
)

POD_GROUP: Final = Kind(
    group="scheduling.k8s.io",
    version="v1beta1",
    kind="PodGroup",
    plural="podgroups",
    module="scheduling_v1beta1",
    has_status=True,
)
WORKLOAD: Final = Kind(
    group="scheduling.k8s.io", version="v1beta1", kind="Workload", plural="workloads", module="scheduling_v1beta1"
)
RESOURCE_POOL_STATUS_REQUEST: Final = Kind(
    group=_RESOURCE_GROUP,
    version="v1alpha3",
    kind="ResourcePoolStatusRequest",
    plural="resourcepoolstatusrequests",
    module="resource_v1alpha3",
    namespaced=False,
    has_status=True,
)
"""A question about a pool. It is checked, but neither read nor served: nothing here answers it."""

POD_DISRUPTION_BUDGET: Final = Kind(
    group="policy",
    version="v1",
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    module="policy",
    short_names=("pdb",),
    has_status=True,
)
RESOURCE_QUOTA: Final = Kind(
    group="",
    version="v1",
    kind="ResourceQuota",
    plural="resourcequotas",
    module="core_quota",
    short_names=("quota",),
    has_status=True,
)

DEVICE_REPORT: Final = Kind(
    group="claimsmith.dev",
    version="v1alpha1",
    kind="DeviceReport",
    plural="devicereports",
    module="device_report",
    short_names=("drep",),
    namespaced=False,
    has_status=True,
)
"""A custom resource of ours (`api.reports`); embedded servers have it built in."""

KINDS: Final[tuple[Kind, ...]] = (
    BINDING,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    SERVICE_ACCOUNT,
    DEVICE_REPORT,
    LEASE,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    PRIORITY_CLASS,
    POD_GROUP,
    WORKLOAD,
)
"""All kinds in the version in which they are kept, ordered by group, then version, then kind."""


def _older(
    version: str, *kinds: Kind, deprecated: tuple[str, str] | tuple[()] = (), module: str = ""
) -> tuple[Kind, ...]:
    """Return kinds as an older version has them.

    Args:
        version: The version.
        kinds: The kinds as they are kept.
        deprecated: As in `Kind`.
        module: Module of all their wire types; empty when they are cut like those of the kept version.
    """
    return tuple(
        replace(
            kind,
            version=version,
            module=module or f"resource_{version}_{kind.module.removeprefix('resource_')}",
            hub_version=kind.version,
            deprecated=deprecated,
        )
        for kind in kinds
    )


_SINCE_V1BETA1: Final = (DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE)

OLDER_KINDS: Final[tuple[Kind, ...]] = (
    *_older("v1beta2", *_SINCE_V1BETA1, deprecated=("1.36", "1.39")),
    *_older("v1beta2", DEVICE_TAINT_RULE),
    *_older("v1beta1", *_SINCE_V1BETA1, deprecated=("1.35", "1.38")),
    *_older("v1alpha3", DEVICE_TAINT_RULE, deprecated=("1.36", "1.39"), module="resource_v1alpha3"),
)
"""Kinds in the older versions that Kubernetes 1.37 can serve too, newest version first.

Source: pkg/registry/resource/rest/storage_resource.go in k8s.io/kubernetes v1.37.2; lifecycles in k8s.io/api v0.37.2.
"""
SERVED_KINDS: Final[tuple[Kind, ...]] = (*KINDS, *OLDER_KINDS)
"""All kinds in all versions; of each kind the version in which it is kept comes first."""

READ_KINDS: Final[tuple[Kind, ...]] = (RESOURCE_QUOTA, POD_DISRUPTION_BUDGET)
"""Kinds that are read from clusters and files, and that embedded servers don't serve: nothing there obeys them."""

_KNOWN: Final = (*SERVED_KINDS, *READ_KINDS)
_CLOSE_KIND: Final = 0.8
_GROUP_EDITS_MAX: Final = 2
"""Most letters in which a misspelt API group differs from the one that is meant."""
_OTHER_GROUPS: Final = ".x-k8s.io"
"""Ending of the groups of projects beside Kubernetes, some of which are named after one of its own."""
_BY_KIND: Final[Mapping[tuple[str, str], Kind]] = MappingProxyType(
    {(kind.api_version, kind.kind): kind for kind in _KNOWN}
)
_BY_LIST: Final[Mapping[tuple[str, str], Kind]] = MappingProxyType(
    {(kind.api_version, kind.list_kind): kind for kind in _KNOWN if kind.is_listable}
)
_BY_PLURAL: Final[Mapping[tuple[str, str, str], Kind]] = MappingProxyType(
    {(kind.group, kind.version, kind.plural): kind for kind in _KNOWN}
)


def find_kind(api_version: str, kind: str) -> Kind | None:
    """Return the kind that an object names, as in `find_kind("resource.k8s.io/v1", "ResourceClaim")`."""
    return _BY_KIND.get((api_version, kind))


def find_list_kind(api_version: str, kind: str) -> Kind | None:
    """Return the kind of the items of a list, as in `find_list_kind("v1", "PodList")`."""
    return _BY_LIST.get((api_version, kind))


def find_resource(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind behind a URL, as in `find_resource("resource.k8s.io", "v1", "resourceclaims")`."""
    return _BY_PLURAL.get((group, version, plural))


def find_kind_of(obj: Mapping[str, Any]) -> Kind | None:
    """Return the kind of a decoded object; None when it is unknown or not named."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    return find_kind(api_version, kind) if isinstance(api_version, str) and isinstance(kind, str) else None


def find_meant_kind(api_version: str, kind: str) -> Kind | None:
    """Return the kind that is probably meant by a name that nobody knows; None when it may well be another project's.

    Within its own API group a name need only be similar. The same name in another group is a mistake only if the group
    is written almost like the right one, or is no group that a project can have: those have a dot.
    """
    group, _ = split_api_version(api_version)
    names = {known.kind.lower(): known.kind for known in _KNOWN if known.is_listable}
    near = difflib.get_close_matches(kind.lower(), names, n=1, cutoff=_CLOSE_KIND)
    found = [known for known in _KNOWN if near and known.kind == names[near[0]]]
    if not found:
        return None
    best = next((known for known in found if known.api_version == api_version), found[0])
    if group == best.group:
        return best
    is_mistake = kind.lower() == best.kind.lower() and ("." not in group or _is_misspelt(group, best.group))
    return best if is_mistake else None


def _is_misspelt(group: str, meant: str) -> bool:
    """Tell whether one API group is probably another one that is written wrong."""
    return not group.endswith(_OTHER_GROUPS) and count_edits(group.lower(), meant) <= _GROUP_EDITS_MAX


def get_kind_of(obj: Mapping[str, Any], *, source: str = "object") -> Kind:
    """Return the kind of a decoded object.

    Args:
        obj: The decoded object.
        source: Where the object stands, for the message.

    Raises:
        InputError: `apiVersion` or `kind` is missing, or claimsmith does not know the two.
    """
    found = find_kind_of(obj)
    if found is not None:
        return found
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not api_version or not kind:
        missing = "apiVersion" if not api_version else "kind"
        raise InputError(f"{source}: found no {missing}, allowed are objects with apiVersion and kind; add it")
    near = find_meant_kind(str(api_version), str(kind))
    hint = f"write apiVersion: {near.api_version}, kind: {near.kind}" if near else "remove the object"
    names = ", ".join(sorted({known.kind for known in KINDS}))
    raise InputError(f"{source}: found {api_version} {kind}, allowed are the kinds {names}; {hint}")


def iter_group_versions() -> Iterator[tuple[str, str]]:
    """Yield (group, version) of all kinds once each: the core group first, of each group the preferred version."""
    yield from dict.fromkeys((kind.group, kind.version) for kind in SERVED_KINDS)


def split_api_version(api_version: str) -> tuple[str, str]:
    """Return (group, version) of `group/version` or `version`."""
    group, _, version = api_version.rpartition("/")
    return group, version
