"""`whatif`, `preempt`, `defrag` and `drain`, as people and programs see them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.scenarios.cli_process import Ran, call_claimsmith, complaint

FOLDER: Final = Path(__file__).parents[2] / "examples/what-if"
CLUSTER: Final = str(FOLDER / "cluster.yaml")
PAIR: Final = str(FOLDER / "pair.yaml")
OFFERS: Final = str(FOLDER / "offers.yaml")
CARDS: Final = """
apiVersion: claimsmith.dev/v1alpha1
kind: SimulatedDevices
metadata: {name: cards}
spec: {nodes: [mig], driver: gpu.example.com, gpus: [{model: A100-40, mig: true}]}
"""
QUOTA: Final = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus, namespace: default}
spec: {hard: {gpu.deviceclass.resource.k8s.io/devices: "14"}}
"""
GANG: Final = """
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: default}
spec: {priority: 900, schedulingPolicy: {gang: {minCount: 2}}}
"""
MEMBER: Final = """
---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default}
spec:
  priority: 900
  schedulingGroup: {podGroupName: gang}
  containers: [{name: main, image: 'example.test/train:1', resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus-3}]
"""


def run(*arguments: str, text: str = "") -> Ran:
    return call_claimsmith(*arguments, "-f", CLUSTER, text=text.encode())


def value(*arguments: str, code: int, text: str = "") -> dict[str, Any]:
    """Return what a command answers in JSON."""
    ran = run(*arguments, "-o", "json", text=text)
    assert ran.code == code, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


# --- whatif -----------------------------------------------------------------------------------------------------------


def test_without_changes_the_queue_is_told_as_it_is() -> None:
    (pod,) = value("whatif", code=1)["pods"]

    assert (pod["pod"], pod["before"], pod["node"]) == ("default/train-1", "", "")
    assert "in use by default/train-0-gpu" in pod["message"]


def test_an_added_node_takes_what_waits() -> None:
    (pod,) = value("whatif", "--add-node", "gpu-1=1", code=0)["pods"]

    assert (pod["before"], pod["node"]) == ("", "gpu-1-new-1")
    assert pod["devices"] == [f"gpu.example.com/gpu-1-new-1/gpu-{n}" for n in range(4)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        (("--remove-pod", "default/notebook"), 1),
        (("--remove-pod", "default/notebook", "--remove-pod", "batch-0"), 0),
        (("--add-node", "gpu-1=1", "--taint", "node/gpu-1:full=yes:NoSchedule"), 0),
        (("--add-node", "gpu-1=1", "--remove-driver", "gpu.example.com"), 1),
        (("--templates", OFFERS, "--add-node", "large=1"), 0),
        (("--remove-node", "gpu-1", "--cordon", "gpu-2", "--add-node", "gpu-3=1"), 1),
        (("--remove-node", "gpu-1", "--cordon", "gpu-2", "--add-node", "gpu-3=2"), 0),
        (("--remove-pod", "train-0", "--taint", "device/gpu.example.com/gpu-3/gpu-3:hot:NoSchedule"), 1),
        (("--remove-pod", "train-0", "--taint", "device/gpu.example.com/gpu-3/gpu-3:hot:None"), 0),
        (("--remove-pod", "train-0", "--remove-device", "gpu.example.com/gpu-3/gpu-3"), 1),
    ],
    ids=lambda item: " ".join(item).replace(str(FOLDER), "") if isinstance(item, tuple) else "",
)
def test_the_exit_code_says_whether_everything_runs_then(changes: tuple[str, ...], code: int) -> None:
    assert run("whatif", *changes).code == code


def test_pods_that_a_change_ends_are_named_and_placed_anew() -> None:
    found = value("whatif", "--remove-node", "gpu-2", "--add-node", "gpu-1=2", code=0)

    assert [(end["pod"], end["node"], end["causes"], end["remade"]) for end in found["ends"]] == [
        ("default/batch-1", "gpu-2", ["node gpu-2 is gone"], True),
        ("default/infer", "gpu-2", ["node gpu-2 is gone"], True),
    ]
    assert {pod["pod"]: (pod["before"], pod["node"]) for pod in found["pods"]} == {
        "default/infer": ("gpu-2", "gpu-1-new-1"),
        "default/train-1": ("", "gpu-1-new-2"),
        "default/batch-1": ("gpu-2", "gpu-1-new-1"),
    }


