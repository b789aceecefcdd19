"""Which devices a device plugin offers, and under which names: the operator's rules, and what comes of them. Pure.

Source: device plugin v1beta1 of k8s.io/kubelet v0.37.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from claimsmith.errors import CelError, FieldError
from claimsmith.model.device import Device
from claimsmith.model.inventory import Inventory
from claimsmith.model.names import DeviceId
from claimsmith.validate.names import is_extended_resource_name

__all__ = [
    "REPLICA_SEPARATOR",
    "DevicePluginOptions",
    "OfferedDevice",
    "Passing",
    "PreferencePolicy",
    "ResourceRule",
    "card_of",
    "find_attribute",
    "plan_offers",
]

Passing = Literal["cdi", "cdi-annotations", "edits"]
"""How a container gets its devices: by CDI names, by CDI names in annotations for older kubelets, or one by one."""
PreferencePolicy = Literal["topology", "packed", "spread"]
"""Which devices to prefer: those close to each other, those that leave groups whole, or those far from each other."""

REPLICA_SEPARATOR: Final = "::"
"""Between the id of a device and the number of one of its replicas; as NVIDIA's plugin writes it."""
_NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
_REPLICAS_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRule:
    """One resource name, and the devices that are offered under it. A device goes to the first rule that takes it.

    Args:
        resource: Extended resource name, e.g. `nvidia.com/gpu`.
        selector: CEL expression over `device`, as in a DeviceClass; empty: any device.
        attributes: Attributes that a device must have with these values; names without a domain are the driver's.
        replicas: How many containers may have one device at the same time; 1: it is theirs alone.
        several_replicas: Whether one container may ask for more than one of a resource with replicas, and may then
            get several replicas of one device. Source: failRequestsGreaterThanOne of NVIDIA's plugin, turned round.
        preference: Which devices the kubelet is advised to take.
        link_attribute: Attribute that tells which devices have a direct link: devices with the same text are linked
            with each other; a list names the linked devices, once for each link. Empty: links are not known.
        id_attribute: Text attribute that is the id of a device for the kubelet, e.g. `uuid`; empty: its name.
        annotations: Annotations that each container with such a device gets.

    Raises:
        FieldError: A field has a value that is not allowed.
    """

    resource: str
    selector: str = ""
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    replicas: int = 1
    several_replicas: bool = False
    preference: PreferencePolicy = "topology"
    link_attribute: str = ""
    id_attribute: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_extended_resource_name(self.resource):
            allowed = "an extended resource name such as example.com/gpu, whose domain is not of Kubernetes"
            raise FieldError("resource", self.resource, allowed=allowed, hint="choose another name")
        if not 1 <= self.replicas <= _REPLICAS_MAX:
            raise FieldError("replicas", self.replicas, allowed=f"1 to {_REPLICAS_MAX}", hint="correct the rule")
        if self.preference not in ("topology", "packed", "spread"):
            allowed = "topology, packed or spread"
            raise FieldError("preference", self.preference, allowed=allowed, hint="correct the rule")
        if self.selector:
            _check_selector(self.selector)


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePluginOptions:
    """How the devices of a driver are offered to the kubelet as extended resources.

    Args:
        rules: In order; their resources differ. None: no device plugin.
        passing: How containers get their devices.
        pre_start: Whether the kubelet asks before each start of a container, so that what was lost meanwhile (a CDI
            file by a reboot) is made again.
        poll_s: Seconds between two looks at the kubelet's socket and our own.
        reconcile_s: Seconds between two looks at which containers the kubelet still has.
        grace_s: Seconds for which a new grant is kept though the kubelet has never listed it.
        retry_max_s: Longest pause in seconds between two tries to register.

    Raises:
        FieldError: A field has a value that is not allowed.
    """

    rules: tuple[ResourceRule, ...] = ()
    passing: Passing = "cdi"
    pre_start: bool = True
    poll_s: float = 0.5
    reconcile_s: float = 5.0
    grace_s: float = 20.0
    retry_max_s: float = 8.0

    def __post_init__(self) -> None:
        for name, count in Counter(rule.resource for rule in self.rules).items():
            if count > 1:
                raise FieldError("rules", name, allowed="each resource once", hint="join the rules of that resource")
        if self.passing not in ("cdi", "cdi-annotations", "edits"):
            allowed = "cdi, cdi-annotations or edits"
            raise FieldError("passing", self.passing, allowed=allowed, hint="correct the options")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedDevice:
    """One id that the kubelet may give to a container: a device, or one replica of it.

    Args:
        id: The id for the kubelet.
        device: The device.
        replica: Number of the replica; empty for a device that a container has for itself.
        numa_nodes: NUMA nodes of the device.
        source: The device as its driver lists it.
    """

    id: str
    device: DeviceId
    replica: str = ""
    numa_nodes: tuple[int, ...] = ()
    source: Device

    @property
    def card(self) -> str:
        """The id without the number of a replica."""
        return card_of(self.id) if self.replica else self.id


