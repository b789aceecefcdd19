from __future__ import annotations

from claimsmith.cluster.build import ClusterObject, build_snapshot
from claimsmith.model.names import ClaimRef, PodRef
from claimsmith.testing.builders import allocated, claim, gpu, klass, node, pod, slice_, taint, taint_rule, template


def test_objects_of_all_kinds_find_their_places() -> None:
    rule = taint_rule(taint=taint())
    objects: list[ClusterObject] = [
        pod("p"),
        template("t"),
        claim("c"),
        klass("k"),
        slice_(gpu("gpu-0")),
        node("n"),
        rule,
    ]

    snapshot = build_snapshot(objects, resource_version="7")

    assert set(snapshot.pods) == {PodRef("default", "p")}
    assert set(snapshot.templates) == {ClaimRef("default", "t")}
    assert set(snapshot.claims) == {ClaimRef("default", "c")}
    assert (set(snapshot.classes), set(snapshot.nodes)) == ({"k"}, {"n"})
    assert ([item.name for item in snapshot.slices], snapshot.taint_rules) == (["slice-0"], (rule,))
    assert snapshot.resource_version == "7"


def test_slices_are_ordered_by_the_bytes_of_their_names() -> None:
    snapshot = build_snapshot(slice_(gpu("gpu-0"), name=name) for name in ("b", "a-2", "a", "B"))

    assert [item.name for item in snapshot.slices] == ["B", "a", "a-2", "b"]


def test_of_two_objects_of_one_name_the_later_counts() -> None:
    snapshot = build_snapshot([claim("c"), allocated(claim("c"), "gpu-0")])

    assert len(snapshot.allocated_claims()) == 1
