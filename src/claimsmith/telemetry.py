"""Logs and metrics: how a line looks and what a metric is called, in one place each.

A log line is a sentence followed by `key=value` pairs; the pairs are also in the record's `fields`, for machines.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Lock
from typing import Final

__all__ = [
    "CHECKPOINT_DAMAGED",
    "CLAIMS_PREPARED",
    "DEVICES_PUBLISHED",
    "DEVICES_UNHEALTHY",
    "DEVICE_FAILURES",
    "DRIVER_CALLS",
    "DRIVER_SECONDS",
    "GRANTS_HELD",
    "PREPARES_WAITING",
    "SCHEDULER_BINDINGS",
    "SCHEDULER_CONTESTED",
    "SCHEDULER_DECISIONS",
    "SCHEDULER_DECISION_SECONDS",
    "SCHEDULER_LEADS",
    "SCHEDULER_WAITING",
    "Meter",
    "Sample",
    "get_logger",
    "log_event",
]

DRIVER_CALLS: Final = "claimsmith_driver_calls_total"
"""Calls of prepare and unprepare; labels driver, operation, result (ok or error)."""
DRIVER_SECONDS: Final = "claimsmith_driver_call_seconds_total"
"""Seconds spent in such calls; labels driver, operation."""
CLAIMS_PREPARED: Final = "claimsmith_prepared_claims"
"""Claims in the checkpoint; label driver."""
GRANTS_HELD: Final = "claimsmith_granted_containers"
"""Containers that hold devices through the device plugin; label driver."""
PREPARES_WAITING: Final = "claimsmith_waiting_prepares"
"""Prepare calls that can't succeed yet and are held; label driver."""
CHECKPOINT_DAMAGED: Final = "claimsmith_checkpoint_damaged_total"
"""Checkpoint files that were put aside and rebuilt; label driver."""
DEVICE_FAILURES: Final = "claimsmith_device_failures_total"
"""Failures that drivers have reported; labels driver, cause."""
DEVICES_UNHEALTHY: Final = "claimsmith_unhealthy_devices"
"""Devices that are out of use; labels driver, effect (NoSchedule or NoExecute)."""
DEVICES_PUBLISHED: Final = "claimsmith_published_devices"
"""Devices that the API server shows; label driver."""
SCHEDULER_LEADS: Final = "claimsmith_scheduler_leads"
"""1 while this process decides, 0 while it waits for the lead."""
SCHEDULER_WAITING: Final = "claimsmith_scheduler_waiting"
"""Pods and gangs that wait for a node."""
SCHEDULER_CONTESTED: Final = "claimsmith_scheduler_contested_devices"
"""Devices that several claims hold, which no scheduler by itself would allow."""
SCHEDULER_DECISIONS: Final = "claimsmith_scheduler_decisions_total"
"""Decisions for pods and gangs; label result (placed, unplaced or error)."""
SCHEDULER_DECISION_SECONDS: Final = "claimsmith_scheduler_decision_seconds_total"
"""Seconds spent on decisions."""
SCHEDULER_BINDINGS: Final = "claimsmith_scheduler_bindings_total"
"""Pods whose decision was written; label result (ok or error)."""

Sample = tuple[str, tuple[tuple[str, str], ...]]
"""Name of a metric and its labels, sorted by name."""


class Meter:
    """Numbers by metric name and labels; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[Sample, float] = {}

    def add(self, metric: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        sample = (metric, tuple(sorted(labels.items())))
        with self._lock:
            self._values[sample] = self._values.get(sample, 0) + amount

    def set(self, metric: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        with self._lock:
            self._values[metric, tuple(sorted(labels.items()))] = value

    def values(self) -> Mapping[Sample, float]:
        """Return all numbers as they are now."""
        with self._lock:
            return dict(self._values)


def get_logger(room: str) -> logging.Logger:
    """Return the logger of a room, such as `node`."""
    return logging.getLogger(f"claimsmith.{room}")


def log_event(logger: logging.Logger, level: int, message: str, **fields: object) -> None:
    """Log a sentence with facts; the order of the facts is kept."""
    if logger.isEnabledFor(level):
        pairs = "".join(f" {name}={value!s}" for name, value in fields.items())
        logger.log(level, "%s%s", message, pairs, extra={"fields": fields})
