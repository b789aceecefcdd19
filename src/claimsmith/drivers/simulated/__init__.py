"""Devices that exist only on paper: GPUs, their partitions, NICs, with faults and hot-plug."""

from claimsmith.drivers.simulated.driver import SimulatedDriver

__all__ = ["SimulatedDriver"]
