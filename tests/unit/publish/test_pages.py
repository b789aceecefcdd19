"""What the pages on health and labels show can be used as it stands there, and says the defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from claimsmith.publish.health_policy import APPLICATION_XIDS, HealthPolicy, parse_health_policy
from claimsmith.publish.labels import LabelOptions, parse_label_options

DOCS = Path(__file__).resolve().parents[3] / "docs"


def shown(page: str) -> Any:
    """Return the first YAML of a page."""
    (text, *_) = re.findall(r"^```yaml\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return yaml.safe_load(text)


def health_section() -> dict[str, Any]:
    section: dict[str, Any] = shown("health.md")["drivers"][0]["health"]
    return section


def test_the_policy_of_the_page_on_health_can_be_used() -> None:
    first, second = parse_health_policy(health_section()).rules

    assert (first.effect, first.returns) == ("NoExecute", False)
    assert (second.reports, second.within_s, second.lasting_s, second.hold_s) == (3, 60, 30, 120)


def test_what_the_page_on_health_says_of_all_causes_is_the_default() -> None:
    section = {name: value for name, value in health_section().items() if name != "rules"}

    assert parse_health_policy(section) == HealthPolicy()


def test_the_page_on_health_names_the_errors_of_applications() -> None:
    (listed,) = re.findall(r"XIDs ([\d, ]+) have no effect", (DOCS / "health.md").read_text())

    assert tuple(f"xid-{number.strip()}" for number in listed.split(",")) == APPLICATION_XIDS


def test_the_section_of_the_page_on_labels_is_the_default_but_for_an_attribute() -> None:
    section = shown("node-facts.md")["spec"]["labels"]

    assert parse_label_options(section) == LabelOptions(attributes=("driverVersion",))
