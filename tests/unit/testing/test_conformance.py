"""The runner of recorded cases: what agrees, what differs on purpose, what can't be judged, and what is no record."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from claimsmith.errors import FieldError, InputError
from claimsmith.model.claim import AllocationResult, DeviceResult
from claimsmith.model.decision import Allocation, Decision, Pending, Refused, Undecided
from claimsmith.model.deviations import LIKE_UPSTREAM, OURS, Deviation
from claimsmith.testing.conformance import run_file
from claimsmith.testing.conformance.compare import Expectation, compare_exactly, compare_verdict
from claimsmith.testing.conformance.deviations import find_reasons
from claimsmith.testing.conformance.errorkinds import find_error_kind
from claimsmith.testing.conformance.records import parse_features, parse_problem

Json = dict[str, Any]
REFUSED = Refused(kind="limit", text="33 devices", node_only=True)


def problem(*devices: str, selector: str = "true", **fields: Any) -> Json:
    """A record: one device is asked for, on one node."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    exactly = {
        "deviceClassName": "any",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": selector}}],
    }
    spec = {"driver": "d.example", "nodeName": "a", "pool": pool, "devices": [{"name": name} for name in devices]}
    return {
        "name": "case",
        "node": {"metadata": {"name": "a"}},
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": [{"metadata": {"name": "s"}, "spec": spec}],
        "claims": [
            {
                "metadata": {"name": "c", "namespace": "n"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
            }
        ],
        **fields,
    }


def answered(record: Json, *, impl: str = "incubating", **answer: Any) -> Json:
    return {**record, "upstream": {"impl": impl, "results": [{"node": "a", **answer}]}}


def write(folder: Path, *records: Json) -> Path:
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def got(device: str) -> list[Json]:
    results = [{"request": "r", "driver": "d.example", "pool": "p", "device": device}]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    return [{"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}]


@pytest.mark.parametrize(("device", "differing"), [("one", 0), ("two", 1)])
def test_another_device_than_upstreams_is_a_difference_in_both_modes(
    tmp_path: Path, device: str, differing: int
) -> None:
    path = write(tmp_path, answered(problem("one", "two"), verdict="feasible", allocation=got(device)))

    assert [len(run_file(path, like_upstream=exact).differing) for exact in (False, True)] == [differing] * 2


def test_devices_are_not_compared_where_upstream_walks_pools_at_random(tmp_path: Path) -> None:
    record = problem("one", features="stable")
    second = json.loads(json.dumps(record["slices"][0]).replace('"p"', '"q"').replace('"s"', '"t"'))
    record["slices"].append(second)
    elsewhere = json.loads(json.dumps(got("one")).replace('"p"', '"q"'))
    path = write(tmp_path, answered(record, impl="stable", verdict="feasible", allocation=elsewhere))

    assert run_file(path, like_upstream=True).agreeing == ("case",)


def test_an_allocation_that_breaks_a_rule_is_a_difference_whatever_upstream_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = AllocationResult(results=(DeviceResult(request="r", driver="d.example", pool="p", device="nowhere"),))
    monkeypatch.setattr(
        "claimsmith.testing.conformance.allocator.allocate", lambda *_, **__: Allocation(node="a", results=(taken,))
    )
    report = run_file(write(tmp_path, answered(problem("one"), verdict="feasible")))

    assert report.outcomes[0].differences[0].startswith("a: not valid: n/c d.example/p/nowhere: device:")


def test_what_differs_on_purpose_names_the_deviation(tmp_path: Path) -> None:
    failing = problem("one", selector='device.attributes["d.example"].missing == 1')
    path = write(tmp_path, answered(failing, verdict="error", errorKind="cel-runtime"))
    report = run_file(path)

    assert [str(reason) for outcome in report.deviating for reason in outcome.deviations] == [
        "a: infeasible, upstream: error cel-runtime [selector-error: An expression that fails on one device]"
    ]
    assert (report.agreeing, report.differing) == (("case",), ())


def test_a_truth_that_is_known_counts_more_than_upstreams_answer(tmp_path: Path) -> None:
    wrong = answered(problem("one", meta={"truth": "infeasible"}), verdict="feasible")

    assert len(run_file(write(tmp_path, wrong)).differing) == 1
    assert run_file(write(tmp_path, wrong), like_upstream=True).differing == ()


def test_a_case_that_upstream_did_not_finish_must_end(tmp_path: Path) -> None:
    report = run_file(write(tmp_path, answered(problem("one"), verdict="timeout")))

    assert [reason.deviation for outcome in report.deviating for reason in outcome.deviations] == ["unfinished"]


@pytest.mark.parametrize(
    ("expected", "decision", "agrees"),
    [
        (Expectation(verdict="feasible"), Allocation(node="a", results=()), True),
        (Expectation(verdict="feasible"), Pending(node="a"), False),
        (Expectation(verdict="infeasible"), Pending(node="a"), True),
        (Expectation(verdict="infeasible"), Undecided(node="a"), False),
        (Expectation(verdict="error", error_kind="limit"), REFUSED, True),
        (Expectation(verdict="error", error_kind="no-class"), REFUSED, False),
        (Expectation(verdict="error", error_kind="limit", node_only=False), REFUSED, False),
        (Expectation(verdict="error", error_kind="limit", node_only=True), REFUSED, True),
        (Expectation(verdict="error"), Pending(node="a"), False),
    ],
)
def test_verdicts_agree_in_kind_and_reach(expected: Expectation, decision: Decision, agrees: bool) -> None:
    assert (compare_verdict(expected, decision) == []) is agrees
    assert (compare_exactly(expected, decision) == []) is agrees


def test_the_reasons_are_the_fewest_without_which_the_answer_differs() -> None:
    guilty = {Deviation.INVALID_POOL, Deviation.NODE_SELECTOR}

    assert set(find_reasons(lambda deviations: not deviations & guilty)) == guilty
    assert find_reasons(lambda deviations: deviations == OURS) == ()
    assert len(find_reasons(lambda deviations: not guilty <= deviations)) == 1
    assert find_reasons(lambda deviations: deviations == LIKE_UPSTREAM) == tuple(Deviation)


def test_all_that_is_in_use_is_read_from_a_state() -> None:
    state = {
        "devices": ["d.example/p/whole"],
        "shares": ["d.example/p/shared/11111111", "d.example/p/shared/22222222"],
        "capacity": {"d.example/p/shared": {"memory": "1500m"}, "d.example/p/counted": {"memory": "2"}},
    }
    uses = {str(device): use for device, use in parse_problem(problem(state=state)).state.uses.items()}

    assert uses["d.example/p/whole"].dedicated
    assert (uses["d.example/p/shared"].shares, uses["d.example/p/shared"].consumed) == (2, {"memory": 1_500_000_000})
    assert (uses["d.example/p/counted"].shares, uses["d.example/p/counted"].tracked) == (1, True)
    with pytest.raises(FieldError, match="claims"):
        parse_problem(problem(state={"claims": []}))


@pytest.mark.parametrize(
    ("implementation", "added"),
    [("stable", set()), ("incubating", {"FractionalCapacityRange"}), ("experimental", {"DerivedAttributes"})],
)
def test_an_implementation_is_asked_by_a_gate_that_changes_nothing_else(implementation: str, added: set[str]) -> None:
    features = parse_problem(problem(features="none", implementation=implementation)).features

    assert {gate for gate, on in features.gates().items() if on} == added


@pytest.mark.parametrize("features", ["newest", ["DRANothing"], {"AdminAccess": 1}, 5])
def test_gates_that_are_not_known_are_refused(features: object) -> None:
    with pytest.raises(FieldError):
        parse_features(features)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("claim c: could not retrieve device class x", "no-class"),
        ("CEL runtime error: no such key", "cel-runtime"),
        ("something else", "other"),
    ],
)
def test_errors_are_told_apart_by_their_texts(text: str, kind: str) -> None:
    assert find_error_kind(text) == kind


def test_a_line_that_is_not_understood_differs_among_others(tmp_path: Path) -> None:
    path = write(tmp_path, answered(problem("one"), verdict="feasible"), {"name": "odd"})

    assert [outcome.name for outcome in run_file(path).differing] == ["odd"]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"text\n", b'{"name": "x"}\n', b"[1]\n"])
def test_a_file_without_any_recorded_case_is_bad_input(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)

    with pytest.raises(InputError):
        run_file(tmp_path / "x.jsonl")


def test_a_compressed_file_is_read_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(answered(problem("one"), verdict="feasible")).encode()))

    assert run_file(path).agreeing == ("case",)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match="can't be read"):
        run_file(path)
