from __future__ import annotations

from dataclasses import replace

from claimsmith.model.claim import ResourceClaim
from claimsmith.model.workload import Container, ExtendedResourceMapping, Pod
from claimsmith.schedule.extended import (
    SpecialClaims,
    find_claim_reasons,
    find_extended_names,
    is_extended_claim,
    plan_class_names,
    plan_extended,
)
from claimsmith.testing.builders import klass, node, pod, quantities

GPU = "vendor.example/gpu"
NIC = "vendor.example/nic"


def container(name: str, *, restart_policy: str = "", **amounts: int) -> Container:
    limits = quantities({{"gpu": GPU, "nic": NIC}.get(key, key): amount for key, amount in amounts.items()})
    return Container(name=name, limits=limits, requests=limits, restart_policy=restart_policy)


def wanting(*containers: Container, init: tuple[Container, ...] = ()) -> Pod:
    return Pod(metadata=pod("p").metadata, containers=containers, init_containers=init)


def requests_of(wanted: Pod, **class_of: str) -> dict[str, tuple[str, int]]:
    names = {GPU: class_of.get("gpu", "gpus"), NIC: class_of.get("nic", "nics")}
    plan = plan_extended(wanted, node(), names)
    assert plan.claim is not None
    return {
        request.name: (request.exactly.device_class, request.exactly.count)
        for request in plan.claim.spec.requests
        if request.exactly is not None
    }


def mapped(wanted: Pod) -> list[tuple[str, str]]:
    plan = plan_extended(wanted, node(), {GPU: "gpus", NIC: "nics"})
    return [(mapping.container, mapping.request) for mapping in plan.mappings]


def test_one_container_becomes_one_request_of_the_class() -> None:
    assert requests_of(wanting(container("main", gpu=2))) == {"container-0-request-0": ("gpus", 2)}


def test_the_request_number_is_the_place_of_the_resource_among_all_of_the_container() -> None:
    assert list(requests_of(wanting(container("main", cpu=1, gpu=1)))) == ["container-0-request-1"]


def test_the_mapping_names_container_resource_and_request() -> None:
    plan = plan_extended(wanting(container("main", gpu=1)), node(), {GPU: "gpus"})

    assert plan.mappings == (ExtendedResourceMapping(container="main", resource=GPU, request="container-0-request-0"),)


def test_a_node_that_offers_the_resource_itself_needs_no_claim() -> None:
    plan = plan_extended(wanting(container("main", gpu=1)), node(allocatable={GPU: 4}), {GPU: "gpus"})

    assert (plan.claim, plan.unknown) == (None, ())


def test_a_node_whose_plugin_lost_all_devices_is_served_by_a_claim() -> None:
    plan = plan_extended(wanting(container("main", gpu=1)), node(allocatable={GPU: 0}), {GPU: "gpus"})

    assert plan.claim is not None


def test_a_resource_that_nobody_offers_is_unknown() -> None:
    assert plan_extended(wanting(container("main", gpu=1)), node(), {}).unknown == (GPU,)


def test_every_container_and_resource_has_a_request_of_its_own() -> None:
    wanted = wanting(container("a", gpu=1, nic=2), container("b", gpu=3))

    assert requests_of(wanted) == {
        "container-0-request-0": ("gpus", 1),
        "container-0-request-1": ("nics", 2),
        "container-1-request-0": ("gpus", 3),
    }


def test_an_init_container_that_ends_uses_the_devices_of_later_containers() -> None:
    wanted = wanting(container("main", gpu=2), init=(container("setup", gpu=1),))

    assert requests_of(wanted) == {"container-1-request-0": ("gpus", 2)}
    assert mapped(wanted) == [("main", "container-1-request-0"), ("setup", "container-1-request-0")]


def test_init_containers_share_the_largest_surplus() -> None:
    wanted = wanting(container("main", gpu=1), init=(container("small", gpu=2), container("large", gpu=4)))

    assert requests_of(wanted) == {"container-1-request-0": ("gpus", 3), "container-2-request-0": ("gpus", 1)}
    assert mapped(wanted) == [
        ("main", "container-2-request-0"),
        ("small", "container-2-request-0"),
        ("small", "container-1-request-0"),
        ("large", "container-2-request-0"),
        ("large", "container-1-request-0"),
    ]


