"""Pools that are not named after their node: which ones the policy of agents leaves to which nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from claimsmith.daemons.agent_config import read_agent_config
from claimsmith.daemons.agent_pools import PoolRule, read_pools
from claimsmith.errors import FieldError

HEAD = "apiVersion: claimsmith.dev/v1alpha1\nkind: AgentConfiguration\nspec:\n  drivers:\n  - plugin: simulated\n"
SETTINGS = "---\napiVersion: claimsmith.dev/v1alpha1\nkind: SimulatedDevices\nspec: "


def pools_of(folder: Path, *lines: str, settings: str = "{}") -> tuple[PoolRule, ...]:
    """Return the pools of a configuration of one driver."""
    body = "".join(f"    {line}\n" for line in lines)
    (folder / "agent.yaml").write_text(f"{HEAD}{body}{SETTINGS}{settings}\n")
    return read_pools(read_agent_config(folder / "agent.yaml"))


def test_a_configuration_that_names_no_pool_has_those_of_its_nodes_alone(tmp_path: Path) -> None:
    assert pools_of(tmp_path) == ()


def test_pools_are_named_in_the_configuration(tmp_path: Path) -> None:
    assert pools_of(tmp_path, 'pools: [lab, "{node}.lab"]') == (PoolRule("lab"), PoolRule("{node}.lab"))


def test_pools_are_named_in_settings_for_the_nodes_of_these(tmp_path: Path) -> None:
    found = pools_of(tmp_path, settings="{pool: lab, nodes: [node-a]}")

    assert found == (PoolRule("lab", ("node-a",)),)


def test_pools_are_named_in_files_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "gpus.yaml").write_text("pool: lab\ngpus: [{model: T4}]\n")

    assert pools_of(tmp_path, "settings: [gpus.yaml]") == (PoolRule("lab"),)


def test_a_pool_that_no_slice_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match=r"line 6: spec.drivers\[0\].pools\[0\]: found 'La b', allowed the name"):
        pools_of(tmp_path, 'pools: ["La b"]')


@pytest.mark.parametrize(
    ("patterns", "node", "is_one"),
    [
        (("*",), "node-a", True),
        (("node-a",), "node-a", True),
        (("node-a",), "node-ab", False),
        (("node.a",), "node-a", False),
        (("node-?", "gpu-*"), "gpu-17", True),
        (("node-?", "gpu-*"), "node-17", False),
    ],
)
def test_patterns_of_nodes_are_those_of_settings(patterns: tuple[str, ...], node: str, is_one: bool) -> None:
    found = re.search(PoolRule("lab", patterns).node_pattern, node)

    assert bool(found) is is_one
