"""From settings to devices: attributes and capacities as real drivers publish them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from claimsmith.drivers.simulated.models import GpuModel, find_gpu_model, list_gpu_models
from claimsmith.drivers.simulated.partitions import (
    BOARDS,
    Board,
    Profile,
    iter_placements,
    list_consumption,
    list_counters,
)
from claimsmith.drivers.simulated.settings import Gpu, Nic, Settings, Sharing
from claimsmith.sdk import (
    NUMA_NODE,
    PCI_BUS_ID,
    PCIE_ROOT,
    Capacity,
    CapacityRange,
    CapacityRequestPolicy,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceAttribute,
    Quantity,
    QuantityFormatError,
    parse_pool,
    parse_quantity,
)

__all__ = ["SimulatedDevice", "list_devices"]

DRIVER_VERSION: Final = "580.65.6"
"""Version that the simulated cards claim to be driven by."""
_NAMESPACE: Final = uuid.UUID("6a1f5a1e-6f2f-5a55-9d51-2d8f7b0c9a11")
_NIC_SLOT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDevice:
    """A device, and the card that it is a part of.

    Args:
        device: As it is published.
        card: Name of the card: a fault or an unplugged card takes its partitions along.
        uuid: What containers are given.
        fault: Why it has failed from the start; empty when it works.
        counters: Counter set of the card, on the first device of it.
        pool: Pool that it is in; empty for the one that is named after the node.
    """

    device: Device
    card: str
    uuid: str
    fault: str = ""
    counters: tuple[CounterSet, ...] = ()
    pool: str = ""


def list_devices(documents: tuple[Settings, ...], *, node: str) -> tuple[SimulatedDevice, ...]:
    """Return the devices of all documents of one driver on a node, in their order.

    Raises:
        InputError: A model, an amount or a raw device can't be used, or two devices of a pool have one name.
    """
    found: list[SimulatedDevice] = []
    names: set[tuple[str, str]] = set()
    gpus, nics = 0, 0
    for settings in documents:
        for index, gpu in enumerate(settings.gpus):
            field = _Field(settings, f"gpus[{index}]")
            found.extend(_take_names(field, names, _build_gpus(field, gpu, gpus, node)))
            gpus += gpu.count
        for index, nic in enumerate(settings.nics):
            field = _Field(settings, f"nics[{index}]")
            found.extend(_take_names(field, names, _build_nics(field, nic, nics)))
            nics += nic.count
        found.extend(_take_names(_Field(settings, "devices"), names, _build_raw(settings)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Field:
    """A part of a document, for messages."""

    settings: Settings
    path: str

    def quantity(self, name: str, amount: str | int) -> Quantity:
        """Return an amount of the document."""
        try:
            found = parse_quantity(str(amount))
        except QuantityFormatError as error:
            raise self.settings.refuse(
                f"{self.path}.{name}", amount, allowed="a quantity such as 40Gi", hint="correct the amount"
            ) from error
        if found.sign <= 0:
            raise self.settings.refuse(f"{self.path}.{name}", amount, allowed="more than 0", hint="correct the amount")
        return found


def _take_names(
    field: _Field, names: set[tuple[str, str]], devices: Iterator[SimulatedDevice]
) -> Iterator[SimulatedDevice]:
    """Yield devices with their pool, and refuse a second one of a name in it."""
    pool = field.settings.pool
    for item in devices:
        name = item.device.name
        if (pool, name) in names:
            allowed = "each name once on a node" if not pool else f"each name once in pool {pool}"
            raise field.settings.refuse(field.path, f"a second {name}", allowed=allowed, hint="give it another name")
        names.add((pool, name))
        yield replace(item, pool=pool) if pool else item


def _names(prefix: str, given: str, count: int, first: int) -> Iterator[tuple[int, str]]:
    """Yield index and name of each device of an entry."""
    for offset in range(count):
        index = first + offset
        name = f"{prefix}-{index}" if not given else f"{given}-{offset}" if count > 1 else given
        yield index, name


def _make_uuid(prefix: str, *parts: str) -> str:
    """Return the same uuid for the same device at every start."""
    return f"{prefix}-{uuid.uuid5(_NAMESPACE, '/'.join(parts))}"


def _place(pair: int, slot: int, *, numa_node: int | None, pcie_root: str) -> dict[str, DeviceAttribute]:
    """Return where a device sits.

    Args:
        pair: Number of the root complex: two GPUs and one NIC share one; two root complexes share a NUMA node.
        slot: Place below the root complex.
        numa_node: NUMA node; -1 for none, None for the usual one.
        pcie_root: Root complex; empty for the usual one.
    """
    bus = 0x10 * (1 + pair % 0xF)
    numa = (pair // 2) % 2 if numa_node is None else numa_node
    known = {PCIE_ROOT: DeviceAttribute.of(pcie_root or f"pci{pair // 0xF:04x}:{bus:02x}")}
    if not pcie_root:
        known[PCI_BUS_ID] = DeviceAttribute.of(f"{pair // 0xF:04x}:{bus + 1 + slot:02x}:00.0")
    return known if numa < 0 else {**known, NUMA_NODE: DeviceAttribute.of(numa)}


def _more(field: _Field, attributes: Mapping[str, object]) -> Mapping[str, DeviceAttribute]:
    """Return the further attributes of an entry, read as those of a slice are."""
    if not attributes:
        return {}
    document = field.settings.document
    path = f"{document.path}.{field.path}".removeprefix(".")
    raw = {"devices": [{"name": "device", "attributes": attributes}]}
    return parse_pool(document.manifest, raw, path=path).devices[0].attributes


# --- GPUs -------------------------------------------------------------------------------------------------------------


def _build_gpus(field: _Field, gpu: Gpu, first: int, node: str) -> Iterator[SimulatedDevice]:
    model = _find_model(field, gpu)
    board = _find_board(field, gpu, model)
    if gpu.mig and gpu.sharing is not None:
        allowed = "either mig or sharing"
        raise field.settings.refuse(f"{field.path}.sharing", "both", allowed=allowed, hint="remove one of the two")
    for index, name in _names("gpu", gpu.name, gpu.count, first):
        card = _Card(field=field, gpu=gpu, model=model, name=name, index=index, node=node)
        yield card.whole(board)
        if board is not None:
            yield from card.partitions(board)


def _find_model(field: _Field, gpu: Gpu) -> GpuModel:
    """Return the model of an entry, made up of its own words where they are given."""
    known = find_gpu_model(gpu.model)
    if known is None and gpu.memory is None:
        allowed = f"{', '.join(list_gpu_models())}, or any name with memory"
        raise field.settings.refuse(f"{field.path}.model", gpu.model, allowed=allowed, hint="add memory")
    memory = None if gpu.memory is None else field.quantity("memory", gpu.memory)
    capability = gpu.compute_capability or (known.compute_capability if known else "1.0.0")
    parts = capability.split(".")
    if len(parts) > 3 or not all(part.isdigit() for part in parts):
        allowed = "a version such as 8.6"
        raise field.settings.refuse(f"{field.path}.computeCapability", capability, allowed=allowed, hint="correct it")
    return GpuModel(
        memory_mib=known.memory_mib if memory is None and known else _mebibytes(memory),
        compute_capability=".".join(str(int(part)) for part in [*parts, "0", "0"][:3]),
        architecture=known.architecture if known else "Simulated",
        partitions=known.partitions if known else "",
    )


def _mebibytes(amount: Quantity | None) -> int:
    return 0 if amount is None else amount.value() // 2**20


def _find_board(field: _Field, gpu: Gpu, model: GpuModel) -> Board | None:
    if not gpu.mig:
        return None
    board = BOARDS.get(model.partitions)
    if board is None:
        allowed = "a model with a partition table: A30, A100-40, A100-80, H100-80"
        raise field.settings.refuse(f"{field.path}.mig", gpu.model, allowed=allowed, hint="remove mig")
    return board


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """One GPU of an entry."""

    field: _Field
    gpu: Gpu
    model: GpuModel
    name: str
    index: int
    node: str

    @property
    def home(self) -> tuple[str, ...]:
        settings = self.field.settings
        return (self.node, settings.driver, settings.pool) if settings.pool else (self.node, settings.driver)

    @property
    def uuid(self) -> str:
        return _make_uuid("GPU", *self.home, self.name)

    @property
    def memory(self) -> Quantity:
        own = self.gpu.memory
        return parse_quantity(f"{self.model.memory_mib}Mi") if own is None else self.field.quantity("memory", own)

    def attributes(self, kind: str, uid: str) -> dict[str, DeviceAttribute]:
        return {
            "type": DeviceAttribute.of(kind),
            "model": DeviceAttribute.of(self.gpu.model),
            "architecture": DeviceAttribute.of(self.model.architecture),
            "computeCapability": DeviceAttribute.version(self.model.compute_capability),
            "driverVersion": DeviceAttribute.version(DRIVER_VERSION),
            "index": DeviceAttribute.of(self.index),
            "uuid": DeviceAttribute.of(uid),
            **_place(*divmod(self.index, 2), numa_node=self.gpu.numa_node, pcie_root=self.gpu.pcie_root),
            **_more(self.field, self.gpu.attributes),
        }

    def whole(self, board: Board | None) -> SimulatedDevice:
        sets = () if board is None else (list_counters(board, self.name),)
        device = Device(
            name=self.name,
            attributes=self.attributes("gpu", self.uuid),
            capacity={"memory": _capacity(self.field, self.memory, self.gpu.sharing)},
            consumes_counters=tuple(CounterConsumption(counter_set=s.name, counters=s.counters) for s in sets),
            allow_multiple_allocations=self.gpu.sharing is not None,
        )
        return SimulatedDevice(device=device, card=self.name, uuid=self.uuid, fault=self.gpu.fault, counters=sets)

    def partitions(self, board: Board) -> Iterator[SimulatedDevice]:
        for profile, start in iter_placements(board):
            yield self.partition(profile, start)

    def partition(self, profile: Profile, start: int) -> SimulatedDevice:
        plain = profile.name.replace(".", "").replace("+", "-")
        name = f"{self.name}-mig-{plain}-{start}"
        uid = _make_uuid("MIG", *self.home, name)
        counts = {
            "memory": parse_quantity(f"{profile.memory_mib}Mi"),
            "multiprocessors": parse_quantity(str(profile.multiprocessors)),
        }
        device = Device(
            name=name,
            attributes={
                **self.attributes("mig", uid),
                "profile": DeviceAttribute.of(profile.name),
                "parentUUID": DeviceAttribute.of(self.uuid),
            },
            capacity={key: Capacity(value=amount) for key, amount in counts.items()},
            consumes_counters=(CounterConsumption(counter_set=self.name, counters=list_consumption(profile, start)),),
        )
        return SimulatedDevice(device=device, card=self.name, uuid=uid, fault=self.gpu.fault)


# --- NICs and raw devices ---------------------------------------------------------------------------------------------


def _build_nics(field: _Field, nic: Nic, first: int) -> Iterator[SimulatedDevice]:
    bandwidth = field.quantity("bandwidth", nic.bandwidth)
    smallest = min(parse_quantity("100M"), bandwidth)
    sharing = nic.sharing or Sharing(minimum=str(smallest), step=str(smallest))
    for index, name in _names("nic", nic.name, nic.count, first):
        interface = f"{nic.interface}{index - first}" if nic.interface and nic.count > 1 else nic.interface
        interface = interface or f"eth{index}"
        device = Device(
            name=name,
            attributes={
                "type": DeviceAttribute.of("nic"),
                "interface": DeviceAttribute.of(interface),
                "index": DeviceAttribute.of(index),
                "rdma": DeviceAttribute.of(nic.rdma),
                **_place(index, _NIC_SLOT, numa_node=nic.numa_node, pcie_root=nic.pcie_root),
                **_more(field, nic.attributes),
            },
            capacity={"bandwidth": _capacity(field, bandwidth, sharing)},
            allow_multiple_allocations=True,
        )
        yield SimulatedDevice(device=device, card=name, uuid=interface, fault=nic.fault)


def _capacity(field: _Field, value: Quantity, sharing: Sharing | None) -> Capacity:
    """Return an amount, with the policy of its parts when it is shared."""
    if sharing is None:
        return Capacity(value=value)

    def amount(name: str) -> Quantity | None:
        given = getattr(sharing, name)
        return None if given is None else field.quantity(f"sharing.{name}", given)

    minimum = field.quantity("sharing.minimum", sharing.minimum)
    limits = CapacityRange(minimum=minimum, maximum=amount("maximum"), step=amount("step"))
    default = amount("default") or minimum
    if not minimum <= default <= (limits.maximum or value) <= value:
        found = f"minimum {minimum}, default {default}, maximum {limits.maximum or value}, whole {value}"
        allowed = "minimum <= default <= maximum <= whole"
        raise field.settings.refuse(f"{field.path}.sharing", found, allowed=allowed, hint="correct the amounts")
    return Capacity(value=value, policy=CapacityRequestPolicy(default=default, valid_range=limits))


def _build_raw(settings: Settings) -> Iterator[SimulatedDevice]:
    """Yield the devices that are written as in a slice."""
    document = settings.document
    raw = {name: document.content[name] for name in ("devices", "sharedCounters") if name in document.content}
    if not raw:
        return
    pool = parse_pool(document.manifest, raw, path=document.path)
    for index, device in enumerate(pool.devices):
        uid = device.attributes.get("uuid")
        text = str(uid.value) if uid is not None else device.name
        sets = pool.counter_sets if index == 0 else ()
        yield SimulatedDevice(device=device, card=device.name, uuid=text, counters=sets)
