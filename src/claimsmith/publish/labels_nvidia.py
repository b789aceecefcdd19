"""The labels of NVIDIA's gpu-feature-discovery, for those who select nodes by them; only those that are true. Pure.

Where it would tell of the last of several models, nothing is told here; `gpu.count` is the number of all cards.
`gpu.present` is never set: NVIDIA's own plugin is deployed where it is.

Source: internal/lm of NVIDIA/k8s-device-plugin v0.20.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from claimsmith.publish.labels_groups import DeviceGroup
from claimsmith.publish.labels_text import LABEL_MAX, as_label_value

__all__ = ["NVIDIA_KEYS", "iter_nvidia_labels"]

NVIDIA_KEYS: Final = (
    r"nvidia\.com/(gpu\.(count|product|memory|replicas|compute\.major|compute\.minor|family)|mig\.(capable|strategy)|"
    r"mig-[^/]+\.(count|product|memory|replicas))"
)
"""Regular expression of their keys; others of the domain steer NVIDIA's own programs."""

_PREFIX: Final = "nvidia.com"
_FAMILIES: Final = (
    ((1, 0), "tesla"), ((2, 0), "fermi"), ((3, 0), "kepler"), ((5, 0), "maxwell"), ((6, 0), "pascal"),
    ((7, 0), "volta"), ((7, 5), "turing"), ((8, 0), "ampere"), ((8, 9), "ada-lovelace"), ((9, 0), "hopper"),
    ((10, 0), "blackwell"), ((13, 0), "rubin"),
)  # fmt: skip


def iter_nvidia_labels(groups: Iterable[DeviceGroup]) -> Mapping[str, str]:
    """Return the labels for groups of the kinds `gpu` and `mig`."""
    known = [group for group in groups if group.kind in ("gpu", "mig")]
    cards = [group for group in known if not group.is_partition]
    partitions = [group for group in known if group.is_partition]
    found = dict(_iter_cards(cards)) if cards else {}
    if partitions:
        found |= {"mig.capable": "true", "mig.strategy": "mixed"}
        for group in partitions:
            found |= _iter_partition(group)
    return {f"{_PREFIX}/{key}": value for key, value in found.items() if value}


def _iter_cards(cards: Sequence[DeviceGroup]) -> Iterator[tuple[str, str]]:
    yield "gpu.count", str(sum(group.count for group in cards))
    if len(cards) > 1:
        return
    card = cards[0]
    is_shared = card.replicas is not None and card.replicas > 1
    product = as_label_value(card.name, length_max=LABEL_MAX - len("-SHARED"))
    yield "gpu.product", f"{product}-SHARED" if product and is_shared else product
    yield from _iter_amounts("gpu", card)
    capability = card.facts.get("compute-capability", "")
    major, _, minor = capability.partition(".")
    if major.isdigit() and minor.isdigit():
        yield "gpu.compute.major", major
        yield "gpu.compute.minor", minor
        yield "gpu.family", _find_family(int(major), int(minor))


def _iter_partition(group: DeviceGroup) -> Iterator[tuple[str, str]]:
    start = f"mig-{as_label_value(group.name, length_max=40)}"
    yield f"{start}.count", str(group.count)
    if len(group.models) == 1:
        yield f"{start}.product", as_label_value(f"{group.models[0]}-MIG-{group.name}")
    yield from _iter_amounts(start, group)


def _iter_amounts(start: str, group: DeviceGroup) -> Iterator[tuple[str, str]]:
    memory = group.memory_mib
    if memory and memory[0] == memory[-1]:
        yield f"{start}.memory", str(memory[0])
    if group.replicas is not None:
        yield f"{start}.replicas", str(group.replicas)


def _find_family(major: int, minor: int) -> str:
    """Return the architecture of a compute capability; `undefined` for one before all that are known."""
    found = [name for since, name in _FAMILIES if since <= (major, minor)]
    return found[-1] if found else "undefined"
