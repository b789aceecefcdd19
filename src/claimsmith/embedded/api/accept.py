"""In which form a client wants its answer.

Source: k8s.io/apiserver v0.37.2 pkg/endpoints/handlers/negotiation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from claimsmith.errors import RequestError

__all__ = ["AcceptedForm", "Clause", "choose_form", "iter_clauses", "not_acceptable"]

Clause = tuple[str, dict[str, str]]
"""A media type and its parameters."""

_FORMATS: Final = {
    "application/json": "json",
    "application/yaml": "yaml",
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
    """Return the most wanted form of an `Accept` header that the server can give.

    Args:
        accept: The header; empty for anything.

    Raises:
        RequestError: 406, the server can give none of them.
    """
    is_known = False
    for media, values in sorted(iter_clauses(accept), key=_rank):
        wanted = _FORMATS.get(media)
        if wanted is None:
            continue
        is_known = True
        shape, version = values.get("as", ""), values.get("v", "v1")
        if not shape:
            return AcceptedForm(format=wanted)
        if values.get("g") == "meta.k8s.io" and shape in _SHAPES and version in _META_VERSIONS:
            return AcceptedForm(format=wanted, shape=shape.removesuffix("List"), version=version)
    raise not_acceptable(is_known=is_known)


def iter_clauses(accept: str) -> Iterator[Clause]:
    """Yield what an `Accept` header names, in its order; anything when it is empty."""
    for clause in accept.split(",") if accept.strip() else ("*/*",):
        media, *options = (part.strip() for part in clause.split(";"))
        yield media, dict(option.split("=", 1) for option in options if "=" in option)


def _rank(clause: Clause) -> tuple[float, bool]:
    """Return where a clause stands: higher qualities first, wildcards last; the order of the header decides the rest.

    Source: acceptSlice of github.com/munnerz/goautoneg.
    """
    media, values = clause
    try:
        quality = float(values.get("q", "1"))
    except ValueError:
        quality = 1.0
    return -quality, media == "*/*"


def not_acceptable(*, is_known: bool = True) -> RequestError:
    """Return the 406 for a form that the server can't give.

    Args:
        is_known: Whether a media type was one of the server's, so that only the wished-for shape is unknown.
    """
    allowed = "application/json, application/yaml"
    message = f"406: Not Acceptable\n\nAvailable representations: {allowed}"
    if is_known:
        message = f"only the following media types are accepted: {allowed}"
    return RequestError(406, "NotAcceptable", message, headers={"Vary": "Accept"})
