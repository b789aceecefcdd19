"""Fixtures of a real cluster: `real_cluster`, and `client`, which may do everything in it.

`@pytest.mark.gates("defaults", "all")` runs a test once for each set of feature gates; without it, for the defaults.
One cluster runs at a time; pytest puts the tests of one file and set together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator

import pytest

from claimsmith.kube.client import KubeClient
from tests.cluster.binaries import build_binaries
from tests.cluster.cleaning import clean, take_cdi_files
from tests.cluster.cluster import RealCluster
from tests.cluster.kept import open_cluster
from tests.cluster.place import find_obstacle, is_left_out
from tests.cluster.recipe import GATE_SETS

if is_left_out():
    collect_ignore_glob = ["test_*.py"]

_SHOWN_LINES = {"kubelet": 40, "agent": 40, "containerd": 10, "scheduler": 10}
"""How much of each log is shown with a failed test."""
_TIMEOUT_S = 600
_BEGINNINGS = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    """Name the mark."""
    config.addinivalue_line("markers", "gates(*sets): feature gates of the real cluster: defaults, beta, all")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each of its sets of gates."""
    if "real_cluster" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("gates")
    chosen = marker.args if marker else ("defaults",)
    if unknown := set(chosen) - set(GATE_SETS):
        where = metafunc.definition.nodeid
        raise pytest.UsageError(f"{where}: found gates {unknown}, allowed {', '.join(GATE_SETS)}; correct the mark")
    metafunc.parametrize("real_cluster", chosen, indirect=True, scope="module")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of a cluster the time that its start may take on a busy machine."""
    for item in items:
        if "real_cluster" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT_S))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Build the programs before the first test, whose time limit would be too short for it."""
    is_wanted = any("real_cluster" in getattr(item, "fixturenames", ()) for item in session.items)
    if is_wanted and not find_obstacle() and not session.config.option.collectonly:
        build_binaries()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Remember where the logs were, so that a failed test shows its own part of them."""
    cluster = getattr(item, "funcargs", {}).get("real_cluster")
    if isinstance(cluster, RealCluster):
        item.stash[_BEGINNINGS] = {name: cluster.daemons.log_size(name) for name in _SHOWN_LINES}


@pytest.fixture(scope="module")
def real_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """A running cluster, new for each file: a kubelet remembers the plugins and files of tests before."""
    with open_cluster(request.param) as cluster:
        yield cluster


@pytest.fixture
async def client(real_cluster: RealCluster) -> AsyncIterator[KubeClient]:
    """A client that may do everything; whatever a test has created goes when it ends, and no claim stays prepared."""
    client = real_cluster.client()
    try:
        yield client
        await clean(client)
        take_cdi_files(real_cluster)
    finally:
        await client.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the node's logs with a failed test."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("real_cluster")
    if report.failed and isinstance(cluster, RealCluster):
        for name, lines in _SHOWN_LINES.items():
            since = item.stash.get(_BEGINNINGS, {}).get(name, 0)
            report.sections.append((f"{name}.log", cluster.daemons.tail(name, lines, since=since)))
    return report
