"""Every exception of claimsmith, grouped by who must act.

A message is one sentence without a full stop: object, what was found, what was allowed; then "; " and what to do.
"It does not fit" is never an exception but the value `claimsmith.model.decision.Pending`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping

__all__ = [
    "AlreadyExistsError",
    "ApiError",
    "CelAbort",
    "CelCompileError",
    "CelCostError",
    "CelCostLimitReached",
    "CelDeviceError",
    "CelError",
    "CelFault",
    "CelRuntimeError",
    "CheckpointError",
    "ClaimNotReadyError",
    "ClaimsmithError",
    "ConfigError",
    "ConflictError",
    "DemoError",
    "DeviceGrantedError",
    "DeviceHeldError",
    "DeviceOwnedError",
    "DeviceRefusedError",
    "DriverAnswerError",
    "DriverError",
    "FieldError",
    "ForbiddenError",
    "GoneError",
    "GrantRefusedError",
    "InputError",
    "InvalidObjectError",
    "KubeconfigError",
    "KubeletUnreachableError",
    "ManifestError",
    "NotFoundError",
    "PluginCallError",
    "PluginRefusedError",
    "PodRejectedError",
    "PodStartError",
    "QuantityFormatError",
    "ReplayError",
    "RequestError",
    "SemverFormatError",
    "ThrottledError",
    "TraceError",
    "UnreachableError",
]


class ClaimsmithError(Exception):
    """Root of all exceptions that claimsmith raises on purpose."""


class _Shortened(reprlib.Repr):
    """repr() that stays on one line and reads values as JSON and YAML spell them."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong, self.maxother = 2, 80, 60, 80

    def repr1(self, x: object, level: int) -> str:
        """Return the text of one value."""
        if x is None:
            return "null"
        return str(x).lower() if isinstance(x, bool) else super().repr1(x, level)


_shown = _Shortened().repr


# --- the author of an object or file must act -------------------------------------------------------------------------


class InputError(ClaimsmithError):
    """Something that a person wrote (a manifest, an expression, an argument) can't be used as it is."""


class FieldError(InputError):
    """A field of an API object holds a value that is not allowed.

    Args:
        path: Field path in Kubernetes' form, e.g. `spec.devices.requests[0].exactly.count`.
        found: The value that was found.
        allowed: What is allowed, in words.
        hint: What to do.
        source: Where the object stands, e.g. `gpu.yaml, document 2, line 14`; empty when it is known from the context.
    """

    def __init__(self, path: str, found: object, *, allowed: str, hint: str, source: str = "") -> None:
        place = f"{source}: {path}" if source and path else source or path
        super().__init__(f"{place}: found {_shown(found)}, allowed {allowed}; {hint}")
        self.path, self.found, self.allowed, self.hint, self.source = path, found, allowed, hint, source


class ManifestError(InputError):
    """A text can't be read as manifests.

    Args:
        source: File, or another name of the text.
        reason: What was found and what is allowed.
        hint: What to do.
        document: Number of the document within the text, from 1; 0 when the whole text is meant.
        line: Number of the line within the text, from 1; 0 when unknown.
    """

    def __init__(self, source: str, reason: str, *, hint: str, document: int = 0, line: int = 0) -> None:
        place = source + (f", document {document}" if document else "") + (f", line {line}" if line else "")
        super().__init__(f"{place}: {reason}; {hint}")
        self.source, self.reason, self.hint = source, reason, hint
        self.document, self.line = document, line


class TraceError(InputError):
    """A workload trace can't be read.

    Args:
        source: Folder or file, with the line where it is known.
        reason: What was found and what is allowed.
        hint: What to do.
    """

    def __init__(self, source: str, reason: str, *, hint: str) -> None:
        super().__init__(f"{source}: {reason}; {hint}")
        self.source, self.reason, self.hint = source, reason, hint


