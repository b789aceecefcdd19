"""`claimsmith demo`: a process of its own, as after an installation."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.cli_process import Ran, run_claimsmith, start_claimsmith

Value = dict[str, Any]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """What one run printed, and the folder in which it kept its files."""
    temporary = tmp_path_factory.mktemp("demo")
    return run_claimsmith("demo", "-o", "json", temporary=temporary), temporary


@pytest.fixture(scope="module")
def result(shown: tuple[Ran, Path]) -> Value:
    value: Value = json.loads(shown[0].out)
    return value


def ran_on(value: Value, pod: str) -> tuple[str, list[str]]:
    """Return node and devices of a pod."""
    (found,) = [item for item in value["pods"] if item["pod"] == f"default/{pod}"]
    return found["node"], found["devices"]


def env_of(value: Value, pod: str) -> dict[str, str]:
    """Return the variables that devices brought to the container of a pod."""
    (found,) = [item for item in value["pods"] if item["pod"] == f"default/{pod}"]
    return dict(line.split("=", 1) for line in found["env"])


def facts(value: Value, step: int) -> list[tuple[str, str]]:
    """Return what a step has shown: what happened, and to which pod or device."""
    return [
        (fact["what"], fact.get("pod") or ",".join(fact.get("devices", ()))) for fact in value["steps"][step]["facts"]
    ]


def reason(value: Value, step: int, pod: str) -> str:
    """Return why a pod had to wait in a step."""
    (found,) = [f["reason"] for f in value["steps"][step]["facts"] if f["what"] == "waits" and f["pod"] == pod]
    return str(found)


def test_it_ends_by_itself_with_nothing_to_say_but_the_result(shown: tuple[Ran, Path]) -> None:
    ran, _ = shown

    assert (ran.code, ran.err) == (0, "")


def test_it_leaves_no_folder_and_no_socket(shown: tuple[Ran, Path]) -> None:
    _, temporary = shown

    assert list(temporary.iterdir()) == []


def test_it_has_eight_steps(result: Value) -> None:
    assert len(result["steps"]) == 8


def test_more_than_10_gib_waits_for_the_only_card_that_has_it(result: Value) -> None:
    assert facts(result, 0) == [("runs", "train-0"), ("waits", "train-1"), ("runs", "train-1")]
    assert ran_on(result, "train-0") == ran_on(result, "train-1") == ("mixed", ["mixed/gpu-12"])
    why = reason(result, 0, "train-1")
    assert "gpu-12 in use by default/train-0-gpu-" in why
    assert 'memory.isGreaterThan(quantity("10Gi")) is false' in why


def test_a_card_is_cut_into_partitions_that_do_not_overlap(result: Value) -> None:
    assert [ran_on(result, f"infer-{number}") for number in range(4)] == [
        ("mig", ["mig/gpu-0-mig-3g20gb-4"]),
        ("mig", ["mig/gpu-0-mig-2g10gb-0"]),
        ("mig", ["mig/gpu-0-mig-1g5gb-2"]),
        ("mig", ["mig/gpu-0-mig-1g5gb-3"]),
    ]


def test_the_first_gets_the_large_card_and_the_second_two_small_ones(result: Value) -> None:
    assert ran_on(result, "tune-0") == ("big", ["big/gpu-0"])
    assert ran_on(result, "tune-1") == ("big", ["big/gpu-1", "big/gpu-2"])


def test_bandwidth_is_shared_until_it_is_full(result: Value) -> None:
    streams = [item for item in result["pods"] if item["pod"].startswith("default/stream-")]

    assert len(streams) == 20
    assert {tuple(item["devices"]) for item in streams} == {("net/nic-0 (bandwidth 2G)",)}
    assert "nic-0 in use by default/stream-" in reason(result, 3, "stream-20")
    assert "(2G of 40G bandwidth each)" in reason(result, 3, "stream-20")


def test_two_pods_share_one_claim(result: Value) -> None:
    assert ran_on(result, "left") == ran_on(result, "right") == ("spare", ["spare/gpu-0"])


def test_a_failed_card_is_tainted_and_comes_back(result: Value) -> None:
    assert facts(result, 5) == [
        ("runs", "steady"),
        ("fails", "gpu.example.com/spare/h100-1"),
        ("waits", "late"),
        ("runs", "late"),
    ]
    assert "h100-1 tainted claimsmith.dev/unhealthy=xid-79:NoSchedule" in reason(result, 5, "late")
    assert ran_on(result, "late") == ("spare", ["spare/h100-1"])


def test_a_counted_gpu_is_one_of_its_class(result: Value) -> None:
    assert ran_on(result, "vector-add") == ("spare", ["spare/gpu-3"])


def test_a_gang_gets_the_halves_where_the_whole_would_starve_it(result: Value) -> None:
    assert facts(result, 7) == [("starves", "pair"), ("runs", "pair-0"), ("runs", "pair-1")]
    assert sorted(ran_on(result, f"pair-{number}") for number in range(2)) == [
        ("big", ["big/half-1"]),
        ("big", ["big/half-2"]),
    ]
    why = result["steps"][7]["facts"][0]["reason"]
    assert why.startswith("pod group default/pair: 1 of at least 2 pods fit together; then pod pair-1: ")
    assert "whole in use by the other pods of the gang" in why


def test_containers_see_the_devices_of_their_claims_alone(result: Value) -> None:
    share = env_of(result, "stream-07")
    assert share.pop("CLAIMSMITH_NIC_0_SHARE_ID") != env_of(result, "stream-08")["CLAIMSMITH_NIC_0_SHARE_ID"]
    assert share == {
        "CLAIMSMITH_VISIBLE_DEVICES": "eth0",
        "CLAIMSMITH_NIC_0": "eth0",
        "CLAIMSMITH_NIC_0_BANDWIDTH": "2G",
    }
    assert list(env_of(result, "tune-1")) == ["CLAIMSMITH_VISIBLE_DEVICES", "CLAIMSMITH_GPU_1", "CLAIMSMITH_GPU_2"]
    assert env_of(result, "left") == env_of(result, "right")
    assert list(env_of(result, "vector-add")) == ["CLAIMSMITH_VISIBLE_DEVICES", "CLAIMSMITH_GPU_3"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_without_traces(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = start_claimsmith("demo", temporary=tmp_path)
    assert process.stderr is not None
    first = process.stderr.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=200)

    assert first.startswith(b"1. ")
    assert (process.returncode, out) == (code, b"")
    assert b"Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_the_table_fits_into_80_columns_and_counts_at_its_end(tmp_path: Path) -> None:
    ran = run_claimsmith("demo", temporary=tmp_path, COLUMNS="80")
    lines = ran.out.splitlines()

    assert max(map(len, lines)) <= 80
    assert any(line.split()[:2] == ["stream-00…19", "net"] for line in lines)
    assert lines[-1].startswith("8 steps, 35 pods ran, 1 still waits, ")


def test_log_lines_are_shown_when_asked_for(tmp_path: Path) -> None:
    ran = run_claimsmith("demo", "-v", "-o", "json", temporary=tmp_path)

    assert re.search(r"WARNING claimsmith\.publish: Device has failed: xid-79: .* device=\S+/spare/h100-1", ran.err)
    assert len(json.loads(ran.out)["steps"]) == 8
