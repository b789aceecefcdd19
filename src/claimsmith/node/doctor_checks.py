"""The doctor's checks of a machine: each a pure function of the facts, that says something in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Final

from claimsmith.node.doctor_facts import DriverFact, FolderFact, LocalFacts, RuntimeFact
from claimsmith.node.doctor_findings import Finding, good, problem, unknown, warning

__all__ = ["LOCAL_CHECKS", "LocalCheck"]

LocalCheck = Callable[[LocalFacts], Iterator[Finding]]

_DEFAULT_CDI: Final = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
"""Where runtimes look by default; /var/run is a link to /run almost everywhere."""
_FREE_BYTES: Final = 64 * 2**20
_FREE_BYTES_MIN: Final = 2**20
_FREE_INODES: Final = 1000
_FREE_INODES_MIN: Final = 10
_SHOWN: Final = 5


def check_system(facts: LocalFacts) -> Iterator[Finding]:
    """Kubelets that serve plugins run on Linux alone."""
    if facts.system == "Linux":
        yield good("system", "Linux")
    else:
        yield problem("system", facts.system, allowed="Linux", hint="run it on the node itself")


def check_user(facts: LocalFacts) -> Iterator[Finding]:
    """The folders of the kubelet belong to root."""
    if facts.user_id == 0:
        yield good("user", "root")
        return
    hint = "run it as root, or in a pod with runAsUser: 0 and the folders mounted"
    yield problem("user", f"uid {facts.user_id}", allowed="root, whose the kubelet's folders are", hint=hint)


def check_boot(facts: LocalFacts) -> Iterator[Finding]:
    """Without a boot id nobody can tell whether a reboot has reset the devices."""
    if facts.boot_id:
        yield good("boot-id", facts.boot_id)
    else:
        yield problem("boot-id", "none", allowed="/proc/sys/kernel/random/boot_id", hint="mount /proc")


def check_cgroups(facts: LocalFacts) -> Iterator[Finding]:
    """Source: KEP-5573, failCgroupV1 of the kubelet is true by default since 1.35."""
    if facts.cgroup_version == 2:
        yield good("cgroups", "version 2")
        return
    found = f"version {facts.cgroup_version}" if facts.cgroup_version else "none that can be seen"
    hint = "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false for the kubelet"
    yield warning("cgroups", found, allowed="version 2, which kubelets ask for since 1.35", hint=hint)


def check_folders(facts: LocalFacts) -> Iterator[Finding]:
    """Every folder must be there and be writable."""
    for folder in facts.folders:
        yield _judge_folder(folder)


def _judge_folder(folder: FolderFact) -> Finding:
    check, what = "folders", f"{folder.path} ({folder.purpose})"
    if not folder.is_folder:
        hint = "start the kubelet, mount the folder, or name the right root with --kubelet-root"
        if "CDI" in folder.purpose:
            hint = "make it, or name the folder that the runtime reads with --cdi-dir"
        return problem(check, f"no folder {what}", allowed="a folder", hint=hint)
    if not folder.is_writable:
        hint = "run as root, and mount it without readOnly"
        return problem(check, f"{what} not writable", allowed="a writable folder", hint=hint)
    return good(check, f"{what} is writable")


def check_space(facts: LocalFacts) -> Iterator[Finding]:
    """A checkpoint or CDI file that can't be written keeps pods from starting."""
    short = [
        (folder, text, is_out) for folder in facts.folders if folder.is_folder for text, is_out in _shortage(folder)
    ]
    if not short:
        yield good("space", "enough bytes and inodes in all folders")
    for folder, text, is_out in short:
        make = problem if is_out else warning
        allowed = f"{_FREE_BYTES // 2**20} MiB and {_FREE_INODES} inodes free"
        yield make("space", f"{text} left in {folder.path}", allowed=allowed, hint="make room on that file system")


def _shortage(folder: FolderFact) -> Iterator[tuple[str, bool]]:
    """Yield what is short, and whether it is used up."""
    if folder.free_bytes is not None and folder.free_bytes < _FREE_BYTES:
        yield f"{folder.free_bytes // 1024} KiB", folder.free_bytes < _FREE_BYTES_MIN
    if folder.free_inodes is not None and folder.free_inodes < _FREE_INODES:
        yield f"{folder.free_inodes} inodes", folder.free_inodes < _FREE_INODES_MIN


