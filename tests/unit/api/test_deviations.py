"""Manifests are read otherwise than by kubectl where docs/deviations.md says so."""

from __future__ import annotations

from claimsmith.api.yamltext import read_yaml


def test_a_timestamp_that_is_no_time_is_kept_as_text() -> None:
    (document,) = read_yaml("at: !!timestamp soon\n", source="file.yaml")

    assert document.value == {"at": "soon"}
