"""Whatever a client sends, the API server answers with an object or a Status and never with a fault of its own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.embedded.asgi import CLAIMS, CLASSES, MERGE, NODES, PODS, SLICES, STRATEGIC, claim, open_api, pod

COLLECTIONS = (PODS, CLAIMS, CLASSES, SLICES, NODES, "/api/v1/namespaces", "/api/v1/namespaces/default/events")
PATCHES = (MERGE, STRATEGIC, "application/json-patch+json", "application/apply-patch+yaml")
WORDS = st.sampled_from(
    [
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "uid",
        "kind",
        "apiVersion",
        "spec",
        "status",
        "containers",
        "image",
        "ports",
        "containerPort",
        "protocol",
        "env",
        "value",
        "devices",
        "requests",
        "exactly",
        "firstAvailable",
        "deviceClassName",
        "selectors",
        "cel",
        "expression",
        "driver",
        "pool",
        "taints",
        "tolerations",
        "key",
        "effect",
        "phase",
        "conditions",
        "type",
        "allocation",
        "results",
        "reservedFor",
        "managedFields",
        "generateName",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "op",
        "path",
        "from",
        "add",
        "remove",
        "replace",
        "/metadata",
        "/spec/containers/0",
        "/metadata/labels",
        "delete",
        "merge",
    ]
)
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | WORDS | st.text(max_size=9)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
QUERIES = st.dictionaries(
    st.sampled_from(
        [
            "labelSelector",
            "fieldSelector",
            "limit",
            "continue",
            "resourceVersion",
            "resourceVersionMatch",
            "dryRun",
            "fieldManager",
            "force",
            "fieldValidation",
            "propagationPolicy",
            "gracePeriodSeconds",
            "includeObject",
            "container",
            "tailLines",
        ]
    ),
    st.sampled_from(["", "0", "1", "true", "All", "Strict", "Exact", "a=b", "metadata.name=web", "!x", "nonsense,("]),
    max_size=3,
)
METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
TARGETS = st.tuples(
    st.sampled_from(COLLECTIONS),
    st.sampled_from(["", "/web", "/gpu", "/web/status", "/gpu/status", "/web/binding", "/web/log", "/web/eviction"]),
).map("".join)


def graft(base: Any, change: Any) -> Any:
    """Return an object with some parts replaced, so that nonsense gets past the first check."""
    if isinstance(base, dict) and isinstance(change, dict):
        return {**base, **{key: graft(base.get(key), value) for key, value in change.items()}}
    return change


@settings(max_examples=150)
@given(
    method=METHODS,
    target=TARGETS,
    body=VALUES,
    base=st.sampled_from([None, pod(), claim()]),
    query=QUERIES,
    patch=st.sampled_from(PATCHES),
)
def test_no_request_is_a_fault_of_the_server(
    method: str, target: str, body: Any, base: Any, query: dict[str, Any], patch: str
) -> None:
    async def ask() -> None:
        async with open_api() as api:
            await api.post(PODS, pod(), fieldManager="first")
            await api.post(CLAIMS, claim())
            content_type = patch if method == "PATCH" else "application/json"
            sent = body if base is None else graft(base, body)
            reply = await api.request(method, target, sent, content_type=content_type, **query)
            listed = await api.get("/api/v1/pods")

        assert reply.status < 500 or (reply.status == 504 and reply.reason == "Timeout"), reply.body
        if "/log" not in target:
            json.loads(reply.body)
        assert listed.status == 200

    asyncio.run(ask())
