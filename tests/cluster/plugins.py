"""A driver of the tests as an installed package, so that `claimsmith agent --plugin` finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["GATED", "GATED_DRIVER", "install_plugin"]

GATED_DRIVER: Final = "gated.example.com"
"""Name of the driver that `GATED` defines."""

GATED: Final = '''
"""Two devices; with CLAIMSMITH_TEST_BLOCKS=1 each preparation says that it begins, and then never ends."""

import json
import os
import sys
import threading

from claimsmith.sdk import ContainerEdits, Device, Driver, Inventory, PreparedDevice, PreparedDevices


class TestDriver(Driver):
    name = "gated.example.com"

    def discover(self):
        return Inventory.of(Device(name="gate-0"), Device(name="gate-1"))

    def prepare(self, request):
        print(json.dumps({"message": "preparation begins"}), file=sys.stderr, flush=True)
        if os.environ.get("CLAIMSMITH_TEST_BLOCKS") == "1":
            threading.Event().wait()
        edits = ContainerEdits(env={"GATE": "open"})
        return PreparedDevices(devices=tuple(PreparedDevice(device=item, edits=edits) for item in request.devices))
'''


def install_plugin(folder: Path, name: str, source: str) -> Path:
    """Write a package whose entry point `name` is its class TestDriver; return what PYTHONPATH has to name.

    Source: entry points specification of the Python Packaging Authority.
    """
    module = f"claimsmith_test_{name}"
    (folder / f"{module}.py").write_text(source)
    metadata = folder / f"{module}-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[claimsmith.drivers]\n{name} = {module}:TestDriver\n")
    return folder
