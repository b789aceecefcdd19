"""In which form a client wants its answer.

Source: k8s.io/apiserver v0.37.2 pkg/endpoints/handlers/negotiation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from claimsmith.errors import RequestError

__all__ = ["AcceptedForm", "choose_form"]

_FORMATS: Final = {
    "application/json": "json",
    "application/yaml": "yaml",
    "application/*": "json",
    "*/*": "json",
}
_SHAPES: Final = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_META_VERSIONS: Final = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedForm:
    """The form of an answer.

    Args:
        format: `json` or `yaml`.
        shape: `Table`, `PartialObjectMetadata`, or empty for the object itself.
        version: Version of `meta.k8s.io` for the shape.
    """

    format: str = "json"
    shape: str = ""
    version: str = "v1"


@lru_cache(maxsize=256)
def choose_form(accept: str) -> AcceptedForm:
    """Return the first form of an `Accept` header that the server can give.

    Args:
        accept: The header; empty for anything.

    Raises:
        RequestError: 406, the server can give none of them.
    """
    for clause in accept.split(",") if accept.strip() else ["*/*"]:
        media, *options = (part.strip() for part in clause.split(";"))
        wanted = _FORMATS.get(media.lower())
        if wanted is None:
            continue
        values = dict(option.split("=", 1) for option in options if "=" in option)
        shape, version = values.get("as", ""), values.get("v", "v1")
        if not shape:
            return AcceptedForm(format=wanted)
        if values.get("g") == "meta.k8s.io" and shape in _SHAPES and version in _META_VERSIONS:
            return AcceptedForm(format=wanted, shape=shape.removesuffix("List"), version=version)
    allowed = "application/json, application/yaml"
    raise RequestError(
        406, "NotAcceptable", f"only the following media types are accepted: {allowed}", headers={"Vary": "Accept"}
    )
