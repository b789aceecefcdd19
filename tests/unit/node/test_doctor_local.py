"""The facts of a machine, read from a folder that looks like one."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimsmith.kubelet.paths import NodePaths
from claimsmith.model.names import DeviceId
from claimsmith.model.prepared import ClaimKey
from claimsmith.node.cdi import cdi_kind
from claimsmith.node.cdi_files import CdiFiles
from claimsmith.node.checkpoint import Content, encode_content
from claimsmith.node.doctor_facts import LocalFacts, RuntimeFact
from claimsmith.node.doctor_local import Machine, collect_local
from claimsmith.node.doctor_runtime import name_folder
from claimsmith.node.entry import HeldDevice, PreparedClaim

GPU = "gpu.example.test"
CLAIM = ClaimKey(namespace="default", name="train", uid="11111111-1111-1111-1111-111111111111")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    paths = NodePaths.compact(tmp_path)
    paths.make()
    return tmp_path


def look(root: Path) -> LocalFacts:
    return collect_local(Machine(paths=NodePaths.compact(root), root=root, now_s=lambda: 7.0))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run(root: Path, name: str, pid: int, *arguments: str) -> None:
    """Let a program seem to run."""
    write(root / "proc" / str(pid) / "comm", f"{name}\n")
    write(root / "proc" / str(pid) / "cmdline", "\0".join((name, *arguments, "")))


@pytest.fixture
def sockets(root: Path) -> Iterator[NodePaths]:
    """A socket that is served, and one that was left over."""
    paths = NodePaths.compact(root)
    with socket.socket(socket.AF_UNIX) as served, socket.socket(socket.AF_UNIX) as left:
        served.bind(str(paths.device_plugins / "kubelet.sock"))
        served.listen()
        left.bind(str(paths.plugins_registry / f"{GPU}-reg.sock"))
        yield paths


def test_a_machine_tells_of_itself(root: Path) -> None:
    write(root / "proc/sys/kernel/random/boot_id", "boot-1\n")
    write(root / "sys/fs/cgroup/cgroup.controllers", "cpu")
    facts = look(root)

    assert (facts.boot_id, facts.cgroup_version, facts.now_s) == ("boot-1", 2, 7.0)
    assert [folder.is_writable for folder in facts.folders] == [True] * 5


def test_a_machine_without_anything_tells_so(tmp_path: Path) -> None:
    facts = look(tmp_path / "nothing")

    assert (facts.boot_id, facts.cgroup_version, facts.kubelet_socket, facts.drivers) == ("", 0, None, ())
    assert [folder.is_folder for folder in facts.folders] == [False] * 5


def test_an_old_machine_has_cgroups_of_version_1(root: Path) -> None:
    write(root / "sys/fs/cgroup/memory/tasks", "")

    assert look(root).cgroup_version == 1


def test_sockets_that_answer_and_those_left_over_are_told_apart(sockets: NodePaths, root: Path) -> None:
    facts = look(root)

    assert facts.kubelet_socket is not None
    assert facts.kubelet_socket.answers is True
    assert [item.answers for item in facts.sockets] == [False]


def test_programs_are_found_with_their_options(root: Path) -> None:
    run(root, "kubelet", 12, "--root-dir=/data/kubelet", "--v", "2", "--flag")
    run(root, "bash", 13)
    (process,) = look(root).processes

    assert (process.name, process.pid, process.options) == ("kubelet", 12, {"root-dir": "/data/kubelet", "v": "2"})


# --- runtimes ---------------------------------------------------------------------------------------------------------


def runtime(root: Path) -> RuntimeFact:
    (found,) = look(root).runtimes
    return found


@pytest.mark.parametrize("plugin", ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"])
def test_both_versions_of_containerds_file_are_read(root: Path, plugin: str) -> None:
    text = f"version = 3\n[plugins.'{plugin}']\nenable_cdi = false\ncdi_spec_dirs = ['/etc/cdi']\n"
    write(root / "etc/containerd/config.toml", text)

    assert (runtime(root).is_cdi_on, runtime(root).cdi_folders) == (False, ("/etc/cdi",))


def test_files_that_containerd_imports_count(root: Path) -> None:
    write(root / "etc/containerd/config.toml", "imports = ['/etc/containerd/conf.d/*.toml']\n")
    write(root / "etc/containerd/conf.d/cdi.toml", "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = true\n")

    assert runtime(root).is_cdi_on is True


def test_a_file_that_a_running_containerd_was_given_is_read(root: Path) -> None:
    run(root, "containerd", 9, "--config", "/run/containerd.toml")
    write(root / "run/containerd.toml", "[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = ['/var/run/cdi']\n")

    assert runtime(root).cdi_folders == ("/run/cdi",)


def test_links_are_followed_on_the_machine_itself(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")

    assert name_folder(tmp_path / "link", Path("/")) == str((tmp_path / "run").resolve())


def test_a_runtime_without_a_file_has_its_defaults(root: Path) -> None:
    run(root, "containerd", 9)

    assert (runtime(root).is_there, runtime(root).is_cdi_on, runtime(root).cdi_folders) == (False, None, ())


def test_later_files_of_cri_o_win(root: Path) -> None:
    write(root / "etc/crio/crio.conf", "[crio.runtime]\ncdi_spec_dirs = ['/etc/cdi']\n")
    write(root / "etc/crio/crio.conf.d/10.conf", "[crio.runtime]\ncdi_spec_dirs = ['/run/cdi']\n")

    assert (runtime(root).name, runtime(root).cdi_folders) == ("cri-o", ("/run/cdi",))


def test_a_file_that_is_no_toml_is_told(root: Path) -> None:
    write(root / "etc/containerd/config.toml", "version = = 3")

    assert "config.toml" in runtime(root).trouble


def test_the_default_runtime_is_read(root: Path) -> None:
    text = "[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'nvidia'\n"
    write(root / "etc/containerd/config.toml", text)

    assert runtime(root).default_runtime == "nvidia"


@pytest.mark.parametrize(
    ("text", "obeys"),
    [
        ("", True),
        ("accept-nvidia-visible-devices-envvar-when-unprivileged = false", False),
        ("[nvidia-container-runtime]\nmode = 'cdi'", False),
        ("= =", None),
        (None, None),
    ],
)
def test_whether_a_variable_gives_cards_is_read_from_nvidias_file(
    root: Path, text: str | None, obeys: bool | None
) -> None:
    if text is not None:
        write(root / "etc/nvidia-container-runtime/config.toml", text)

    assert look(root).obeys_environment is obeys


# --- what drivers have left -------------------------------------------------------------------------------------------


def prepare(root: Path, *, with_checkpoint: bool = True) -> Path:
    """Leave what a prepared claim leaves; gives the checkpoint."""
    paths = NodePaths.compact(root)
    device = HeldDevice(id=DeviceId(GPU, "node-a", "gpu-0"), request="r")
    entry = PreparedClaim(claim=CLAIM, devices=(device,), boot_id="boot-1")
    checkpoint = paths.folder_of(GPU) / "checkpoint.json"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if with_checkpoint:
        checkpoint.write_bytes(encode_content(Content.of([entry])))
    note = {"namespace": CLAIM.namespace, "name": CLAIM.name, "uid": CLAIM.uid, "boot": "boot-1"}
    annotations = {"claimsmith.dev/claim": json.dumps(note)}
    document = {"cdiVersion": "0.6.0", "kind": cdi_kind(GPU), "annotations": annotations, "devices": []}
    CdiFiles(paths.cdi, GPU).write(CLAIM, document)
    return checkpoint


def test_a_checkpoint_and_its_cdi_files_are_read(root: Path) -> None:
    prepare(root)
    (driver,) = look(root).drivers

    assert (driver.name, driver.checkpoint) == (GPU, "good")
    assert (dict(driver.claims), set(driver.boots)) == ({CLAIM.uid: "default/train"}, {"boot-1"})
    assert list(driver.cdi_claims.values()) == [CLAIM.uid]


def test_a_damaged_checkpoint_is_told_and_left_alone(root: Path) -> None:
    checkpoint = prepare(root)
    data = checkpoint.read_bytes()[:-10]
    checkpoint.write_bytes(data)
    (driver,) = look(root).drivers

    assert driver.checkpoint == "damaged"
    assert checkpoint.read_bytes() == data


def test_a_checkpoint_of_a_later_version_is_no_damaged_one(root: Path) -> None:
    content = {"version": 99, "minReader": 99, "checksum": "", "claims": [], "grantsChecksum": "", "grants": []}
    prepare(root).write_text(json.dumps(content))

    assert look(root).drivers[0].checkpoint == "newer"


def test_a_checkpoint_that_was_put_aside_is_found(root: Path) -> None:
    prepare(root).rename(NodePaths.compact(root).folder_of(GPU) / "checkpoint.json.damaged-1")
    (driver,) = look(root).drivers

    assert (driver.checkpoint, len(driver.set_aside)) == ("none", 1)


def test_damaged_cdi_files_of_anybody_are_found(root: Path) -> None:
    cdi = NodePaths.compact(root).cdi
    bad = [write(cdi / "a.json", "{"), write(cdi / "b.yaml", "a: [")]
    write(cdi / "c.yaml", "cdiVersion: 0.6.0")
    write(cdi / "notes.txt", "{")

    assert look(root).broken_cdi == tuple(map(str, bad))


def test_devices_of_device_plugins_are_known_from_the_kubelets_checkpoint(root: Path) -> None:
    path = NodePaths.compact(root).device_plugins / "kubelet_internal_checkpoint"
    write(path, json.dumps({"Data": {"RegisteredDevices": {"nvidia.com/gpu": ["GPU-a"]}}, "Checksum": 1}))

    assert look(root).registered == {"nvidia.com/gpu": ("GPU-a",)}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"Data": {"RegisteredDevices": null}}'])
def test_a_kubelets_checkpoint_that_is_not_as_expected_tells_nothing(root: Path, text: str) -> None:
    write(NodePaths.compact(root).device_plugins / "kubelet_internal_checkpoint", text)

    assert look(root).registered == {}


def test_looking_changes_nothing(sockets: NodePaths, root: Path) -> None:
    prepare(root)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    look(root)

    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before
    assert os.path.exists(root)
