from __future__ import annotations

import pytest

from claimsmith.api.manifests import parse_manifests
from claimsmith.api.objects import check_manifest, parse_objects
from claimsmith.errors import FieldError, InputError
from claimsmith.model.claim import ResourceClaim
from claimsmith.model.node import Node

CLAIM = """\
apiVersion: v1
kind: Node
metadata: {name: node-a}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: c
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        count: 1
"""


def test_manifests_become_values_in_their_order() -> None:
    node, claim = parse_objects(parse_manifests(CLAIM, source="f.yaml"))

    assert isinstance(node, Node)
    assert isinstance(claim, ResourceClaim)


def test_the_text_of_sound_objects_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr("claimsmith.api.manifests.find_place", lambda text, path, *, document: looked.append(path))
    found = parse_objects(parse_manifests(CLAIM, source="f.yaml"))

    assert (len(found), looked) == (2, [])


def test_objects_without_a_namespace_go_to_the_one_that_is_asked_for() -> None:
    _, claim = parse_objects(parse_manifests(CLAIM, source="f.yaml"), namespace="team")

    assert claim.metadata.namespace == "team"


def test_objects_with_a_namespace_keep_it() -> None:
    text = CLAIM.replace("  name: c\n", "  name: c\n  namespace: own\n")
    _, claim = parse_objects(parse_manifests(text, source="f.yaml"), namespace="team")

    assert claim.metadata.namespace == "own"


def test_kinds_that_the_model_does_not_know_are_left_out() -> None:
    text = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: x}\n"

    assert parse_objects(parse_manifests(text, source="f.yaml")) == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "name: gpu",
            "name: n",
            "f.yaml, document 2, line 12: spec.devices.requests[0].name: found false, allowed a string; "
            "put the value in quotes (YAML reads n as false)",
        ),
        (
            "count: 1",
            "count: two",
            "f.yaml, document 2, line 15: spec.devices.requests[0].exactly.count: found 'two', "
            "allowed a whole number; write the value without quotes",
        ),
        (
            "count: 1",
            "cout: 1",
            "f.yaml, document 2, line 15: spec.devices.requests[0].exactly.cout: found 'cout', "
            "allowed adminAccess, allocationMode, capacity, count, derivedAttributes, deviceClassName, selectors, "
            "tolerations; write count",
        ),
    ],
)
def test_an_error_names_file_document_line_path_found_allowed_and_remedy(old: str, new: str, message: str) -> None:
    with pytest.raises(FieldError) as caught:
        parse_objects(parse_manifests(CLAIM.replace(old, new), source="f.yaml"))

    assert str(caught.value) == message


def test_every_fault_of_a_manifest_can_be_had() -> None:
    text = CLAIM.replace("count: 1", "count: x\n        nonsense: 1")
    errors = check_manifest(parse_manifests(text, source="f.yaml")[1])

    assert [error.path.rpartition(".")[2] for error in errors] == ["nonsense", "count"]


def test_an_unknown_kind_is_named_with_its_place() -> None:
    with pytest.raises(InputError, match=r"^f\.yaml, document 1, line 1: found apps/v1 Deployment, allowed are"):
        parse_objects(parse_manifests("apiVersion: apps/v1\nkind: Deployment\n", source="f.yaml"))
