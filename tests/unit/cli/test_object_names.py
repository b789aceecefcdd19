"""Names of objects on a command line."""

from __future__ import annotations

import pytest

from claimsmith.cli.object_names import parse_node_name, parse_pod_ref
from claimsmith.errors import InputError


@pytest.mark.parametrize("text", ["gpu-1", "node/gpu-1"])
def test_a_node_is_named_with_or_without_its_kind(text: str) -> None:
    assert parse_node_name(text) == "gpu-1"


@pytest.mark.parametrize("text", ["", "node/", "/gpu-1", "pod/gpu-1", "node/node/gpu-1"])
def test_what_names_no_node_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="found no name of a node, allowed NAME or node/NAME; correct it"):
        parse_node_name(text)


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("train", "default/train"),
        ("pod/train", "default/train"),
        ("team/train", "team/train"),
        ("pod/team/train", "team/train"),
        ("pod/pod/train", "pod/train"),
    ],
)
def test_a_pod_is_named_with_or_without_its_kind_and_namespace(text: str, ref: str) -> None:
    assert str(parse_pod_ref(text)) == ref


@pytest.mark.parametrize("text", ["", "pod/", "team/", "a/b/c", "node/team/train"])
def test_what_names_no_pod_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="found no name of a pod, allowed NAME or NAMESPACE/NAME"):
        parse_pod_ref(text)
