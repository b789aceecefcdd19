"""A cluster's ResourceSlices as the JSON text an API server sends, made by counting: the same at each run."""

from __future__ import annotations

import json
from typing import Any

DEVICES_PER_SLICE = 8


def make_slice_list(count: int) -> bytes:
    """Return the JSON of a ResourceSliceList with so many slices, one node each."""
    content = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSliceList",
        "metadata": {"resourceVersion": "1"},
        "items": [_make_slice(number) for number in range(count)],
    }
    return json.dumps(content, separators=(",", ":")).encode()


def _make_slice(number: int) -> dict[str, Any]:
    node = f"node-{number:05d}"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu.example.com-x7k2p", "uid": f"{number:036d}", "resourceVersion": str(number)},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_make_device(number, index) for index in range(DEVICES_PER_SLICE)],
        },
    }


def _make_device(number: int, index: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "model": {"string": "A100-SXM4-80GB" if number % 2 else "L40S"},
            "architecture": {"string": "Ampere" if number % 2 else "Ada Lovelace"},
            "uuid": {"string": f"GPU-{number:08d}-{index:04d}"},
            "driverVersion": {"version": "580.65.6"},
            "cudaVersion": {"version": "13.0.0"},
            "index": {"int": index},
            "numaNode": {"int": index // 4},
            "ecc": {"bool": True},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index // 2:02x}"},
            "resource.kubernetes.io/pciBusID": {"string": f"0000:{index:02x}:00.0"},
        },
        "capacity": {"memory": {"value": "80Gi" if number % 2 else "48Gi"}, "cores": {"value": "108"}},
    }