def test_who_holds_a_device_that_is_gone_is_named() -> None:
    ran = run("whatif", "--remove-device", "gpu.example.com/gpu-1/gpu-0", "--remove-pod", "train-0")

    assert (
        "pod default/notebook runs on, until it is made again: holds gpu.example.com/gpu-1/gpu-0, which is gone"
        in ran.out
    )


def test_a_table_shows_now_and_then() -> None:
    ran = run("whatif", "--add-node", "gpu-1")
    lines = [line.split() for line in ran.out.splitlines()]

    assert ["POD", "NOW", "THEN", "WHY", "NOT"] in lines
    assert ["default/train-1", "-", "gpu-1-new-1"] in lines


def test_copies_that_still_fit_are_counted() -> None:
    found = value("whatif", "--fill", PAIR, code=0)
    more = value("whatif", "--fill", PAIR, "--add-node", "gpu-1=2", code=0)

    assert (found["pod"], found["fit"], found["byNode"]) == ("default/pair", 1, {"gpu-1": 1})
    assert (more["fit"], more["byNode"]["gpu-1-new-2"]) == (5, 2)


def test_a_quota_limits_copies_and_says_so() -> None:
    ran = run("whatif", "--fill", PAIR, "--add-node", "gpu-1=2", "-f", "-", text=QUOTA)

    assert ran.code == 0
    assert ran.out.startswith("pod default/pair: 3 more fit, as quota default/gpus: 8 of 14 gpu.deviceclass")
    assert "; there is room for 5\n  2 on each of gpu-1-new-1, gpu-1-new-2\n  1 on gpu-1\n" in ran.out
    assert "the next one waits" not in ran.out


def test_pods_that_wait_beside_copies_are_told() -> None:
    ran = run("whatif", "--fill", PAIR)

    assert value("whatif", "--fill", PAIR, code=0)["waiting"] == 1
    assert ran.out.endswith("1 pod waits already and may take that room first\n")


def test_when_not_one_copy_fits_the_exit_code_is_1() -> None:
    ran = run("whatif", "--fill", PAIR, "--cordon", "gpu-1")

    assert ran.code == 1
    assert ran.out.startswith("pod default/pair: 0 more fit\nthe next one waits: ")


def test_the_cheapest_nodes_are_told() -> None:
    ran = run("whatif", "--templates", OFFERS)
    found = value("whatif", "--templates", OFFERS, code=0)

    assert ran.out == "1 × small: cost 12.5, and nothing cheaper does\n"
    assert (found["status"], found["nodes"], found["cost"], found["bound"]) == ("optimal", {"small": 1}, 12.5, 12.5)


def test_no_nodes_are_bought_for_a_queue_that_runs() -> None:
    ran = run("whatif", "--templates", OFFERS, "--remove-pod", "train-0")

    assert (ran.code, ran.out) == (0, "no node is needed: everything that can run does\n")


def test_a_snapshot_gives_the_same_answers(tmp_path: Path) -> None:
    file = str(tmp_path / "cluster.json")
    assert run("snapshot", "save", file).code == 0
    ran = call_claimsmith("whatif", "--snapshot", file, "--fill", PAIR, "-o", "json")

    assert json.loads(ran.out) == value("whatif", "--fill", PAIR, code=0)


# --- preempt ----------------------------------------------------------------------------------------------------------


def test_victims_are_told_with_what_they_give_back() -> None:
    found = value("preempt", "pod/train-1", code=0)

    assert (found["status"], found["cost"]) == (
        "optimal",
        {"highest_priority": 0, "violations": 0, "pods": 2, "priorities": 0},
    )
    assert [(item["pod"], item["devices"]) for item in found["victims"]] == [
        ("default/batch-0", ["gpu.example.com/gpu-1/gpu-2"]),
        ("default/notebook", ["gpu.example.com/gpu-1/gpu-0"]),
    ]
    assert [item["node"] for item in found["pods"]] == ["gpu-1"]


def test_victims_are_told_in_words() -> None:
    out = run("preempt", "pod/train-1").out

    assert "then: default/train-1 on gpu-1\n" in out
    assert out.endswith("cost: 2 pods of priority 0 at most, 0 against a budget; no set is cheaper\n")


