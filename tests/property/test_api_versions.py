"""Objects on their way through all versions: nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.api import resource
from claimsmith.api.kinds import (
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
    OLDER_KINDS,
    POD_GROUP,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    SERVED_KINDS,
    WORKLOAD,
    Kind,
)
from claimsmith.api.objects import find_parser
from claimsmith.api.scheduling import encode_pod_group, encode_workload, parse_pod_group, parse_workload
from claimsmith.api.schema import check_object
from claimsmith.api.versions import convert_from_hub, convert_to_hub
from tests.property.api_objects import object_of, without_empty

ENCODERS: Mapping[Kind, Callable[..., dict[str, Any]]] = {
    RESOURCE_SLICE: resource.encode_resource_slice,
    RESOURCE_CLAIM: resource.encode_resource_claim,
    RESOURCE_CLAIM_TEMPLATE: resource.encode_resource_claim_template,
    DEVICE_CLASS: resource.encode_device_class,
    DEVICE_TAINT_RULE: resource.encode_device_taint_rule,
}
DEVICE_KINDS = [kind for kind in SERVED_KINDS if kind.hub in ENCODERS]
FLAT = [kind for kind in OLDER_KINDS if kind.version == "v1beta1" and kind is not DEVICE_CLASS]


def drawn_of(kinds: list[Kind]) -> st.SearchStrategy[tuple[Kind, dict[str, Any]]]:
    """A kind and an object of it."""
    return st.sampled_from(kinds).flatmap(lambda kind: st.tuples(st.just(kind), object_of(kind)))


def versions_of(kind: Kind) -> list[Kind]:
    """The kind in all its versions."""
    return [other for other in SERVED_KINDS if other.hub is kind.hub]


@given(drawn=drawn_of(DEVICE_KINDS))
@settings(deadline=None)
def test_a_value_survives_the_way_through_json_of_every_version(drawn: tuple[Kind, dict[str, Any]]) -> None:
    kind, obj = drawn
    parse = find_parser(kind)
    assert parse is not None
    value = parse(obj)
    texts = [json.dumps(ENCODERS[kind.hub](value, api_version=version.api_version)) for version in versions_of(kind)]

    assert [parse(text) for text in texts] == [value] * len(texts)


@given(drawn=drawn_of([kind.hub for kind in OLDER_KINDS]), data=st.data())
@settings(deadline=None)
def test_a_kept_object_comes_back_from_any_older_version_as_it_was(
    drawn: tuple[Kind, dict[str, Any]], data: st.DataObject
) -> None:
    hub, obj = drawn
    older = data.draw(st.sampled_from([kind for kind in versions_of(hub) if kind is not hub]))
    before = json.dumps(obj)
    back = convert_to_hub(convert_from_hub(obj, older), older)

    assert without_empty(back) == without_empty(obj)
    assert json.dumps(obj) == before


@given(drawn=drawn_of(list(OLDER_KINDS)))
@settings(deadline=None)
def test_an_older_object_comes_back_from_the_kept_version_as_it_was(drawn: tuple[Kind, dict[str, Any]]) -> None:
    kind, obj = drawn
    hub = convert_to_hub(obj, kind)

    assert without_empty(convert_from_hub(hub, kind)) == without_empty(obj)
    assert check_object(hub, kind.hub.wire_type) == ()


@pytest.mark.parametrize(
    ("kind", "parse", "encode"),
    [(POD_GROUP, parse_pod_group, encode_pod_group), (WORKLOAD, parse_workload, encode_workload)],
    ids=["PodGroup", "Workload"],
)
@given(data=st.data())
@settings(deadline=None)
def test_groups_survive_the_way_to_json_and_back(
    data: st.DataObject, kind: Kind, parse: Callable[..., Any], encode: Callable[..., dict[str, Any]]
) -> None:
    value = parse(data.draw(object_of(kind)))

    assert parse(json.dumps(encode(value))) == value
