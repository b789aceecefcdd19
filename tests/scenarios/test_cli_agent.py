"""`claimsmith agent` and `claimsmith controller` as processes: what they refuse, how they log, listen and end."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from claimsmith.embedded.api.server import kubeconfig_for
from tests.scenarios.cli_process import complaint, run_claimsmith, start_claimsmith

NOWHERE = kubeconfig_for("http://127.0.0.1:1")
HEAD = "apiVersion: claimsmith.dev/v1alpha1\nkind: AgentConfiguration\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "kc").write_text(yaml.safe_dump(NOWHERE))
    (tmp_path / "gpus.yaml").write_text("gpus: [{model: T4}]")
    (tmp_path / "bad.yaml").write_text(f"{HEAD}spec:\n  drivers:\n  - plugin: simulated\n    labels: maybe\n")
    return tmp_path


PLUGIN = ("--plugin", "simulated", "--settings", "{}/gpus.yaml")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ((), "found neither --config nor --plugin"),
        (("--config", "{}/bad.yaml", *PLUGIN), "found both --config and --plugin"),
        (("--config", "{}/bad.yaml", "--settings", "x"), "--settings: found together with --config"),
        (("--config", "{}/none.yaml"), "No such file or directory"),
        (
            ("--config", "{}/bad.yaml"),
            r"bad.yaml, document 1, line 6: spec.drivers[0].labels: found 'maybe', allowed true",
        ),
        (("--plugin", "nothing"), "driver plugin 'nothing': found none of this name"),
        (("--plugin", "simulated"), "simulated driver: found no settings"),
        ((*PLUGIN, "--kubeconfig", "{}/none"), "none"),
        ((*PLUGIN, "--node-name", "Node_A"), "--node-name: found 'Node_A'"),
        ((*PLUGIN, "--listen", "x"), "--listen: found 'x', allowed PORT or HOST:PORT"),
        ((*PLUGIN, "--kubelet-root", "/proc/claimsmith"), "/proc/claimsmith"),
        (("--log-format", "xml"), "invalid choice: 'xml'"),
        (("--nothing",), "unrecognized arguments: --nothing"),
    ],
)
def test_what_can_not_be_run_is_refused_in_one_line(place: Path, arguments: tuple[str, ...], found: str) -> None:
    usual = (
        "--kubeconfig",
        f"{place}/kc",
        "--node-name",
        "n",
        "--kubelet-root",
        f"{place}/k",
        "--cdi-dir",
        f"{place}/c",
    )
    more = tuple(argument.format(place) for argument in arguments)
    ran = run_claimsmith("agent", *usual, "--device-plugin-dir", f"{place}/d", *more, temporary=place)
    lines = [line for line in ran.err.splitlines() if not line[:2].isdigit()]

    assert ran.code == 2, ran.err
    assert len(lines) == 1
    assert found in lines[0]


def test_outside_of_a_pod_a_kubeconfig_is_asked_for(place: Path) -> None:
    arguments = [argument.format(place) for argument in PLUGIN]

    assert "service account of the pod" in complaint(run_claimsmith("agent", *arguments, temporary=place))


def test_what_the_command_prints_needs_no_cluster(place: Path) -> None:
    ran = run_claimsmith(
        "agent", *(argument.format(place) for argument in PLUGIN), "--print-manifests", temporary=place
    )
    kinds = [document["kind"] for document in yaml.safe_load_all(ran.out)]

    assert ran.code == 0, ran.err
    assert kinds == [
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]  # fmt: skip


@contextmanager
def running(place: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[str], dict[str, Any]]]]:
    """Run a command; gives it, and what waits for a line of its log with a message."""
    with tempfile.TemporaryDirectory(prefix="cs-") as folder:
        paths = ("--kubelet-root", f"{folder}/k", "--device-plugin-dir", f"{folder}/d", "--cdi-dir", f"{folder}/c")
        more = paths if arguments[0] == "agent" else ()
        process = start_claimsmith(
            *arguments, *more, "--kubeconfig", f"{place}/kc", "--log-format", "json", temporary=Path(folder)
        )
        assert process.stderr is not None
        lines = process.stderr

        def wait(message: str) -> dict[str, Any]:
            for raw in lines:
                if not raw.startswith(b"{"):
                    continue  # What libraries complain of is no line of the log.
                line: dict[str, Any] = json.loads(raw)
                if line["message"] == message:
                    return line
            raise AssertionError(f"ended without {message!r}")

        try:
            yield process, wait
        finally:
            process.kill()
            process.communicate()


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    process.send_signal(number)
    process.communicate(timeout=200)
    return process.returncode


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_serves_without_an_api_server_and_ends_cleanly(place: Path, number: signal.Signals) -> None:
    arguments = [argument.format(place) for argument in PLUGIN]
    with running(place, "agent", "--node-name", "node-a", *arguments) as (process, wait):
        line = wait("Agent runs")

        assert line["fields"] == {"node": "node-a", "drivers": "sim.claimsmith.dev"}
        assert end(process, number) == 0


def test_an_agent_that_listens_says_what_it_waits_for(place: Path) -> None:
    arguments = [argument.format(place) for argument in PLUGIN]
    with running(place, "agent", "--node-name", "node-a", "--listen", "0", *arguments) as (_, wait):
        port = wait("Agent listens")["fields"]["port"]
        wait("Agent runs")
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=200).read().decode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=200)
        text = refused.value.read().decode()

    assert 'claimsmith_published_devices{driver="sim.claimsmith.dev"} 0.0' in metrics
    assert "the kubelet has not registered it yet" in text


def test_a_controller_waits_for_its_lease_and_ends_cleanly(place: Path) -> None:
    with running(place, "controller") as (process, wait):
        wait("Controller runs")

        assert end(process, signal.SIGTERM) == 0
