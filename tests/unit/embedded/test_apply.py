"""Server-side apply: who owns which field, and what follows from it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from claimsmith.api.kinds import POD, RESOURCE_CLAIM
from claimsmith.embedded.api.apply import Applier, apply_config
from claimsmith.embedded.api.defaults import fill_defaults
from claimsmith.embedded.api.managers import Owner, keep_times, read_owners, track_update, write_owners
from claimsmith.embedded.api.served import ServedKind, get_kind
from claimsmith.errors import RequestError

PODS = get_kind(POD)
CLAIMS = get_kind(RESOURCE_CLAIM)
TIME = "2030-01-01T12:00:00Z"


def pod(*containers: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "web", "namespace": "default"}
    if labels:
        metadata["labels"] = labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers), **spec},
    }


def owner(manager: str, operation: str = "Apply") -> Owner:
    return Owner(manager=manager, operation=operation, api_version="v1", fields={}, time=TIME)


def apply(
    live: dict[str, Any],
    config: dict[str, Any],
    *,
    manager: str = "me",
    force: bool = False,
    served: ServedKind = PODS,
) -> dict[str, Any]:
    def complete(value: dict[str, Any]) -> None:
        fill_defaults(served.kind.plural, value, now=TIME)

    applier = Applier(shape=served.shape, owner=owner(manager), complete=complete, force=force)
    return apply_config(live, config, applier)


def create(config: dict[str, Any], **options: Any) -> dict[str, Any]:
    return apply({"metadata": {}}, config, **options)


def update(live: dict[str, Any], new: dict[str, Any], *, manager: str = "editor") -> dict[str, Any]:
    new = copy.deepcopy(new)
    new["metadata"]["managedFields"] = copy.deepcopy(live["metadata"].get("managedFields"))
    track_update(live, new, PODS.shape, owner(manager, "Update"))
    return new


def without_owners(value: dict[str, Any]) -> dict[str, Any]:
    value = copy.deepcopy(value)
    value["metadata"].pop("managedFields", None)
    return value


def fields_of(value: dict[str, Any], manager: str) -> dict[str, Any]:
    return next((found.fields for found in read_owners(value) if found.manager == manager), {})


def test_the_first_apply_owns_what_it_sets() -> None:
    created = create(pod({"name": "c", "image": "one"}, labels={"a": "1"}))

    assert fields_of(created, "me") == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}, "f:image": {}}}},
    }


def test_a_field_left_out_of_the_next_apply_is_removed() -> None:
    live = create(pod({"name": "c", "image": "one"}, labels={"a": "1", "b": "2"}))
    applied = apply(live, pod({"name": "c", "image": "one"}, labels={"a": "1"}))

    assert applied["metadata"]["labels"] == {"a": "1"}


def test_an_element_left_out_of_the_next_apply_is_removed() -> None:
    live = create(pod({"name": "c"}, {"name": "d"}))

    assert apply(live, pod({"name": "c"}))["spec"]["containers"] == [{"name": "c"}]


def test_what_others_own_too_stays_when_one_leaves_it_out() -> None:
    live = create(pod({"name": "c"}, labels={"a": "1"}))
    live = apply(live, pod({"name": "c"}, labels={"a": "1"}), manager="other")
    applied = apply(live, pod({"name": "c"}))

    assert applied["metadata"]["labels"] == {"a": "1"}
    assert "f:labels" not in fields_of(applied, "me").get("f:metadata", {})


def test_what_nobody_applied_stays() -> None:
    live = create(pod({"name": "c"}))
    live["spec"]["nodeName"] = "node-1"
    applied = apply(live, pod({"name": "c"}, priority=1))

    assert (applied["spec"]["nodeName"], applied["spec"]["priority"]) == ("node-1", 1)


def test_two_appliers_of_different_fields_do_not_conflict() -> None:
    live = create(pod({"name": "c"}, labels={"a": "1"}))
    applied = apply(live, pod({"name": "d"}, labels={"b": "2"}), manager="other")

    assert applied["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert [found["name"] for found in applied["spec"]["containers"]] == ["c", "d"]


def test_two_appliers_of_the_same_value_share_it() -> None:
    live = create(pod({"name": "c", "image": "one"}))
    applied = apply(live, pod({"name": "c", "image": "one"}), manager="other")

    assert fields_of(applied, "me") == fields_of(applied, "other")


def test_a_change_of_what_another_owns_conflicts() -> None:
    live = create(pod({"name": "c", "image": "one"}))

    with pytest.raises(RequestError, match="Apply failed with 1 conflict") as caught:
        apply(live, pod({"name": "c", "image": "two"}), manager="other")
    assert caught.value.status == 409
    assert caught.value.details["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "me"',
            "field": '.spec.containers[name="c"].image',
        }
    ]


def test_force_takes_the_field_over() -> None:
    live = create(pod({"name": "c", "image": "one"}))
    applied = apply(live, pod({"name": "c", "image": "two"}), manager="other", force=True)

    assert applied["spec"]["containers"] == [{"name": "c", "image": "two"}]
    assert fields_of(applied, "me")["f:spec"]["f:containers"]['k:{"name":"c"}'] == {".": {}, "f:name": {}}


def test_a_conflict_with_an_edit_names_the_editor() -> None:
    live = create(pod({"name": "c", "image": "one"}))
    live = update(live, pod({"name": "c", "image": "edited"}))

    with pytest.raises(RequestError, match='conflict with "editor" using v1:'):
        apply(live, pod({"name": "c", "image": "one"}))


def test_what_was_there_before_the_first_apply_has_an_owner_too() -> None:
    live = pod({"name": "c", "image": "one"})
    live["metadata"] |= {"uid": "u", "creationTimestamp": TIME}

    with pytest.raises(RequestError, match='conflict with "before-first-apply"'):
        apply(live, pod({"name": "c", "image": "two"}))


def test_an_apply_that_changes_nothing_keeps_everything() -> None:
    live = create(pod({"name": "c", "image": "one"}, labels={"a": "1"}))
    applier = Applier(
        shape=PODS.shape,
        owner=Owner(manager="me", operation="Apply", api_version="v1", fields={}, time="2031-01-01T00:00:00Z"),
        complete=lambda value: None,
    )

    assert apply_config(live, pod({"name": "c", "image": "one"}, labels={"a": "1"}), applier) == live


def test_elements_are_told_apart_by_all_their_keys_with_defaults() -> None:
    live = create(pod({"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}]}))
    applied = apply(live, pod({"name": "c", "ports": [{"containerPort": 80, "name": "http"}]}), force=True)

    assert applied["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "http"}]


def test_an_atomic_list_is_owned_as_a_whole() -> None:
    live = create(pod({"name": "c", "command": ["a", "b"]}))

    with pytest.raises(RequestError, match=r"command"):
        apply(live, pod({"name": "c", "command": ["a"]}), manager="other")


def test_defaults_inside_an_atomic_list_are_no_conflict() -> None:
    def claim() -> dict[str, Any]:
        return {
            "metadata": {"name": "gpu"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        }

    live = create(claim(), served=CLAIMS)
    fill_defaults("resourceclaims", live, now=TIME)

    assert apply(live, claim(), manager="other", served=CLAIMS)["spec"] == claim()["spec"]


def test_an_update_takes_over_what_it_changes() -> None:
    live = create(pod({"name": "c", "image": "one"}, labels={"a": "1"}))
    edited = update(live, pod({"name": "c", "image": "two"}, labels={"a": "1"}))

    assert fields_of(edited, "editor") == {"f:spec": {"f:containers": {'k:{"name":"c"}': {"f:image": {}}}}}
    assert "f:image" not in fields_of(edited, "me")["f:spec"]["f:containers"]['k:{"name":"c"}']


def test_what_an_update_removes_is_owned_by_nobody() -> None:
    live = create(pod({"name": "c"}, labels={"a": "1", "b": "2"}))
    edited = update(live, pod({"name": "c"}, labels={"a": "1"}))

    assert fields_of(edited, "me")["f:metadata"] == {"f:labels": {"f:a": {}}}
    assert fields_of(edited, "editor") == {}


def test_conflicts_with_several_owners_are_listed_by_owner() -> None:
    live = create(pod({"name": "c", "image": "one"}, labels={"a": "1"}))

    with pytest.raises(RequestError, match="Apply failed with 2 conflicts") as caught:
        apply(live, pod({"name": "c", "image": "two"}, labels={"a": "2"}), manager="other")
    assert caught.value.message.endswith(
        'conflicts with "me":\n- .metadata.labels.a\n- .spec.containers[name="c"].image'
    )


def test_applying_leaves_its_inputs_alone() -> None:
    live, config = create(pod({"name": "c"}, labels={"a": "1"})), pod({"name": "c", "image": "x"})
    before = copy.deepcopy((live, config))
    apply(live, config)

    assert without_owners(live) == without_owners(before[0])
    assert config == before[1]


def test_an_object_owned_as_such_stays_while_the_applier_sets_fields_of_it() -> None:
    live = create(pod(labels={"a": "1"}))
    entry = live["metadata"]["managedFields"][0]
    entry["fieldsV1"]["f:metadata"]["f:labels"]["."] = {}
    entry["fieldsV1"]["f:spec"]["."] = {}
    merged = apply(live, pod(labels={"b": "2"}))

    assert merged["metadata"]["labels"] == {"b": "2"}
    assert merged["spec"] == {"containers": []}


def test_an_apply_that_changes_nothing_keeps_all_times_also_where_they_give_another_order() -> None:
    first = Owner(manager="a", operation="Apply", api_version="v1", fields={"f:spec": {}}, time="2030-01-01T12:00:01Z")
    second = Owner(manager="b", operation="Apply", api_version="v1", fields={"f:status": {}}, time=TIME)
    old: dict[str, Any] = {"metadata": {"name": "web"}}
    write_owners(old, [first, second])
    new: dict[str, Any] = {"metadata": {"name": "web"}}
    second.time = "2030-01-01T12:00:02Z"
    write_owners(new, [first, second])
    keep_times(new, old)

    assert new == old
