"""Labels of a node from its devices: one key per model, and nothing that is true of some of the devices only. Pure.

    claimsmith.dev/gpu.count: "3"                                  all devices of the kind
    claimsmith.dev/gpu.models: "2"
    claimsmith.dev/gpu.memory-min-mib: "16280"                     each has at least so much
    claimsmith.dev/gpu.Tesla-V100-SXM2-16GB.count: "1"             one key per model
    claimsmith.dev/gpu.Tesla-V100-SXM2-16GB.memory-mib: "16280"
    claimsmith.dev/gpu.Tesla-V100-SXM2-16GB.compute-capability: "7.0"
    claimsmith.dev/mig.3g.20gb.count: "2"                          partitions by profile

A label without a model (`gpu.model`, `gpu.memory-mib`) is there only when all devices of the kind agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from claimsmith.errors import FieldError
from claimsmith.publish.labels_groups import DeviceGroup, LabelSource, count_kinds, group_devices
from claimsmith.publish.labels_nvidia import iter_nvidia_labels
from claimsmith.publish.labels_text import LABEL_MAX, as_label_value, fact_key, name_parts
from claimsmith.sdk.strict import parse_strictly
from claimsmith.validate.names import check_attribute_name, check_subdomain

__all__ = ["FEATURE_FILE", "LabelOptions", "LabelPlace", "parse_label_options", "plan_labels", "render_feature_file"]

LabelPlace = Literal["node", "file", "off"]
"""Where labels go: directly to the Node, into a feature file of Node Feature Discovery, or nowhere."""

FEATURE_FILE: Final = "/etc/kubernetes/node-feature-discovery/features.d/claimsmith"
"""File that the local source of Node Feature Discovery reads."""
_FACT_MAX: Final = 24
_RESERVED: Final = ("kubernetes.io", "k8s.io")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
    """Which labels a node gets, and how.

    Args:
        prefix: Domain of the labels; only labels that claimsmith has set itself are ever removed.
        place: Where they go.
        file: The feature file, an absolute path; only with place `file`.
        attributes: Further attributes to be told of each model, by name.
        nvidia_names: Whether the labels of NVIDIA's gpu-feature-discovery are set too, as far as they are true.
        force: Whether labels that somebody else has set are taken over; else they are left alone and reported.

    Raises:
        FieldError: The prefix, the file or an attribute is not allowed.
    """

    prefix: str = "claimsmith.dev"
    place: LabelPlace = "node"
    file: str = FEATURE_FILE
    attributes: tuple[str, ...] = ()
    nvidia_names: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        for issue in check_subdomain(self.prefix, "prefix"):
            raise FieldError("prefix", self.prefix, allowed="a DNS subdomain", hint=f"{issue.message}; correct it")
        if any(self.prefix == domain or self.prefix.endswith(f".{domain}") for domain in _RESERVED):
            allowed = "a domain of your own, outside of kubernetes.io and k8s.io"
            raise FieldError("prefix", self.prefix, allowed=allowed, hint="choose another prefix")
        if not self.file.startswith("/"):
            raise FieldError("file", self.file, allowed="an absolute path", hint="write it in full")
        for index, name in enumerate(self.attributes):
            for _ in check_attribute_name(name, "attributes"):
                allowed = "the name of an attribute, such as driverVersion"
                raise FieldError(f"attributes[{index}]", name, allowed=allowed, hint="correct it")


def plan_labels(sources: Iterable[LabelSource], options: LabelOptions | None = None) -> Mapping[str, str]:
    """Return the labels of a node, sorted by key; the order in which drivers list their devices does not matter.

    Args:
        sources: The devices by driver.
        options: Which labels; None: the default.
    """
    chosen = options or LabelOptions()
    known = tuple(sources)
    groups, counts = group_devices(known, chosen.attributes), count_kinds(known)
    kinds: dict[str, list[DeviceGroup]] = defaultdict(list)
    for group in groups:
        kinds[group.kind].append(group)
    found = {f"{chosen.prefix}/{key}": value for kind in kinds.values() for key, value in _iter_labels(kind, counts)}
    if chosen.nvidia_names:
        found |= iter_nvidia_labels(groups)
    return dict(sorted(found.items()))


def render_feature_file(labels: Mapping[str, str]) -> bytes:
    """Return labels as a feature file of Node Feature Discovery; to be written under its name at one stroke.

    Source: nfd-worker of Node Feature Discovery, source/local: `KEY=VALUE` lines, `#` begins a comment.
    """
    lines = [
        "# Written by claimsmith; what you change here is lost.",
        *(f"{key}={value}" for key, value in labels.items()),
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _iter_labels(groups: list[DeviceGroup], counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the labels of all groups of one kind, without prefix."""
    kind = groups[0].kind
    yield f"{kind}.count", str(counts[kind])
    if all(group.memory_mib for group in groups):
        yield f"{kind}.memory-min-mib", str(min(group.memory_mib[0] for group in groups))
    if all(group.offered is not None for group in groups):
        yield f"{kind}.offered", str(sum(group.offered or 0 for group in groups))
    named = [group for group in groups if group.name]
    if named:
        yield f"{kind}.{'profiles' if named[0].is_partition else 'models'}", str(len(named))
    yield from ((f"{kind}.{key}", value) for key, value in _iter_common(groups))
    if len(groups) == 1 and groups[0].name:
        yield f"{kind}.{_word(groups[0])}", as_label_value(groups[0].name)
    parts = name_parts((group.name for group in named), length_max=LABEL_MAX - len(kind) - 2 - _FACT_MAX)
    for group in named:
        start = f"{kind}.{parts[group.name]}"
        yield f"{start}.count", str(group.count)
        yield f"{start}.{_word(group)}", as_label_value(group.name)
        yield from ((f"{start}.{key}", value) for key, value in _iter_facts(group))


