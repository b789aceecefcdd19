"""`allocate`, `explain`, `devices` and `conformance` on files, as people and programs see them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from claimsmith.api.kinds import RESOURCE_CLAIM
from claimsmith.daemons.tour import TOUR_FOLDER
from claimsmith.embedded.api.served import stored_kinds
from claimsmith.embedded.api.server import EmbeddedApiServer
from claimsmith.embedded.store import Store
from claimsmith.kube.client import KubeClient
from tests.scenarios.cli_process import call_claimsmith, complaint, run_claimsmith

EXAMPLE: Final = str(TOUR_FOLDER)


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    async with Store(stored_kinds()) as store, EmbeddedApiServer(store) as server:
        opened = KubeClient.for_url(server.url)
        yield opened
        await opened.close()


def decisions(*arguments: str, code: int) -> list[dict[str, Any]]:
    """Return what `allocate -o json` decides."""
    ran = call_claimsmith("allocate", *arguments, "-o", "json")
    assert ran.code == code, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)["decisions"]
    return found


def test_all_that_waits_is_decided_and_one_that_does_not_fit_makes_exit_1() -> None:
    found = {item["target"]: item for item in decisions("-f", EXAMPLE, code=1)}

    assert len(found) == 36
    assert [name for name, item in found.items() if item["outcome"] != "allocated"] == [
        "pod/default/train-1",
        "pod/default/stream-20",
    ]
    waits = found["pod/default/stream-20"]
    assert "(2G of 40G bandwidth each)" in waits["message"]
    assert {reason["node"] for reason in waits["reasons"]} >= {"net"}


def test_what_fits_makes_exit_0() -> None:
    (found,) = decisions("-f", EXAMPLE, "pod/tune-1", code=0)

    assert found["node"] == "big"
    assert [r["device"] for r in found["claims"][0]["allocation"]["devices"]["results"]] == ["gpu-1", "gpu-2"]


async def test_an_api_server_accepts_every_allocation(client: KubeClient) -> None:
    found = [item for item in decisions("-f", EXAMPLE, code=1) if item["outcome"] == "allocated"]
    claims = {claim["claim"]: claim["allocation"] for item in found for claim in item["claims"]}
    for ref, allocation in claims.items():
        namespace, name = ref.split("/")
        requests = {result["request"] for result in allocation["devices"]["results"]}
        await client.create(
            RESOURCE_CLAIM, {"metadata": {"name": name}, "spec": spec_for(requests)}, namespace=namespace
        )
        patch = {"status": {"allocation": allocation}}
        stored = await client.patch(RESOURCE_CLAIM, name, patch, namespace=namespace, subresource="status")

        assert stored["status"]["allocation"]["devices"]["results"] == allocation["devices"]["results"]
    assert len(claims) == 33


def spec_for(requests: set[str]) -> dict[str, Any]:
    """Return the spec of a claim that has these requests, so that results may name them."""
    entries: dict[str, list[str]] = {}
    for request in requests:
        name, _, alternative = request.partition("/")
        entries.setdefault(name, []).extend([alternative] if alternative else [])
    return {"devices": {"requests": [request_for(name, alternatives) for name, alternatives in entries.items()]}}


def request_for(name: str, alternatives: list[str]) -> dict[str, Any]:
    if not alternatives:
        return {"name": name, "exactly": {"deviceClassName": "gpu"}}
    return {
        "name": name,
        "firstAvailable": [{"name": item, "deviceClassName": "gpu", "count": 2} for item in alternatives],
    }


def test_yaml_says_the_same_as_json() -> None:
    ran = call_claimsmith("allocate", "-f", EXAMPLE, "pod/tune-0", "-o", "yaml")

    assert yaml.safe_load(ran.out)["decisions"] == decisions("-f", EXAMPLE, "pod/tune-0", code=0)


def test_the_table_tells_devices_and_reasons() -> None:
    ran = call_claimsmith("allocate", "-f", EXAMPLE)
    lines = [line.split() for line in ran.out.splitlines()]

    assert ran.code == 1
    assert ["TARGET", "NODE", "DEVICES", "WHY", "NOT"] in lines
    assert ["pod/default/left", "spare", "one-for-both", "gpu:", "spare/gpu-0"] in lines
    assert ["pod/default/right", "spare", "one-for-both", "gpu:", "spare/gpu-0"] in lines


def test_explain_tells_why_not_for_each_group_of_nodes() -> None:
    ran = call_claimsmith("explain", "pod/train-1", "-f", EXAMPLE)

    assert (ran.code, ran.err) == (1, "")
    first, *rest = ran.out.splitlines()
    assert first == "pod/default/train-1 fits on none of 5 nodes"
    assert "node mixed:" in rest
    assert any("gpu-12 in use by default/train-0-gpu-0" in line for line in rest)


def test_explain_tells_what_would_help() -> None:
    ran = call_claimsmith("explain", "pod/train-1", "-f", EXAMPLE)
    told = ran.out.partition("what would help:\n")[2].splitlines()

    assert told[0].endswith(" to >= 8Gi → 1 node (mixed)")
    assert "  free claim default/train-0-gpu-0 → 1 node (mixed)" in told


def test_explain_tells_programs_what_would_help() -> None:
    ran = call_claimsmith("explain", "pod/train-1", "-f", EXAMPLE, "-o", "json")
    changes = [change for fix in json.loads(ran.out)["explanation"]["fixes"] for change in fix["changes"]]

    assert {"op": "free-claims", "value": ["default/train-0-gpu-0"]} in changes


def test_explain_tells_what_fits() -> None:
    ran = call_claimsmith("explain", "pod/tune-1", "-f", EXAMPLE)

    assert (ran.code, ran.out) == (0, "pod/default/tune-1 fits on node big: big/gpu-1, big/gpu-2\n")


def test_explain_tells_reasons_to_programs() -> None:
    ran = call_claimsmith("explain", "pod/stream-20", "-f", EXAMPLE, "-o", "json")
    value = json.loads(ran.out)

    assert (ran.code, value["outcome"]) == (1, "pending")
    assert any(reason["devices"] == ["nic.example.com/net/nic-0"] for reason in value["reasons"])


def test_devices_are_listed_with_holders_and_taints(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(
        """
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: cooling}
spec: {deviceSelector: {pool: big, device: gpu-0}, taint: {key: cooling, value: slow, effect: NoSchedule}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: mine, namespace: default, uid: u1}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: big, device: gpu-0}]}}
"""
    )
    ran = call_claimsmith("devices", "-f", EXAMPLE, "-f", str(tmp_path), "-o", "json")
    found = {item["device"]: item for item in json.loads(ran.out)["devices"]}

    assert (ran.code, ran.err) == (0, "")
    assert len(found) == 39
    assert found["gpu.example.com/big/gpu-0"]["heldBy"] == ["default/mine"]
    assert found["gpu.example.com/big/gpu-0"]["taints"] == ["cooling=slow:NoSchedule"]
    assert found["nic.example.com/net/nic-0"]["capacity"] == {"bandwidth": "40G"}


def test_the_reader_of_the_output_may_stop_early() -> None:
    reader = subprocess.run(
        f"{sys.executable} -m claimsmith.cli.main devices -f {EXAMPLE} -o json | head -1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert (reader.stdout, reader.stderr) == ("{\n0\n", "")


def test_nothing_to_decide_is_said(tmp_path: Path) -> None:
    ran = run_claimsmith("allocate", "-f", f"{EXAMPLE}/10-classes.yaml", temporary=tmp_path)

    assert (ran.code, ran.out, ran.err) == (0, "", "claimsmith: nothing waits\n")


def test_no_devices_are_said(tmp_path: Path) -> None:
    ran = run_claimsmith("devices", "-f", f"{EXAMPLE}/10-classes.yaml", temporary=tmp_path)

    assert (ran.code, ran.out, ran.err) == (0, "", "claimsmith: no devices are published\n")


def record(name: str, *, verdict: str, kind: str = "", selector: str = "true") -> str:
    """Return a recorded case: one device is asked for, of which there is one."""
    selectors = [{"cel": {"expression": selector}}]
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1, "selectors": selectors}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "nodeName": "a", "pool": pool, "devices": [{"name": "d"}]}
    case = {
        "name": name,
        "node": {"metadata": {"name": "a"}},
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": [{"metadata": {"name": "s"}, "spec": spec}],
        "claims": [
            {
                "metadata": {"name": "c", "namespace": "n"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
            }
        ],
        "upstream": {"impl": "incubating", "results": [{"node": "a", "verdict": verdict, "errorKind": kind}]},
    }
    return json.dumps(case) + "\n"


def test_conformance_counts_and_names_what_differs(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text(record("good", verdict="feasible") + record("bad", verdict="infeasible") + "not understood\n")
    ran = call_claimsmith("conformance", str(cases))

    assert ran.code == 1
    lines = ran.out.splitlines()
    assert lines[0] == f"{cases}: bad: a: feasible, upstream: infeasible"
    assert lines[1].startswith(f"{cases}: line 3: not understood: ")
    assert lines[-1] == "1 agree, 2 differ"


def test_conformance_names_what_differs_on_purpose_with_its_heading(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    failing = 'device.attributes["d.example"].missing == 1'
    cases.write_text(record("missing", verdict="error", kind="cel-runtime", selector=failing))
    ran, exact = (
        call_claimsmith("conformance", str(cases)),
        call_claimsmith("conformance", "--like-upstream", str(cases)),
    )

    assert (ran.code, exact.code) == (0, 0)
    assert ran.out.splitlines()[0] == (
        f"{cases}: missing: a: infeasible, upstream: error cel-runtime "
        "[selector-error: An expression that fails on one device]"
    )
    assert ran.out.splitlines()[-1] == "0 agree, 1 deviate on purpose, 0 differ"
    assert exact.out.splitlines()[-1] == "1 agree, 0 differ"


def test_versions_and_help_are_printed() -> None:
    version, asked, bare = call_claimsmith("--version"), call_claimsmith("--help"), call_claimsmith()

    assert (version.code, version.out.split()[0]) == (0, "claimsmith")
    assert (asked.code, asked.err) == (0, "")
    assert asked.out == bare.out
    assert all(name in asked.out for name in ("demo", "up", "allocate", "explain", "devices", "conformance"))


@pytest.mark.parametrize("command", ["demo", "up", "allocate", "explain", "devices", "conformance"])
def test_every_command_explains_itself_within_80_columns(command: str) -> None:
    ran = call_claimsmith(command, "--help")

    assert (ran.code, ran.err) == (0, "")
    assert max(map(len, ran.out.splitlines())) <= 80


def test_a_complaint_is_told_by_the_name_of_the_program() -> None:
    assert complaint(call_claimsmith("allocate", "--nonsense")).endswith("see `claimsmith allocate --help`")


@pytest.mark.parametrize("command", [("allocate",), ("explain", "claim/one"), ("devices",)])
def test_a_field_that_no_kind_has_is_refused_when_that_is_asked_for(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "claim.yaml"
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "cuont": 2}}
    claim = {"metadata": {"name": "one"}, "spec": {"devices": {"requests": [request]}}}
    path.write_text(json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **claim}))

    refused = call_claimsmith(*command, "-f", str(path), "--strict")
    accepted = call_claimsmith(*command, "-f", str(path))

    assert (refused.code, refused.out) == (2, "")
    assert "spec.devices.requests[0].exactly.cuont" in refused.err
    assert accepted.code != 2


def test_allocate_shows_what_a_share_takes() -> None:
    ran = call_claimsmith("allocate", "-f", EXAMPLE, "pod/stream-00")

    assert "net/nic-0 (bandwidth 2G)" in ran.out


def test_explain_shows_every_pod_of_a_gang_that_fits() -> None:
    ran = call_claimsmith("explain", "podgroup/pair", "-f", EXAMPLE)

    assert ran.code == 0
    assert ran.out.startswith("podgroup/default/pair fits: 2 pods on node ")
    assert all(f"pod/default/pair-{number}" in ran.out for number in range(2))


def test_explain_tells_a_pod_that_runs_from_one_that_fits(tmp_path: Path) -> None:
    runs = tmp_path / "runs.yaml"
    runs.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: runs}\n"
        "spec: {nodeName: n1, containers: [{name: c, image: x}]}\nstatus: {phase: Running}\n"
    )

    assert call_claimsmith("explain", "pod/runs", "-f", str(runs)).out == (
        "pod/default/runs runs on node n1: no devices wanted\n"
    )
