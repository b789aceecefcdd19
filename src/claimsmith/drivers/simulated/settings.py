"""The words of a `SimulatedDevices` document, and the documents of one driver on one node as one value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from claimsmith.sdk import DriverContext, FieldError, SettingsDocument, read_settings

__all__ = ["DEFAULT_DRIVER", "KIND", "Gpu", "Nic", "Settings", "Sharing", "Step", "group_by_driver", "read_documents"]

KIND: Final = "SimulatedDevices"
"""Kind of the documents."""
DEFAULT_DRIVER: Final = "sim.claimsmith.dev"
"""Name of the driver when a document names none."""
_COUNT_MAX: Final = 1024


class Sharing(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Independent claims may each take a part of a device; amounts as quantities.

    Args:
        minimum: Smallest part.
        step: Parts are `minimum` plus a multiple of it.
        maximum: Largest part; the whole device when not given.
        default: Part of a claim that names no amount; `minimum` when not given.
    """

    minimum: str | int
    step: str | int | None = None
    maximum: str | int | None = None
    default: str | int | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One or several equal GPUs.

    Args:
        model: A known model, or any name together with `memory`.
        count: How many; 1 to 1024.
        name: Name of the device, or with a count the start of the names; `gpu-N` when not given.
        memory: Memory as a quantity; the model's when not given.
        compute_capability: Such as 8.6 or 8.6.0; the model's when not given.
        mig: Whether it can be cut into partitions on demand.
        numa_node: NUMA node; spread over two when not given, -1 for none.
        pcie_root: Root complex, such as `pci0000:10`.
        sharing: How claims share the memory; not together with `mig`.
        fault: Why the card has failed; empty when it works.
        attributes: Further attributes, as in a ResourceSlice.
    """

    model: str
    count: int = 1
    name: str = ""
    memory: str | int | None = None
    compute_capability: str = ""
    mig: bool = False
    numa_node: int | None = None
    pcie_root: str = ""
    sharing: Sharing | None = None
    fault: str = ""
    attributes: dict[str, Any] = {}


class Nic(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One or several equal network interfaces whose bandwidth claims share.

    Args:
        bandwidth: In bit/s as a quantity, such as 40G.
        count: How many; 1 to 1024.
        name: Name of the device, or with a count the start of the names; `nic-N` when not given.
        interface: Name of the interface; `ethN` when not given.
        rdma: Whether it can do RDMA.
        numa_node, pcie_root, fault, attributes: As for a GPU.
        sharing: Sizes of the parts; 100M and multiples of it when not given.
    """

    bandwidth: str | int
    count: int = 1
    name: str = ""
    interface: str = ""
    rdma: bool = False
    numa_node: int | None = None
    pcie_root: str = ""
    sharing: Sharing | None = None
    fault: str = ""
    attributes: dict[str, Any] = {}


class Step(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that happens to a device: exactly one of `fail`, `recover`, `plug` and `unplug` names it.

    Args:
        after_seconds: When it happens, counted from the start of the driver.
        step: Or: it happens when somebody runs the step of this name.
        fail: This device fails; its partitions with it.
        recover: This device works again.
        unplug: This device goes away.
        plug: This device comes back.
        cause: Machine-readable cause of a failure, such as `xid-79`.
        message: The same for people.
    """

    after_seconds: float | None = None
    step: str = ""
    fail: str = ""
    recover: str = ""
    plug: str = ""
    unplug: str = ""
    cause: str = "simulated"
    message: str = ""

    @property
    def device(self) -> str:
        """The device that it happens to."""
        return self.fail or self.recover or self.plug or self.unplug


class _Content(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of one document; devices and counters stay raw, for the sdk to read."""

    nodes: list[str] | None = None
    driver: str = DEFAULT_DRIVER
    pool: str = ""
    gpus: list[Gpu] = []
    nics: list[Nic] = []
    devices: list[Any] = []
    shared_counters: list[Any] = []
    script: list[Step] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that one document says, checked.

    Args:
        document: Where it stands, for messages and for its raw devices.
        pool: Pool of its devices; empty for the one that is named after the node.
    """

    driver: str
    document: SettingsDocument
    pool: str = ""
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    script: tuple[Step, ...] = ()

    def refuse(self, path: str, found: object, *, allowed: str, hint: str) -> FieldError:
        """Return the error for a field of the document."""
        full = f"{self.document.path}.{path}".removeprefix(".")
        return FieldError(full, found, allowed=allowed, hint=hint, source=self.document.manifest.locate(full))


def read_documents(context: DriverContext) -> tuple[Settings, ...]:
    """Return the documents for a node.

    Raises:
        InputError: A document can't be used.
        ConfigError: A file can't be read.
    """
    return tuple(_read(document) for document in read_settings(context, KIND))


def group_by_driver(documents: Iterable[Settings]) -> Mapping[str, tuple[Settings, ...]]:
    """Return the documents by the name of their driver, in order."""
    groups: dict[str, tuple[Settings, ...]] = {}
    for document in documents:
        groups[document.driver] = (*groups.get(document.driver, ()), document)
    return groups


def _read(document: SettingsDocument) -> Settings:
    content = document.parse(_Content)
    settings = Settings(
        driver=content.driver,
        document=document,
        pool=content.pool,
        gpus=tuple(content.gpus),
        nics=tuple(content.nics),
        script=tuple(content.script),
    )
    counts = {
        **{f"gpus[{index}].count": gpu.count for index, gpu in enumerate(content.gpus)},
        **{f"nics[{index}].count": nic.count for index, nic in enumerate(content.nics)},
    }
    for path, count in counts.items():
        if not 1 <= count <= _COUNT_MAX:
            raise settings.refuse(path, count, allowed=f"1 to {_COUNT_MAX}", hint="correct the number")
    for index, step in enumerate(content.script):
        _check_step(settings, f"script[{index}]", step)
    return settings


def _check_step(settings: Settings, path: str, step: Step) -> None:
    named = [name for name in ("fail", "recover", "plug", "unplug") if getattr(step, name)]
    if len(named) != 1:
        allowed = "exactly one of fail, recover, plug and unplug"
        raise settings.refuse(path, ", ".join(named) or "none", allowed=allowed, hint="write one device in one of them")
    if (step.after_seconds is None) == (not step.step):
        allowed = "either afterSeconds or step"
        raise settings.refuse(path, "both or none", allowed=allowed, hint="say when it happens")
    if step.after_seconds is not None and step.after_seconds < 0:
        found = step.after_seconds
        raise settings.refuse(f"{path}.afterSeconds", found, allowed="0 or more", hint="correct the number")