def test_a_sidecar_keeps_its_devices() -> None:
    wanted = wanting(container("main", gpu=1), init=(container("side", gpu=1, restart_policy="Always"),))

    assert list(requests_of(wanted)) == ["container-0-request-0", "container-1-request-0"]


def test_the_claim_belongs_to_the_pod_and_is_known_as_special() -> None:
    wanted = wanting(container("main", gpu=1))
    claim = plan_extended(wanted, node(), {GPU: "gpus"}).claim

    assert claim is not None
    assert claim.metadata.generate_name == "p-extended-resources-"
    assert is_extended_claim(claim, wanted)


def test_native_resources_and_zero_amounts_are_no_extended_resources() -> None:
    native = quantities({"cpu": 1, "hugepages-2Mi": 1, "kubernetes.io/thing": 1, GPU: 0})
    wanted = wanting(Container(name="main", requests=native))

    assert find_extended_names(wanted) == ()


def test_a_class_serves_its_explicit_and_its_implicit_name() -> None:
    names = plan_class_names([klass("gpus", extended_resource_name=GPU)])

    assert names == {GPU: "gpus", "deviceclass.resource.kubernetes.io/gpus": "gpus"}


def test_of_two_classes_the_younger_one_serves_a_name() -> None:
    old = klass("z-old", extended_resource_name=GPU, creation_timestamp="2030-01-01T00:00:00Z")
    new = klass("a-new", extended_resource_name=GPU, creation_timestamp="2030-01-02T00:00:00Z")

    assert plan_class_names([new, old])[GPU] == "a-new"


def test_of_two_classes_of_one_age_the_first_by_name_serves_a_name() -> None:
    both = [klass(name, extended_resource_name=GPU) for name in ("b", "a", "c")]

    assert plan_class_names(both)[GPU] == "a"


def left_claim(wanted: Pod, name: str = "left") -> ResourceClaim:
    planned = plan_extended(wanted, node(), {GPU: "gpus"}).claim
    assert planned is not None
    return replace(planned, metadata=replace(planned.metadata, name=name))


def texts(wanted: Pod, present: ResourceClaim | None, **allocatable: int) -> list[str]:
    offered = node(allocatable={GPU: allocatable.get("gpu", 0)})
    plan = plan_extended(wanted, offered, {GPU: "gpus"})
    return [reason.text for reason in find_claim_reasons(wanted, plan, present, "node")]


def test_a_claim_of_an_earlier_attempt_that_asks_for_the_same_can_be_used() -> None:
    wanted = wanting(container("main", gpu=1))

    assert texts(wanted, left_claim(wanted)) == []


def test_a_claim_of_an_earlier_attempt_that_asks_for_something_else_is_in_the_way() -> None:
    present = left_claim(wanting(container("main", gpu=2)))

    assert "asks for something else" in texts(wanting(container("main", gpu=1)), present)[0]


def test_a_claim_of_an_earlier_attempt_is_in_the_way_where_a_plugin_serves_the_pod() -> None:
    wanted = wanting(container("main", gpu=1))

    assert "asks for something else" in texts(wanted, left_claim(wanted), gpu=4)[0]


def test_a_pod_whose_status_names_a_claim_can_not_be_served_by_a_plugin() -> None:
    wanted = replace(wanting(container("main", gpu=1)), extended_claim_name="gone")

    assert texts(wanted, None, gpu=4) == ["the pod's status names the claim 'gone', which this node does not need"]


def test_the_special_claim_that_the_status_names_is_found_first() -> None:
    wanted = replace(wanting(container("main", gpu=1)), extended_claim_name="second")
    index = SpecialClaims()
    for name in ("first", "second"):
        index.see_claim(None, left_claim(wanted, name))
    found = index.find(wanted)

    assert found is not None
    assert found.ref.name == "second"


def test_a_special_claim_that_is_gone_is_not_found() -> None:
    wanted = wanting(container("main", gpu=1))
    index, present = SpecialClaims(), left_claim(wanted)
    index.see_claim(None, present)
    index.see_claim(present, None)

    assert index.find(wanted) is None
