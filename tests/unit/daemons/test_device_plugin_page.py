"""The configuration in docs/device-plugin.md is one that the agent takes."""

from __future__ import annotations

import re
from pathlib import Path

from claimsmith.daemons.agent_config import build_front_ends, read_agent_config

PAGE = Path(__file__).parents[3] / "docs" / "device-plugin.md"


def test_the_configuration_of_the_page_offers_three_resources(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "agent.yaml").write_text(text)
    config = read_agent_config(tmp_path / "agent.yaml")

    plugin = build_front_ends(config, config.content.drivers[0], path="spec.drivers[0]").device_plugin
    assert plugin is not None
    assert [(rule.resource, rule.replicas) for rule in plugin.rules] == [
        ("nvidia.com/gpu-a100", 1),
        ("nvidia.com/gpu-shared", 4),
        ("nvidia.com/gpu", 1),
    ]
