from __future__ import annotations

from pathlib import Path

import pytest

from claimsmith.api.wire import base
from scripts.generate_wire import (
    HEADER,
    MODULES,
    OUT_DIR,
    camel,
    class_homes,
    class_name,
    digest,
    field_line,
    snake,
)

OURS = {"device_report"}
"""Wire types of kinds of our own, which no Kubernetes describes."""


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("podIPs", "pod_ips"),
        ("podIP", "pod_ip"),
        ("hostIPC", "host_ipc"),
        ("shareID", "share_id"),
        ("downwardAPI", "downward_api"),
        ("setHostnameAsFQDN", "set_hostname_as_fqdn"),
        ("targetWWNs", "target_wwns"),
        ("fieldsV1", "fields_v1"),
        ("int", "int_"),
        ("continue", "continue_"),
        ("firstAvailable", "first_available"),
    ],
)
def test_json_names_become_attributes(name: str, attribute: str) -> None:
    assert snake(name) == attribute


def test_a_regular_name_is_left_to_msgspec_and_an_irregular_one_is_written_out() -> None:
    assert camel(snake("resourceSliceCount")) == "resourceSliceCount"
    assert field_line("nodeName", {"type": "string"}, required=False) == "    node_name: str | None = None"
    assert field_line("shareID", {"type": "string"}, required=False) == (
        '    share_id: str | None = field(default=None, name="shareID")'
    )


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ({"type": "integer", "format": "int64"}, "    x: Int64 = field(default_factory=int)"),
        ({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
         "    x: Annotated[list[str], SET] = field(default_factory=list)"),
        ({"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}]},
         "    x: Quantity = field(default_factory=zero_quantity)"),
        ({"type": "object", "additionalProperties": {"type": "string"}},
         "    x: dict[str, str] = field(default_factory=dict)"),
        ({"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.runtime.RawExtension"}, "    x: RawExtension = None"),
    ],
)  # fmt: skip
def test_a_required_field_starts_as_the_zero_value_of_its_type(schema: dict[str, object], line: str) -> None:
    assert field_line("x", schema, required=True) == line


def test_two_kinds_of_one_name_get_two_classes() -> None:
    assert class_name("io.k8s.api.core.v1.ResourceClaim") == "ContainerResourceClaim"
    assert class_name("io.k8s.api.resource.v1.ResourceClaim") == "ResourceClaim"


def schema_that_mentions(*names: str) -> dict[str, object]:
    return {"properties": {f"p{i}": {"$ref": f"#/components/schemas/{name}"} for i, name in enumerate(names)}}


def test_a_class_is_imported_from_the_module_of_its_own_version() -> None:
    schemas = {"a.v1.Spec": {}, "a.v2.Spec": {}, "a.v2.Kind": schema_that_mentions("a.v2.Spec")}
    homes = {"a.v1.Spec": "old", "a.v2.Spec": "new", "a.v2.Kind": "kinds"}

    assert class_homes("kinds", ["a.v2.Kind"], schemas, homes) == {"Spec": "new"}


def test_two_classes_of_one_name_in_one_module_are_refused() -> None:
    schemas = {"a.v2.Kind": schema_that_mentions("a.v1.Spec", "a.v2.Spec")}
    homes = {"a.v1.Spec": "old", "a.v2.Spec": "new", "a.v2.Kind": "kinds"}

    with pytest.raises(SystemExit, match="kinds: two schemas are called Spec"):
        class_homes("kinds", ["a.v2.Kind"], schemas, homes)


@pytest.mark.parametrize("module", MODULES)
def test_every_generated_module_says_where_it_comes_from_and_stays_within_bounds(module: str) -> None:
    text = (OUT_DIR / f"{module}.py").read_text()

    assert text.startswith(HEADER)
    assert len(text.splitlines()) < 600


def test_no_module_is_there_that_nobody_generates() -> None:
    names = {path.stem for path in Path(base.__file__).parent.glob("*.py")} - {"__init__", "base"}

    assert names - OURS == set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_nobody_has_edited_a_generated_module(module: str) -> None:
    text = (OUT_DIR / f"{module}.py").read_text()
    _, line, body = text.split("\n", 2)

    assert line + "\n" == digest(body), "run scripts/generate_wire.py instead"


def test_an_edit_changes_the_digest() -> None:
    assert digest("a\n") != digest("b\n")
