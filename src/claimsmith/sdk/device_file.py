"""Devices written down in a YAML or JSON file, in the words of a ResourceSlice.

The file is read as Kubernetes reads YAML. A value that YAML turns into something else than it looks like, or that
other YAML readers would turn into something else, is an error and never a silent conversion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final

import yaml

from claimsmith.api.manifests import Manifest, read_documents
from claimsmith.api.resource import parse_resource_slice
from claimsmith.api.schema import SchemaIssue, check_object
from claimsmith.api.wire import resource_slice as wire
from claimsmith.api.wire.base import ATOMIC, Wire
from claimsmith.api.wire.core_selection import NodeSelector
from claimsmith.errors import ConfigError, FieldError, ManifestError
from claimsmith.model.inventory import Inventory, Pool

__all__ = ["parse_device_file", "parse_pool", "read_device_file", "read_documents_of"]

_RESOLVER: Final[Any] = yaml.resolver.Resolver()
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_ODD_INT: Final = re.compile(r"[:\[,{ ]\s*[-+]?(?:0[0-9xXbBoO_]|[0-9][0-9_]*[eE][-+]?[0-9]|[0-9]+_|\+[0-9])")
_PLAIN_INT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_INT_KEYS: Final = frozenset({"int", "ints"})


class _PoolFields(Wire, kw_only=True):
    """What a file says of one pool."""

    name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: Annotated[list[wire.Device] | None, ATOMIC] = None
    shared_counters: Annotated[list[wire.CounterSet] | None, ATOMIC] = None


class _FileFields(_PoolFields, kw_only=True):
    """A whole file: one pool, or several under `pools`."""

    pools: Annotated[list[_PoolFields] | None, ATOMIC] = None


def read_device_file(path: Path) -> Inventory:
    """Return the devices that a file lists.

    The file has `devices` and, for partitions, `sharedCounters`, both as in `spec` of a ResourceSlice; or several such
    under `pools`. An amount may be written without its `value`, as in `capacity: {memory: 10Gi}`.

    Raises:
        InputError: The text can't be used; the message names file, line and field.
        ConfigError: The file can't be read.
    """
    documents = read_documents_of(path)
    return Inventory(pools=tuple(pool for document in documents for pool in _parse_pools(document)))


def parse_device_file(text: str, *, source: str) -> Inventory:
    """Return the devices that a text lists (see `read_device_file`).

    Args:
        text: YAML or JSON.
        source: Name of the text for messages.

    Raises:
        InputError: The text can't be used.
    """
    return Inventory(pools=tuple(pool for item in _documents(text, source) for pool in _parse_pools(item)))


def read_documents_of(path: Path) -> tuple[Manifest, ...]:
    """Return the documents of a settings file, each an object; empty ones are left out.

    Raises:
        ManifestError: The text is no YAML, or a document is no object.
        ConfigError: The file can't be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError(
            str(path), "found bytes that are no UTF-8, allowed text", hint="save it as UTF-8"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"file {path}: {reason}, allowed a readable file; correct the path") from error
    return _share_documents(text, str(path))


@lru_cache(maxsize=8)
def _share_documents(text: str, source: str) -> tuple[Manifest, ...]:
    """Return the documents of a text, read once for all drivers of a process that follow the same file."""
    return tuple(_documents(text, source))


def _documents(text: str, source: str) -> Iterator[Manifest]:
    for document in read_documents(text, source=source):
        if document.value is None:
            continue
        if not isinstance(document.value, dict):
            reason = f"found a {type(document.value).__name__}, allowed an object"
            hint = "begin with a field such as devices:"
            raise ManifestError(source, reason, hint=hint, document=document.number, line=document.line)
        yield Manifest(object=document.value, source=source, document=document.number, line=document.line, text=text)


def _parse_pools(document: Manifest) -> tuple[Pool, ...]:
    _check(document, document.object, _FileFields, "")
    pools = [value for value in document.object.get("pools") or () if value is not None]
    own = {name: value for name, value in document.object.items() if name != "pools"}
    first = (parse_pool(document, own),) if own or not pools else ()
    return (*first, *(parse_pool(document, value, path=f"pools[{index}]") for index, value in enumerate(pools)))


