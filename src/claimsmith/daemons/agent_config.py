"""The configuration file of `claimsmith agent`: which drivers, and how each of them is offered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from claimsmith.api.manifests import Manifest
from claimsmith.errors import FieldError, InputError
from claimsmith.sdk.device_file import read_documents_of
from claimsmith.sdk.driver import Driver, DriverContext
from claimsmith.sdk.registry import create_drivers
from claimsmith.sdk.settings import SETTINGS_API_VERSION
from claimsmith.sdk.strict import field_names, parse_strictly

__all__ = [
    "CONFIG_KIND",
    "AgentConfig",
    "ConfiguredDriver",
    "DraConfig",
    "DriverConfig",
    "create_configured",
    "plugin_config",
    "read_agent_config",
]

CONFIG_KIND: Final = "AgentConfiguration"
"""Kind of the document."""


class DraConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Dynamic resource allocation: ResourceSlices, and preparing claims for the kubelet.

    Args:
        enabled: Whether the devices are offered so.
    """

    enabled: bool = True


class DriverConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The drivers of one plugin, and how they are offered.

    Args:
        plugin: Name of the plugin's entry point.
        driver: Only the driver of this name, if the plugin has several; all of them when empty.
        settings: Files with the plugin's settings, relative to this file.
        dra: Dynamic resource allocation.
    """

    plugin: str
    driver: str = ""
    settings: list[str] = []
    dra: DraConfig = DraConfig()


class _Content(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What stands below `spec`."""

    drivers: list[DriverConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """A whole configuration.

    Args:
        drivers: The drivers, in order.
        documents: Other documents of the same file, which plugins may read as their settings.
        manifest: Where the configuration stands; None when there is no file.
        folder: Folder to which the names of settings files are relative.
    """

    drivers: tuple[DriverConfig, ...]
    documents: tuple[Manifest, ...] = ()
    manifest: Manifest | None = None
    folder: Path = Path()

    def refuse(self, path: str, found: object, *, allowed: str, hint: str) -> FieldError:
        """Return the error for a field of the configuration, such as `spec.drivers[0].plugin`."""
        source = "" if self.manifest is None else self.manifest.locate(path)
        return FieldError(path, found, allowed=allowed, hint=hint, source=source)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredDriver:
    """A driver, and how it is offered."""

    driver: Driver
    config: DriverConfig


def read_agent_config(path: Path) -> AgentConfig:
    """Return the configuration that a file holds.

    The file has one document of kind AgentConfiguration; others in it are settings for the plugins.

    Raises:
        InputError: A document can't be read, or a field is unknown, missing or wrong; the message names file, line
            and field.
        ConfigError: The file can't be read.
    """
    documents = read_documents_of(path)
    ours = [document for document in documents if document.object.get("kind") == CONFIG_KIND]
    if len(ours) != 1:
        found = f"{len(ours)} documents of kind {CONFIG_KIND}" if ours else f"no document of kind {CONFIG_KIND}"
        raise InputError(f"{path}: found {found}, allowed one; begin with apiVersion: {SETTINGS_API_VERSION}")
    manifest = ours[0]
    content = _parse(manifest)
    others = tuple(document for document in documents if document is not manifest)
    config = AgentConfig(
        drivers=tuple(content.drivers), documents=others, manifest=manifest, folder=path.absolute().parent
    )
    _check(config)
    return config


def plugin_config(plugins: tuple[str, ...], settings: tuple[Path, ...]) -> AgentConfig:
    """Return the configuration that needs no file: some plugins with the same settings files, all else as usual."""
    files = [str(path.absolute()) for path in settings]
    return AgentConfig(drivers=tuple(DriverConfig(plugin=name, settings=files) for name in plugins))


def create_configured(config: AgentConfig, *, node_name: str) -> tuple[ConfiguredDriver, ...]:
    """Return the drivers of a node.

    Raises:
        InputError: Settings of a plugin can't be used, or a driver is named that its plugin does not have.
        ConfigError: A plugin can't be loaded.
    """
    made = [
        item
        for index, chosen in enumerate(config.drivers)
        for item in _create(config, chosen, index=index, node_name=node_name)
    ]
    return tuple(made)


def _parse(manifest: Manifest) -> _Content:
    version = manifest.object.get("apiVersion")
    if version != SETTINGS_API_VERSION:
        where = manifest.locate("apiVersion")
        hint = f"write apiVersion: {SETTINGS_API_VERSION}"
        raise FieldError("apiVersion", version, allowed=SETTINGS_API_VERSION, hint=hint, source=where)
    known = ("apiVersion", "kind", "metadata", "spec")
    for name in manifest.object:
        if name not in known:
            where = manifest.locate(name)
            hint = "write it below spec" if name in field_names(_Content) else "remove it"
            raise FieldError(name, "an unknown field", allowed=", ".join(known), hint=hint, source=where)
    spec = manifest.object.get("spec")
    return parse_strictly({} if spec is None else spec, _Content, path="spec", locate=manifest.locate)


def _check(config: AgentConfig) -> None:
    """Refuse what the types allow but nobody can mean."""
    if not config.drivers:
        raise config.refuse("spec.drivers", "none", allowed="at least one driver", hint="name a plugin")
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(config.drivers):
        key = (item.plugin, item.driver)
        if key in seen or (item.plugin, "") in seen:
            found = f"{item.plugin!r} a second time"
            hint = "name the drivers of the plugin one by one, or remove the entry"
            raise config.refuse(f"spec.drivers[{index}].plugin", found, allowed="each driver once", hint=hint)
        seen.add(key)


def _create(config: AgentConfig, chosen: DriverConfig, *, index: int, node_name: str) -> Iterator[ConfiguredDriver]:
    files = tuple(config.folder / name for name in chosen.settings)
    context = DriverContext(node_name=node_name, settings_files=files, documents=config.documents)
    drivers = create_drivers(chosen.plugin, context)
    names = [driver.name for driver in drivers]
    if chosen.driver and chosen.driver not in names:
        allowed = ", ".join(names) or "none, since the plugin has no driver for this node"
        hint = "correct the name, or the plugin's settings"
        raise config.refuse(f"spec.drivers[{index}].driver", chosen.driver, allowed=allowed, hint=hint)
    for driver in drivers:
        if not chosen.driver or driver.name == chosen.driver:
            yield ConfiguredDriver(driver=driver, config=msgspec.structs.replace(chosen, driver=driver.name))