def _iter_common(groups: list[DeviceGroup]) -> Iterator[tuple[str, str]]:
    """Yield what is true of every device of all groups; the least memory is told of all of them anyway."""
    first, *others = [dict(_iter_facts(group)) for group in groups]
    for key, value in first.items():
        if key != "memory-min-mib" and all(other.get(key) == value for other in others):
            yield key, value


def _word(group: DeviceGroup) -> str:
    return "profile" if group.is_partition else "model"


def _iter_facts(group: DeviceGroup) -> Iterator[tuple[str, str]]:
    """Yield what is true of every device of a group."""
    memory = group.memory_mib
    if memory and memory[0] == memory[-1]:
        yield "memory-mib", str(memory[0])
    elif memory:
        yield "memory-min-mib", str(memory[0])
    if group.offered is not None and group.replicas is not None:
        yield "replicas", str(group.replicas)
    for key, value in group.facts.items():
        yield fact_key(key, length_max=_FACT_MAX), value


class _Options(msgspec.Struct, rename="camel", frozen=True):
    """The form in configuration files."""

    prefix: str = "claimsmith.dev"
    place: LabelPlace = "node"
    file: str = FEATURE_FILE
    attributes: tuple[str, ...] = ()
    nvidia_names: bool = False
    force: bool = False


def parse_label_options(
    value: object, *, path: str = "labels", locate: Callable[[str], str] | None = None
) -> LabelOptions:
    """Return the options of a configuration file's `labels` section.

    Args:
        value: The section as decoded JSON or YAML; None for one that is left out.
        path: Path of the section, for messages.
        locate: Gives where a path stands, for messages.

    Raises:
        FieldError: A field is unknown, or holds what is not allowed.
    """
    wire = parse_strictly({} if value is None else value, _Options, path=path, locate=locate)
    try:
        return LabelOptions(**{name: getattr(wire, name) for name in wire.__struct_fields__})
    except FieldError as error:
        full = f"{path}.{error.path}".removeprefix(".")
        source = locate(full) if locate is not None else ""
        raise FieldError(full, error.found, allowed=error.allowed, hint=error.hint, source=source) from error
