"""Answers of an API server as values or as exceptions: pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from claimsmith.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidObjectError,
    NotFoundError,
    ThrottledError,
)
from claimsmith.kube.transport import Answer

__all__ = ["build_error", "build_status_error", "parse_object"]

_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    400: InvalidObjectError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidObjectError,
}
_TEXT_MAX: Final = 2000
_UID_FIELD: Final = "metadata.uid"


def parse_object(answer: Answer, what: str) -> dict[str, Any]:
    """Return the object of an answer.

    Args:
        answer: The answer; its status may be any.
        what: The request, for the message: method and path.

    Raises:
        ApiError: The status is no success, or the body is no JSON object.
    """
    if not 200 <= answer.status < 300:
        raise build_error(answer, what)
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        start = answer.body[:60].decode("utf-8", "replace")
        raise ApiError(
            f"{what}: found an answer that starts with {start!r}, allowed a JSON object; see whether the address is "
            "that of an API server",
            status=answer.status,
        ) from error


def build_error(answer: Answer, what: str) -> ApiError:
    """Return the exception that an unsuccessful answer stands for."""
    try:
        status = msgspec.json.decode(answer.body, type=dict[str, Any])
    except msgspec.DecodeError:
        status = {"message": answer.body[:_TEXT_MAX].decode("utf-8", "replace").strip()}
    retry_after = answer.headers.get("retry-after", "")
    if retry_after.isdigit():
        details = status.get("details")
        status["details"] = {"retryAfterSeconds": int(retry_after), **(details if isinstance(details, dict) else {})}
    return build_status_error({**status, "code": answer.status}, what)


def build_status_error(status: dict[str, Any], what: str) -> ApiError:
    """Return the exception for a Kubernetes Status, such as the object of a watch's ERROR event.

    A patch that names another uid than the object has is refused as Invalid: that is a conflict, since the object it
    was meant for is gone.

    Source: metav1.Status; reasons of k8s.io/apimachinery v0.37.2 pkg/apis/meta/v1/types.go; for the uid,
    ValidateObjectMetaAccessorUpdate there.
    """
    code = status.get("code")
    code = code if isinstance(code, int) else 500
    reason = str(status.get("reason") or "")
    message = f"{what}: API server answered {code} {reason}: {status.get('message') or 'without a message'}"
    wait_s = _find_retry_after(status)
    if code == 429 or (code == 503 and wait_s is not None):
        return ThrottledError(message, status=code, reason=reason, retry_after_s=1.0 if wait_s is None else wait_s)
    if reason == "AlreadyExists":
        return AlreadyExistsError(message, status=code, reason=reason)
    if reason == "Expired":
        return GoneError(message, status=code, reason=reason)
    if code == 422 and _UID_FIELD in _find_fields(status):
        return ConflictError(message, status=code, reason=reason)
    return _BY_STATUS.get(code, ApiError)(message, status=code, reason=reason)


def _find_fields(status: dict[str, Any]) -> list[object]:
    """Return the fields that a Status names as causes."""
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    return [cause.get("field") for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []


def _find_retry_after(status: dict[str, Any]) -> float | None:
    details = status.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return max(0.0, float(seconds)) if isinstance(seconds, int | float) else None
