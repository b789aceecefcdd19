"""Make src/claimsmith/kubelet: copy the kubelet's .proto files and generate Python messages from them.

Run with a folder that holds the Go module k8s.io/kubelet; needs a Python that has grpcio-tools 1.76.0, whose code loads
on protobuf 6.33 as well as on 7.x (later ones demand 7.35):

    python -m venv build/stubs-venv && build/stubs-venv/bin/pip install grpcio-tools==1.76.0
    build/stubs-venv/bin/python scripts/generate_stubs.py PATH-OF-k8s.io/kubelet
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

MODULE: Final = "k8s.io/kubelet v0.37.2"
TOOLS: Final = "1.76.0"
SOURCE: Final = Path(__file__).resolve().parents[1] / "src"
TARGET: Final = "claimsmith/kubelet"
PROTOCOLS: Final = {
    "pluginregistration_v1": "pluginregistration/v1",
    "dra_v1": "dra/v1",
    "dra_v1beta1": "dra/v1beta1",
    "dra_health_v1": "dra-health/v1",
    "dra_health_v1alpha1": "dra-health/v1alpha1",
    "deviceplugin_v1beta1": "deviceplugin/v1beta1",
    "podresources_v1": "podresources/v1",
}
"""File name here: folder of the api.proto below pkg/apis there."""
LICENCE: Final = """\
// Copyright The Kubernetes Authors.
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.
"""
GENERATED: Final = "# Generated from {name}.proto by scripts/generate_stubs.py; do not edit.\n# mypy: ignore-errors\n"


def read_proto(module: Path, folder: str) -> str:
    """Return one protocol of the module below a header that names its origin and licence."""
    text = (module / "pkg/apis" / folder / "api.proto").read_text(encoding="utf-8")
    body = text[text.index('syntax = "proto3";') :]
    origin = f"// Origin: pkg/apis/{folder}/api.proto of {MODULE}, unchanged below this line."
    return f"{LICENCE}\n{origin}\n\n{body.rstrip()}\n"


def generate(names: list[str]) -> None:
    """Write the Python messages and their types beside the .proto files."""
    files = [f"{TARGET}/{name}.proto" for name in names]
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{SOURCE}",
        f"--python_out={SOURCE}",
        f"--pyi_out={SOURCE}",
    ]
    subprocess.run([*command, *files], check=True)
    for name in names:
        for suffix in ("py", "pyi"):
            path = SOURCE / TARGET / f"{name}_pb2.{suffix}"
            path.write_text(GENERATED.format(name=name) + path.read_text(encoding="utf-8"), encoding="utf-8")


def main() -> int:
    """Copy and generate; the exit code is 2 when the tools or the module are not the ones named above."""
    if len(sys.argv) != 2 or not (module := Path(sys.argv[1])).joinpath("pkg/apis").is_dir():
        print(f"usage: {sys.argv[0]} FOLDER-OF-{MODULE.split()[0]}", file=sys.stderr)
        return 2
    if (found := version("grpcio-tools")) != TOOLS:
        print(f"grpcio-tools: found {found}, allowed {TOOLS}; install that version", file=sys.stderr)
        return 2
    for name, folder in PROTOCOLS.items():
        (SOURCE / TARGET / f"{name}.proto").write_text(read_proto(module, folder), encoding="utf-8")
    generate(list(PROTOCOLS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