class QuantityFormatError(InputError):
    """A text is no Kubernetes quantity.

    Args:
        text: The text, shortened when it is very long.
        reason: What is wrong with it.
    """

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(
            f"quantity {text!r}: {reason}, allowed a number with a suffix out of n u m k M G T P E, "
            "Ki Mi Gi Ti Pi Ei, or an exponent such as e6; correct the text"
        )
        self.text, self.reason = text, reason


class SemverFormatError(InputError):
    """A text is no semantic version 2.0.0.

    Args:
        text: The text.
        reason: What is wrong with it.
    """

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(
            f"version {text!r}: {reason}, allowed a semantic version 2.0.0 such as 1.2.3-rc.1+build; correct the text"
        )
        self.text, self.reason = text, reason


class CelError(InputError):
    """A selector expression can't be compiled, or fails on one device.

    Args:
        message: What was found and what is allowed, without the expression.
        text: The whole expression.
        offset: Where, in characters from the start of the expression; 0 <= offset <= len(text).
        hint: What to do; may be empty.
    """

    def __init__(self, message: str, *, text: str, offset: int, hint: str = "") -> None:
        self.message, self.text, self.offset, self.hint = message, text, offset, hint
        before = text[:offset]
        self.line = before.count("\n") + 1
        self.column = offset - (before.rfind("\n") + 1) + 1
        start, end = max(0, offset - 30), offset + 30
        body = text[start:end].replace("\n", " ")
        self.snippet = ("…" if start else "") + body + ("…" if end < len(text) else "")
        where = f"{self.line}:{self.column}" if self.line > 1 else f"column {self.column}"
        super().__init__(f"CEL {where} in {self.snippet!r}: {message}" + (f"; {hint}" if hint else ""))


class CelCompileError(CelError):
    """A selector expression is wrong whatever the device: its syntax, a name, a type, its length or its cost."""


class CelRuntimeError(CelError):
    """A selector expression fails on one device, which fails the whole allocation.

    Source: pkg/cel in k8s.io/dynamic-resource-allocation v0.37.2.
    """


class CelCostError(CelRuntimeError):
    """A selector expression costs more on one device than the API allows."""


class CelDeviceError(InputError):
    """An attribute of a device is no value that expressions can read, so no expression can be evaluated on it.

    Args:
        device: Name of the device.
        attribute: Name of the attribute.
        reason: What is wrong with its value.
    """

    def __init__(self, device: str, attribute: str, *, reason: str) -> None:
        super().__init__(f"device {device!r}, attribute {attribute!r}: {reason}; correct the driver's slice")
        self.device, self.attribute, self.reason = device, attribute, reason


# --- the operator of the machine or cluster must act ------------------------------------------------------------------


class ConfigError(ClaimsmithError):
    """The surroundings are not as they must be: a folder, a port, a permission, a missing optional package."""


class MissingExtraError(ConfigError):
    """An optional package is not installed.

    Args:
        package: The package.
        extra: The extra of claimsmith that brings it.
    """

    def __init__(self, package: str, *, extra: str) -> None:
        super().__init__(f"package {package!r} is not installed; install claimsmith[{extra}]")
        self.package, self.extra = package, extra


class KubeconfigError(ConfigError):
    """No way to an API server can be read from a kubeconfig or from the surroundings of a pod.

    Args:
        source: File, or what else was read.
        found: What is wrong with it.
        hint: What to do.
    """

    def __init__(self, source: str, found: str, *, hint: str) -> None:
        super().__init__(f"{source}: {found}; {hint}")
        self.source, self.found, self.hint = source, found, hint


class CheckpointError(ConfigError):
    """A checkpoint file can't be used as it is.

    Args:
        path: The file.
        reason: What was found, and what is allowed.
        hint: What to do.
    """

    def __init__(self, path: object, reason: str, *, hint: str) -> None:
        super().__init__(f"checkpoint {path}: {reason}; {hint}")
        self.path, self.reason, self.hint = path, reason, hint


