"""Selectors on all devices of a cluster at once: the verdicts of the scalar engine, computed by columns.

`DeviceColumns` holds the devices, `evaluate_columns` gives the verdicts of a program on all of them. A column is a list
of distinct values and a code for each device. A program reads few columns, so it runs once for each combination of
values that some device has; where there are many combinations, its parts run by themselves and are joined by the rules
of &&, || and ?:. Every single run is one of the scalar engine, on a device that has the combination.

This room alone needs the extra `columns` (numpy), and nobody imports it who doesn't use it.

Raises:
    MissingExtraError: On import: numpy is not installed.
"""

from __future__ import annotations

from claimsmith.errors import MissingExtraError

try:
    import numpy as _numpy
except ModuleNotFoundError as error:
    raise MissingExtraError("numpy", extra="columns") from error

from claimsmith.cel.columns.devices import DeviceColumns
from claimsmith.cel.columns.evaluation import ColumnVerdicts, evaluate_columns

__all__ = ["ColumnVerdicts", "DeviceColumns", "evaluate_columns"]

del _numpy
