"""The four kinds of patches, told apart by their content type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from claimsmith.embedded.api.decode import decode_body
from claimsmith.embedded.api.patch_json import apply_json_patch
from claimsmith.embedded.api.patch_merge import apply_merge_patch
from claimsmith.embedded.api.patch_strategic import apply_strategic_patch
from claimsmith.embedded.api.served import ServedKind
from claimsmith.embedded.store_faults import bad_request
from claimsmith.embedded.store_records import JsonObject
from claimsmith.errors import RequestError

__all__ = ["APPLY_TYPE", "Patch", "decode_patch"]

APPLY_TYPE: Final = "application/apply-patch+yaml"
_JSON_TYPE: Final = "application/json-patch+json"
_MERGE_TYPE: Final = "application/merge-patch+json"
_STRATEGIC_TYPE: Final = "application/strategic-merge-patch+json"
_TYPES: Final = (_JSON_TYPE, _MERGE_TYPE, _STRATEGIC_TYPE, APPLY_TYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One decoded patch.

    Args:
        value: The patch itself.
        apply: Gives an object after the patch; may change its argument.
        is_apply: Whether it is the configuration of a server-side apply instead.
    """

    value: Any
    apply: Callable[[JsonObject], Any]
    is_apply: bool = False


def decode_patch(served: ServedKind, body: bytes, content_type: str) -> Patch:
    """Return the patch of a request.

    Args:
        served: Kind of the object to patch.
        body: Body of the request.
        content_type: Its type, which tells the kind of the patch.

    Raises:
        RequestError: 415, the type is not known; 400, the body can't be read.
    """
    media = content_type.split(";", 1)[0].strip().lower()
    if media not in _TYPES:
        raise RequestError(415, "UnsupportedMediaType", "415: Unsupported Media Type", headers={})
    value = decode_body(body, media)
    if media == _JSON_TYPE:
        return Patch(value=value, apply=lambda old: apply_json_patch(old, value))
    if media == _STRATEGIC_TYPE and value is None:
        value = {}
    if not isinstance(value, dict):
        raise bad_request("error decoding patch: expected an object")
    if media == _MERGE_TYPE:
        return Patch(value=value, apply=lambda old: apply_merge_patch(old, value))
    if media == _STRATEGIC_TYPE:
        return Patch(value=value, apply=lambda old: apply_strategic_patch(old, value, served.shape))
    return Patch(value=value, apply=lambda old: old, is_apply=True)