def check_kubelet(facts: LocalFacts) -> Iterator[Finding]:
    """The kubelet must run, and with the root folder that we think."""
    kubelets = [process for process in facts.processes if process.name == "kubelet"]
    if not kubelets:
        hint = "start the kubelet; from within a pod, set hostPID: true to see it"
        yield unknown("kubelet", "no process of that name", allowed="a running kubelet", hint=hint)
        return
    roots = {process.options.get("root-dir", "/var/lib/kubelet"): process.pid for process in kubelets}
    ours = next((root for root in roots if PurePath(root) == PurePath(facts.kubelet_root)), None)
    if ours is not None:
        yield good("kubelet", f"process {roots[ours]} with root {ours}")
    else:
        hint = f"give the agent --kubelet-root {next(iter(roots))}"
        yield problem(
            "kubelet", f"root {_join(list(roots))}", allowed=f"{facts.kubelet_root}, where we look", hint=hint
        )


def check_kubelet_socket(facts: LocalFacts) -> Iterator[Finding]:
    """Device plugins register at a socket that the kubelet makes at its start."""
    socket, hint = facts.kubelet_socket, "start the kubelet, or restart it when it runs"
    if socket is None:
        allowed = "kubelet.sock in the folder of device plugins"
        yield warning("kubelet-socket", "none", allowed=allowed, hint=hint)
    elif socket.answers is False:
        yield warning("kubelet-socket", f"{socket.path} answers nobody", allowed="a kubelet behind it", hint=hint)
    elif socket.answers is None:
        allowed = "one that may be tried"
        yield unknown("kubelet-socket", f"{socket.path} closed to us", allowed=allowed, hint="run as root")
    else:
        yield good("kubelet-socket", f"{socket.path} answers")


def check_sockets(facts: LocalFacts) -> Iterator[Finding]:
    """A socket that answers nobody was left by a process that was killed; the kubelet tries it again and again."""
    stale = [socket.path for socket in facts.sockets if socket.answers is False]
    if not stale:
        yield good("sockets", f"{len(facts.sockets)} of plugins, none of them left over")
        return
    hint = "start the plugin that they belong to, or remove them"
    yield warning("sockets", f"left over {_join(stale)}", allowed="sockets that answer", hint=hint)


def check_runtime(facts: LocalFacts) -> Iterator[Finding]:
    """The runtime must read the folder that we write CDI files to."""
    if not facts.runtimes:
        hint = "see that its configuration has CDI on; from within a pod, mount /etc/containerd and set hostPID: true"
        yield unknown("runtime", "no container runtime", allowed="containerd or cri-o", hint=hint)
        return
    judged = [_judge_runtime(runtime, facts.cdi_folder) for runtime in facts.runtimes]
    # Of several on one machine, the kubelet's own is not known: one that reads the folder will be it.
    well = [finding for finding in judged if finding.severity == "good"]
    yield from well or judged


def _judge_runtime(runtime: RuntimeFact, cdi_folder: str) -> Finding:
    check, name = "runtime", runtime.name
    if runtime.trouble:
        return unknown(check, f"{name}: {runtime.trouble}", allowed="a readable file", hint="correct the file")
    if runtime.is_cdi_on is False:
        hint = f"set enable_cdi = true in {runtime.config} and restart {name}"
        return problem(check, f"{name} with CDI off", allowed="CDI on, by which containers get devices", hint=hint)
    folders = runtime.cdi_folders or _DEFAULT_CDI
    if cdi_folder not in folders:
        where = f"{name} reading CDI files from {', '.join(folders)}"
        hint = f"give the agent --cdi-dir, or add the folder to cdi_spec_dirs in {runtime.config}"
        return problem(check, where, allowed=f"{cdi_folder}, where we write them", hint=hint)
    if runtime.is_cdi_on is None and name == "containerd":
        return good(check, f"{name} reads {cdi_folder}; CDI as by default: on since containerd 2.0, off before")
    return good(check, f"{name} reads {cdi_folder}")


def check_visible(facts: LocalFacts) -> Iterator[Finding]:
    """A runtime that obeys a variable gives cards to containers that nobody gave them to, since images set it.

    Source: NVIDIA/k8s-device-plugin issue 87 and its advice.
    """
    names = [runtime.name for runtime in facts.runtimes if "nvidia" in runtime.default_runtime]
    if facts.obeys_environment and names:
        hint = "set accept-nvidia-visible-devices-envvar-when-unprivileged = false in /etc/nvidia-container-runtime/"
        found = f"{_join(names)} with a default runtime that obeys NVIDIA_VISIBLE_DEVICES of any image"
        yield warning("visible-devices", found, allowed="devices by CDI alone", hint=f"{hint}config.toml")
    else:
        yield good("visible-devices", "no runtime gives devices to whoever asks by a variable")


