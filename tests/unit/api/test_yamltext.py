from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from claimsmith.api import yamltext
from claimsmith.api.schema import MAX_DEPTH
from claimsmith.api.yamltext import MAX_ALIASED_VALUES, Place, find_place, read_yaml, resolve_plain
from claimsmith.errors import ManifestError

parse_events = yamltext._parse_events


def load(text: str) -> Any:
    (document,) = read_yaml(text, source="file.yaml")
    return document.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True),
        ("N", False),
        ("On", True),
        ("off", False),
        ("TRUE", True),
        ("~", None),
        ("", None),
        ("nUll", "nUll"),
        ("0777", 511),
        ("0o777", 511),
        ("-0x1F", -31),
        ("0b101", 5),
        ("08", 8),
        ("1_000", 1000),
        ("12:30:45", "12:30:45"),
        ("2001-12-14", "2001-12-14"),
        ("1e3", 1000),
        ("1.0", 1),
        ("1.10", 1.1),
        (".5", 0.5),
        (".5_0", 0.5),
        ("._5", "._5"),
        ("1e400", "1e400"),
        ("_1", "_1"),
        ("-", "-"),
        ("9223372036854775808", 9223372036854775808),
        ("123456789012345678901", 123456789012345680000),
        ("10Gi", "10Gi"),
    ],
)
def test_unquoted_scalars_are_what_go_yaml_makes_of_them(text: str, value: object) -> None:
    resolved = resolve_plain(text)

    assert (type(resolved), resolved) == (type(value), value)


@pytest.mark.parametrize("text", ['"y"', "'12'", "!!str 12", "|-\n  0777", "! 12"])
def test_quoted_and_tagged_text_stays_text(text: str) -> None:
    assert isinstance(load(f"v: {text}\n")["v"], str)


def test_tags_that_fit_are_obeyed() -> None:
    assert load('a: !!int "12"\nb: !!bool yes\nc: !!binary aGVsbG8=\nd: !!float 3\n') == {
        "a": 12,
        "b": True,
        "c": "hello",
        "d": 3,
    }


@pytest.mark.parametrize("text", ["!!int 3.5", "!!bool 3", "!!binary =", "!!int yes", "!!null x"])
def test_a_tag_that_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match=r"v: found .*(tagged|binary)"):
        load(f"v: {text}\n")


def test_keys_that_are_no_text_become_text_as_in_json() -> None:
    assert load("{1: a, yes: b, 1.5: c, 0x10: d}") == {"1": "a", "true": "b", "1.5": "c", "16": "d"}


@pytest.mark.parametrize("text", ["~: 1", "[1]: 1", "? {a: 1}\n: 1"])
def test_null_and_collections_are_no_keys(text: str) -> None:
    with pytest.raises(ManifestError, match="as a key, allowed text; write the key"):
        load(text)


def test_a_duplicate_key_is_an_error_that_names_line_and_path() -> None:
    with pytest.raises(ManifestError) as caught:
        load("devices:\n- name: gpu-0\n  name: gpu-1\n")

    assert str(caught.value) == (
        "file.yaml, document 1, line 3: devices[0]: found a duplicate key 'name', allowed one; remove one of the two"
    )


def test_a_key_that_reads_like_another_is_a_duplicate() -> None:
    with pytest.raises(ManifestError, match="duplicate key '1'"):
        load("1: a\n'1': b\n")


def test_aliases_are_copies() -> None:
    value = load("a: &x {k: 1}\nb: *x\n")
    value["a"]["k"] = 2

    assert value["b"] == {"k": 1}


def test_merged_keys_give_way_to_explicit_ones_and_earlier_maps_win() -> None:
    assert load("c:\n  <<: [{a: 1, b: 1}, {a: 2, d: 4}]\n  b: 5\n") == {"c": {"a": 1, "b": 5, "d": 4}}


def test_a_merge_after_a_key_that_it_sets_is_refused() -> None:
    with pytest.raises(ManifestError, match="c: found << after the key 'k'"):
        load("a: &x {k: 1}\nc:\n  k: 2\n  <<: *x\n")


def test_a_merge_needs_a_map() -> None:
    with pytest.raises(ManifestError, match="found << without a map"):
        load("c:\n  <<: 3\n")


def test_a_quoted_merge_key_is_a_plain_key() -> None:
    assert load("'<<': 1\n") == {"<<": 1}


