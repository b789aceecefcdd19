"""Quotas on claims and on devices of classes as reasons."""

from __future__ import annotations

from claimsmith.allocate.explain.quota import QuotaGap, add_quotas, find_quota_gaps
from claimsmith.allocate.explain.report import format_explanation, format_note
from claimsmith.model.metadata import Metadata
from claimsmith.model.policy import QuotaScope, ResourceQuota
from claimsmith.testing.builders import alternatives, claim, device, node, quantities, request, slice_, sub
from tests.unit.allocate.explaining import why

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"
CLAIMS = "count/resourceclaims.resource.k8s.io"
OTHER = claim("other", request("r", count=3))


def quota(name: str = "team", *, namespace: str = "default", **hard: int) -> ResourceQuota:
    amounts = {"devices": DEVICES, "claims": CLAIMS}
    return ResourceQuota(
        metadata=Metadata(name=name, namespace=namespace),
        hard=quantities({amounts[key]: amount for key, amount in hard.items()}),
    )


def gaps(*quotas: ResourceQuota, count: int = 2) -> tuple[QuotaGap, ...]:
    return find_quota_gaps(quotas, [claim("c", request("r", count=count))], others=[OTHER])


def test_devices_of_a_class_are_counted_over_the_namespace() -> None:
    (gap,) = gaps(quota(devices=4))

    assert gap.reason.text == f"quota default/team: 3 of 4 {DEVICES} used, 2 more needed for claim default/c"


def test_what_just_fits_is_no_reason() -> None:
    assert gaps(quota(devices=5)) == ()


def test_claims_are_counted() -> None:
    (gap,) = gaps(quota(claims=1))

    assert (gap.resource, gap.used, gap.wanted) == (CLAIMS, 1000, 1000)


def test_other_namespaces_and_scopes_count_nothing() -> None:
    scoped = ResourceQuota(
        metadata=Metadata(name="scoped", namespace="default"),
        hard=quantities({CLAIMS: 0}),
        scopes=(QuotaScope(name="BestEffort"),),
    )

    assert gaps(quota(namespace="elsewhere", claims=0), scoped) == ()


def test_a_claim_that_is_there_already_is_not_counted_twice() -> None:
    wanted = claim("c", request("r", count=2))

    assert find_quota_gaps([quota(devices=5)], [wanted], others=[OTHER, wanted]) == ()


def test_of_alternatives_the_worst_counts() -> None:
    wanted = claim("c", alternatives("r", sub("one", count=1), sub("four", count=4)))

    assert find_quota_gaps([quota(devices=3)], [wanted], others=[])[0].wanted == 4000


def test_raising_the_quota_is_told_where_devices_would_do() -> None:
    wanted = claim("c", request("r", count=2))
    there = why(node("node-a"), slice_(device("a"), device("b")), wanted)
    found = add_quotas(there, gaps(quota(devices=4)))

    assert found.fixes[0].text == f"raise {DEVICES} of quota default/team to 5"
    assert (found.fixes[0].nodes, found.fixes[0].changes[0].value) == (("node-a",), {DEVICES: "5"})


def test_what_else_is_needed_is_told_with_it() -> None:
    wanted = claim("c", request("r", count=2))
    found = add_quotas(why(node("node-a"), slice_(device("a")), wanted), gaps(quota(devices=4)))

    assert [change.op for change in found.fixes[0].changes] == ["raise-quota", "set-count"]


def test_a_quota_is_told_first_and_for_all_nodes() -> None:
    there = why(node("node-a"), slice_(device("a")), claim("c", request("r", count=2)))
    found = add_quotas(there, gaps(quota(devices=4)))

    assert format_explanation(found).startswith("on any node:\n  claim default/c:\n    quota default/team: 3 of 4 ")
    assert format_note(found).startswith("0/1 nodes can serve the claims; claim default/c: quota default/team: ")