class DeviceOwnedError(ConfigError):
    """Another process of this machine offers the devices of a driver already.

    Args:
        driver: Name of the driver.
        devices: Some of its devices, in words.
        owner: That process, and in which ways it offers them.
        ways: In which ways this process was to offer them.
    """

    def __init__(self, driver: str, *, devices: str, owner: str, ways: str) -> None:
        super().__init__(
            f"driver {driver}: found {owner}, which offers {devices} already, allowed one process for a device; "
            f"stop that process, or let it offer them by {ways} as well"
        )
        self.driver, self.devices, self.owner, self.ways = driver, devices, owner, ways


class DemoError(ConfigError):
    """A step of the demo did not show what it is about.

    Args:
        title: What the step is about.
        found: The pods and their phases at that time.
        timeout_s: Seconds that it had.
    """

    def __init__(self, title: str, *, found: str, timeout_s: float) -> None:
        super().__init__(
            f"demo step {title!r}: found {found} after {timeout_s:g} s, allowed what the step is about; "
            "run it again on a machine with less load, and report it when it fails again"
        )
        self.title, self.found, self.timeout_s = title, found, timeout_s


# --- a retry may help -------------------------------------------------------------------------------------------------


class ApiError(ClaimsmithError):
    """An API server refused or could not be reached.

    Args:
        message: What was tried and what came back.
        status: HTTP status code; 0 when there was no answer.
        reason: Kubernetes' machine-readable reason, e.g. `Conflict`; empty when there was none.
    """

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class NotFoundError(ApiError):
    """The object, or its whole kind, is not there (404)."""


class AlreadyExistsError(ApiError):
    """An object of that name is already there (409 AlreadyExists)."""


class ConflictError(ApiError):
    """Somebody else changed the object in between (409), or made it anew (422 for a uid); read it and decide anew."""


class GoneError(ApiError):
    """The resourceVersion asked for is no longer kept (410); list anew."""


class ForbiddenError(ApiError):
    """The server does not know the caller (401), or the caller may not do this (403)."""


class InvalidObjectError(ApiError):
    """The server read the object and found it wrong (400, 422); sending it again can't help."""


class ThrottledError(ApiError):
    """The server asks for a pause (429).

    Args:
        retry_after_s: Seconds to wait; >= 0.
    """

    def __init__(self, message: str, *, status: int = 429, reason: str = "", retry_after_s: float = 1.0) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after_s = retry_after_s


class UnreachableError(ApiError):
    """No answer: no connection, a broken one, or silence until the time was up; what was sent may have been done."""