def test_a_billion_laughs_end_early() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]")

    with pytest.raises(ManifestError, match=f"aliases for more than {MAX_ALIASED_VALUES} values"):
        load("\n".join(lines))


def test_an_alias_within_its_anchor_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"a\[0\]: found the alias \*x within its own anchor"):
        load("a: &x [*x]")


def test_an_alias_without_an_anchor_is_refused() -> None:
    with pytest.raises(ManifestError, match=r"found the alias \*x without an anchor"):
        load("a: *x")


def test_aliases_do_not_get_around_the_depth_limit() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(MAX_DEPTH + 1))

    with pytest.raises(ManifestError, match="levels of nesting through aliases"):
        load(text)


@pytest.mark.parametrize("text", ["- " * 10_000, "{a: " * 10_000, "[" * 10_000])
def test_ten_thousand_levels_are_one_clear_line(text: str) -> None:
    with pytest.raises(ManifestError, match=r"nesting.*; flatten the document"):
        load(text)


@pytest.mark.parametrize("text", [".nan", ".inf", "-.Inf", "!!float .inf"])
def test_numbers_that_json_cannot_carry_are_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="allowed a finite number"):
        load(f"v: {text}\n")


@pytest.mark.parametrize("text", ["a: [1, 2\nb: 3", "a: 'x", "\ta: b", "a: |\n  x\n y\n", "a: \0"])
def test_broken_yaml_is_one_clear_line(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^file\.yaml, document 1.*found broken YAML") as caught:
        load(text)

    assert "\n" not in str(caught.value)


def test_documents_are_numbered_and_know_their_line() -> None:
    documents = list(read_yaml("---\n---\na: 1\n...\n---\nb: 2\n", source="x"))

    assert [(document.number, document.line) for document in documents] == [(1, 1), (2, 2), (3, 5)]


def test_an_error_names_the_document_that_holds_it() -> None:
    with pytest.raises(ManifestError, match="x, document 2, line 3: "):
        list(read_yaml("a: 1\n---\nb: *c\n", source="x"))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("spec.devices[0].name", Place(line=3, text="n")),
        ("spec.devices[0][x.y/z]", Place(line=4, text="0123")),
        ("spec.devices[0].quoted", Place(line=5, text="")),
        ("spec.devices[0].missing", Place(line=3, text="")),
        ("spec.devices[7].name", Place(line=3, text="")),
        ("", Place(line=1, text="")),
    ],
)
def test_a_field_or_its_nearest_parent_is_found_in_the_text(path: str, place: Place) -> None:
    text = "spec:\n  devices:\n  - name: n\n    x.y/z: 0123\n    quoted: 'n'\n"

    assert find_place(text, path) == place


def test_a_field_is_found_in_a_later_document() -> None:
    assert find_place("a: 1\n---\nb: 2\n", "b", document=2) == Place(line=3, text="2")


def test_many_fields_are_found_by_reading_the_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def count(text: str) -> Iterator[Any]:
        read.append(text)
        return parse_events(text)

    text = "items:\n" + "- {name: a}\n" * 50
    monkeypatch.setattr(yamltext, "_parse_events", count)
    lines = [place.line for number in range(50) if (place := find_place(text, f"items[{number}].name"))]

    assert (lines, len(read)) == (list(range(2, 52)), 1)


def test_of_twin_keys_the_first_is_found() -> None:
    assert find_place("a: 1\na: 2\n", "a") == Place(line=1, text="1")


def test_what_stands_before_broken_text_is_found() -> None:
    assert find_place("a: 1\nb: [\n", "a") == Place(line=1, text="1")


def test_nothing_is_found_in_a_text_that_is_no_yaml() -> None:
    assert find_place("'", "a") is None


def test_a_plain_key_in_brackets_is_found_as_one_behind_a_dot() -> None:
    assert find_place("a:\n  memory:\n    value: 1\n", "a[memory].value") == Place(line=3, text="1")


@pytest.mark.parametrize("text", ["a: 1\nb:\n\tc: 1\n", "a: 1\nb:\n  \tc: 2\n  d: 1\n", "a: 1\nb:\n-\tc: 1\n  d: 2\n"])
def test_a_tab_that_indents_is_told_as_one(text: str) -> None:
    with pytest.raises(ManifestError, match=r"x, document 1, line 3: found broken YAML \(a tab in the indentation\)"):
        list(read_yaml(text, source="x"))