def test_a_victim_that_nothing_makes_again_is_told_as_such() -> None:
    owner = (
        "  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: batch, uid: set-batch, controller: true}]\n"
    )
    text = Path(CLUSTER).read_text()
    arguments = ("preempt", "pod/train-1", "-f", "-")
    table = call_claimsmith(*arguments, text=text.replace(owner, "").encode()).out
    found = json.loads(call_claimsmith(*arguments, "-o", "json", text=text.replace(owner, "").encode()).out)

    assert table.count("nothing makes it again: it ends for good") == 1
    assert {item["pod"]: item["remade"] for item in found["victims"]} == {
        "default/batch-0": False,
        "default/notebook": True,
    }


def test_a_gang_gets_its_places_together() -> None:
    text = GANG + MEMBER % "one" + MEMBER % "two"
    found = value("preempt", "podgroup/default/gang", "-f", "-", text=text, code=0)

    assert [item["pod"] for item in found["victims"]] == ["default/notebook", "default/train-0"] or [
        item["pod"] for item in found["victims"]
    ] == ["default/batch-0", "default/train-0"]
    assert sorted(item["node"] for item in found["pods"]) == ["gpu-1", "gpu-3"]


def test_a_pod_of_the_lowest_priority_is_told_that_nobody_can_go() -> None:
    pod = (MEMBER % "low").replace("  schedulingGroup: {podGroupName: gang}\n", "").replace("900", "-5")
    ran = run("preempt", "pod/low", "-f", "-", text=pod)

    assert ran.code == 1
    assert ran.out.startswith("pod/low: nobody can go: no pod on a node has a priority below -5; it waits: ")


def test_a_pod_that_fits_needs_no_victims() -> None:
    pod = MEMBER.replace("gpus-3", "gpus-2").replace("  schedulingGroup: {podGroupName: gang}\n", "") % "small"
    ran = run("preempt", "pod/small", "-f", "-", text=pod)

    assert (ran.code, ran.out) == (0, "pod/small fits without that anybody goes: default/small on gpu-1\n")


def test_what_no_removal_helps_makes_exit_1() -> None:
    elsewhere = "spec:\n  nodeSelector: {kubernetes.io/hostname: elsewhere}\n  priority: 900"
    pod = MEMBER.replace("spec:\n  priority: 900", elsewhere).replace("  schedulingGroup: {podGroupName: gang}\n", "")
    ran = run("preempt", "pod/lost", "-f", "-", text=pod % "lost")

    assert ran.code == 1
    assert ran.out.startswith("pod/lost: nobody's removal helps; without all that could go: ")


# --- defrag and drain -------------------------------------------------------------------------------------------------


def test_moves_free_a_node() -> None:
    found = value("defrag", "--goal", "nodes=4:gpu", "--moves", "2", code=0)

    assert [[(move["pod"], move["from"], move["to"]) for move in step] for step in found["steps"]] == [
        [("default/notebook", "gpu-1", "gpu-3")],
        [("default/batch-0", "gpu-1", "gpu-2")],
    ]
    assert found["gains"] == [{"name": "room for 4 devices of class gpu on one node", "before": "0", "after": "1"}]
    assert found["keptFree"] == [f"gpu.example.com/gpu-1/gpu-{n}" for n in range(4)]


def test_too_few_moves_gain_nothing_and_make_exit_1() -> None:
    ran = run("defrag", "--goal", "nodes=4:gpu", "--moves", "1")

    assert (ran.code, ran.out.splitlines()[-1]) == (1, "0 moves; no further set of moves helps")


def test_moves_make_room_for_pods_of_a_file() -> None:
    ran = run("defrag", "--goal", f"{PAIR}=2")

    assert ran.code == 0
    assert "room for default/pair: 1 → 2\n" in ran.out
    assert ran.out.endswith("reached with 1 move\n")


