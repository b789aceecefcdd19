"""Round trips and agreement of the readers on generated objects."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from claimsmith.api.kinds import KINDS, Kind
from claimsmith.api.manifests import parse_manifests, read_documents
from claimsmith.api.objects import parse_objects
from claimsmith.api.resource import (
    encode_resource_claim,
    encode_resource_slice,
    parse_resource_claim,
    parse_resource_slice,
)
from claimsmith.api.schema import check_object, prune_object
from claimsmith.api.yamltext import resolve_plain
from claimsmith.errors import InputError
from tests.property.api_objects import JSON, TEXTS, object_of, without_empty


def get_kind(name: str) -> Kind:
    """The kind of a name."""
    return next(kind for kind in KINDS if kind.kind == name)


ANY_OBJECT = st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.just(kind), object_of(kind)))


@given(drawn=ANY_OBJECT)
def test_an_object_of_its_shape_has_no_issues_and_the_wire_type_keeps_all_of_it(
    drawn: tuple[Kind, dict[str, Any]],
) -> None:
    kind, obj = drawn
    wire = msgspec.json.decode(msgspec.json.encode(obj), type=kind.wire_type)
    back = msgspec.json.decode(msgspec.json.encode(wire))

    assert check_object(obj, kind.wire_type) == ()
    assert without_empty(back) == without_empty(obj)


@given(drawn=ANY_OBJECT, junk=st.dictionaries(st.just("notAField"), JSON, min_size=1))
def test_junk_is_found_and_pruned(drawn: tuple[Kind, dict[str, Any]], junk: dict[str, Any]) -> None:
    kind, obj = drawn
    issues = check_object({**obj, **junk}, kind.wire_type)

    assert [(issue.kind, issue.path) for issue in issues] == [("unknown", "notAField")]
    assert "notAField" not in prune_object({**obj, **junk}, kind.wire_type)


@given(obj=object_of(get_kind("ResourceSlice")))
@settings(deadline=None)
def test_slices_survive_the_way_to_json_and_back(obj: dict[str, Any]) -> None:
    value = parse_resource_slice(obj)

    assert parse_resource_slice(json.dumps(encode_resource_slice(value))) == value


@given(obj=object_of(get_kind("ResourceClaim")))
@settings(deadline=None)
def test_claims_survive_the_way_to_json_and_back(obj: dict[str, Any]) -> None:
    value = parse_resource_claim(obj)

    assert parse_resource_claim(json.dumps(encode_resource_claim(value))) == value


@given(value=st.dictionaries(TEXTS, JSON, max_size=3) | st.lists(JSON, max_size=3))
def test_json_and_yaml_readers_agree(value: Any) -> None:
    (from_json,) = read_documents(json.dumps(value), source="j")
    text = yaml.safe_dump(value, default_style='"', allow_unicode=True)
    (from_quoted_yaml,) = read_documents(text, source="y")

    assert from_json.value == value
    assert from_quoted_yaml.value == plain_numbers(value)


def plain_numbers(value: Any) -> Any:
    """What the way through tagged YAML scalars leaves of JSON: a float without fraction is a whole number."""
    if isinstance(value, dict):
        return {key: plain_numbers(child) for key, child in value.items()}
    if isinstance(value, list):
        return [plain_numbers(child) for child in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_whole_numbers_are_read_in_every_base(number: int) -> None:
    sign, size = ("-", -number) if number < 0 else ("", number)

    assert [resolve_plain(f"{sign}{text}") for text in (str(size), hex(size), bin(size), oct(size))] == [number] * 4


@given(value=JSON, wire=st.sampled_from(KINDS))
def test_any_json_is_checked_without_an_exception(value: Any, wire: Kind) -> None:
    issues = check_object(value, wire.wire_type)

    assert isinstance(value, dict) or value is None or issues[0].allowed == "an object"


def why_refused(text: str) -> str:
    """The message with which a text is refused, empty when it is read; any other exception is a failure."""
    try:
        parse_objects(parse_manifests(text, source="fuzz"))
    except InputError as error:
        return str(error)
    return ""


@given(text=st.text(max_size=200) | st.text("{}[]:,-&*<?!|>'\"%@` \n\taby01.~#", max_size=80))
@settings(max_examples=300)
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    assert "\n" not in why_refused(text)


MANIFEST = json.dumps(
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "labels": {"a": "b"}},
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}],
                "config": [{"opaque": {"driver": "d", "parameters": {"x": [1]}}}],
            }
        },
    },
    indent=1,
)


@given(start=st.integers(0, len(MANIFEST)), cut=st.integers(0, 40), junk=st.text("{}[]:,-&*\"' \nab01.~", max_size=5))
@settings(max_examples=300)
def test_a_damaged_manifest_is_read_or_refused_in_one_line(start: int, cut: int, junk: str) -> None:
    text = MANIFEST[:start] + junk + MANIFEST[start + cut :]

    assert "\n" not in why_refused(text)


@given(value=JSON, kind=st.sampled_from(KINDS))
def test_any_value_in_place_of_a_spec_is_read_or_refused_in_one_line(value: Any, kind: Kind) -> None:
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}, "spec": value}

    assert "\n" not in why_refused(json.dumps(obj))
