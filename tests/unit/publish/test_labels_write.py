"""Only labels that claimsmith has set itself are changed or removed."""

from __future__ import annotations

from typing import Any

from claimsmith.publish.labels_write import LABEL_MANAGER, find_label_owners, plan_label_write

COUNT = "claimsmith.dev/gpu.count"


def node(labels: dict[str, str], **owned: str) -> dict[str, Any]:
    """Return a Node; each manager (`_` for `-`) owns the labels named in its text."""
    managed = [
        {"manager": manager.replace("_", "-"), "operation": "Apply",
         "fieldsV1": {"f:metadata": {"f:labels": {".": {}, **{f"f:{key}": {} for key in keys.split()}}}}}
        for manager, keys in owned.items()
    ]  # fmt: skip
    return {"metadata": {"name": "node-a", "uid": "u1", "labels": labels, "managedFields": managed}}


def test_new_labels_are_applied_to_that_very_node() -> None:
    plan = plan_label_write(node({"kubernetes.io/os": "linux"}), {COUNT: "2"})

    assert plan.body == {"metadata": {"name": "node-a", "uid": "u1", "labels": {COUNT: "2"}}}


def test_nothing_is_written_when_all_is_right() -> None:
    plan = plan_label_write(node({COUNT: "2"}, claimsmith_labels=COUNT), {COUNT: "2"})

    assert (plan.body, plan.added, plan.removed) == (None, (), ())


def test_labels_of_devices_that_are_gone_are_removed() -> None:
    plan = plan_label_write(node({COUNT: "2", "other": "1"}, claimsmith_labels=COUNT, kubectl="other"), {})

    assert plan.removed == (COUNT,)
    assert plan.body is not None
    assert plan.body["metadata"]["labels"] == {}


def test_a_label_that_somebody_else_has_set_is_left_alone() -> None:
    plan = plan_label_write(node({COUNT: "7"}, kubectl_label=COUNT), {COUNT: "2"})

    assert (plan.body, plan.left) == (None, {COUNT: "kubectl-label"})


def test_a_label_that_others_have_set_to_the_same_is_ours_too() -> None:
    plan = plan_label_write(node({COUNT: "2"}, kubectl_label=COUNT), {COUNT: "2"})

    assert plan.added == (COUNT,)


def test_force_takes_a_label_over() -> None:
    plan = plan_label_write(node({COUNT: "7"}, kubectl_label=COUNT), {COUNT: "2"}, force=True)

    assert (plan.added, plan.left) == ((COUNT,), {})


def test_owners_are_read_from_the_managed_fields() -> None:
    found = find_label_owners(node({COUNT: "2"}, claimsmith_labels=COUNT, kubectl=f"{COUNT} other"))

    assert found == {COUNT: {LABEL_MANAGER, "kubectl"}, "other": {"kubectl"}}
