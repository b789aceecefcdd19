"""An agent of the real node with a configuration file of its own."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from claimsmith.kube.client import KubeClient
from tests.cluster.agents import WITH_THE_TESTS, AgentProcess, agent_command, replace_text, retrying, wait_published
from tests.cluster.cleaning import delete_pods
from tests.cluster.cluster import RealCluster

__all__ = ["ConfiguredAgent", "configured"]

_CONFIGURATION = """\
apiVersion: claimsmith.dev/v1alpha1
kind: AgentConfiguration
spec:
  drivers:
  - plugin: simulated
    settings: [devices.yaml]
{options}
"""


class ConfiguredAgent:
    """A running agent.

    Args:
        process: It.
        settings: The file with its devices; one that is changed is read again.
    """

    def __init__(self, process: AgentProcess, settings: Path) -> None:
        self.process, self._settings = process, settings

    def again(self, *words: str) -> AgentProcess:
        """Return a further process of the same agent, not started yet, with further options."""
        return self.process.with_words(*words)

    def become(self, settings: str) -> None:
        """Let the node have other devices, or other faults."""
        replace_text(self._settings, settings)


@contextlib.asynccontextmanager
async def configured(
    cluster: RealCluster,
    client: KubeClient,
    settings: str,
    options: str,
    *,
    env: Mapping[str, str] | None = None,
    inside: Sequence[str | Path] = (),
) -> AsyncIterator[ConfiguredAgent]:
    """Run an agent with simulated devices; the kubelet knows it and the slices are there when the block begins.

    Beside it runs what the controller does after failed preparations. Pods are deleted when the block ends, before the
    agent is.

    Args:
        settings: The document of the devices.
        options: Further fields of the driver's entry, and of the spec: YAML that is indented as it must stand.
        env: Environment variables that it gets beyond those of the tests.
        inside: A command that runs the agent's, which comes behind it.
    """
    with tempfile.TemporaryDirectory(dir=cluster.folder) as name:
        folder = Path(name)
        (folder / "agent.yaml").write_text(_CONFIGURATION.format(options=options.strip("\n")))
        agent = ConfiguredAgent(_make(cluster, folder, env, inside), folder / "devices.yaml")
        agent.become(settings)
        await agent.process.start()
        try:
            async with retrying(client):
                await agent.process.wait_registered("sim.claimsmith.dev")
                await wait_published(client, "sim.claimsmith.dev")
                yield agent
        finally:
            try:
                if agent.process.process.returncode is None:
                    await delete_pods(client)
            finally:
                await agent.process.stop()


def _make(
    cluster: RealCluster, folder: Path, env: Mapping[str, str] | None, inside: Sequence[str | Path]
) -> AgentProcess:
    command = agent_command(cluster, "--config", str(folder / "agent.yaml"))
    first = len(WITH_THE_TESTS)
    words = [*command[:first], *map(str, inside), *command[first:]]
    return AgentProcess(words, cluster.folder / "agent.log", env=env)