def test_a_cluster_is_read_once_for_goals_of_several_files(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(Path(PAIR).read_text(encoding="utf-8").replace("name: pair", "name: other"), encoding="utf-8")
    goals = ("--goal", f"{PAIR}=1", "--goal", f"{other}=1")
    ran = call_claimsmith("defrag", *goals, "-f", "-", text=Path(CLUSTER).read_bytes())

    assert ran.code == 0, ran.err
    assert "room for default/pair: 1 → 1\nroom for default/other: 0 → 1\n" in ran.out


def test_goals_of_files_that_bring_the_same_object_are_taken_together(tmp_path: Path) -> None:
    shared = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
    texts = {name: Path(PAIR).read_text(encoding="utf-8").replace("name: pair", f"name: {name}") for name in "ab"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text + shared, encoding="utf-8")

    assert run("defrag", "--goal", f"{tmp_path}/a=1", "--goal", f"{tmp_path}/b=1").code == 0


def test_goals_of_files_that_disagree_about_an_object_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        shared = f"---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: team, labels: {{of: {name}}}}}\n"
        (tmp_path / name).write_text(Path(PAIR).read_text(encoding="utf-8") + shared, encoding="utf-8")

    assert "found a second Namespace team" in complaint(
        run("defrag", "--goal", f"{tmp_path}/a=1", "--goal", f"{tmp_path}/b=1")
    )


def test_the_largest_partition_is_told() -> None:
    ran = call_claimsmith("defrag", "--goal", "profile", "-f", "-", text=CARDS.encode())

    assert (ran.code, ran.out) == (0, "largest free profile: 7g.40gb → 7g.40gb\nreached with 0 moves\n")


def test_a_drain_tells_where_pods_go_and_which_budgets_forbid_it() -> None:
    found = value("drain", "gpu-2", code=0)

    assert [(move["pod"], move["node"], move["budgets"]) for move in found["moves"]] == [
        ("default/infer", "gpu-1", ["default/serving"]),
        ("default/batch-1", "gpu-3", []),
    ]


@pytest.mark.parametrize(
    ("command", "option", "name"),
    [
        ("drain", (), "gpu-2"),
        ("whatif", ("--cordon",), "gpu-1"),
        ("whatif", ("--remove-node",), "gpu-2"),
        ("whatif", ("--add-node",), "gpu-1=2"),
        ("whatif", ("--remove-pod",), "train-0"),
        ("explain", ("pod/train-1", "--node"), "gpu-1"),
    ],
)
def test_objects_are_named_as_kubectl_prints_them_too(command: str, option: tuple[str, ...], name: str) -> None:
    kind = "pod" if option == ("--remove-pod",) else "node"
    bare, full = (run(command, *option, text, "-o", "json") for text in (name, f"{kind}/{name}"))

    assert (full.code, full.out, full.err) == (bare.code, bare.out, bare.err)


def test_a_drain_that_leaves_pods_waiting_makes_exit_1() -> None:
    ran = run("drain", "gpu-3")

    assert ran.code == 1
    assert "waits: 0/3 nodes" in ran.out


def test_an_empty_node_is_drained_already() -> None:
    ran = call_claimsmith("drain", "mig", "-f", "-", text=CARDS.encode())

    assert (ran.code, ran.out, ran.err) == (0, "", "claimsmith: nothing to evict on mig\n")


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("whatif", "--add-node", "x=1"), "node template 'x': not in the cluster, allowed gpu-1, gpu-2, gpu-3"),
        (
            ("whatif", "--add-node", "gpu-1=0"),
            "--add-node: found 'gpu-1=0', allowed TEMPLATE=N with N from 1 to 100,000",
        ),
        (("whatif", "--add-node", "gpu-1=99999999999"), "allowed TEMPLATE=N with N from 1 to 100,000"),
        (("whatif", "--add-node", "gpu-1=x"), "found 'gpu-1=x', allowed TEMPLATE=N with N from 1 to"),
        (("whatif", "--add-node", "=2"), "--add-node: found '=2'"),
        (("whatif", "--remove-node", "x"), "node 'x': not in the cluster"),
        (("whatif", "--cordon", "x"), "node 'x': not in the cluster"),
        (("whatif", "--taint", "x"), "--taint: found 'x', allowed node/NAME:KEY[=VALUE]:EFFECT or device/"),
        (("whatif", "--taint", "node/gpu-1:=v:NoSchedule"), "--taint: found 'node/gpu-1:=v:NoSchedule'"),
        (
            ("whatif", "--taint", "node/gpu-1:k:No"),
            "found effect 'No', allowed NoSchedule, PreferNoSchedule, NoExecute",
        ),
        (("whatif", "--taint", "device/gpu.example.com:k:PreferNoSchedule"), "allowed NoSchedule, NoExecute, None"),
        (("whatif", "--taint", "device/x:k:NoSchedule"), "device 'x/*/*': not in the cluster"),
        (("whatif", "--remove-pod", "a/b/c"), "pod 'a/b/c': found no name of a pod, allowed NAME or NAMESPACE/NAME"),
        (("whatif", "--remove-pod", "x"), "pod 'default/x': not in the cluster, allowed default/notebook"),
        (("whatif", "--remove-driver", "x"), "driver 'x': not in the cluster, allowed gpu.example.com"),
        (("whatif", "--remove-device", "x/y"), "--remove-device: found 'x/y', allowed DRIVER/POOL/DEVICE"),
        (("whatif", "--remove-device", "gpu.example.com/gpu-1/x"), "device 'gpu.example.com/gpu-1/x': not in the"),
        (("whatif", "--fill", CLUSTER), "found 6 pods, allowed one; name a file with the pod to be copied"),
        (("whatif", "--fill", OFFERS), "found 0 pods, allowed one"),
        (("whatif", "--fill", "missing.yaml"), "missing.yaml: can't be read"),
        (("whatif", "--fill", PAIR, "--templates", OFFERS), "--fill: found --templates without --add-node too"),
        (("whatif", "--templates", PAIR), "found no Node, allowed one for each template; add them"),
        (("preempt", "pod/x"), "target 'pod/x': found no such pod or group that waits, allowed pod/default/train-1"),
        (("preempt", "pod/notebook"), "target 'pod/notebook': found no such pod or group that waits"),
        (("preempt", "nonsense"), "target 'nonsense': found no such pod or group that waits"),
        (("preempt",), "missing argument 'TARGET'; see `claimsmith preempt --help`"),
        (("defrag",), "missing option '--goal'; see `claimsmith defrag --help`"),
        (("defrag", "--goal", "profile"), "--goal profile: found no device with the attribute profile"),
        (("defrag", "--goal", "nodes=4:x"), "--goal: found 'nodes=4:x', allowed nodes=COUNT:CLASS with a count from 1"),
        (("defrag", "--goal", "nodes=99:gpu"), "--goal: found 'nodes=99:gpu'"),
        (("defrag", "--goal", "nodes=x:gpu"), "found 'x', allowed a whole number"),
        (("defrag", "--goal", "profile", "--goal", PAIR), "--goal: found 2 goals with 'profile', allowed it alone"),
        (("defrag", "--goal", "missing.yaml"), "missing.yaml: can't be read"),
        (("defrag", "--goal", "profile", "--moves", "-1"), "invalid value for '--moves'"),
        (("drain", "x"), "node 'x': not in the cluster, allowed gpu-1, gpu-2, gpu-3; correct it"),
        (("drain", "pod/x"), "node 'pod/x': found no name of a node, allowed NAME or node/NAME; correct it"),
        (("drain",), "missing argument 'NODE…'; see `claimsmith drain --help`"),
        (("drain", "gpu-2", "--yes"), "--yes: found -f too, allowed a live cluster alone; leave -f out"),
        (("preempt", "pod/train-1", "--yes"), "--yes: found -f too, allowed a live cluster alone"),
        (("defrag", "--goal", "nodes=4:gpu", "--yes"), "--yes: found -f too, allowed a live cluster alone"),
    ],
    ids=lambda item: " ".join(item).replace(str(FOLDER), "") if isinstance(item, tuple) else "",
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], told: str) -> None:
    assert told in complaint(run(*arguments))