def check_cdi_files(facts: LocalFacts) -> Iterator[Finding]:
    """A CDI file that can't be read may keep the runtime from starting any container with devices."""
    if facts.broken_cdi:
        hint = "remove them, or let their owner write them again"
        yield problem("cdi-files", f"damaged {_join(facts.broken_cdi)}", allowed="JSON or YAML of CDI", hint=hint)
    else:
        yield good("cdi-files", "none damaged")


def check_checkpoints(facts: LocalFacts) -> Iterator[Finding]:
    """What is prepared is known from checkpoints."""
    if not facts.drivers:
        yield good("checkpoints", "no driver of ours has prepared anything here")
    for driver in facts.drivers:
        yield from _judge_checkpoint(driver)


def _judge_checkpoint(driver: DriverFact) -> Iterator[Finding]:
    check, name = "checkpoints", driver.name
    if driver.checkpoint == "damaged":
        hint = "restart the agent: it puts the file aside and reads the CDI files instead"
        yield problem(check, f"{name}: a damaged file", allowed="a whole one", hint=hint)
    elif driver.checkpoint == "newer":
        hint = "start the later claimsmith again, or drain the node and remove the file"
        yield problem(check, f"{name}: a file of a later version", allowed="one that this version reads", hint=hint)
    elif driver.checkpoint == "unreadable":
        yield problem(check, f"{name}: a file that can't be read", allowed="a readable one", hint="run as root")
    elif driver.checkpoint == "none":
        hint = "start the agent, which makes it from the CDI files"
        yield warning(check, f"{name}: none", allowed="one beside the one that was put aside", hint=hint)
    else:
        yield good(check, f"{name}: {len(driver.claims)} claims, {len(driver.grants)} containers of the device plugin")
    if driver.set_aside:
        hint = "send them with a bug report, then remove them"
        yield warning(check, f"{name}: {_join(driver.set_aside)} put aside", allowed="none", hint=hint)


def check_boots(facts: LocalFacts) -> Iterator[Finding]:
    """Claims of an earlier boot are prepared again when the kubelet asks, which it does for pods that still run."""
    for driver in facts.drivers:
        if driver.boots - {facts.boot_id, ""}:
            hint = "restart the agent; pods that still need them make the kubelet ask for them"
            yield warning(
                "boots", f"{driver.name}: claims of an earlier boot", allowed="claims of this boot", hint=hint
            )
            return
    yield good("boots", "no claims of an earlier boot")


def check_leftovers(facts: LocalFacts) -> Iterator[Finding]:
    """Each CDI file must belong to a claim in the checkpoint, and each claim there must have one."""
    is_clean = True
    for driver in facts.drivers:
        known = driver.claims.keys() | driver.grants
        left = [path for path, uid in driver.cdi_claims.items() if uid not in known]
        missing = [name for uid, name in driver.claims.items() if uid not in driver.cdi_claims.values()]
        if left and driver.checkpoint == "good":
            is_clean = False
            hint = "restart the agent; remove them if they stay"
            yield warning("leftovers", f"{driver.name}: {_join(left)} without a claim", allowed="none", hint=hint)
        if missing:
            is_clean = False
            hint = "restart the agent; delete the pods if their containers lack the devices"
            allowed = "one for each prepared claim"
            yield warning("leftovers", f"{driver.name}: no CDI file for {_join(missing)}", allowed=allowed, hint=hint)
    if is_clean:
        yield good("leftovers", "CDI files and checkpoints agree")


LOCAL_CHECKS: Final[Mapping[str, LocalCheck]] = {
    "system": check_system,
    "user": check_user,
    "boot-id": check_boot,
    "cgroups": check_cgroups,
    "folders": check_folders,
    "space": check_space,
    "kubelet": check_kubelet,
    "kubelet-socket": check_kubelet_socket,
    "sockets": check_sockets,
    "runtime": check_runtime,
    "visible-devices": check_visible,
    "cdi-files": check_cdi_files,
    "checkpoints": check_checkpoints,
    "boots": check_boots,
    "leftovers": check_leftovers,
}
"""All checks of the machine by name, in order."""


def _join(texts: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"{', '.join(texts[:_SHOWN])}{more}"
