"""The selector language of Dynamic Resource Allocation: CEL in the environment of Kubernetes, compiled to Python.

`compile_expression` gives a `Program`, `prepare_device` the device in the form that programs read.
"""

from __future__ import annotations

from claimsmith.cel.device import CelDevice, prepare_device
from claimsmith.cel.environment import DEFAULT, CelEnvironment
from claimsmith.cel.program import (
    COST_LIMIT,
    MAX_EXPRESSION_BYTES,
    Outcome,
    Program,
    Purpose,
    compile_expression,
)  # fmt: skip
from claimsmith.cel.reads import DeviceRead

__all__ = [
    "COST_LIMIT",
    "DEFAULT",
    "MAX_EXPRESSION_BYTES",
    "CelDevice",
    "CelEnvironment",
    "DeviceRead",
    "Outcome",
    "Program",
    "Purpose",
    "compile_expression",
    "prepare_device",
]
