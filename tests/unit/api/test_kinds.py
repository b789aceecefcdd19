from __future__ import annotations

import subprocess
import sys

import pytest

from claimsmith.api.kinds import (
    KINDS,
    OLDER_KINDS,
    POD,
    READ_KINDS,
    RESOURCE_CLAIM,
    SERVED_KINDS,
    Kind,
    find_kind,
    find_kind_of,
    find_list_kind,
    find_meant_kind,
    find_resource,
    get_kind_of,
    iter_group_versions,
    split_api_version,
)
from claimsmith.errors import InputError


@pytest.mark.parametrize("kind", [*SERVED_KINDS, *READ_KINDS], ids=str)
def test_every_kind_is_found_by_name_and_by_url_and_has_its_wire_type(kind: Kind) -> None:
    assert find_kind(kind.api_version, kind.kind) is kind
    assert find_resource(kind.group, kind.version, kind.plural) is kind
    assert kind.wire_type.__name__ == kind.kind
    assert not kind.is_listable or kind.wire_list_type.__name__ == kind.list_kind


def test_every_older_kind_leads_to_the_one_that_is_kept() -> None:
    assert {kind.hub for kind in OLDER_KINDS} <= set(KINDS)
    assert all(kind.hub is kind for kind in KINDS)
    assert {kind.api_version for kind in OLDER_KINDS if kind.kind == "DeviceTaintRule"} == {
        "resource.k8s.io/v1beta2",
        "resource.k8s.io/v1alpha3",
    }


def test_a_kind_says_when_its_version_goes() -> None:
    older = {kind.version: kind.deprecation for kind in OLDER_KINDS if kind.hub is RESOURCE_CLAIM}

    assert older == {
        "v1beta2": "resource.k8s.io/v1beta2 ResourceClaim is deprecated in v1.36+, unavailable in v1.39+",
        "v1beta1": "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+",
    }
    assert RESOURCE_CLAIM.deprecation == ""


def test_lists_are_found_by_their_own_kind() -> None:
    assert find_list_kind("resource.k8s.io/v1", "ResourceClaimList") is RESOURCE_CLAIM
    assert find_list_kind("v1", "BindingList") is None


def test_the_kind_of_an_object_is_read_from_it() -> None:
    assert find_kind_of({"apiVersion": "v1", "kind": "Pod"}) is POD
    assert find_kind_of({"apiVersion": 1, "kind": []}) is None


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"kind": "Pod"}, "x: found no apiVersion"),
        ({"apiVersion": "v1"}, "x: found no kind"),
        ({"apiVersion": "v1", "kind": "Deployment"}, "x: found v1 Deployment, allowed are the kinds"),
        (
            {"apiVersion": "v1", "kind": "resourceclaim"},
            "write apiVersion: resource.k8s.io/v1, kind: ResourceClaim",
        ),
    ],
)
def test_an_unknown_kind_is_named_with_what_is_allowed(obj: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_kind_of(obj, source="x")


@pytest.mark.parametrize(
    ("api_version", "kind", "meant"),
    [
        ("resource.k8s.io/v1", "ResourceClaimTemplat", "resource.k8s.io/v1 ResourceClaimTemplate"),
        ("resource.k8s.io/v1beta1", "ResourceClam", "resource.k8s.io/v1beta1 ResourceClaim"),
        ("resource.k8s.io/v7", "DeviceClass", "resource.k8s.io/v1 DeviceClass"),
        ("resources.k8s.io/v1", "DeviceClass", "resource.k8s.io/v1 DeviceClass"),
        ("v1", "podgroup", "scheduling.k8s.io/v1beta1 PodGroup"),
        ("resource.k8s.oi/v1", "DeviceClass", "resource.k8s.io/v1 DeviceClass"),
        ("resource/v1", "ResourceClaim", "resource.k8s.io/v1 ResourceClaim"),
        ("schedulling.k8s.io/v1beta1", "PodGroup", "scheduling.k8s.io/v1beta1 PodGroup"),
        ("core/v1", "Pod", "v1 Pod"),
        ("kueue.x-k8s.io/v1beta1", "Workload", "None"),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", "None"),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", "None"),
        ("longhorn.io/v1beta2", "Node", "None"),
        ("management.cattle.io/v3", "Node", "None"),
        ("resource.example.com/v1", "ResourceClaim", "None"),
        ("example.com/v1", "ResourceClaims", "None"),
        ("v1", "Service", "None"),
        ("v1", "ConfigMap", "None"),
    ],
)
def test_the_kind_that_is_meant_is_found_unless_it_may_be_another_one(api_version: str, kind: str, meant: str) -> None:
    assert str(find_meant_kind(api_version, kind)) == meant


def test_api_versions_are_split_and_joined() -> None:
    assert split_api_version("resource.k8s.io/v1") == ("resource.k8s.io", "v1")
    assert split_api_version("v1") == ("", "v1")
    assert ("", "v1") in set(iter_group_versions())


def test_looking_up_names_imports_no_wire_module() -> None:
    code = (
        "import sys, claimsmith.api.kinds; print(any(name.startswith('claimsmith.api.wire') for name in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "False\n"
