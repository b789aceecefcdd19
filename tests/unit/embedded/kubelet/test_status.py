from __future__ import annotations

from typing import Any

from claimsmith.embedded.kubelet.status import ended_status, format_time, running_status, waiting_status
from claimsmith.embedded.kubelet.views import PodView, view_pod

NOW, LATER = "2027-01-15T08:00:00Z", "2027-01-15T08:00:09Z"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2027-01-15T07:00:00Z"}


def pod(**status: Any) -> PodView:
    spec = {
        "containers": [{"name": "main", "image": "i"}],
        "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
    }
    return view_pod({"metadata": {"name": "p"}, "spec": spec, "status": {"conditions": [SCHEDULED], **status}})


def running(view: PodView, now: str = NOW) -> dict[str, Any]:
    return running_status(view, pod_ip="10.244.0.2", host_ip="10.0.0.1", now=now, restarts={"main": 3})


def test_times_are_whole_seconds_in_utc() -> None:
    assert format_time(1_800_000_000.9) == NOW


def test_conditions_of_others_stay_in_the_list() -> None:
    assert running(pod())["conditions"][0] == SCHEDULED


def test_a_condition_keeps_its_time_while_its_status_is_the_same() -> None:
    first = running(pod())
    second = running(pod(conditions=first["conditions"]), LATER)

    assert second["conditions"] == first["conditions"]


def test_a_condition_that_changes_gets_the_time() -> None:
    first = running(pod())
    ended = ended_status(pod(conditions=first["conditions"]), exit_code=0, started=NOW, now=LATER)
    ready = next(c for c in ended["conditions"] if c["type"] == "Ready")

    assert ready == {"type": "Ready", "status": "False", "lastTransitionTime": LATER, "reason": "PodCompleted"}


def test_init_containers_have_ended_but_for_sidecars() -> None:
    states = [status["state"] for status in running(pod())["initContainerStatuses"]]

    assert [list(state) for state in states] == [["terminated"], ["running"]]


def test_restarts_are_counted_per_container() -> None:
    assert running(pod())["containerStatuses"][0]["restartCount"] == 3


def test_an_exit_code_other_than_0_fails_the_pod() -> None:
    status = ended_status(pod(), exit_code=7, started=NOW, now=LATER)
    terminated = status["containerStatuses"][0]["state"]["terminated"]

    assert status["phase"] == "Failed"
    assert terminated == {"exitCode": 7, "reason": "Error", "startedAt": NOW, "finishedAt": LATER}


def test_a_pod_that_waits_says_what_for() -> None:
    status = waiting_status(pod(), "ContainerCreating", "", host_ip="10.0.0.1", now=NOW)

    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert status["phase"] == "Pending"
