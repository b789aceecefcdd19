"""What a container sees of simulated devices, by its own output."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

__all__ = ["LOOK", "assert_sees", "device_nodes", "variables"]

LOOK: Final = "env | grep CLAIMSMITH_; ls -l /dev/claimsmith; mount | grep claimsmith/lib; echo done"
"""What the container prints: its variables, device nodes, and mounts; the last line is `done`."""


def variables(log: str) -> dict[str, str]:
    """Return the variables of devices that a container has printed, by the rest of their names."""
    found = re.findall(r"^CLAIMSMITH_(?!VISIBLE)(\w+)=(.*)$", log, re.MULTILINE)
    return dict(found)


def device_nodes(log: str) -> list[str]:
    """Return the device nodes that a container has printed; each is /dev/null under another name."""
    return re.findall(r"^crw.* 1, +3 .* (\S+)$", log, re.MULTILINE)


def assert_sees(log: str, devices: Collection[str]) -> None:
    """Fail unless a container has the variable, the device node and the mount of just these devices.

    Args:
        log: What `LOOK` has printed in it.
        devices: Names of devices, one or more, of the pool that is named after the node.
    """
    found = variables(log)
    wanted = {name.upper().replace("-", "_") for name in devices}
    foreign = [name for name in found if not any(f"{name}_".startswith(f"{own}_") for own in wanted)]

    assert wanted, "a container that sees nothing is looked at in another way"
    assert all(found.get(name) for name in wanted), log
    assert not foreign, log
    assert sorted(device_nodes(log)) == sorted(devices), log
    assert re.search(r" on /usr/local/claimsmith/lib type \S+ \(ro[,)]", log), log
