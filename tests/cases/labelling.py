"""Judges cases of kind `labels`: what a node is told to have, from the cards that a driver finds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from claimsmith.errors import FieldError
from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory
from claimsmith.publish.labels import LabelOptions, plan_labels
from claimsmith.publish.labels_groups import LabelSource
from claimsmith.sdk.mig import name_mig_profile
from claimsmith.testing import builders as b
from claimsmith.validate.names import check_label_key, check_label_value
from tests.cases.casefile import CaseFile, check_fields

DRIVER: Final = "gpu.example.test"
_PREFIX: Final = "claimsmith.dev/gpu."


async def judge_labels(case: CaseFile) -> list[str]:
    """Return what differs from the right labels.

    Raises:
        InputError: Something in the case is not understood.
    """
    case.check_fields("nodes")
    differences = []
    for node in case.content["nodes"]:
        check_fields(node, "name", "cards", "expect")
        devices = [device for number, card in enumerate(node["cards"]) for device in _list_devices(number, card)]
        differences += [f"node {node['name']}: {text}" for text in _judge_node(devices, node["expect"])]
    return differences


def _list_devices(number: int, card: Mapping[str, Any]) -> Iterator[Device]:
    """Yield a card as a driver reports it, or the instances that it is cut into."""
    check_fields(card, "model", "bytes", "display-only", "mig")
    if "mig" not in card:
        shown = {"displayOnly": True} if card.get("display-only") else {}
        attributes: dict[str, bool | str] = {"type": "gpu", "productName": card["model"], **shown}
        yield b.device(f"gpu-{number}", attributes=attributes, capacity={"memory": card["bytes"]})
        return
    for index, instance in enumerate(card["mig"]):
        check_fields(instance, "slices", "mib", "media")
        size, media = instance["mib"] * 2**20, bool(instance.get("media"))
        profile = name_mig_profile(instance["slices"], size, board_bytes=card["bytes"], media=media)
        yield b.device(
            f"gpu-{number}-mig-{index}",
            attributes={"type": "mig", "productName": card["model"], "profile": profile},
            capacity={"memory": size},
        )


def _plan(devices: list[Device]) -> Mapping[str, str]:
    source = LabelSource(driver=DRIVER, inventory=Inventory.of(*devices))
    return plan_labels([source], LabelOptions(nvidia_names=True))


def _judge_node(devices: list[Device], expected: Mapping[str, Any]) -> Iterator[str]:
    labels = _plan(devices)
    yield from _find_invalid(labels)
    simple = {"count": "count", "models": "models", "min-memory-mib": "memory-min-mib", "memory-mib": "memory-mib"}
    for name, wanted in expected.items():
        if name in simple:
            found = labels.get(_PREFIX + simple[name])
            if found != str(wanted):
                yield f"{name} is {found}, right is {wanted}"
        elif name == "absent":
            yield from (f"{key} is set" for word in wanted for key in _keys_for_all(word) if key in labels)
        elif name == "shuffles-equal":
            yield from _shuffle(devices, wanted)
        elif name == "profiles":
            yield from _judge_profiles(labels, wanted)
        elif name != "label-values-valid":
            raise FieldError("expect", name, allowed="what the judge knows", hint="teach the judge this field")


def _keys_for_all(word: str) -> list[str]:
    """Return the labels that would be wrong for some of the cards of a mixed node."""
    own = {"product": ("model",), "memory": ("memory-mib",)}[word]
    return [*(_PREFIX + name for name in own), f"nvidia.com/gpu.{word}"]


def _judge_profiles(labels: Mapping[str, str], wanted: Mapping[str, int]) -> Iterator[str]:
    for start, end in (("claimsmith.dev/mig.", ".count"), ("nvidia.com/mig-", ".count")):
        found = {
            key.removeprefix(start).removesuffix(end): int(value)
            for key, value in labels.items()
            if key.startswith(start) and key.endswith(end) and key != f"{start.rstrip('.')}{end}"
        }
        if found != wanted:
            yield f"profiles below {start} are {found}, right is {wanted}"


def _find_invalid(labels: Mapping[str, str]) -> Iterator[str]:
    for key, value in labels.items():
        yield from (str(issue) for issue in (*check_label_key(key, key), *check_label_value(value, key)))


def _shuffle(devices: list[Device], times: int) -> Iterator[str]:
    chance, right = random.Random(1), _plan(devices)
    for _ in range(times):
        mixed = chance.sample(devices, len(devices))
        if _plan(mixed) != right:
            yield f"the order {[device.name for device in mixed]} gives other labels"
