from __future__ import annotations

from typing import Any

from claimsmith.errors import FieldError, ManifestError


def test_a_field_error_names_source_path_found_allowed_and_remedy() -> None:
    error = FieldError("spec.count", 0, allowed="> 0", hint="raise it", source="f.yaml, document 2, line 7")

    assert str(error) == "f.yaml, document 2, line 7: spec.count: found 0, allowed > 0; raise it"
    assert (error.path, error.found, error.allowed, error.hint) == ("spec.count", 0, "> 0", "raise it")


def test_an_error_about_the_whole_object_has_no_empty_path() -> None:
    assert str(FieldError("", 1, allowed="an object", hint="fix it", source="x")) == (
        "x: found 1, allowed an object; fix it"
    )


def test_booleans_and_null_are_spelt_as_in_json() -> None:
    error = FieldError("a", [True, None], allowed="text", hint="quote it")

    assert "found [true, null]" in str(error)


def test_long_and_deep_values_stay_on_one_short_line() -> None:
    deep: Any = "x" * 1_000_000
    for _ in range(10_000):
        deep = {"a": deep, "b": "\n"}

    for found in (deep, "x\n" * 1_000_000, list(range(100_000))):
        text = str(FieldError("a", found, allowed="less", hint="shorten it"))

        assert len(text) < 300
        assert "\n" not in text


def test_a_manifest_error_leaves_out_what_it_does_not_know() -> None:
    assert str(ManifestError("f.yaml", "found nothing", hint="fill it")) == "f.yaml: found nothing; fill it"
    assert str(ManifestError("f.yaml", "found x", hint="y", document=2, line=3)) == (
        "f.yaml, document 2, line 3: found x; y"
    )
