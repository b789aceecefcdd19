"""A cluster's ResourceSlices as the JSON text an API server sends, made by counting: the same at each run."""

from __future__ import annotations

import json
from typing import Any

DEVICES_PER_SLICE = 8
DRIVER = "gpu.example.com"
HOSTNAME = "kubernetes.io/hostname"


def node_name(number: int) -> str:
    """Return the name of the node that the slice of this number describes."""
    return f"node-{number:05d}"


def make_slice_list(count: int, *, model: str | None = None, by_label: bool = False) -> bytes:
    """Return the JSON of a ResourceSliceList with so many slices, one node each.

    Args:
        model: The model of every device; default: two models by turns.
        by_label: The slices select their node by its label HOSTNAME instead of naming it.
    """
    content = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSliceList",
        "metadata": {"resourceVersion": "1"},
        "items": [_make_slice(number, model, by_label) for number in range(count)],
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _make_slice(number: int, model: str | None, by_label: bool) -> dict[str, Any]:
    node = node_name(number)
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
    place = {"nodeSelector": {"nodeSelectorTerms": [term]}} if by_label else {"nodeName": node}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{DRIVER}-x7k2p", "uid": f"{number:036d}", "resourceVersion": str(number)},
        "spec": {
            "driver": DRIVER,
            **place,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_make_device(number, index, model) for index in range(DEVICES_PER_SLICE)],
        },
    }


def _make_device(number: int, index: int, model: str | None) -> dict[str, Any]:
    ada = model is None and number % 2 == 0
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "model": {"string": "L40S" if ada else model or "H100"},
            "architecture": {"string": "Ada Lovelace" if ada else "Hopper"},
            "uuid": {"string": f"GPU-{number:08d}-{index:04d}"},
            "driverVersion": {"version": "580.65.6"},
            "cudaVersion": {"version": "13.0.0"},
            "index": {"int": index},
            "numaNode": {"int": index // 4},
            "ecc": {"bool": True},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index // 2:02x}"},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{index:02x}:00.0"},
        },
        "capacity": {"memory": {"value": "48Gi" if ada else "80Gi"}, "cores": {"value": "108"}},
    }