def card_of(id_: str) -> str:
    """Return the id of a device for the id of one of its replicas; any other id as it is."""
    card, separator, number = id_.rpartition(REPLICA_SEPARATOR)
    return card if card and separator and number.isdecimal() else id_


def plan_offers(
    driver: str, inventory: Inventory, *, node: str, rules: Iterable[ResourceRule]
) -> Mapping[str, tuple[OfferedDevice, ...]]:
    """Return what is offered under each resource, in the order of the inventory; resources without devices too.

    Devices that several nodes reach are not offered: the kubelets of those nodes know nothing of each other.

    Args:
        driver: Name of the driver.
        node: Name of the node, which is the name of a pool that has none.
    """
    rules = tuple(rules)
    offers: dict[str, list[OfferedDevice]] = {rule.resource: [] for rule in rules}
    seen: set[tuple[str, str]] = set()
    for device_id, device in _local_devices(driver, inventory, node):
        rule = next((rule for rule in rules if _takes(rule, driver, device)), None)
        if rule is None:
            continue
        card = _card(rule, driver, device_id, device, node)
        if (rule.resource, card) in seen:
            card = str(device_id)
        seen.add((rule.resource, card))
        offers[rule.resource] += _replicas(rule, card, device_id, device)
    return {resource: tuple(found) for resource, found in offers.items()}


def _local_devices(driver: str, inventory: Inventory, node: str) -> Iterator[tuple[DeviceId, Device]]:
    for pool in inventory.pools:
        if pool.all_nodes or pool.node_selector is not None:
            continue
        for device in pool.devices:
            if not device.all_nodes and device.node_selector is None and device.node_name in (None, node):
                yield DeviceId(driver, pool.name or node, device.name), device


def _takes(rule: ResourceRule, driver: str, device: Device) -> bool:
    for name, wanted in rule.attributes.items():
        found = find_attribute(driver, device, name)
        if type(found) is not type(wanted) or found != wanted:
            return False
    return not rule.selector or _selects(rule.selector, driver, device)


def _card(rule: ResourceRule, driver: str, device_id: DeviceId, device: Device, node: str) -> str:
    if rule.id_attribute:
        found = find_attribute(driver, device, rule.id_attribute)
        if isinstance(found, str) and found:
            return found
    return device_id.device if device_id.pool == node else f"{device_id.pool}/{device_id.device}"


def _replicas(rule: ResourceRule, card: str, device_id: DeviceId, device: Device) -> Iterator[OfferedDevice]:
    numa = device.attributes.get(_NUMA_NODE)
    found = () if numa is None else numa.value if isinstance(numa.value, tuple) else (numa.value,)
    numa_nodes = tuple(item for item in found if isinstance(item, int) and not isinstance(item, bool) and item >= 0)
    for number in range(rule.replicas):
        shared = rule.replicas > 1
        yield OfferedDevice(
            id=f"{card}{REPLICA_SEPARATOR}{number}" if shared else card,
            device=device_id,
            replica=str(number) if shared else "",
            numa_nodes=numa_nodes,
            source=device,
        )


def find_attribute(driver: str, device: Device, name: str) -> object:
    """Return the value of an attribute; None when the device has none of that name.

    Args:
        name: With its domain, or without one for the driver's own.
    """
    found = device.attributes.get(name)
    if found is None:
        domain, _, rest = name.rpartition("/")
        other = f"{driver}/{name}" if not domain else rest if domain == driver else ""
        found = device.attributes.get(other)
    return None if found is None else found.value


def _selects(selector: str, driver: str, device: Device) -> bool:
    """Tell whether a selector takes a device; one that fails on it does not."""
    from claimsmith.cel import compile_expression, prepare_device  # loaded only where a rule has a selector

    try:
        return compile_expression(selector).evaluate(prepare_device(driver, device))
    except CelError:
        return False


def _check_selector(selector: str) -> None:
    from claimsmith.cel import compile_expression  # as above

    try:
        compile_expression(selector)
    except CelError as error:
        allowed = f"an expression that compiles ({error})"
        raise FieldError("selector", selector, allowed=allowed, hint="correct the expression") from error
