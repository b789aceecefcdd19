"""core/v1 between JSON and the model: nodes, namespaces, events, bindings; pods are in `core_pods`."""

from __future__ import annotations

from typing import Any, Final

from claimsmith.api.core_pods import encode_pod, parse_pod
from claimsmith.api.decode import Source, convert, to_json_value
from claimsmith.api.metadata import encode_metadata, encode_quantities, parse_metadata, parse_quantities
from claimsmith.api.wire import core_cluster, core_node, core_pod, core_selection, meta
from claimsmith.model.names import PodRef
from claimsmith.model.node import Node, NodeTaint
from claimsmith.model.record import Event, Namespace, ObjectRef, PodBinding

__all__ = [
    "encode_binding",
    "encode_event",
    "encode_namespace",
    "encode_node",
    "encode_pod",
    "parse_binding",
    "parse_event",
    "parse_namespace",
    "parse_node",
    "parse_pod",
]

_V1: Final = "v1"


def parse_node(obj: Source, *, source: str = "") -> Node:
    """Return the node that an object describes.

    Args:
        obj: Decoded JSON, JSON text, or the wire type.
        source: Where the object stands, for messages.

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    return convert(obj, core_node.Node, _build_node, source=source, api_version=_V1)


def _build_node(wire: core_node.Node) -> Node:
    spec = wire.spec or core_node.NodeSpec()
    status = wire.status or core_node.NodeStatus()
    capacity = parse_quantities(status.capacity)
    ready = next((condition.status for condition in status.conditions or () if condition.type == "Ready"), "True")
    return Node(
        metadata=parse_metadata(wire.metadata),
        taints=tuple(
            NodeTaint(key=taint.key, effect=taint.effect, value=taint.value or "") for taint in spec.taints or ()
        ),
        unschedulable=bool(spec.unschedulable),
        capacity=capacity,
        # Source: SetDefaults_NodeStatus in pkg/apis/core/v1/defaults.go of k8s.io/kubernetes v1.37.2.
        allocatable=capacity if status.allocatable is None else parse_quantities(status.allocatable),
        declared_features=frozenset(status.declared_features or ()),
        ready=ready == "True",
    )


def encode_node(value: Node) -> dict[str, Any]:
    """Return a node as JSON, with what the model knows of it."""
    taints = [
        core_selection.Taint(key=taint.key, effect=taint.effect, value=taint.value or None) for taint in value.taints
    ]
    status = core_node.NodeStatus(
        capacity=encode_quantities(value.capacity) or None,
        allocatable=encode_quantities(value.allocatable) or None,
        declared_features=sorted(value.declared_features) or None,
        conditions=[core_node.NodeCondition(type="Ready", status="True" if value.ready else "False")],
    )
    return to_json_value(
        core_node.Node(
            api_version=_V1,
            kind="Node",
            metadata=encode_metadata(value.metadata),
            spec=core_node.NodeSpec(taints=taints or None, unschedulable=value.unschedulable or None),
            status=status,
        )
    )


def parse_namespace(obj: Source, *, source: str = "") -> Namespace:
    """Return the namespace that an object describes (see `parse_node`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """

    def build(wire: core_cluster.Namespace) -> Namespace:
        phase = wire.status.phase if wire.status is not None else None
        return Namespace(metadata=parse_metadata(wire.metadata), phase=phase or "Active")

    return convert(obj, core_cluster.Namespace, build, source=source, api_version=_V1)


def encode_namespace(value: Namespace) -> dict[str, Any]:
    """Return a namespace as JSON."""
    status = core_cluster.NamespaceStatus(phase=value.phase)
    return to_json_value(
        core_cluster.Namespace(
            api_version=_V1, kind="Namespace", metadata=encode_metadata(value.metadata), status=status
        )
    )


def parse_event(obj: Source, *, source: str = "") -> Event:
    """Return the event that an object describes (see `parse_node`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """
    return convert(obj, core_cluster.Event, _build_event, source=source, api_version=_V1)


def _build_event(wire: core_cluster.Event) -> Event:
    about = wire.involved_object
    reporter = wire.source.component if wire.source is not None else None
    return Event(
        metadata=parse_metadata(wire.metadata),
        about=ObjectRef(
            api_version=about.api_version or "",
            kind=about.kind or "",
            name=about.name or "",
            namespace=about.namespace or "",
            uid=about.uid or "",
        ),
        type=wire.type or "Normal",
        reason=wire.reason or "",
        message=wire.message or "",
        component=reporter or wire.reporting_component or "",
        count=wire.count or 1,
        first_timestamp=wire.first_timestamp or wire.event_time,
        last_timestamp=wire.last_timestamp or wire.event_time,
    )


def encode_event(value: Event) -> dict[str, Any]:
    """Return an event as JSON."""
    about = value.about
    return to_json_value(
        core_cluster.Event(
            api_version=_V1,
            kind="Event",
            metadata=encode_metadata(value.metadata),
            involved_object=core_selection.ObjectReference(
                api_version=about.api_version or None,
                kind=about.kind or None,
                name=about.name or None,
                namespace=about.namespace or None,
                uid=about.uid or None,
            ),
            type=value.type,
            reason=value.reason or None,
            message=value.message or None,
            source=core_cluster.EventSource(component=value.component or None),
            reporting_component=value.component or None,
            count=value.count,
            first_timestamp=value.first_timestamp,
            last_timestamp=value.last_timestamp,
        )
    )


def parse_binding(obj: Source, *, source: str = "") -> PodBinding:
    """Return which pod goes to which node (see `parse_node`).

    Raises:
        FieldError: A field holds what is not allowed, or the kind or version is another one.
        ManifestError: The text is no JSON.
    """

    def build(wire: core_pod.Binding) -> PodBinding:
        metadata = wire.metadata
        return PodBinding(
            pod=PodRef(metadata.namespace or "", metadata.name or ""),
            node_name=wire.target.name or "",
            pod_uid=metadata.uid or "",
        )

    return convert(obj, core_pod.Binding, build, source=source, api_version=_V1)


def encode_binding(value: PodBinding) -> dict[str, Any]:
    """Return a binding as JSON, to be posted to the pod's `binding` subresource."""
    target = core_selection.ObjectReference(api_version=_V1, kind="Node", name=value.node_name)
    metadata = meta.ObjectMeta(name=value.pod.name, namespace=value.pod.namespace or None, uid=value.pod_uid or None)
    return to_json_value(core_pod.Binding(api_version=_V1, kind="Binding", metadata=metadata, target=target))
