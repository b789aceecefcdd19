"""The files below deploy/ are what the commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from claimsmith.daemons.agent_config import build_agent_options, create_configured, read_agent_config
from claimsmith.daemons.agent_rights import plan_agent_rules
from tests.scenarios.cli_process import call_claimsmith

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


@pytest.mark.parametrize(
    ("file", "arguments"),
    [
        ("agent.yaml", ("agent", "--config", str(DEPLOY / "example.yaml"), "--print-manifests")),
        ("controller.yaml", ("controller", "--print-manifests")),
        ("scheduler.yaml", ("scheduler", "--listen", "0.0.0.0:10269", "--print-manifests")),
    ],
)
def test_a_file_is_what_its_command_prints(file: str, arguments: tuple[str, ...]) -> None:
    printed = call_claimsmith(*arguments)

    assert printed.code == 0, printed.err
    assert printed.out == (DEPLOY / file).read_text(encoding="utf-8")


def test_the_files_are_manifests() -> None:
    documents = [item for name in ("agent", "controller", "scheduler") for item in load(name)]

    assert all(item["apiVersion"] and item["kind"] and item["metadata"]["name"] for item in documents)


def load(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text(encoding="utf-8")))


def rules_of(tmp_path: Path, *lines: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return resources and verbs of the rights that a configuration of one driver needs."""
    body = "".join(f"    {line}\n" for line in lines)
    (tmp_path / "agent.yaml").write_text(
        "apiVersion: claimsmith.dev/v1alpha1\nkind: AgentConfiguration\nspec:\n  drivers:\n  - plugin: simulated\n"
        f"{body}---\napiVersion: claimsmith.dev/v1alpha1\nkind: SimulatedDevices\nspec: {{gpus: [{{model: T4}}]}}\n"
    )
    config = read_agent_config(tmp_path / "agent.yaml")
    drivers = create_configured(config, node_name="")
    rules = plan_agent_rules(build_agent_options(config, drivers), [item.driver.name for item in drivers])
    return [(resource, tuple(item["verbs"])) for item in rules for resource in item["resources"]]


def test_an_agent_without_labels_and_amounts_writes_no_node(tmp_path: Path) -> None:
    found = dict(rules_of(tmp_path))

    assert found["nodes"] == ("get",)
    assert "nodes/status" not in found


def test_an_agent_without_claims_reads_none(tmp_path: Path) -> None:
    plugin = "devicePlugin: {resources: [{resource: example.com/gpu}]}"
    found = dict(rules_of(tmp_path, "dra: {enabled: false}", plugin))

    assert not any(resource.startswith("resourceclaims") for resource in found)


def test_labels_amounts_reports_and_taint_rules_take_rights_of_their_own(tmp_path: Path) -> None:
    found = dict(
        rules_of(
            tmp_path,
            "labels: true",
            "extendedResources: [{resource: example.com/gpu}]",
            "deviceReport: {}",
            "health: {taints: rules}",
        )
    )

    assert found["nodes"] == ("get", "list", "watch", "patch")
    assert found["nodes/status"] == ("patch",)
    assert found["devicereports/status"] == ("patch",)
    assert "delete" in found["devicetaintrules"]


def container_of(*arguments: str) -> dict[str, Any]:
    """Return the container of the Deployment that is printed for a scheduler."""
    documents = yaml.safe_load_all(call_claimsmith("scheduler", "--print-manifests", *arguments).out)
    (found,) = (item for item in documents if item["kind"] == "Deployment")
    container: dict[str, Any] = found["spec"]["template"]["spec"]["containers"][0]
    return container


def test_a_deployed_scheduler_gets_the_options_that_were_named() -> None:
    options = ("--name=a", "--name=b", "--policy=pack", "--placement=pack", "--feature-gates=DRAAdminAccess=false")
    found = container_of(*options, "--namespace", "devices")

    assert found["command"] == [
        "claimsmith", "scheduler", "--namespace", "devices", *options, "--log-format", "json"
    ]  # fmt: skip


def test_a_scheduler_that_listens_to_its_own_pod_alone_is_not_probed() -> None:
    assert "readinessProbe" not in container_of()
    assert container_of("--listen", "0.0.0.0:9000")["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
