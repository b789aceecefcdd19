"""The container edits of a driver's answer in the words of the CDI, each field checked: pure.

Source: Container Device Interface specification 0.6.0; validation of its package pkg/cdi.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from claimsmith.errors import DriverAnswerError
from claimsmith.model.prepared import ContainerEdits, DeviceNode, Hook, Mount, PreparedDevice

__all__ = ["HOOK_NAMES", "check_environment", "plan_edits"]

HOOK_NAMES: Final = ("createContainer", "createRuntime", "poststart", "poststop", "prestart", "startContainer")
"""Names of OCI hooks."""
_DEVICE_TYPES: Final = ("", "b", "c", "p", "u")
_PERMISSIONS: Final = re.compile("[rwm]*")


def check_environment(answers: Iterable[PreparedDevice], common: ContainerEdits) -> None:
    """Check that no two edits that reach one container give a variable different values.

    The runtime would silently keep the last one. Devices of different requests may differ: a container may name one
    request alone.

    Raises:
        DriverAnswerError: Two devices of one request, or a device and the common part, differ.
    """
    seen: dict[tuple[str, str], str] = {}
    for index, answer in enumerate(answers):
        for name, value in answer.edits.env.items():
            other = common.env.get(name, seen.setdefault((answer.device.request, name), value))
            if other != value:
                raise DriverAnswerError(
                    f"devices[{index}].edits.env[{name}]",
                    value,
                    allowed=f"{other!r}, which the same container gets, or a name that is the device's own",
                )


def plan_edits(edits: ContainerEdits, path: str) -> dict[str, object]:
    """Return edits as JSON values; empty when there is nothing to edit.

    Args:
        path: Where in the driver's answer the edits are, for errors.

    Raises:
        DriverAnswerError: A field holds a value that a runtime refuses.
    """
    parts: dict[str, Sequence[object]] = {
        "env": [_variable(name, value, f"{path}.env") for name, value in edits.env.items()],
        "deviceNodes": [_node(node, f"{path}.device_nodes[{i}]") for i, node in enumerate(edits.device_nodes)],
        "mounts": [_mount(mount, f"{path}.mounts[{i}]") for i, mount in enumerate(edits.mounts)],
        "hooks": [_hook(hook, f"{path}.hooks[{i}]") for i, hook in enumerate(edits.hooks)],
    }
    return {name: part for name, part in parts.items() if part}


def _variable(name: str, value: str, path: str) -> str:
    if not name or not name.isprintable() or "=" in name:
        raise DriverAnswerError(path, name, allowed="a name of printable characters without '='")
    return f"{name}={_text(value, f'{path}[{name}]')}"


def _text(value: str, path: str) -> str:
    """A text for the kernel, which ends at a NUL; newlines are fine."""
    if "\0" in value:
        raise DriverAnswerError(path, value, allowed="a text without NUL characters")
    return value


def _absolute(value: str, path: str) -> str:
    if not value.startswith("/"):
        raise DriverAnswerError(path, value, allowed="an absolute path")
    return _text(value, path)


def _node(node: DeviceNode, path: str) -> dict[str, object]:
    if node.type not in _DEVICE_TYPES:
        raise DriverAnswerError(f"{path}.type", node.type, allowed="b, c, p, u or empty")
    if not node.type and (node.major is not None or node.minor is not None):
        raise DriverAnswerError(f"{path}.type", node.type, allowed="b, c or u with a major or minor number")
    if not _PERMISSIONS.fullmatch(node.permissions) or len(set(node.permissions)) != len(node.permissions):
        raise DriverAnswerError(f"{path}.permissions", node.permissions, allowed="of the letters r, w, m, each once")
    numbers = {"major": node.major, "minor": node.minor}
    for name, number in numbers.items():
        if number is not None and number < 0:
            raise DriverAnswerError(f"{path}.{name}", number, allowed=">= 0")
    texts = {"type": node.type, "permissions": node.permissions}
    return {
        "path": _absolute(node.path, f"{path}.path"),
        **({"hostPath": _absolute(node.host_path, f"{path}.host_path")} if node.host_path else {}),
        **{name: text for name, text in texts.items() if text},
        **{name: number for name, number in numbers.items() if number is not None},
    }


def _mount(mount: Mount, path: str) -> dict[str, object]:
    return {
        "hostPath": _absolute(mount.host_path, f"{path}.host_path"),
        "containerPath": _absolute(mount.container_path, f"{path}.container_path"),
        "options": [_text(option, f"{path}.options[{i}]") for i, option in enumerate(mount.options)],
    }


def _hook(hook: Hook, path: str) -> dict[str, object]:
    if hook.name not in HOOK_NAMES:
        raise DriverAnswerError(f"{path}.name", hook.name, allowed=", ".join(HOOK_NAMES))
    for index, variable in enumerate(hook.env):
        if not variable.partition("=")[0] or "=" not in variable:
            raise DriverAnswerError(f"{path}.env[{index}]", variable, allowed="NAME=value")
    if hook.timeout_s is not None and hook.timeout_s < 1:
        raise DriverAnswerError(f"{path}.timeout_s", hook.timeout_s, allowed=">= 1")
    texts = {"args": hook.args, "env": hook.env}
    return {
        "hookName": hook.name,
        "path": _absolute(hook.path, f"{path}.path"),
        **{
            name: [_text(text, f"{path}.{name}[{i}]") for i, text in enumerate(values)]
            for name, values in texts.items()
            if values
        },
        **({} if hook.timeout_s is None else {"timeout": hook.timeout_s}),
    }
