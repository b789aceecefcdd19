"""The objects that the pages on gangs and the scheduler show can be used as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from claimsmith.api.manifests import Manifest, parse_manifests
from claimsmith.daemons.linting import lint_manifests
from claimsmith.daemons.sorted_manifests import sort_manifests

DOCS = Path(__file__).parents[3] / "docs"


def shown(page: str) -> tuple[Manifest, ...]:
    """Return the objects of the only YAML on a page."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return parse_manifests(text, source=page)


@pytest.mark.parametrize(("page", "objects"), [("gangs.md", 3), ("scheduler.md", 3)])
def test_lint_finds_nothing_wrong_with_the_objects_of_a_page(page: str, objects: int) -> None:
    report = lint_manifests(shown(page))

    assert (report.findings, report.left_out, report.objects) == ((), (), objects)


def test_the_gang_of_the_page_has_all_of_its_pods() -> None:
    group, *pods = (manifest.object for _, manifest in sort_manifests(shown("gangs.md")).objects)

    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == len(pods)
    assert {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods} == {group["metadata"]["name"]}
