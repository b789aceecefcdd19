"""Each check of the doctor can fail, and then says what was found, what is allowed and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from claimsmith.node.doctor import examine, is_sick, is_unreachable
from claimsmith.node.doctor_checks import LOCAL_CHECKS
from claimsmith.node.doctor_checks_api import API_CHECKS
from claimsmith.node.doctor_facts import (
    AccessFact,
    ApiFacts,
    DriverFact,
    FolderFact,
    LocalFacts,
    NodeFact,
    PodFact,
    ProcessFact,
    PublishedDevice,
    RuntimeFact,
    SocketFact,
)

GPU = "gpu.example.test"
FOLDER = FolderFact(
    path="/cdi", purpose="CDI files", is_folder=True, is_writable=True, free_bytes=2**40, free_inodes=10**6
)
DRIVER = DriverFact(
    name=GPU, checkpoint="good", claims={"u1": "default/train"}, boots=frozenset({"boot"}), cdi_claims={"/cdi/a": "u1"}
)
LOCAL = LocalFacts(
    system="Linux",
    user_id=0,
    boot_id="boot",
    cgroup_version=2,
    now_s=1000.0,
    kubelet_root="/var/lib/kubelet",
    cdi_folder="/run/cdi",
    folders=(FOLDER,),
    sockets=(SocketFact(path="/reg.sock", answers=True),),
    kubelet_socket=SocketFact(path="/kubelet.sock", answers=True),
    processes=(ProcessFact(name="kubelet", pid=7),),
    runtimes=(RuntimeFact(name="containerd", config="/config.toml", is_there=True, is_cdi_on=True),),
    drivers=(DRIVER,),
)
API = ApiFacts(
    version="v1.37.2",
    clock_s=1001.0,
    dra_versions=("v1",),
    node=NodeFact(ready=True, kubelet_version="v1.37.2", runtime_version="containerd://2.1.3", boot_id="boot"),
    gates={},
    access=(AccessFact(verb="list", resource="resourceslices.resource.k8s.io", purpose="publishing", allowed=True),),
    devices=(PublishedDevice(driver=GPU, device="gpu-0", ids=frozenset({"GPU-a"})),),
    claims=frozenset({"u1"}),
    pods=(),
)


def test_a_healthy_node_has_nothing_but_good_findings() -> None:
    findings = examine(LOCAL, API)

    assert {finding.severity for finding in findings} == {"good"}
    assert {finding.check for finding in findings} == {*LOCAL_CHECKS, *API_CHECKS, "api-server"}


def changed(**fields: Any) -> LocalFacts:
    return replace(LOCAL, **fields)


def runtime(**fields: Any) -> LocalFacts:
    return changed(runtimes=(replace(LOCAL.runtimes[0], **fields),))


def driver(**fields: Any) -> LocalFacts:
    return changed(drivers=(replace(DRIVER, **fields),))


def folder(**fields: Any) -> LocalFacts:
    return changed(folders=(replace(FOLDER, **fields),))


@pytest.mark.parametrize(
    ("check", "facts", "severity", "mentions"),
    [
        ("system", changed(system="Darwin"), "problem", "found Darwin, allowed Linux"),
        ("user", changed(user_id=1000), "problem", "uid 1000"),
        ("boot-id", changed(boot_id=""), "problem", "mount /proc"),
        ("cgroups", changed(cgroup_version=1), "warning", "found version 1"),
        ("cgroups", changed(cgroup_version=0), "warning", "none that can be seen"),
        ("folders", folder(is_folder=False), "problem", "no folder /cdi"),
        ("folders", folder(is_writable=False), "problem", "not writable"),
        ("space", folder(free_bytes=10_000), "problem", "9 KiB left in /cdi"),
        ("space", folder(free_bytes=10 * 2**20), "warning", "10240 KiB left"),
        ("space", folder(free_inodes=3), "problem", "3 inodes left"),
        ("kubelet", changed(processes=()), "unknown", "hostPID"),
        (
            "kubelet", changed(processes=(ProcessFact(name="kubelet", pid=7, options={"root-dir": "/other"}),)),
            "problem", "--kubelet-root /other",
        ),
        ("kubelet-socket", changed(kubelet_socket=None), "warning", "start the kubelet"),
        ("kubelet-socket", changed(kubelet_socket=SocketFact(path="/k", answers=False)), "warning", "answers nobody"),
        ("kubelet-socket", changed(kubelet_socket=SocketFact(path="/k", answers=None)), "unknown", "closed to us"),
        ("sockets", changed(sockets=(SocketFact(path="/old.sock", answers=False),)), "warning", "/old.sock"),
        ("runtime", changed(runtimes=()), "unknown", "no container runtime"),
        ("runtime", runtime(is_cdi_on=False), "problem", "enable_cdi = true in /config.toml"),
        ("runtime", runtime(cdi_folders=("/etc/cdi",)), "problem", "add the folder to cdi_spec_dirs"),
        ("runtime", runtime(trouble="line 3"), "unknown", "containerd: line 3"),
        (
            "visible-devices", replace(runtime(default_runtime="nvidia"), obeys_environment=True),
            "warning", "accept-nvidia-visible-devices-envvar-when-unprivileged = false",
        ),
        ("cdi-files", changed(broken_cdi=("/cdi/x.json",)), "problem", "/cdi/x.json"),
        ("checkpoints", driver(checkpoint="damaged"), "problem", "restart the agent"),
        ("checkpoints", driver(checkpoint="newer"), "problem", "a later version"),
        ("checkpoints", driver(checkpoint="unreadable"), "problem", "run as root"),
        ("checkpoints", driver(checkpoint="none"), "warning", "start the agent"),
        ("checkpoints", driver(set_aside=("/p/checkpoint.json.damaged-1",)), "warning", "damaged-1 put aside"),
        ("boots", driver(boots=frozenset({"earlier"})), "warning", "an earlier boot"),
        ("leftovers", driver(cdi_claims={"/cdi/a": "u1", "/cdi/b": "u2"}), "warning", "/cdi/b without a claim"),
        ("leftovers", driver(cdi_claims={}), "warning", "no CDI file for default/train"),
    ],
)  # fmt: skip
def test_a_check_of_the_machine_fails(check: str, facts: LocalFacts, severity: str, mentions: str) -> None:
    found = [finding for finding in LOCAL_CHECKS[check](facts) if finding.severity != "good"]

    assert [finding.severity for finding in found] == [severity]
    assert mentions in str(found[0])
    assert found[0].hint


def api(**fields: Any) -> ApiFacts:
    return replace(API, **fields)


def node(**fields: Any) -> ApiFacts:
    assert API.node is not None
    return api(node=replace(API.node, **fields))


DENIED = AccessFact(verb="create", resource="resourceslices.resource.k8s.io", purpose="publishing", allowed=False)
TWICE = (*(API.devices or ()), PublishedDevice(driver="other.test", device="card-7", ids=frozenset({"GPU-a"})))


@pytest.mark.parametrize(
    ("check", "facts", "severity", "mentions"),
    [
        ("dra", api(dra_versions=()), "problem", "not served"),
        ("dra", api(dra_versions=("v1beta1",)), "problem", "found resource.k8s.io v1beta1, allowed v1"),
        ("node", api(node=None), "problem", "name the node with --node"),
        ("node", node(boot_id="other"), "problem", "boot other"),
        ("node", node(ready=False), "warning", "not ready"),
        ("kubelet-version", node(kubelet_version="v1.31.9"), "problem", "upgrade the kubelet"),
        ("kubelet-version", api(node=None), "unknown", "1.32 or later"),
        ("gates", api(gates=None), "unknown", "nodes/proxy"),
        ("gates", api(gates={"DynamicResourceAllocation": False}), "problem", "featureGates"),
        ("clock", api(clock_s=None), "unknown", "compare by hand"),
        ("clock", api(clock_s=970.0), "warning", "30 s beside"),
        ("clock", api(clock_s=5000.0), "problem", "4000 s beside"),
        ("access", api(access=(DENIED,)), "problem", "let its ClusterRole create resourceslices.resource.k8s.io"),
        ("access", api(access=(replace(DENIED, is_needed=False),)), "warning", "no right to create"),
        ("access", api(access=()), "unknown", "selfsubjectaccessreviews"),
        ("rivals", api(devices=TWICE), "problem", "gpu.example.test as gpu-0 and other.test as card-7"),
        ("claims", api(claims=None), "unknown", "list resourceclaims"),
        ("claims", api(claims=frozenset()), "warning", "devices held for default/train"),
        ("pods", api(pods=None), "unknown", "let this user list pods"),
        ("pods", api(pods=(PodFact(name="a/b", is_privileged=True),)), "warning", "a/b privileged"),
        ("pods", api(pods=(PodFact(name="a/b", sets_visible=True),)), "warning", "a/b setting NVIDIA_VISIBLE_DEVICES"),
    ],
)  # fmt: skip
def test_a_check_of_the_cluster_fails(check: str, facts: ApiFacts, severity: str, mentions: str) -> None:
    found = [finding for finding in API_CHECKS[check](LOCAL, facts) if finding.severity != "good"]

    assert [finding.severity for finding in found] == [severity]
    assert mentions in str(found[0])
    assert found[0].hint


def test_a_device_that_a_foreign_device_plugin_offers_too_is_a_problem() -> None:
    facts = changed(registered={"nvidia.com/gpu": ("GPU-a::0",)}, drivers=())
    (finding,) = API_CHECKS["rivals"](facts, API)

    assert (finding.severity, "device plugin of nvidia.com/gpu" in finding.found) == ("problem", True)


def test_our_own_device_plugin_beside_our_slices_is_no_rival() -> None:
    facts = changed(registered={"nvidia.com/gpu": ("GPU-a",)})

    assert [finding.severity for finding in API_CHECKS["rivals"](facts, API)] == ["good"]


def test_of_several_runtimes_one_that_reads_the_folder_is_enough() -> None:
    other = replace(LOCAL.runtimes[0], cdi_folders=("/elsewhere",))
    found = list(LOCAL_CHECKS["runtime"](changed(runtimes=(other, LOCAL.runtimes[0]))))

    assert [finding.severity for finding in found] == ["good"]


def test_a_server_that_does_not_answer_is_told_once_and_nothing_is_made_of_it() -> None:
    facts = ApiFacts(error="GET /version: refused")
    findings = [finding for finding in examine(LOCAL, facts) if finding.severity != "good"]

    assert [(finding.check, finding.severity) for finding in findings] == [("api-server", "problem")]
    assert is_unreachable(facts)


def test_warnings_alone_make_no_node_sick() -> None:
    assert not is_sick(examine(changed(cgroup_version=1), API))
    assert is_sick(examine(changed(user_id=1), API))