class RequestError(ApiError):
    """The embedded API server answers a request with a Kubernetes Status instead of an object.

    Args:
        status: HTTP status code, such as 404.
        reason: Kubernetes' machine-readable reason, such as `NotFound`.
        message: The sentence a person reads.
        details: `details` of the Status: name, group, kind, uid, causes, retryAfterSeconds.
        headers: HTTP headers of the answer besides the content type, such as `Allow`.

    Source: metav1.Status, k8s.io/apimachinery v0.37.2 pkg/api/errors.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.message, self.details, self.headers = message, dict(details or {}), dict(headers or {})


class DriverError(ClaimsmithError):
    """A device driver could not do what was asked; kubelet will ask again."""


class DriverAnswerError(DriverError):
    """What a driver answered for a claim can't be given to containers.

    Args:
        path: Where in the answer, e.g. `devices[0].edits.mounts[1].host_path`.
        found: The value that was found.
        allowed: What is allowed, in words.
    """

    def __init__(self, path: str, found: object, *, allowed: str) -> None:
        super().__init__(f"{path}: found {_shown(found)}, allowed {allowed}; correct the driver")
        self.path, self.found, self.allowed = path, found, allowed


class DeviceHeldError(DriverError):
    """A device that a claim needs is prepared for another claim, which must be unprepared first.

    Args:
        device: The device.
        holder: Namespace and name of the claim that holds it.
        holder_uid: Its uid.
        held: The device that the other claim holds; None: the same one, else one of the same hardware.
    """

    def __init__(self, device: object, *, holder: object, holder_uid: str, held: object = None) -> None:
        same = "" if held is None or held == device else f"{held} of the same hardware "
        super().__init__(
            f"device {device}: found {same}prepared for claim {holder} (uid {holder_uid}), allowed one claim at a "
            "time; wait until the kubelet has unprepared that claim"
        )
        self.device, self.holder, self.holder_uid, self.held = device, holder, holder_uid, held or device


class DeviceGrantedError(DriverError):
    """A device that is wanted, or hardware that it shares, was given to a container by the device plugin.

    Args:
        device: The device that is wanted.
        held: The device that was given away; the same one, or one of the same hardware.
        resource: The resource by which it was given away.
        holder_uid: uid of the grant.
    """

    def __init__(self, device: object, *, held: object, resource: str, holder_uid: str) -> None:
        same = "it" if held == device else f"{held} of the same hardware"
        super().__init__(
            f"device {device}: found {same} given to a container as {resource}, allowed one owner at a time; "
            "wait until that container's pod has ended"
        )
        self.device, self.held, self.resource, self.holder_uid = device, held, resource, holder_uid


class GrantRefusedError(DriverError):
    """Devices that the kubelet asks for can't be given to a container.

    Args:
        resource: The resource.
        reason: What was found, and what is allowed.
        hint: What to do.
    """

    def __init__(self, resource: str, reason: str, *, hint: str) -> None:
        super().__init__(f"resource {resource}: {reason}; {hint}")
        self.resource, self.reason, self.hint = resource, reason, hint


class KubeletUnreachableError(ClaimsmithError):
    """The kubelet of this node does not answer, or does not take what it is told; it is asked again.

    Args:
        socket: The kubelet's socket.
        reason: What came of it.
        hint: What to do when it lasts.
    """

    def __init__(self, socket: object, reason: str, *, hint: str) -> None:
        super().__init__(f"kubelet socket {socket}: {reason}; {hint}")
        self.socket, self.reason, self.hint = socket, reason, hint


class ClaimNotReadyError(ClaimsmithError):
    """A claim can't be prepared now: in the API server it is not as the kubelet's call says.

    Args:
        claim: Namespace and name.
        reason: What was found, and what is allowed.
        lasts: Whether waiting can't help: only another call of the kubelet can.
    """

    def __init__(self, claim: object, reason: str, *, lasts: bool = False) -> None:
        super().__init__(f"claim {claim}: {reason}; the kubelet asks again")
        self.claim, self.reason, self.lasts = claim, reason, lasts


class PodStartError(ClaimsmithError):
    """A kubelet can't start a pod now; it tries again.

    Args:
        message: What was found.
        reason: The reason of the event on the pod, e.g. `FailedPrepareDynamicResources`.
        waiting: The reason why its containers wait, if one of them can't be made; empty: they are not begun.
    """

    def __init__(self, message: str, *, reason: str, waiting: str = "") -> None:
        super().__init__(message)
        self.reason, self.waiting = reason, waiting


class PodRejectedError(ClaimsmithError):
    """A kubelet does not admit a pod, for good; whoever made the pod makes another.

    Args:
        message: What was found.
        reason: The reason in the pod's status, e.g. `UnexpectedAdmissionError`.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class DeviceRefusedError(ClaimsmithError):
    """A kubelet's device manager, or a device plugin, does not give a container what it asks for."""


class PluginCallError(ClaimsmithError):
    """A caller of a plugin sent something that is no request of the protocol; the call as a whole is refused."""


class PluginRefusedError(ClaimsmithError):
    """A kubelet does not take a plugin that wants to register, or can't reach it; it tries again."""


class ReplayError(ClaimsmithError):
    """A replay found a decision that must not be: a mistake of ours."""


# --- nobody must act: signals inside the selector language, which never leave it --------------------------------------


class CelFault(ClaimsmithError):  # noqa: N818 - a signal
    """A part of an expression failed; && and || may ignore it.

    Args:
        message: What failed, in upstream's words where a user may know them.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CelCostLimitReached(ClaimsmithError):  # noqa: N818 - a signal
    """An evaluation costs more than it may."""


class CelAbort(BaseException):
    """Upstream stops with an internal error here, which && and || don't absorb; so nothing between may catch it."""
