"""Calls to a plugin that has gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.embedded.kubelet.plugins import ClaimCall, DraPlugin
from claimsmith.embedded.kubelet.watcher import PluginInfo
from claimsmith.errors import PodStartError
from claimsmith.kubelet.services import DRA_V1


async def test_a_call_after_the_plugin_was_dropped_may_be_tried_again(tmp_path: Path) -> None:
    endpoint = str(tmp_path / "dra.sock")
    plugin = DraPlugin(PluginInfo(type="DRAPlugin", name="gpu.example.test", endpoint=endpoint, services=(DRA_V1,)))
    await plugin.close()

    with pytest.raises(PodStartError, match="NodePrepareResources: Channel is closed"):
        await plugin.prepare([ClaimCall(namespace="default", name="c", uid="u")])
