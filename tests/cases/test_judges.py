"""The judges see what is wrong: a case with another result fails, and so does one that they don't understand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import scripts
from tests.cases.casefile import DATA
from tests.cases.judges import judge, list_gaps, sort_cases


def changed(folder: Path, name: str, old: str, new: str) -> Path:
    """Write a committed case with something else in it."""
    text = next(DATA.glob(f"{name}-*.yaml")).read_text(encoding="utf-8")
    assert old in text
    path = folder / f"{name}.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "old", "new", "difference"),
    [
        ("01", "[gpu.example.test/node-b/gpu-0]}]", "[gpu.example.test/node-b/gpu-1]}]", "right is one of"),
        ("01", "because: [gpu-0 in use", "because: [gpu-1 in use", "the explanation does not say"),
        ("01", "node-a: {outcome: pending", "node-a: {outcome: error", "right is error"),
        ("01", "scheduled-to: node-b", "scheduled-to: node-a", "on node-b, right is node-a"),
        ("01", "[worker-0, worker-1]", "[worker-1]", "is reserved for ['worker-0', 'worker-1']"),
        ("05", "{memory: 28Gi}", "{memory: 24Gi}", "consumed in all"),
        ("08", "[g/small]", "[g/big]", "request names ['g/small'], right is ['g/big']"),
        ("09", "results-carry-tolerations: [default/tolerant]", "usable-devices: 3", "2 usable devices, right is 3"),
        ("12", "{query: allocated mid-0}", "{query: pending}", "like upstream on node-a"),
        ("14", "requests: [c], devices: [dev-0]", "requests: [g], devices: [dev-1]", "requests ['c'], right is ['g']"),
        ("16", "devices: 10}", "devices: 9}", "10 results on 10 devices, right is 9"),
        ("16", "within: 2s, because", "within: 1ms, because", "steps, allowed 1"),
        ("17", 'want: "true", expr: \'device.driver', 'want: "false", expr: \'device.driver', "true, right is false"),
        ("23", "taints: {slices: 2", "taints: {slices: 3", "slices is 2, right is 3"),
        ("25", 'out: "10001:00:02.0"', 'out: "0001:00:02.0"', "right is '0001:00:02.0'"),
        ("48", "{injected: [MIG-s, MIG-m]}", "{injected: [MIG-s]}", "sees ['MIG-m', 'MIG-s'], right is ['MIG-s']"),
        ("48", "{injected: [], checked-by", "{injected: [gpu-0], checked-by", "sees [], right is ['gpu-0']"),
        ("50", "[version, quotes]", "[version, quotation]", "does not mention quotation"),
    ],
)
async def test_another_result_is_a_difference(tmp_path: Path, name: str, old: str, new: str, difference: str) -> None:
    differences = await judge(changed(tmp_path, name, old, new))

    assert difference in "\n".join(differences)


@pytest.mark.parametrize(
    ("name", "old", "new", "difference"),
    [
        ("22", "reserved-for-count: 255", "reserved-for-count: 256", "reserved for 255, right is 256"),
        ("22", "writes-at-most: 3", "writes-at-most: 1", "writes, allowed 1"),
        ("22", '{pod-pending: new-2, because: ["256"', '{pod-bound: new-2, because: ["512"', "new-2 has no node"),
        ("22", "- {do: delete-all-pods, using: wide}\n", "", "claim-gone: wide is there"),
        ("26", "- {do: discover-returns, devices: [gpu-0, gpu-1, gpu-2]}", "", "['gpu-0', 'gpu-1'], right is"),
        ("26", "per-event-at-most: 10", "per-event-at-most: 0", "writes after one event, allowed 0"),
        ("27", "- {do: damage, file: checkpoint, how: $damage}", "", "right is one CheckpointDamaged"),
        ("29", "minor: 3}, same", "minor: 0}, same", "device nodes"),
        ("30", "cdi-files: 0", "cdi-files: 1", "0, right is 1"),
        ("30", "checkpoint-claims: 1", "checkpoint-claims: 0", "1, right is 0"),
        ("32", "mentions: [gpu-0, u1]", "mentions: [gpu-0, u9]", "the error does not mention u9"),
        ("32", "each-round-succeeded: 1", "each-round-succeeded: 2", "{1}, right is {2}"),
    ],
)
async def test_a_state_that_is_not_reached_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str, difference: str
) -> None:
    monkeypatch.setattr(scripts, "TRIES", 100)

    differences = await judge(changed(tmp_path, name, old, new))
    assert difference in "\n".join(differences)


def test_a_script_with_an_unknown_action_or_state_is_named_and_not_judged(tmp_path: Path) -> None:
    changed(tmp_path, "26", "do: kubelet.restart", "do: kubelet.dance")
    changed(tmp_path, "32", "prepare-ok: true", "happy: true")
    changed(tmp_path, "30", "the API answers 500", "the API sings")
    judged, others = sort_cases(tmp_path)

    assert judged == []
    assert others == {
        "26": "no stage knows action kubelet.dance",
        "30": "no stage knows variant 'the API sings during the periodic pass'",
        "32": "no stage knows state happy",
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [("kind: allocate", "kind: allocate\nhopes: []"), ("outcome: pending,", "outcome: pending, hopes: 1,")],
)
async def test_a_field_that_no_judge_reads_is_a_difference(tmp_path: Path, old: str, new: str) -> None:
    (difference,) = await judge(changed(tmp_path, "01", old, new))

    assert difference.startswith("not understood: hopes")


async def test_a_file_that_is_no_case_is_judged_and_fails(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("case: [", encoding="utf-8")
    judged, others = sort_cases(tmp_path)

    assert (judged, others) == ([path], {})
    assert "not understood" in (await judge(path))[0]


def test_parts_of_a_case_that_nothing_can_judge_are_named() -> None:
    judged, _ = sort_cases(DATA)

    assert list_gaps(judged) == {
        "48-what-the-container-really-sees": ["container one: env needs the driver for NVIDIA cards"],
    }


def test_a_case_of_an_unknown_kind_is_named_and_not_judged(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("case: odd\nkind: dance\n", encoding="utf-8")

    assert sort_cases(tmp_path) == ([], {"odd": "no judge for kind dance"})
