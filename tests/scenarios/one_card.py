"""What pods ask for in most scenarios: one card of any model."""

from __future__ import annotations

from typing import Final

__all__ = ["ONE_CARD"]

ONE_CARD: Final = """\
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
"""
"""A class of cards, and the template `one` of claims for one of them; to be put after a manifest."""
