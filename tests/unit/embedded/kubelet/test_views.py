from __future__ import annotations

from typing import Any

import pytest

from claimsmith.embedded.kubelet.views import PodClaimView, find_run_time_s, parse_duration_s, view_pod
from claimsmith.errors import PodStartError


def pod(*words: str, restart: str = "Never", **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "annotations": fields.get("annotations", {})},
        "spec": {"restartPolicy": restart, "containers": [{"name": "main", "command": list(words)}]},
        "status": fields.get("status", {}),
    }


def run_time_s(*words: str, restart: str = "Never", **annotations: str) -> float | None:
    named = {f"claimsmith.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    view = view_pod(pod(*words, restart=restart, annotations=named))
    return find_run_time_s(view, view.containers[0])


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        (["sleep", "2"], 2),
        (["/bin/sleep", "1.5"], 1.5),
        (["sleep", "3m"], 180),
        (["sh", "-c", "nvidia-smi; sleep 7 & wait"], 7),
        (["sleep", "infinity"], None),
        (["serve", "--sleepy", "3"], None),
        ([], None),
    ],
)
def test_the_command_says_how_long_a_container_runs(words: list[str], seconds: float | None) -> None:
    assert run_time_s(*words) == seconds


def test_the_annotation_wins_over_the_command() -> None:
    assert run_time_s("sleep", "100", run_for="2s") == 2


def test_a_pod_that_restarts_always_runs_until_it_is_deleted() -> None:
    assert run_time_s("sleep", "2", restart="Always") is None


@pytest.mark.parametrize(("text", "seconds"), [("2s", 2), ("1m30s", 90), ("500ms", 0.5), ("1.5h", 5400)])
def test_durations_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "2", "s", "2 s", "-1s", "1s later", "1e3s"])
def test_what_is_no_duration_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(PodStartError, match=r"claimsmith\.dev/run-for: found .*, allowed a duration such as 2s"):
        parse_duration_s(text)


def test_a_claim_of_a_template_is_known_by_the_status_of_the_pod() -> None:
    found = pod(status={"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "p-a-x1"}, {"name": "b"}]})
    found["spec"]["resourceClaims"] = [{"name": n, "resourceClaimTemplateName": "t"} for n in ("a", "b", "c")]

    assert view_pod(found).claims == (
        PodClaimView(pod_name="a", claim_name="p-a-x1", from_template=True),
        PodClaimView(pod_name="b", claim_name=None, from_template=True),
        PodClaimView(pod_name="c", claim_name=None, from_template=True, made=False),
    )


def test_a_pod_without_anything_is_viewed_with_the_apis_defaults() -> None:
    view = view_pod({})

    assert (view.phase, view.restart_policy, view.containers, view.claims) == ("Pending", "Always", (), ())
