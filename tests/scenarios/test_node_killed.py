"""A driver's process that is killed at any moment starts again with a whole checkpoint and knows every claim."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from claimsmith.node.preparation import Preparation
from claimsmith.telemetry import Meter
from claimsmith.testing.builders import claim_key, prepare_request
from tests.unit.node.recording_driver import RecordingDriver

CHILD = """
import sys
from pathlib import Path
from tests.scenarios.test_node_killed import opened
from claimsmith.testing.builders import claim_key, prepare_request

preparation = opened(Path(sys.argv[1]))
print("open", flush=True)
number = 0
while True:
    number += 1
    for index in range(4):
        name = f"c{index}"
        preparation.prepare(prepare_request(f"gpu-{index}", claim=claim_key(name)))
        print(number, flush=True)
    for index in range(4):
        preparation.unprepare(claim_key(f"c{index}"))
        print(number, flush=True)
"""


def opened(root: Path) -> Preparation:
    for name in ("plugin", "cdi"):
        (root / name).mkdir(exist_ok=True)
    preparation = Preparation(
        RecordingDriver(), folder=root / "plugin", cdi_folder=root / "cdi", boot_id="boot", meter=Meter()
    )
    preparation.open()
    return preparation


def run_and_kill(root: Path, steps: int) -> None:
    """Run the child until it has done some steps, then kill it in the middle of a later one."""
    command = [sys.executable, "-c", CHILD, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as child:
        assert child.stdout is not None
        for _ in range(steps):
            assert child.stdout.readline()
        child.kill()


def test_kill_9_at_any_moment_damages_nothing_and_forgets_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(12):
        run_and_kill(tmp_path, chance.randint(1, 30))
        preparation = opened(tmp_path)
        described = {path.name for path in (tmp_path / "cdi").glob("k8s*.json")}
        known = {f"k8s.gpu.example.test-claim_{entry.claim.uid}.json" for entry in preparation.claims()}

        assert not list((tmp_path / "plugin").glob("*.damaged-*"))
        assert described <= known
    for index in range(4):
        preparation.unprepare(claim_key(f"c{index}"))
        entry = preparation.prepare(prepare_request(f"gpu-{index}", claim=claim_key(f"next-{index}")))
        assert entry.finished
