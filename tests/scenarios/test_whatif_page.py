"""What docs/whatif.md shows is what the commands print, and the rights that it names are those that are used."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import pytest
import yaml

from claimsmith.api.kinds import NODE, POD
from claimsmith.cluster.read import READ_BY_SNAPSHOT
from claimsmith.daemons.holding import cordon_nodes, kept_free
from claimsmith.kube.client import KubeClient
from claimsmith.model.names import DeviceId, PodRef
from tests.scenarios.cli_process import call_claimsmith
from tests.scenarios.scheduling import api_server, pod_object
from tests.scenarios.watched_transport import WatchedTransport

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs/whatif.md").read_text(encoding="utf-8")
SHOWN: Final = re.findall(r"^```console\n\$ claimsmith ([^\n]+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "told"), SHOWN, ids=lambda text: text.partition("\n")[0][:60])
def test_the_page_shows_what_is_printed(
    command: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (ROOT / "examples/what-if").iterdir():
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    ran = call_claimsmith(*shlex.split(command))
    printed = lines_of(ran.out + ran.err)

    assert printed[: len(lines_of(told))] == lines_of(told)


def lines_of(text: str) -> list[str]:
    """Return the lines that are not empty, without spaces at their ends."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_the_page_shows_all_kinds_of_questions() -> None:
    assert len(SHOWN) >= 7


def rights_of(role: str) -> set[tuple[str, str, str]]:
    """Return what a role of the page may do: verb, API group and resource."""
    roles = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    (found,) = (item for item in roles if item["metadata"]["name"] == role)
    return {
        (verb, group, plural)
        for rule in found["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }


def test_the_page_names_the_rights_that_reading_takes() -> None:
    assert rights_of("claimsmith-reader") == {("list", kind.group, kind.plural) for kind in READ_BY_SNAPSHOT}


async def test_the_page_names_the_rights_that_carrying_out_takes() -> None:
    async with api_server() as url:
        way = WatchedTransport(url)
        own, client = KubeClient.for_url(url), KubeClient(way)
        await own.create(NODE, {"metadata": {"name": "a"}})
        await own.create(POD, pod_object("p", (), "", {}))
        await cordon_nodes(client, ["a"])
        async with kept_free(client, [DeviceId("gpu.example.test", "a", "g0")]):
            await client.evict(PodRef("default", "p"))
        await own.close()
        await client.close()

    assert set(way.used) == rights_of("claimsmith-planner")
