"""The embedded kubelet differs from a real one where docs/deviations.md says so."""

from __future__ import annotations

from claimsmith.embedded.kubelet import watcher

REAL_KUBELET_S = {"GetInfo": 1.0, "NotifyRegistrationStatus": 5.0}
"""Source: connectionTimeout in kubernetes v1.37.2, pkg/kubelet/pluginmanager/operationexecutor."""


def test_plugins_have_more_time_to_answer_than_a_real_kubelet_gives_them() -> None:
    assert max(REAL_KUBELET_S.values()) < watcher._CALL_TIMEOUT_S