def test_evictions_can_not_go_against_budgets() -> None:
    ran = call_claimsmith("preempt", "pod/train-1", "--yes", "--violate-budgets", "--kubeconfig", "none")

    assert "--yes: found --violate-budgets too" in complaint(ran)


def test_a_snapshot_is_no_cluster_to_carry_out_a_plan_on() -> None:
    assert "--yes: found --snapshot too" in complaint(call_claimsmith("drain", "a", "--yes", "--snapshot", "x"))


@pytest.mark.parametrize(
    ("annotation", "told"),
    [
        ('claimsmith.dev/cost: "free"', "node box: claimsmith.dev/cost: found 'free', allowed a number above 0"),
        ('claimsmith.dev/cost: "0"', "claimsmith.dev/cost: found '0', allowed a number above 0"),
        ('claimsmith.dev/cost: "inf"', "claimsmith.dev/cost: found 'inf', allowed a number above 0"),
        ('claimsmith.dev/maximum: "-1"', "claimsmith.dev/maximum: found '-1', allowed a whole number from 0 on"),
    ],
)
def test_a_template_with_a_wrong_annotation_is_refused(tmp_path: Path, annotation: str, told: str) -> None:
    path = tmp_path / "offers.yaml"
    path.write_text(f"apiVersion: v1\nkind: Node\nmetadata: {{name: box, annotations: {{{annotation}}}}}\n")

    assert told in complaint(run("whatif", "--templates", str(path)))