def parse_pool(document: Manifest, value: Mapping[str, Any], *, path: str = "") -> Pool:
    """Return a pool with `devices` and `sharedCounters` as in a ResourceSlice.

    Args:
        document: The document in which the pool stands.
        value: The pool: `devices`, `sharedCounters`, and optionally `name`, `nodeSelector`, `allNodes`.
        path: Where it stands in the document.

    Raises:
        FieldError: A field can't be used; the message names file, line and field.
    """
    _check(document, value, _PoolFields, path)
    full = _expand(value)
    spec: dict[str, Any] = {
        "driver": "unnamed",
        "pool": {"name": full.get("name") or "unnamed", "generation": 1, "resourceSliceCount": 1},
        **{name: full[name] for name in ("devices", "sharedCounters", "nodeSelector", "allNodes") if name in full},
    }
    try:
        read = parse_resource_slice({"metadata": {"name": "unnamed"}, "spec": spec})
    except FieldError as error:
        where = document.locate(path)
        raise FieldError(error.path, error.found, allowed=error.allowed, hint=error.hint, source=where) from error
    return Pool(
        name=full.get("name") or "",
        devices=read.devices,
        counter_sets=read.shared_counters,
        node_selector=read.node_selector,
        all_nodes=read.all_nodes,
    )


def _check(document: Manifest, value: Mapping[str, Any], fields: type[Wire], path: str) -> None:
    """Refuse what is not allowed, and scalars that YAML readers don't agree on."""
    for issue in check_object(_expand(value), fields, path=path):
        raise _located(document, issue)
    for place, name in _nameless(value, path):
        raise FieldError(place, None, allowed=f"the name of the {name}", hint="add it", source=document.locate(place))
    odd_ints = _ODD_INT.search(document.text) is not None
    for place, key, scalar in _scalars(value, path, ""):
        if isinstance(scalar, str) and _RESOLVER.resolve(yaml.ScalarNode, scalar, (True, False)) != _TEXT_TAG:
            _refuse_bare_text(document, place, scalar)
        elif odd_ints and key in _INT_KEYS and isinstance(scalar, int):
            _refuse_odd_int(document, place, scalar)


def _located(document: Manifest, issue: SchemaIssue) -> FieldError:
    found, place = issue.found, document.find_place(issue.path)
    if issue.kind == "type" and place is not None and place.text and place.text != str(found):
        found = f"{place.text}, which YAML reads as {str(found).lower()}"
    where = document.locate(issue.path)
    return FieldError(issue.path, found, allowed=issue.allowed, hint=issue.hint, source=where)


def _refuse_bare_text(document: Manifest, path: str, scalar: str) -> None:
    place = document.find_place(path)
    if place is not None and place.text == scalar:
        allowed = "text that every YAML reader reads as text"
        raise FieldError(path, scalar, allowed=allowed, hint="put the value in quotes", source=document.locate(path))


def _refuse_odd_int(document: Manifest, path: str, scalar: int) -> None:
    place = document.find_place(path)
    if place is not None and place.text and not _PLAIN_INT.fullmatch(place.text):
        found = f"{place.text}, which YAML reads as {scalar}"
        raise FieldError(
            path, found, allowed="a whole number in plain digits", hint=f"write {scalar}", source=document.locate(path)
        )


def _nameless(value: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    """Yield where a device or a counter set has no name."""
    for field, word in (("devices", "device"), ("sharedCounters", "counter set")):
        for index, item in enumerate(value.get(field) or ()):
            if isinstance(item, Mapping) and not item.get("name"):
                yield f"{path}.{field}[{index}].name".removeprefix("."), word


def _scalars(value: object, path: str, key: str) -> Iterator[tuple[str, str, object]]:
    """Yield path, nearest field name and value of all that is no object and no list."""
    if isinstance(value, Mapping):
        for name, child in value.items():
            step = f".{name}" if re.fullmatch(r"[A-Za-z0-9_-]+", str(name)) else f"[{name}]"
            yield from _scalars(child, f"{path}{step}".removeprefix("."), str(name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _scalars(child, f"{path}[{index}]", key)
    else:
        yield path, key, value


def _expand(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy in which each bare amount has its `value`."""
    full = dict(value)
    if isinstance(devices := full.get("devices"), list):
        full["devices"] = [_expand_device(item) for item in devices]
    if isinstance(sets := full.get("sharedCounters"), list):
        full["sharedCounters"] = [_expand_amounts(item, "counters") for item in sets]
    if isinstance(pools := full.get("pools"), list):
        full["pools"] = [_expand(item) if isinstance(item, Mapping) else item for item in pools]
    return full


def _expand_device(device: object) -> object:
    if not isinstance(device, Mapping):
        return device
    full = _expand_amounts(device, "capacity")
    if isinstance(full, dict) and isinstance(consumed := full.get("consumesCounters"), list):
        full["consumesCounters"] = [_expand_amounts(item, "counters") for item in consumed]
    return full


def _expand_amounts(value: object, field: str) -> object:
    if not isinstance(value, Mapping) or not isinstance(amounts := value.get(field), Mapping):
        return value
    full = {
        name: amount if isinstance(amount, Mapping) or amount is None else {"value": amount}
        for name, amount in amounts.items()
    }
    return {**value, field: full}
