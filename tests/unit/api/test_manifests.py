from __future__ import annotations

import pytest

from claimsmith.api.manifests import Manifest, parse_manifests, read_documents
from claimsmith.api.schema import MAX_DEPTH
from claimsmith.errors import ManifestError


def parse(text: str) -> tuple[Manifest, ...]:
    return parse_manifests(text, source="f.yaml")


def test_json_objects_may_stand_one_after_another() -> None:
    assert [entry.object for entry in parse('{"a":1}\n{"b":2}\n')] == [{"a": 1}, {"b": 2}]


def test_yaml_in_braces_is_no_json_and_still_read() -> None:
    assert parse("{kind: Pod}")[0].object == {"kind": "Pod"}


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse('\ufeff{"kind": "Pod"}')[0].object == {"kind": "Pod"}


def test_empty_documents_are_left_out_but_counted() -> None:
    (manifest,) = parse("---\n---\nkind: Pod\n")

    assert (manifest.document, manifest.line) == (2, 2)


def test_lists_are_taken_apart_with_the_place_of_each_item() -> None:
    text = (
        '{"kind":"List","apiVersion":"v1","items":[{"kind":"Pod"},'
        '{"kind":"NodeList","apiVersion":"v1","items":[{"spec":{}}]}]}'
    )

    assert [(entry.path, dict(entry.object)) for entry in parse(text)] == [
        ("items[0]", {"kind": "Pod"}),
        ("items[1].items[0]", {"apiVersion": "v1", "kind": "Node", "spec": {}}),
    ]


def test_an_empty_list_has_no_objects() -> None:
    assert parse("apiVersion: v1\nkind: List\n") == ()


def test_a_manifest_finds_the_line_of_a_field() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  spec:\n    nodeName: 7\n"
    (manifest,) = parse(text)

    assert manifest.locate("spec.nodeName") == "f.yaml, document 1, line 6"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "found a list, allowed an object with apiVersion and kind"),
        ("just text", "found 'just text', allowed an object"),
        ("42", "found 42, allowed an object"),
        ("apiVersion: v1\nkind: List\nitems: {}\n", "items: found an object, allowed a list"),
        ("apiVersion: v1\nkind: List\nitems: [~]\n", r"items\[0\]: found null, allowed an object"),
        ('{"a":1,"a":2}', "found a duplicate key 'a'"),
        ('{"a":NaN}', "found NaN, allowed a finite number"),
        ('{"a":1e999}', "found 1e999, allowed a finite number"),
        ('{"a":"\\ud800"}', "half of a surrogate pair"),
        ('{"a":' + "9" * 5000 + "}", "found a number of thousands of digits"),
        ('{"a":1,\n"b":', "line 3: found broken"),
        ("[" * 10_000, "levels of nesting, allowed"),
        ('{"a":' * 10_000, "levels of nesting, allowed"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "levels of nesting, allowed"),
    ],
)
def test_unusable_text_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message) as caught:
        parse(text)

    assert str(caught.value).startswith("f.yaml, document 1")
    assert "\n" not in str(caught.value)


def test_the_deepest_allowed_nesting_is_read() -> None:
    text = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH

    assert len(parse(text)) == 1


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert parse('{"a":"\\ud83d\\ude00"}')[0].object == {"a": "\U0001f600"}


def test_documents_may_be_any_value() -> None:
    assert [document.value for document in read_documents("- 1\n---\nx\n", source="s")] == [[1], "x"]
